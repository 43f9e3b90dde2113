//! The plans of queries that have filters of their own, and the slots of these filters on the device.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice;
use gpu_kernels::Stream;
use gpu_kernels::search::QuerySlots;
use jasper_attributes::ColumnRange;
use jasper_core::Element;
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{
    BeamSize, CostModel, Filter, PendingQuery, SearchError, SearchParams, SearchPlan, Strategy,
};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};

use crate::graph::{DeviceColumn, SearchTables, SlotFormat, bitmap_words};

/// Up to this many filters, one thread plans them in less time than waking up the pool takes.
const MAX_PLANNED_ALONE: usize = 16;

/// A plan for each distinct filter of some queries.
pub(crate) struct FilterPlans<'a, T: Element, S: Stream> {
    graph: &'a Graph<T>,
    plans: Vec<FilterPlan<'a, T, S>>,
    /// The number of the plan of each query, by the number of the query.
    of_rows: Vec<u32>,
}

/// The plan of the queries with one filter.
struct FilterPlan<'a, T: Element, S: Stream> {
    plan: SearchPlan<'a, T>,
    /// The range of a column on the device that its slots are.
    range: Option<SlotRange<S>>,
    /// Where its slots are on the device, in the launches that are made now.
    slots: QuerySlots,
}

/// A range of the slots of a column, by their values.
struct SlotRange<S: Stream> {
    column: Arc<DeviceColumn<S>>,
    /// The first, and how many.
    slots: (u32, u32),
}

/// How queries are searched for: those with the same value share launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// By a scan of the slots that their filters allow.
    Scan,
    /// By a beam search of this width and frontier.
    Beam { width: usize, frontier_len: usize },
}

impl Group {
    fn new(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Scan => Self::Scan,
            Strategy::Beam(BeamSize { width, frontier_len }) => Self::Beam { width, frontier_len },
        }
    }

    /// The strategy of its queries.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Self::Scan => Strategy::Scan,
            Self::Beam { width, frontier_len } => Strategy::Beam(BeamSize { width, frontier_len }),
        }
    }
}

/// Arrays on the device that [`FilterPlans::slots_of`] leads to.
pub(crate) struct UploadedSlots<S: Stream> {
    _words: S::Buffer<u32>,
    _kept: Vec<Arc<S::Buffer<u32>>>,
    /// Slots of the longest list.
    pub(crate) longest: usize,
}

impl<'a, T: Element, S: Stream> FilterPlans<'a, T, S> {
    /// Plans the searches for `queries`, whose filters are those of `params` with the numbers of the queries. The
    /// `cost_model` is that of one of these queries.
    ///
    /// # Errors
    /// Returns the errors of [`SearchPlan::new`], and [`SearchError::Filters`] if a query has no filter.
    pub(crate) fn new(
        graph: &'a Graph<T>,
        params: SearchParams<'a>,
        queries: &[PendingQuery<'_, T>],
        cost_model: CostModel,
        pool: &ThreadPool,
    ) -> Result<Self, SearchError> {
        let Some(Filter::PerQuery(filters)) = params.filter else {
            unreachable!("one filter of all queries is planned once")
        };
        if let Some(query) = queries.iter().find(|query| query.row >= filters.len()) {
            return Err(SearchError::Filters { given: filters.len(), queries: query.row + 1 });
        }
        let is_alone = queries.len() <= MAX_PLANNED_ALONE || pool.current_thread_index().is_some();
        let hash = |query: &PendingQuery<'_, T>| hash_of(&filters[query.row]);
        let hashes: Vec<u64> = if is_alone {
            queries.iter().map(hash).collect()
        } else {
            pool.install(|| queries.par_iter().with_min_len(64).map(hash).collect())
        };
        let (mut rows, mut of_rows) = (Vec::new(), vec![u32::MAX; filters.len()]);
        let mut known = FxHashMap::with_capacity_and_hasher(queries.len(), Default::default());
        for (query, hash) in queries.iter().zip(hashes) {
            let key = HashedFilter { hash, filter: &filters[query.row] };
            of_rows[query.row] = *known.entry(key).or_insert_with(|| {
                rows.push(query.row);
                rows.len() as u32 - 1
            });
        }
        let plan = |&row: &usize| {
            let mut plan = SearchPlan::new(graph, params.of_query(row), 1, cost_model)?;
            plan.strategy = rounded(plan.strategy, cost_model.max_beam_width);
            Ok(FilterPlan { plan, range: None, slots: QuerySlots::default() })
        };
        let plans: Result<Vec<_>, SearchError> = if is_alone {
            rows.iter().map(plan).collect()
        } else {
            pool.install(|| rows.par_iter().map(plan).collect::<Vec<_>>()).into_iter().collect()
        };
        Ok(Self { graph, plans: plans?, of_rows })
    }

    /// Finds the filters that are ranges of columns on the device, and lists the slots of the others that are scanned.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(crate) fn find_slots(
        &mut self,
        stream: &S,
        tables: &SearchTables<T, S>,
        pool: &ThreadPool,
    ) -> Result<(), S::Error> {
        let mut selected: FxHashMap<usize, usize> = FxHashMap::default();
        let ranges: Vec<_> = self.plans.iter().map(|of| of.plan.column_range()).collect();
        for (range, keys) in ranges.iter().flatten() {
            *selected.entry(range.column).or_default() += keys;
        }
        let mut columns = FxHashMap::default();
        for (column, selected) in selected {
            let (keys, words) = (self.graph.keys(), tables.bitmap_len());
            if let Some(found) = tables.columns.get(stream, keys, words, column, selected)? {
                columns.insert(column, found);
            }
        }
        let find = |(of, range): (&mut FilterPlan<'a, T, S>, Option<(ColumnRange, usize)>)| {
            of.range = range.and_then(|(range, _)| {
                let column = columns.get(&range.column)?;
                Some(SlotRange { column: Arc::clone(column), slots: column.find(range) })
            });
            if of.range.is_none() && of.plan.strategy == Strategy::Scan {
                of.plan.list_allowed();
            }
        };
        if self.plans.len() <= MAX_PLANNED_ALONE || pool.current_thread_index().is_some() {
            self.plans.iter_mut().zip(ranges).for_each(find);
        } else {
            pool.install(|| self.plans.par_iter_mut().zip(ranges).with_min_len(16).for_each(find));
        }
        Ok(())
    }

    /// The graph of all plans.
    pub(crate) fn graph(&self) -> &'a Graph<T> {
        self.graph
    }

    /// The plan of a query.
    pub(crate) fn of(&self, query: &PendingQuery<'_, T>) -> &SearchPlan<'a, T> {
        &self.plans[self.number(query)].plan
    }

    /// The slots of a query on the device.
    pub(crate) fn slots_of(&self, query: &PendingQuery<'_, T>) -> QuerySlots {
        self.plans[self.number(query)].slots
    }

    fn number(&self, query: &PendingQuery<'_, T>) -> usize {
        self.of_rows[query.row] as usize
    }

    /// The order of queries in launches: by group, then by filter, so that those with one filter read its vectors from
    /// caches. Of the `rest`, queries that were left with fewer than `k` results, all are scans.
    pub(crate) fn order(&self, query: &PendingQuery<'_, T>, rest: bool) -> (Group, u32, usize) {
        let number = self.number(query);
        let FilterPlan { plan, range, .. } = &self.plans[number];
        let group = if rest { Group::Scan } else { Group::new(plan.strategy) };
        (group, range.as_ref().map_or(0, |range| range.slots.0), number)
    }

    /// The last of these ordered queries that are of one group, and whose slots take up to `max_words` on the device. There
    /// is at least one.
    pub(crate) fn last_batch(
        &self,
        queries: &[PendingQuery<'_, T>],
        rest: bool,
        bitmap_len: usize,
        max_words: usize,
    ) -> (Group, Range<usize>) {
        let len = queries.len();
        let (group, _, mut last) = self.order(&queries[len - 1], rest);
        let words_of = |number: usize| match (group, &self.plans[number]) {
            (_, FilterPlan { range: Some(_), .. }) => 0,
            (Group::Scan, FilterPlan { plan, .. }) => plan.list_allowed().len(),
            (Group::Beam { .. }, _) => bitmap_len,
        };
        let mut words = words_of(last);
        let is_of_batch = |query: &&PendingQuery<'_, T>| {
            let (other, _, number) = self.order(query, rest);
            if other == group && number != last {
                last = number;
                words += words_of(number);
            }
            other == group && words <= max_words
        };
        let count = 1 + queries[..len - 1].iter().rev().take_while(is_of_batch).count();
        (group, len - count..len)
    }

    /// Uploads the slots of the filters of some ordered queries of a group, and sets where they are. Complete in the order of
    /// `stream`; launches that read them must be complete before the result is dropped.
    pub(crate) fn upload(
        &mut self,
        stream: &S,
        tables: &SearchTables<T, S>,
        queries: &[PendingQuery<'_, T>],
        group: Group,
        pool: &ThreadPool,
    ) -> Result<UploadedSlots<S>, S::Error> {
        let mut numbers: Vec<usize> = queries.iter().map(|query| self.number(query)).collect();
        // Equal filters are adjacent.
        numbers.dedup();
        let (mut longest, mut kept) = (0, Vec::new());
        // The numbers of the plans whose slots are written, and where to.
        let (mut written, mut places, mut len) = (Vec::new(), Vec::new(), 0);
        for number in numbers {
            let FilterPlan { plan, range, slots } = &mut self.plans[number];
            if let Some(SlotRange { column, slots: range }) = range {
                *slots = match group {
                    Group::Scan => column.list(*range),
                    Group::Beam { .. } => column.ranks(*range),
                };
                longest = longest.max(range.1 as usize);
                continue;
            }
            let words = match (group, &plan.key_filter_slots) {
                (Group::Scan, _) => plan.list_allowed().len(),
                (Group::Beam { .. }, None) => tables.bitmap_len(),
                (Group::Beam { .. }, Some(allowed)) => {
                    let (readers, len) = (&*tables.async_readers, tables.bitmap_len());
                    let words = || bitmap_words(allowed.slots(), len);
                    let format = SlotFormat::Bitmap;
                    let bitmap = tables.filters.get(stream, readers, allowed, format, len, words)?;
                    *slots = QuerySlots::bitmap(gpu_kernels::Buffer::input(&*bitmap));
                    kept.push(bitmap);
                    continue;
                }
            };
            longest = longest.max(words);
            written.push(number);
            places.push(len..len + words);
            len += words;
        }
        let mut words = vec![0_u32; len];
        let write = |(&number, out): (&usize, &mut [u32])| {
            let listed = self.plans[number].plan.list_allowed();
            match group {
                Group::Scan => out.copy_from_slice(cast_slice(listed)),
                Group::Beam { .. } => {
                    listed.iter().for_each(|slot| out[slot.index() / 32] |= 1 << (slot.index() % 32));
                }
            }
        };
        let mut outs = Vec::with_capacity(places.len());
        let mut left = &mut words[..];
        for place in &places {
            let (out, others) = left.split_at_mut(place.len());
            outs.push(out);
            left = others;
        }
        if written.len() <= MAX_PLANNED_ALONE || pool.current_thread_index().is_some() {
            written.iter().zip(outs).for_each(write);
        } else {
            pool.install(|| written.par_iter().zip(outs).for_each(write));
        }
        let words = stream.upload(&words)?;
        let all = gpu_kernels::Buffer::input(&words);
        for (number, place) in written.into_iter().zip(places) {
            self.plans[number].slots = match group {
                Group::Scan => QuerySlots::list(all, place.start as u32, place.len() as u32),
                Group::Beam { .. } => QuerySlots::bitmap(all.add(place.start)),
            };
        }
        Ok(UploadedSlots { _words: words, _kept: kept, longest })
    }
}

/// A filter with its hash, which is equal if the filters are.
struct HashedFilter<'a> {
    hash: u64,
    filter: &'a Filter<'a>,
}

impl PartialEq for HashedFilter<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.filter == other.filter
    }
}

// A predicate equals nothing, not even itself: it is in the table as often as it is inserted.
impl Eq for HashedFilter<'_> {}

impl Hash for HashedFilter<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// The hash of a filter; predicates have those of their addresses.
fn hash_of(filter: &Filter<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    match filter {
        Filter::Keys(keys) => keys.address().hash(&mut hasher),
        Filter::Where(expression) => expression.hash(&mut hasher),
        Filter::Predicate(allows) => std::ptr::from_ref(*allows).cast::<()>().hash(&mut hasher),
        Filter::PerQuery(filters) => filters.as_ptr().hash(&mut hasher),
    }
    hasher.finish()
}

/// Rounds the size of a beam up, so that the beam searches of a batch are of few sizes. That of a query does not depend on
/// the other queries.
fn rounded(strategy: Strategy, max_beam_width: usize) -> Strategy {
    match strategy {
        Strategy::Scan => Strategy::Scan,
        Strategy::Beam(BeamSize { width, frontier_len }) => {
            let up = |len: usize| round_up(len).min(max_beam_width.max(len));
            let width = up(width);
            Strategy::Beam(BeamSize { width, frontier_len: up(frontier_len).max(width) })
        }
    }
}

/// The least number from `len` on that is 2 or 3 times a power of two, and at least 16.
fn round_up(len: usize) -> usize {
    let power = len.next_power_of_two().max(16);
    if len <= power / 4 * 3 { (power / 4 * 3).max(16) } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beams_are_of_few_sizes() {
        let rounded = [1, 16, 17, 24, 25, 33, 48, 49, 64, 769, 1024].map(round_up);
        assert_eq!(rounded, [16, 16, 24, 24, 32, 48, 48, 64, 64, 1024, 1024]);
    }
}
