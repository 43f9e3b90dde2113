//! A search that was launched for several callers, each of whom gets the results of its query when they are written.
//!
//! ```text
//! start:  fill the results, in pinned memory, with a value that kernels do not write; launch
//! poll:   copy out the results of each query of which no word has that value
//!         now and then, ask whether the launch is complete: then all of them are written
//! ```
//!
//! The launch of a batch lasts as long as its slowest search. With the others' results copied out before its end, their
//! callers can search again.

use gpu_kernels::search::DeviceHit;
use jasper_core::Metric;
use jasper_graph::Graph;
use jasper_vamana::{Hit, SearchError, SearchPlan, Strategy};

use super::buffers::SearchBuffers;
use super::results::{all_keys, first_keys};

/// What a result is before it is written. A query with a result that contains this word is answered at the end of the
/// launch.
pub(super) const UNWRITTEN: DeviceHit = {
    const WORD: u32 = 0x9e37_79b9;
    DeviceHit { key: (WORD as u64) << 32 | WORD as u64, distance: f32::from_bits(WORD), slot: WORD }
};

/// Polls without an answer after which a launch is asked whether it is complete, which notices faults.
pub(super) const POLLS: u32 = 256;

/// Whether the results of a search can be copied out query by query. Those of a scan are written more than once.
pub(super) fn can_start(plan: &SearchPlan<'_>) -> bool {
    plan.strategy != Strategy::Scan && plan.params.filter.is_none()
}

/// The queries of a launched search whose results are not copied out yet.
pub(super) struct StartedQueries {
    /// Their indices in the batch.
    waiting: Vec<usize>,
    metric: Metric,
    /// Results per query.
    k: usize,
    /// A query with fewer hits is not answered, because a scan might find more.
    rescan_below: usize,
    /// Whether a vertex has several keys.
    has_duplicates: bool,
    /// Polls since the last answer.
    polls: u32,
    results: Vec<DeviceHit>,
}

impl StartedQueries {
    pub(super) fn new(queries: usize, k: usize, plan: &SearchPlan<'_>) -> Self {
        Self {
            waiting: (0..queries).collect(),
            metric: plan.graph.metric(),
            k,
            rescan_below: plan.rescan_below(),
            has_duplicates: plan.graph.keys().duplicate_keys() > 0,
            polls: 0,
            results: Vec::new(),
        }
    }

    /// Calls `answer` for each query whose results are written since the last call. Returns whether the launch is
    /// complete. `graph` is that of the search.
    pub(super) fn poll<B: SearchBuffers>(
        &mut self,
        buffers: &B,
        graph: &Graph,
        answer: &mut dyn FnMut(usize, Vec<Hit>),
    ) -> Result<bool, SearchError> {
        let Self { waiting, metric, k, rescan_below, has_duplicates, polls, results } = self;
        *polls += 1;
        let asks = waiting.is_empty() || polls.is_multiple_of(POLLS);
        let is_complete = asks && buffers.is_complete().map_err(SearchError::device)?;
        waiting.retain(|&query| {
            buffers.read_results(query * *k..(query + 1) * *k, results);
            let is_there = is_complete || results.iter().all(is_written);
            if is_there {
                *polls = 0;
                let hits: Vec<Hit> = if *has_duplicates {
                    all_keys(graph, results).take(*k).collect()
                } else {
                    first_keys(*metric, results).collect()
                };
                if hits.len() >= *rescan_below {
                    answer(query, hits);
                }
            }
            !is_there
        });
        Ok(is_complete)
    }
}

/// Whether all words of a result are written, which a search does once and in any order.
fn is_written(hit: &DeviceHit) -> bool {
    !bytemuck::cast_ref::<_, [u32; 4]>(hit).contains(&UNWRITTEN.slot)
}
