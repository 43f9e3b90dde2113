//! Searches for queries that have filters of their own.
//!
//! ```text
//! plan each query, on the threads of the pool:
//!     find the parts of columns on the device that its filter tests, or list its slots, which those with equal filters share
//! order the queries by group (scans, and beam searches of one size), then by filter
//! for each group, or a part of it whose slots fit into the memory for them:
//!     upload the slots of its filters that columns do not test: lists for scans, bitmaps for beam searches
//!     search for its queries as a batch (`batch`), whose launches read a table of where the slots of each query are
//! queries left with fewer than k results: the same again, as scans
//! those for which columns select vertices of which no key passes: once more, as scans of slots that the host lists
//! ```

use gpu_kernels::Stream as _;
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{CostModel, PendingQuery, QueryQueue, SearchError, SearchParams, SearchReport};
use rayon::prelude::*;

use super::batch::{Answers, BatchSearch, Plans};
use super::buffers::SearchBuffers;
use super::filter_plans::{FilterPlans, PlannedFor};
use super::groups::{Pass, Place};
use super::launch::{SearchLaunch, SlotArray};
use super::params::cost_of_each;
use crate::graph::SearchTables;

/// Most queries that are planned at once: enough for several times the queries that a device searches for concurrently.
const MAX_PLANNED: usize = 1 << 15;
/// Most words of the slots of filters that are on the device at once, unless a single filter needs more.
const MAX_SLOT_WORDS: usize = 64 << 20;
/// Up to this many queries are ordered by one thread.
const MAX_ORDERED_ALONE: usize = 1024;

/// A search of queries that have filters of their own.
pub(crate) struct FilteredSearch<'a, B: SearchBuffers> {
    pub(crate) host: &'a Graph,
    /// The device copy of the graph.
    pub(crate) graph: &'a SearchTables<B::Stream>,
    /// With a filter for each query.
    pub(crate) params: SearchParams<'a>,
    /// What searches cost.
    pub(crate) cost_model: CostModel,
    /// Threads of the host.
    pub(crate) pool: &'a ThreadPool,
}

impl<B: SearchBuffers> FilteredSearch<'_, B> {
    /// Searches for the queries that it takes from `queue`, until there are none, as
    /// [`BatchSearch::search`](super::batch::BatchSearch::search) does.
    pub(crate) fn search(
        &self,
        queue: &QueryQueue<'_>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<SearchReport, SearchError> {
        let (mut report, mut queries) = (SearchReport::default(), Vec::new());
        loop {
            queue.take(queue.queries_per_device().clamp(1, MAX_PLANNED), &mut queries);
            if queries.is_empty() {
                return Ok(report);
            }
            if let Err(error) = self.search_planned(&mut queries, &mut report, sets, &add) {
                queue.return_unanswered(queries, report);
                return Err(error);
            }
        }
    }

    /// Plans the searches for these queries, and searches. After an error, those that are not answered are left in
    /// `queries`, else none.
    fn search_planned(
        &self,
        queries: &mut Vec<PendingQuery<'_>>,
        report: &mut SearchReport,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<(), SearchError> {
        let on = PlannedFor {
            tables: self.graph,
            stream: sets[0].stream(),
            cost_model: cost_of_each(self.cost_model, queries.len()),
            pool: self.pool,
        };
        let mut plans = FilterPlans::new(self.host, self.params, queries, &on)?;
        for pass in [Pass::Planned, Pass::Scans, Pass::ListedScans] {
            if pass != Pass::Planned {
                plans.list_others(queries, pass, self.pool)?;
            }
            let mut to_scan = Vec::new();
            let searched = self.search_groups(&mut plans, queries, pass, &mut to_scan, report, sets, &add);
            queries.append(&mut to_scan);
            searched?;
        }
        debug_assert!(queries.is_empty(), "a scan leaves nothing to scan");
        plans.free(self.pool);
        Ok(())
    }

    /// Searches for all queries, one group after another. Moves those that a scan might find more hits for to `to_scan`; an
    /// error leaves others in `queries`.
    #[expect(clippy::too_many_arguments, reason = "three of them are the results")]
    fn search_groups<'q>(
        &self,
        plans: &mut FilterPlans<'_, B::Stream>,
        queries: &mut Vec<PendingQuery<'q>>,
        pass: Pass,
        to_scan: &mut Vec<PendingQuery<'q>>,
        report: &mut SearchReport,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<(), SearchError> {
        let mut places = plans.places(queries, pass, self.pool);
        self.put_in_order(&mut places, queries);
        while !queries.is_empty() {
            let (group, first) = plans.last_batch(&places, self.graph.bitmap_len(), MAX_SLOT_WORDS);
            let (stream, batch) = (sets[0].stream(), &places[first..]);
            let uploaded = plans.upload(stream, self.graph, batch, group, self.pool);
            let uploaded = uploaded.map_err(SearchError::device)?;
            let multiprocessors = stream.multiprocessors();
            let launch = SearchLaunch::with_filters(
                plans.base(),
                group.strategy(),
                self.graph,
                plans.of_each(batch),
                multiprocessors,
                batch.len(),
            )?;
            places.truncate(first);
            let search = BatchSearch { plans: Plans::OfFilters(plans), graph: self.graph, pool: self.pool };
            let of_batch = QueryQueue::of(queries.split_off(first));
            match search.run(&launch, &SlotArray::of_each(uploaded.is_new()), &of_batch, sets, &add) {
                Ok(Answers { report: of_batch, to_scan: mut left }) => {
                    *report += of_batch;
                    to_scan.append(&mut left);
                }
                Err(error) => {
                    of_batch.take(usize::MAX, queries);
                    *report += of_batch.failed_report();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Orders the queries of launches.
    fn put_in_order(&self, places: &mut [Place], queries: &mut Vec<PendingQuery<'_>>) {
        if places.is_sorted() {
            return;
        }
        if places.len() <= MAX_ORDERED_ALONE || self.pool.current_thread_index().is_some() {
            places.sort_unstable();
        } else {
            self.pool.install(|| places.par_sort_unstable());
        }
        let mut taken: Vec<_> = queries.drain(..).map(Some).collect();
        queries.extend(places.iter().filter_map(|place| taken[place.query as usize].take()));
    }
}
