//! The plans of queries that have filters of their own, and the slots of these filters on the device.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::cast_slice;
use gpu_kernels::search::QuerySlots;
use gpu_kernels::{Buffer as _, Stream};
use jasper_attributes::ColumnRange;
use jasper_core::{Element, Slot, sync::lock};
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{
    BeamSize, CostModel, Filter, PendingQuery, SearchError, SearchParams, SearchPlan, Strategy,
};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};

use crate::graph::{DeviceColumn, SearchTables};

/// Up to this many filters, one thread plans them in less time than waking up the pool takes.
const MAX_PLANNED_ALONE: usize = 16;
/// Slots of a scan from which on it is ordered by its first value: what takes longer than that.
const ORDERED_SCAN: u32 = 4096;

/// The plans of some queries.
pub(crate) struct FilterPlans<'a, T: Element, S: Stream> {
    params: SearchParams<'a>,
    /// The plan of a search without a filter: what all have in common.
    base: SearchPlan<'a, T>,
    /// The plan of each query; none after an error.
    plans: Vec<Option<FilterPlan<'a, T>>>,
    /// The columns on the device of which filters are ranges.
    columns: Vec<Arc<DeviceColumn<S>>>,
    /// The number of the plan of each query, by the number of the query. Queries with equal filters share one, if their slots
    /// are to be uploaded.
    of_rows: Vec<u32>,
    /// Whether there are filters that are no ranges.
    has_lists: bool,
}

/// The plan of a query, or of those with one filter.
struct FilterPlan<'a, T: Element> {
    strategy: Strategy,
    slots: FilterSlots<'a, T>,
}

/// The slots that a filter allows.
enum FilterSlots<'a, T: Element> {
    /// A part of a column on the device.
    Range(SlotRange),
    /// Others, which are uploaded.
    Listed(Box<ListedSlots<'a, T>>),
}

/// Slots that are listed by a plan.
struct ListedSlots<'a, T: Element> {
    plan: SearchPlan<'a, T>,
    /// Where they are on the device, in the launches that are made now.
    uploaded: QuerySlots,
}

/// A part of the order of a column.
#[derive(Clone, Copy)]
struct SlotRange {
    /// The index of the column.
    column: usize,
    first: u32,
    len: u32,
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
    words: Option<S::Buffer<u32>>,
}

impl<S: Stream> UploadedSlots<S> {
    /// Whether something was uploaded, in the order of the stream.
    pub(crate) fn is_new(&self) -> bool {
        self.words.is_some()
    }
}

/// Where plans are executed, and what they cost there.
pub(crate) struct PlannedFor<'a, T: Element, S: Stream> {
    pub(crate) tables: &'a SearchTables<T, S>,
    pub(crate) stream: &'a S,
    /// The cost of one of the queries.
    pub(crate) cost_model: CostModel,
    pub(crate) pool: &'a ThreadPool,
}

impl<'a, T: Element, S: Stream> FilterPlans<'a, T, S> {
    /// Plans the searches for `queries`, whose filters are those of `params` with the numbers of the queries. Finds the
    /// filters that are ranges of columns on the device, and lists the slots of the others that are scanned.
    ///
    /// # Errors
    /// Returns the errors of [`SearchPlan::new`], and [`SearchError::Filters`] if a query has no filter.
    pub(crate) fn new(
        graph: &'a Graph<T>,
        params: SearchParams<'a>,
        queries: &[PendingQuery<'_, T>],
        on: &PlannedFor<'_, T, S>,
    ) -> Result<Self, SearchError> {
        let Some(Filter::PerQuery(filters)) = params.filter else {
            unreachable!("one filter of all queries is planned once")
        };
        if let Some(query) = queries.iter().find(|query| query.row >= filters.len()) {
            return Err(SearchError::Filters { given: filters.len(), queries: query.row + 1 });
        }
        let base = SearchPlan::new(graph, params.split_filter().0, 1, on.cost_model)?;
        let mut of_rows = vec![u32::MAX; filters.len()];
        queries.iter().zip(0..).for_each(|(query, number)| of_rows[query.row] = number);
        let (keys, words) = (graph.keys(), on.tables.bitmap_len());
        let mut columns = on.tables.columns.made(keys, words);
        let mut planned = Planned::new(&base, params, queries, &columns, on)?;
        let mut is_made = false;
        for (column, selected) in planned.missing() {
            is_made |= on.tables.columns.make(on.stream, keys, words, column, selected);
        }
        if is_made {
            columns = on.tables.columns.made(keys, words);
            planned = Planned::new(&base, params, queries, &columns, on)?;
        }
        let Planned { plans, columns, has_lists } = planned;
        let mut plans = Self { params, base, plans, columns, of_rows, has_lists };
        if has_lists {
            plans.share_lists(filters, queries, on.pool);
        }
        Ok(plans)
    }

    /// Lets queries with equal filters share a plan if their slots are to be uploaded, and lists the slots of scans.
    #[expect(clippy::mutable_key_type, reason = "sets of keys are compared by their addresses")]
    fn share_lists(&mut self, filters: &[Filter<'_>], queries: &[PendingQuery<'_, T>], pool: &ThreadPool) {
        let mut known = FxHashMap::default();
        for (query, number) in queries.iter().zip(0..) {
            if self.listed(number as usize).is_some() {
                let filter = &filters[query.row];
                let hashed = HashedFilter { hash: hash_of(filter), filter };
                self.of_rows[query.row] = *known.entry(hashed).or_insert(number);
            }
        }
        let numbers: Vec<u32> = known.into_values().collect();
        let list = |&number: &u32| {
            let of = self.plan(number as usize);
            if let (Strategy::Scan, FilterSlots::Listed(listed)) = (of.strategy, &of.slots) {
                listed.plan.list_allowed();
            }
        };
        for_each(&numbers, pool, list);
    }

    /// What the plans of all queries have in common.
    pub(crate) fn base(&self) -> &SearchPlan<'a, T> {
        &self.base
    }

    /// Whether a query with `filled` hits may have more, which a scan would find.
    pub(crate) fn needs_scan(&self, query: &PendingQuery<'_, T>, filled: usize) -> bool {
        match &self.plan(self.number(query)).slots {
            FilterSlots::Range(range) => {
                filled < self.base.params.k.min(range.len as usize).min(self.base.graph.keys().len())
            }
            FilterSlots::Listed(listed) => listed.plan.needs_scan(filled),
        }
    }

    /// Writes the hits of a query: of the vertices that were found, the keys that its filter allows. Returns their number.
    pub(crate) fn fill(
        &self,
        query: &mut PendingQuery<'_, T>,
        found: impl Iterator<Item = (Slot, f32)>,
    ) -> usize {
        let plan;
        let plan = match &self.plan(self.number(query)).slots {
            FilterSlots::Listed(listed) => &listed.plan,
            FilterSlots::Range(_) => {
                let params = self.params.of_query(query.row);
                plan = SearchPlan::new(self.base.graph, params, 1, self.base.cost_model());
                plan.as_ref().expect("the filter was bound before")
            }
        };
        plan.fill(found, &mut query.out)
    }

    /// The slots of a query on the device: those that a scan reads, or those that a beam search may return.
    pub(crate) fn slots_of(&self, query: &PendingQuery<'_, T>, is_scan: bool) -> QuerySlots {
        match &self.plan(self.number(query)).slots {
            FilterSlots::Listed(listed) => listed.uploaded,
            &FilterSlots::Range(SlotRange { column, first, len }) => {
                let column = &self.columns[column];
                if is_scan { column.list(first, len) } else { column.ranks(first, len) }
            }
        }
    }

    fn number(&self, query: &PendingQuery<'_, T>) -> usize {
        self.of_rows[query.row] as usize
    }

    fn plan(&self, number: usize) -> &FilterPlan<'a, T> {
        self.plans[number].as_ref().expect("errors were returned")
    }

    fn listed(&self, number: usize) -> Option<&ListedSlots<'a, T>> {
        match &self.plan(number).slots {
            FilterSlots::Listed(listed) => Some(listed),
            FilterSlots::Range(_) => None,
        }
    }

    fn group_of(&self, query: &PendingQuery<'_, T>, rest: bool) -> Group {
        if rest { Group::Scan } else { Group::new(self.plan(self.number(query)).strategy) }
    }

    /// The order of queries in launches: by group, and long scans by filter, so that those with one filter read its vectors
    /// from caches. Of the `rest`, queries that were left with fewer than `k` results, all are scans.
    pub(crate) fn order(&self, query: &PendingQuery<'_, T>, rest: bool) -> (Group, u32, u32) {
        let (number, group) = (self.number(query), self.group_of(query, rest));
        match (group, &self.plan(number).slots) {
            (Group::Scan, FilterSlots::Range(range)) if range.len >= ORDERED_SCAN => {
                (group, range.first, number as u32)
            }
            _ => (group, 0, number as u32),
        }
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
        let group = self.group_of(&queries[len - 1], rest);
        let start = queries.partition_point(|query| self.group_of(query, rest) < group);
        if !self.has_lists {
            return (group, start..len);
        }
        let (mut last, mut words) = (usize::MAX, 0);
        let fits = |query: &&PendingQuery<'_, T>| {
            let number = self.number(query);
            if number != last {
                last = number;
                words += match (group, self.listed(number)) {
                    (_, None) => 0,
                    (Group::Scan, Some(listed)) => listed.plan.list_allowed().len(),
                    (Group::Beam { .. }, Some(_)) => bitmap_len,
                };
            }
            words <= max_words
        };
        let count = queries[start..].iter().rev().take_while(fits).count().max(1);
        (group, len - count..len)
    }

    /// Uploads the slots of the filters of some ordered queries of a group. Complete in the order of `stream`; launches that
    /// read them must be complete before the result is dropped.
    pub(crate) fn upload(
        &mut self,
        stream: &S,
        tables: &SearchTables<T, S>,
        queries: &[PendingQuery<'_, T>],
        group: Group,
        pool: &ThreadPool,
    ) -> Result<UploadedSlots<S>, S::Error> {
        // The numbers of the plans whose slots are written, and where to.
        let (mut written, mut places, mut len) = (Vec::new(), Vec::new(), 0);
        for query in queries.iter().filter(|_| self.has_lists) {
            let number = self.number(query);
            // Equal filters are adjacent.
            if let (Some(listed), false) = (self.listed(number), written.last() == Some(&number)) {
                let words = match group {
                    Group::Scan => listed.plan.list_allowed().len(),
                    Group::Beam { .. } => tables.bitmap_len(),
                };
                written.push(number);
                places.push(len..len + words);
                len += words;
            }
        }
        if written.is_empty() {
            return Ok(UploadedSlots { words: None });
        }
        let mut words = vec![0_u32; len];
        let mut left = &mut words[..];
        let mut outs = Vec::with_capacity(places.len());
        for (&number, place) in written.iter().zip(&places) {
            let (out, others) = left.split_at_mut(place.len());
            outs.push(Mutex::new((number, out)));
            left = others;
        }
        for_each(&outs, pool, |out| {
            let (number, out) = &mut *lock(out);
            let listed = self.listed(*number).map_or(&[][..], |listed| listed.plan.list_allowed());
            match group {
                Group::Scan => out.copy_from_slice(cast_slice(listed)),
                Group::Beam { .. } => {
                    listed.iter().for_each(|slot| out[slot.index() / 32] |= 1 << (slot.index() % 32));
                }
            }
        });
        drop(outs);
        let words = stream.upload(&words)?;
        let all = words.input();
        for (number, place) in written.into_iter().zip(places) {
            let plan = self.plans[number].as_mut().expect("errors were returned");
            if let FilterSlots::Listed(listed) = &mut plan.slots {
                listed.uploaded = match group {
                    Group::Scan => QuerySlots::list(all, place.start as u32, place.len() as u32),
                    Group::Beam { .. } => QuerySlots::bitmap(all.add(place.start)),
                };
            }
        }
        Ok(UploadedSlots { words: Some(words) })
    }

    /// Frees the plans, which takes the longer the more there are.
    pub(crate) fn free(self, pool: &ThreadPool) {
        if self.has_lists && self.plans.len() > MAX_PLANNED_ALONE && pool.current_thread_index().is_none() {
            pool.install(|| self.plans.into_par_iter().with_min_len(64).for_each(drop));
        }
    }
}

/// Plans of queries, each by itself.
struct Planned<'a, T: Element, S: Stream> {
    plans: Vec<Option<FilterPlan<'a, T>>>,
    columns: Vec<Arc<DeviceColumn<S>>>,
    has_lists: bool,
}

impl<'a, T: Element, S: Stream> Planned<'a, T, S> {
    fn new(
        base: &SearchPlan<'a, T>,
        params: SearchParams<'a>,
        queries: &[PendingQuery<'_, T>],
        columns: &FxHashMap<usize, Arc<DeviceColumn<S>>>,
        on: &PlannedFor<'_, T, S>,
    ) -> Result<Self, SearchError> {
        let (numbers, columns): (Vec<usize>, Vec<_>) =
            columns.iter().map(|(&number, column)| (number, Arc::clone(column))).unzip();
        let find = |range: ColumnRange| -> Option<SlotRange> {
            let column = numbers.iter().position(|&number| number == range.column)?;
            let (first, len) = columns[column].find(range);
            Some(SlotRange { column, first, len })
        };
        let (failed, has_lists) = (Mutex::new(None), AtomicBool::new(false));
        let plan_one = |query: &PendingQuery<'_, T>| -> Result<FilterPlan<'a, T>, SearchError> {
            let params = params.of_query(query.row);
            if let Some(Filter::Where(expression)) = params.filter
                && let Some(range) = base.graph.keys().attributes().bind(expression)?.range()
                && let Some(found) = find(range)
            {
                // The count is exact.
                let strategy = base.strategy_of(found.len as usize);
                let strategy = rounded(strategy, on.cost_model.max_beam_width);
                return Ok(FilterPlan { strategy, slots: FilterSlots::Range(found) });
            }
            has_lists.store(true, Relaxed);
            let plan = SearchPlan::new(base.graph, params, 1, on.cost_model)?;
            let strategy = rounded(plan.strategy, on.cost_model.max_beam_width);
            let slots = Box::new(ListedSlots { plan, uploaded: QuerySlots::default() });
            Ok(FilterPlan { strategy, slots: FilterSlots::Listed(slots) })
        };
        let plan = |query: &PendingQuery<'_, T>| match plan_one(query) {
            Ok(plan) => Some(plan),
            Err(error) => {
                let mut first = lock(&failed);
                if first.as_ref().is_none_or(|&(row, _)| query.row < row) {
                    *first = Some((query.row, error));
                }
                None
            }
        };
        let plans = if queries.len() <= MAX_PLANNED_ALONE || on.pool.current_thread_index().is_some() {
            queries.iter().map(plan).collect()
        } else {
            on.pool.install(|| queries.par_iter().with_min_len(16).map(plan).collect())
        };
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(Self { plans, columns, has_lists: has_lists.into_inner() }),
        }
    }

    /// The columns of ranges that are not on the device, and how many keys these select.
    fn missing(&self) -> FxHashMap<usize, usize> {
        let mut missing: FxHashMap<usize, usize> = FxHashMap::default();
        for plan in self.plans.iter().flatten().filter(|_| self.has_lists) {
            if let FilterSlots::Listed(listed) = &plan.slots
                && let Some(range) = listed.plan.column_range()
            {
                *missing.entry(range.column).or_default() += listed.plan.likely_keys().unwrap_or(0);
            }
        }
        missing
    }
}

/// Calls a function with each item, on the threads of the pool if there are many.
fn for_each<I: Sync>(items: &[I], pool: &ThreadPool, each: impl Fn(&I) + Send + Sync) {
    if items.len() <= MAX_PLANNED_ALONE || pool.current_thread_index().is_some() {
        items.iter().for_each(each);
    } else {
        pool.install(|| items.par_iter().for_each(&each));
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
