//! Tuning an index, and what it keeps of it.

use jasper_build::{Hit, SearchError, SearchParams, SearchReport};
use jasper_core::{Element, MatrixView, ProgressFn};
use jasper_graph::{Graph, TunedLaunch, TunedSearch};

use super::{Goal, HeldOut, Subject, TuneError, tune};
use crate::{Device, DeviceIndex, Index, processor};

/// Recalls are told apart to so much.
const SAME: f64 = 1e-9;

impl Goal {
    /// A search for it.
    pub(super) fn params(self, beam_width: usize, launch: Option<TunedLaunch>) -> SearchParams<'static> {
        SearchParams { launch, ..SearchParams::new(self.k).beam_width(beam_width) }
    }
}

impl<T: Element> Index<T> {
    /// Finds the search that reaches `goal` on the processor: see [`crate::tune`]. It is kept, in the place of one found
    /// for the same goal before, and given.
    ///
    /// Cost: some tens of searches of all held-out queries, and about a second of timing.
    ///
    /// # Errors
    /// [`TuneError`].
    pub fn tune(
        &mut self,
        goal: Goal,
        held_out: &HeldOut<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<TunedSearch>, TuneError> {
        let found = tune(self, goal, held_out, progress)?;
        found.iter().for_each(|search| self.graph.keep_tuned(search.clone()));
        Ok(found)
    }

    /// The search that was tuned for `goal`, or for the least recall above it, and for about so many queries a call; none
    /// if there is no such. What was tuned on another device is taken where there is nothing of this one.
    pub fn tuned(&self, goal: Goal, queries: usize) -> Option<SearchParams<'static>> {
        lookup(self.graph.tuned(), &processor(), false, goal, queries)
    }
}

impl<T: Element> DeviceIndex<T> {
    /// [`Index::tune`] on the index's device: on a CUDA device also how the work of a query is shared out, for a batch of
    /// each size.
    ///
    /// # Errors
    /// [`TuneError`].
    pub fn tune(
        &mut self,
        goal: Goal,
        held_out: &HeldOut<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<TunedSearch>, TuneError> {
        let found = tune(self, goal, held_out, progress)?;
        found.iter().for_each(|search| self.index.graph.keep_tuned(search.clone()));
        Ok(found)
    }

    /// [`Index::tuned`], for the index's device.
    pub fn tuned(&self, goal: Goal, queries: usize) -> Option<SearchParams<'static>> {
        lookup(self.index.graph.tuned(), &self.device_name(), self.is_on_gpu(), goal, queries)
    }

    /// Name of the processor or GPU that searches, such as `NVIDIA H200`.
    pub fn device_name(&self) -> String {
        #[cfg(feature = "cuda")]
        if let Some(searcher) = self.searcher() {
            return searcher.context().device().name.clone();
        }
        processor()
    }

    fn is_on_gpu(&self) -> bool {
        self.device() != Device::Cpu
    }
}

/// [`Index::tuned`], on a device of this name: a GPU or not.
fn lookup(
    tuned: &[TunedSearch],
    device: &str,
    is_gpu: bool,
    goal: Goal,
    queries: usize,
) -> Option<SearchParams<'static>> {
    let serves = |search: &&TunedSearch| {
        // A processor expands one vertex at once: what several need may not be enough.
        let expands_as_much = is_gpu || search.launch.is_none_or(|launch| launch.expansions == 1);
        search.k == goal.k && search.target >= goal.recall - SAME && expands_as_much
    };
    // How many times as large the one batch is as the other.
    let ratio = |search: &TunedSearch| (search.batch as f64 / queries.max(1) as f64).ln().abs();
    let best = tuned.iter().filter(serves).min_by(|a, b| {
        let is_other = |search: &TunedSearch| search.device != device;
        is_other(a).cmp(&is_other(b)).then(a.target.total_cmp(&b.target)).then(ratio(a).total_cmp(&ratio(b)))
    })?;
    Some(goal.params(best.beam_width, best.launch))
}

impl<T: Element> Subject<T> for Index<T> {
    fn graph(&self) -> &Graph<T> {
        &self.graph
    }

    fn device(&self) -> String {
        processor()
    }

    fn widest(&self) -> usize {
        usize::MAX
    }

    fn launches(&self) -> Vec<Option<TunedLaunch>> {
        vec![None]
    }

    fn search(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        self.search_into(queries, params, hits)
    }
}

/// Ways of a GPU that are worth a try: one warp a query or a team, with a filter of seen ids of several sizes.
const WARPS: [u32; 2] = [1, 8];
const EXPANSIONS: [u32; 3] = [1, 2, 4];
const FILTER_SLOTS: [u32; 5] = [512, 1024, 2048, 4096, 8192];

impl<T: Element> Subject<T> for DeviceIndex<T> {
    fn graph(&self) -> &Graph<T> {
        self.index.graph()
    }

    fn device(&self) -> String {
        self.device_name()
    }

    fn widest(&self) -> usize {
        #[cfg(feature = "cuda")]
        if self.is_on_gpu() {
            return jasper_cuda::MAX_BEAM_WIDTH as usize;
        }
        usize::MAX
    }

    fn launches(&self) -> Vec<Option<TunedLaunch>> {
        if !self.is_on_gpu() {
            return vec![None];
        }
        let ways = WARPS.into_iter().flat_map(|warps| FILTER_SLOTS.map(|filter_slots| (warps, filter_slots)));
        let launch =
            |expansions, (warps, filter_slots)| Some(TunedLaunch { warps, expansions, filter_slots });
        EXPANSIONS
            .into_iter()
            .flat_map(|expansions| ways.clone().map(move |way| launch(expansions, way)))
            .collect()
    }

    fn search(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        self.search_into(queries, params, hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(device: &str, target: f64, batch: usize, beam_width: usize, expansions: u32) -> TunedSearch {
        let launch = TunedLaunch { warps: 8, expansions, filter_slots: 0 };
        TunedSearch {
            device: device.into(),
            k: 10,
            target,
            batch,
            beam_width,
            launch: (expansions > 0).then_some(launch),
            recall: target,
            queries_per_second: 1.0,
            state: 0,
        }
    }

    #[test]
    fn the_nearest_goal_and_batch_are_taken() {
        let kept = [
            search("gpu", 0.9, 1, 20, 4),
            search("gpu", 0.9, 10_000, 24, 1),
            search("gpu", 0.95, 1, 40, 4),
            search("cpu", 0.95, 10_000, 48, 0),
            search("cpu", 0.99, 10_000, 99, 0),
        ];
        let width = |device, is_gpu, recall, queries| {
            let goal = Goal { k: 10, recall };
            lookup(&kept, device, is_gpu, goal, queries).map(|params| params.beam_width)
        };
        assert_eq!(
            [1, 90, 110, 1 << 30].map(|queries| width("gpu", true, 0.9, queries)),
            [20, 20, 24, 24].map(Some)
        );
        assert_eq!(
            [0.85, 0.9, 0.93, 0.95].map(|recall| width("gpu", true, recall, 1)),
            [20, 20, 40, 40].map(Some)
        );
        assert_eq!(width("gpu", true, 0.97, 1), Some(99), "another device's is better than none");
        assert_eq!(width("cpu", false, 0.9, 1), Some(48));
        assert_eq!(
            width("cpu 2", false, 0.9, 1),
            Some(24),
            "four expansions at once are not for a processor"
        );
        assert_eq!(width("cpu", false, 0.995, 1), None);
        assert!(lookup(&kept, "cpu", false, Goal { k: 11, recall: 0.9 }, 1).is_none());
        let launch = lookup(&kept, "gpu", true, Goal { k: 10, recall: 0.9 }, 1).unwrap().launch;
        assert_eq!(launch, kept[0].launch);
    }
}
