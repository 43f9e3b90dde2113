//! The plans of queries that have filters of their own, and the slots of these filters on the device.

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use bytemuck::cast_slice;
use gpu_kernels::search::{ListPart, SlotTest};
use gpu_kernels::{Buffer as _, Stream};
use jasper_attributes::ColumnTest;
use jasper_core::{Slot, sync::lock};
use jasper_data::{ThreadPool, parallel};
use jasper_graph::Graph;
use jasper_vamana::{CostModel, Filter, PendingQuery, SearchError, SearchParams, SearchPlan, Strategy};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};

use super::column_filter::ColumnFilter;
use super::groups::{Group, Pass, Place, rounded};
use super::launch::OfEach;
use crate::graph::{MadeColumns, SearchTables};

/// Up to this many filters, one thread plans them in less time than waking up the pool takes.
const MAX_PLANNED_ALONE: usize = 16;
/// Up to this many plans, one thread reads in less time than waking up the pool takes.
const MAX_READ_ALONE: usize = 1024;
/// Slots of a scan from which on it is ordered by its first value: what takes longer than that.
const ORDERED_SCAN: usize = 4096;

/// The plans of some queries.
pub(crate) struct FilterPlans<'a, S: Stream> {
    params: SearchParams<'a>,
    /// The plan of a search without a filter: what all have in common.
    base: SearchPlan<'a>,
    /// The plan of each query; none after an error.
    plans: Vec<Option<FilterPlan<'a>>>,
    /// The place of each query in the first pass, until they are taken; none if the host lists slots of some, which share plans.
    places: Vec<Place>,
    /// The columns on the device.
    columns: MadeColumns<S>,
    /// The number of the plan of each query, by the number of the query. Queries with equal filters share one, if their slots
    /// are to be uploaded.
    of_rows: Vec<u32>,
    /// Whether slots are to be uploaded: there are filters that columns do not test, or slots that have changed.
    has_uploads: bool,
}

/// The plan of a query, or of those with one filter.
struct FilterPlan<'a> {
    strategy: Strategy,
    slots: FilterSlots<'a>,
}

impl FilterPlan<'_> {
    /// The place of a query in a pass, without `plan` and `query`. `has_changed` is whether slots have changed.
    fn place(&self, pass: Pass, has_changed: bool) -> Place {
        let listed = match &self.slots {
            FilterSlots::Columns(filter) => filter.scanned_slots(),
            FilterSlots::Listed(listed) => listed.plan.explain().most_allowed,
        };
        let group = match pass {
            Pass::Planned => Group::new(self.strategy, listed),
            Pass::Scans | Pass::ListedScans => Group::scan(listed),
        };
        let is_scan = group.is_scan();
        let (lists, tests, longest, first_listed) = match &self.slots {
            FilterSlots::Columns(filter) => {
                let (lists, tests) = filter.lens(is_scan);
                let first = if is_scan && listed >= ORDERED_SCAN { filter.first_listed() } else { 0 };
                (lists + usize::from(is_scan && has_changed), tests, listed, first)
            }
            FilterSlots::Listed(slots) if is_scan => (1, 0, slots.plan.list_allowed().len(), 0),
            FilterSlots::Listed(_) => (0, 1, 0, 0),
        };
        // There are at most 16 tests. A slot may be in several parts.
        let (lists, tests, longest) =
            (lists as u16, tests as u16, u32::try_from(longest).unwrap_or(u32::MAX));
        Place { group, first_listed, lists, tests, longest, ..Place::default() }
    }
}

/// The slots that a filter allows.
enum FilterSlots<'a> {
    /// Those that columns on the device select.
    Columns(ColumnFilter),
    /// Others, which are uploaded.
    Listed(Box<ListedSlots<'a>>),
}

/// Slots that are listed by a plan.
struct ListedSlots<'a> {
    plan: SearchPlan<'a>,
    /// Where they are on the device, in the launches that are made now: a list for a scan, or a bitmap.
    list: ListPart,
    bitmap: SlotTest,
}

impl<'a> FilterSlots<'a> {
    /// The slots of a plan, before they are uploaded.
    fn listed_by(plan: SearchPlan<'a>) -> Self {
        Self::Listed(Box::new(ListedSlots { plan, list: ListPart::default(), bitmap: SlotTest::ALL }))
    }
}

/// Arrays on the device that [`FilterPlans::write_slots`] leads to.
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
pub(crate) struct PlannedFor<'a, S: Stream> {
    pub(crate) tables: &'a SearchTables<S>,
    pub(crate) stream: &'a S,
    /// The cost of one of the queries.
    pub(crate) cost_model: CostModel,
    pub(crate) pool: &'a ThreadPool,
}

impl<'a, S: Stream> FilterPlans<'a, S> {
    /// Plans the searches for `queries`, whose filters are those of `params` with the numbers of the queries. Finds the
    /// parts of columns on the device that filters test, and lists the slots of the others that are scanned.
    ///
    /// # Errors
    /// Returns the errors of [`SearchPlan::new`], and [`SearchError::Filters`] if a query has no filter.
    pub(crate) fn new(
        graph: &'a Graph,
        params: SearchParams<'a>,
        queries: &[PendingQuery<'_>],
        on: &PlannedFor<'_, S>,
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
        let stale = columns.stale().map(|column| (column, usize::MAX));
        let mut is_made = false;
        for listed in planned.missing.drain().chain(stale) {
            is_made |= on.tables.columns.make(on.stream, keys, words, listed, on.pool);
        }
        if is_made {
            columns = on.tables.columns.made(keys, words);
            planned = Planned::new(&base, params, queries, &columns, on)?;
        }
        let has_uploads = columns.changed_slots().is_some();
        let Planned { plans, places, has_listed, .. } = planned;
        let mut plans = Self { params, base, plans, places, columns, of_rows, has_uploads };
        if has_listed {
            plans.places.clear();
            plans.share_lists(queries, on.pool);
        }
        Ok(plans)
    }

    /// Before scans of these queries, plans those anew whose slots columns cannot list: no clause is one of parts of columns, or
    /// a scan [was short](PendingQuery::is_short).
    ///
    /// # Errors
    /// Returns the errors of [`SearchPlan::new`].
    pub(crate) fn list_others(
        &mut self,
        queries: &[PendingQuery<'_>],
        pass: Pass,
        pool: &ThreadPool,
    ) -> Result<(), SearchError> {
        let keys = self.base.graph.keys();
        let mut tests = Vec::new();
        for query in queries {
            let (number, params) = (self.number(query), self.params.of_query(query.row));
            let Some(FilterPlan { slots: FilterSlots::Columns(filter), .. }) = &mut self.plans[number] else {
                continue;
            };
            if pass == Pass::Scans
                && filter.listed_slots().is_some()
                && let Some(Filter::Where(expression)) = params.filter
            {
                let predicate = keys.attributes().bind(expression)?;
                predicate.clauses(&mut tests);
                filter.list_changed(&predicate, &tests, &self.columns, keys);
            } else {
                let plan = SearchPlan::new(self.base.graph, params, 1, self.base.cost_model())?;
                let slots = FilterSlots::listed_by(plan);
                self.plans[number] = Some(FilterPlan { strategy: Strategy::Scan, slots });
            }
        }
        self.share_lists(queries, pool);
        Ok(())
    }

    /// Lets queries with equal filters share a plan if their slots are to be uploaded, and lists the slots of scans.
    #[expect(clippy::mutable_key_type, reason = "sets of keys are compared by their addresses")]
    fn share_lists(&mut self, queries: &[PendingQuery<'_>], pool: &ThreadPool) {
        let Some(Filter::PerQuery(filters)) = self.params.filter else { return };
        let mut known = FxHashMap::default();
        for query in queries {
            let number = self.of_rows[query.row];
            if self.listed(number as usize).is_some() {
                let filter = &filters[query.row];
                let hashed = HashedFilter { hash: hash_of(filter), filter };
                self.of_rows[query.row] = *known.entry(hashed).or_insert(number);
            }
        }
        self.has_uploads |= !known.is_empty();
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
    pub(crate) fn base(&self) -> &SearchPlan<'a> {
        &self.base
    }

    /// Whether a query with `filled` hits may have more, which a scan would find.
    pub(crate) fn needs_scan(&self, query: &PendingQuery<'_>, filled: usize) -> bool {
        match &self.plan(self.number(query)).slots {
            FilterSlots::Columns(filter) => {
                let keys = self.base.graph.keys().len();
                let most = filter.most_keys(keys, self.columns.changed_slots().is_some());
                filled < self.base.params.k.min(most).min(keys)
            }
            FilterSlots::Listed(listed) => listed.plan.needs_scan(filled),
        }
    }

    /// Whether a scan [that is short](PendingQuery::is_short) was of slots that columns select, so that the host lists others.
    pub(crate) fn is_short(&self, query: &PendingQuery<'_>) -> bool {
        query.is_short && matches!(&self.plan(self.number(query)).slots, FilterSlots::Columns(_))
    }

    /// Writes the hits of a query: of the vertices that were found, the keys that its filter allows. Returns their number.
    pub(crate) fn fill(
        &self,
        query: &mut PendingQuery<'_>,
        found: impl Iterator<Item = (Slot, f32)>,
    ) -> usize {
        match &self.plan(self.number(query)).slots {
            FilterSlots::Listed(listed) => listed.plan.fill(found, &mut query.out),
            FilterSlots::Columns(_) => {
                let Some(Filter::Where(expression)) = self.params.of_query(query.row).filter else {
                    unreachable!("columns test expressions");
                };
                let predicate = self.base.graph.keys().attributes().bind(expression);
                let predicate = predicate.expect("the filter was bound before");
                self.base.fill_with(found, &mut query.out, |key| predicate.matches_live(key))
            }
        }
    }

    /// The places of some queries, in their order: all of them, in the first pass.
    pub(crate) fn places(
        &mut self,
        queries: &[PendingQuery<'_>],
        pass: Pass,
        pool: &ThreadPool,
    ) -> Vec<Place> {
        if pass == Pass::Planned && !self.places.is_empty() {
            return mem::take(&mut self.places);
        }
        let has_changed = self.columns.changed_slots().is_some();
        let place = |(index, query): (usize, &PendingQuery<'_>)| {
            let number = self.number(query);
            let place = self.plan(number).place(pass, has_changed);
            Place { plan: number as u32, query: index as u32, ..place }
        };
        if queries.len() <= MAX_READ_ALONE || pool.current_thread_index().is_some() {
            queries.iter().enumerate().map(place).collect()
        } else {
            pool.install(|| queries.par_iter().enumerate().with_min_len(128).map(place).collect())
        }
    }

    /// The most that one of these queries has for itself.
    pub(crate) fn of_each(&self, places: &[Place]) -> OfEach {
        OfEach {
            changed: self.columns.changed_slots(),
            tested_words: self.columns.words(),
            ..Place::most(places)
        }
    }

    /// Writes where the slots of a query are on the device: those that a scan reads, and which of them, or of what a beam search
    /// finds, may be results.
    pub(crate) fn write_slots(
        &self,
        query: &PendingQuery<'_>,
        is_scan: bool,
        lists: &mut [ListPart],
        tests: &mut [SlotTest],
    ) {
        match &self.plan(self.number(query)).slots {
            FilterSlots::Columns(filter) => {
                filter.write_lists(&self.columns, lists);
                filter.write_tests(&self.columns, is_scan, tests);
            }
            FilterSlots::Listed(listed) => {
                lists.fill(ListPart::default());
                tests.fill(SlotTest::ALL);
                if let Some(last) = lists.last_mut() {
                    *last = listed.list;
                }
                if let (false, Some(first)) = (is_scan, tests.first_mut()) {
                    *first = listed.bitmap;
                }
            }
        }
    }

    /// Whether the host decides about a slot.
    pub(crate) fn has_changed(&self, slot: Slot) -> bool {
        self.columns.has_changed(slot)
    }

    /// The slots that a scan of a query reads.
    pub(crate) fn scanned_slots(&self, query: &PendingQuery<'_>) -> u64 {
        match &self.plan(self.number(query)).slots {
            FilterSlots::Columns(filter) => filter.scanned_slots() as u64,
            FilterSlots::Listed(listed) => listed.list.len.into(),
        }
    }

    fn number(&self, query: &PendingQuery<'_>) -> usize {
        self.of_rows[query.row] as usize
    }

    fn plan(&self, number: usize) -> &FilterPlan<'a> {
        self.plans[number].as_ref().expect("errors were returned")
    }

    fn listed(&self, number: usize) -> Option<&ListedSlots<'a>> {
        match &self.plan(number).slots {
            FilterSlots::Listed(listed) => Some(listed),
            FilterSlots::Columns(_) => None,
        }
    }

    /// The last of these ordered queries that are of one group, and whose slots take up to `max_words` on the device: the group,
    /// and the index of the first, which is there.
    pub(crate) fn last_batch(&self, places: &[Place], bitmap_len: usize, max_words: usize) -> (Group, usize) {
        let len = places.len();
        let group = places[len - 1].group;
        let start = places.partition_point(|place| place.group < group);
        if !self.has_uploads {
            return (group, start);
        }
        let (mut last, mut words) = (u32::MAX, 0);
        let fits = |place: &&Place| {
            if place.plan != last {
                last = place.plan;
                words += self.uploaded_words(place.plan as usize, group, bitmap_len);
            }
            words <= max_words
        };
        let count = places[start..].iter().rev().take_while(fits).count().max(1);
        (group, len - count)
    }

    /// Uploads the slots of the filters of some ordered queries of a group. Complete in the order of `stream`; launches that
    /// read them must be complete before the result is dropped.
    pub(crate) fn upload(
        &mut self,
        stream: &S,
        tables: &SearchTables<S>,
        batch: &[Place],
        group: Group,
        pool: &ThreadPool,
    ) -> Result<UploadedSlots<S>, S::Error> {
        // The numbers of the plans whose slots are written, and where to.
        let (mut written, mut places, mut len) = (Vec::new(), Vec::new(), 0);
        for place in batch.iter().filter(|_| self.has_uploads) {
            let number = place.plan as usize;
            // Equal filters are adjacent.
            let words = self.uploaded_words(number, group, tables.bitmap_len());
            if words > 0 && written.last() != Some(&number) {
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
            let slots = self.listed_slots(*number);
            match group {
                Group::Scan { .. } => out.copy_from_slice(cast_slice(slots)),
                Group::Beam { .. } => {
                    slots.iter().for_each(|slot| out[slot.index() / 32] |= 1 << (slot.index() % 32));
                }
            }
        });
        drop(outs);
        let words = stream.upload(&words)?;
        let all = words.input();
        for (number, place) in written.into_iter().zip(places) {
            let plan = self.plans[number].as_mut().expect("errors were returned");
            let list = || ListPart::new(all, place.start as u32, place.len() as u32);
            match (&mut plan.slots, group) {
                (FilterSlots::Columns(filter), _) => filter.set_changed(list()),
                (FilterSlots::Listed(listed), Group::Scan { .. }) => listed.list = list(),
                (FilterSlots::Listed(listed), Group::Beam { .. }) => {
                    listed.bitmap = SlotTest::bitmap(all.add(place.start));
                }
            }
        }
        Ok(UploadedSlots { words: Some(words) })
    }

    /// The slots of a filter that the host lists: all, or those that have changed.
    fn listed_slots(&self, number: usize) -> &[Slot] {
        match &self.plan(number).slots {
            FilterSlots::Columns(filter) => filter.changed(),
            FilterSlots::Listed(listed) => listed.plan.list_allowed(),
        }
    }

    /// How many words of slots of a filter are uploaded for a search of this group.
    fn uploaded_words(&self, number: usize, group: Group, bitmap_len: usize) -> usize {
        match (group, &self.plan(number).slots) {
            (Group::Scan { .. }, _) => self.listed_slots(number).len(),
            (Group::Beam { .. }, FilterSlots::Listed(_)) => bitmap_len,
            (Group::Beam { .. }, FilterSlots::Columns(_)) => 0,
        }
    }

    /// Frees the plans, which takes the longer the more there are.
    pub(crate) fn free(self, pool: &ThreadPool) {
        if self.has_uploads && self.plans.len() > MAX_PLANNED_ALONE && pool.current_thread_index().is_none() {
            pool.install(|| self.plans.into_par_iter().with_min_len(64).for_each(drop));
        }
    }
}

/// Plans of queries, each by itself.
struct Planned<'a> {
    plans: Vec<Option<FilterPlan<'a>>>,
    /// Plans are read once for these, by the thread that has just made them.
    places: Vec<Place>,
    /// The columns that would test filters and are not on the device, and how many slots are listed for these.
    missing: FxHashMap<usize, usize>,
    /// Whether the host lists slots of some.
    has_listed: bool,
}

impl<'a> Planned<'a> {
    fn new<S: Stream>(
        base: &SearchPlan<'a>,
        params: SearchParams<'a>,
        queries: &[PendingQuery<'_>],
        columns: &MadeColumns<S>,
        on: &PlannedFor<'_, S>,
    ) -> Result<Self, SearchError> {
        let keys = base.graph.keys();
        let (failed, missing) = (Mutex::new(None), Mutex::new(FxHashMap::default()));
        let has_listed = AtomicBool::new(false);
        let plan_one = |tests: &mut Vec<ColumnTest>, query: &PendingQuery<'_>| {
            let params = params.of_query(query.row);
            tests.clear();
            if let Some(Filter::Where(expression)) = params.filter {
                let predicate = keys.attributes().bind(expression)?;
                if predicate.clauses(tests)
                    && let Some(mut filter) = ColumnFilter::new(tests, columns, keys.len())
                {
                    let tested =
                        filter.listed_slots().map(|len| if filter.has_scan_tests() { len } else { 0 });
                    let strategy = base.strategy_of(filter.likely_keys(), tested);
                    let strategy = rounded(strategy, on.cost_model.max_beam_width);
                    if strategy != Strategy::Scan {
                        return Ok(FilterPlan { strategy, slots: FilterSlots::Columns(filter) });
                    } else if tested.is_some() {
                        filter.list_changed(&predicate, tests, columns, keys);
                        return Ok(FilterPlan { strategy, slots: FilterSlots::Columns(filter) });
                    }
                }
            }
            has_listed.store(true, Relaxed);
            let plan = SearchPlan::new(base.graph, params, 1, on.cost_model)?;
            for test in tests.iter().filter(|test| !columns.has(test.column)) {
                let mut missing = lock(&missing);
                let listed: &mut usize = missing.entry(test.column).or_default();
                *listed = listed.saturating_add(plan.explain().most_allowed);
            }
            let strategy = rounded(plan.strategy, on.cost_model.max_beam_width);
            Ok(FilterPlan { strategy, slots: FilterSlots::listed_by(plan) })
        };
        let has_changed = columns.changed_slots().is_some();
        let plan = |tests: &mut Vec<ColumnTest>, (number, query): (usize, &PendingQuery<'_>)| match plan_one(
            tests, query,
        ) {
            Ok(plan) => {
                // Equal filters may share what the host lists, which takes long: their places are found later.
                let is_listed = matches!(plan.slots, FilterSlots::Listed(_));
                let place = if is_listed { Place::default() } else { plan.place(Pass::Planned, has_changed) };
                (Some(plan), Place { plan: number as u32, query: number as u32, ..place })
            }
            Err(error) => {
                let mut first = lock(&failed);
                if first.as_ref().is_none_or(|&(row, _)| query.row < row) {
                    *first = Some((query.row, error));
                }
                (None, Place::default())
            }
        };
        let (plans, places) =
            if queries.len() <= MAX_PLANNED_ALONE || on.pool.current_thread_index().is_some() {
                let mut tests = Vec::new();
                queries.iter().enumerate().map(|query| plan(&mut tests, query)).unzip()
            } else {
                let (mut plans, mut places) = (Vec::new(), Vec::new());
                let planned = queries.par_iter().enumerate().with_min_len(16).map_init(Vec::new, plan);
                on.pool.install(|| planned.unzip_into_vecs(&mut plans, &mut places));
                (plans, places)
            };
        let missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(Self { plans, places, missing, has_listed: has_listed.into_inner() }),
        }
    }
}

/// Calls a function with each item, on the threads of the pool if there are many.
fn for_each<I: Sync>(items: &[I], pool: &ThreadPool, each: impl Fn(&I) + Sync) {
    let is_alone = items.len() <= MAX_PLANNED_ALONE || pool.current_thread_index().is_some();
    parallel::map_on((!is_alone).then_some(pool), items, each);
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
