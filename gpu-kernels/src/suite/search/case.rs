//! A test case of a search: its parameters, and the output of a kernel.

use jasper_core::{BitSet, Element, Slot};
use jasper_graph::Graph;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt};

use super::graphs::{self, UploadedGraph};
use crate::graph::{DistanceForm, NO_SLOT};
use crate::search::{DeviceHit, NO_HIT, SearchArgs};
use crate::{Buffer, DevicePtr, DevicePtrMut, Stream};

/// No bound on visited vertices.
pub(super) const TO_THE_END: u32 = u32::MAX;

/// The parameters of a search.
#[derive(Clone, Debug)]
pub(super) struct SearchCase {
    pub(super) form: DistanceForm,
    /// Slots whose rows are the queries.
    pub(super) queries: Vec<Slot>,
    /// Whether queries are given as rows of the graph.
    pub(super) names_rows: bool,
    /// Slots that may be results; all if `None`.
    pub(super) allowed: Option<BitSet>,
    pub(super) k: u32,
    pub(super) beam_width: u32,
    pub(super) frontier_len: u32,
    /// Unless it is [`TO_THE_END`], expanded vertices are recorded.
    pub(super) max_hops: u32,
    pub(super) expansions: u32,
    pub(super) visited_buckets: u32,
    /// Entries that are candidates of a second launch.
    pub(super) candidates_len: u32,
    /// Whether results of an earlier search fill the places that are left.
    pub(super) has_estimated_hits: bool,
    /// Start points of each query, with gaps; those of the graph if `None`.
    pub(super) start_points: Option<Vec<Vec<Option<Slot>>>>,
}

/// The output of a kernel for all queries.
pub(super) struct SearchOutput {
    /// `[queries][k]`
    pub(super) results: Vec<DeviceHit>,
    /// `[queries]`: hops and distances.
    pub(super) costs: Vec<[u32; 2]>,
    /// `[queries][max_hops]`, if recorded.
    pub(super) expanded: Option<Vec<u64>>,
    /// `[queries][candidates_len]`
    pub(super) candidates: Vec<u32>,
}

/// Result `place` of an earlier search, which differs from all results of a search.
pub(super) fn earlier(place: usize) -> DeviceHit {
    DeviceHit { key: 7 << 32 | place as u64, distance: 1.5, slot: u32::MAX - 2 }
}

impl SearchCase {
    /// Random parameters for a kernel of frontiers of at most `max_len` entries and a graph of `slots`.
    pub(super) fn random(rng: &mut impl Rng, max_len: u32, form: DistanceForm, slots: usize) -> Self {
        let len = 1..=max_len.min(70);
        // If rounding affects which vertices are near, the search must find all of them.
        let frontier_len =
            if form == DistanceForm::HalfSquaredL2 { *len.end() } else { rng.random_range(len) };
        let is_whole = form == DistanceForm::HalfSquaredL2 || rng.random();
        let beam_width = if is_whole { frontier_len } else { rng.random_range(1..=frontier_len) };
        let mut slot = || Slot::from_index(rng.random_range(0..slots));
        let queries: Vec<_> = (0..2).map(|_| slot()).collect();
        let allowed = rng.random::<bool>().then(|| (0..slots).filter(|_| rng.random()).collect());
        // A bound that some searches reach, and one that none does.
        let max_hops =
            *[rng.random_range(0..20), slots as u32, TO_THE_END].choose(rng).expect("there are some");
        let candidates_len = if rng.random() { 0 } else { rng.random_range(1..=frontier_len) };
        let start_points = (rng.random_range(0..4) == 0).then(|| {
            let len = rng.random_range(1..40);
            let mut of_query = || {
                let mut all: Vec<_> = (0..slots.max(len)).map(|i| (i < slots).then_some(i)).collect();
                all.shuffle(rng);
                all[..len].iter().map(|slot| slot.map(Slot::from_index)).collect()
            };
            queries.iter().map(|_| of_query()).collect()
        });
        Self {
            form,
            queries,
            names_rows: rng.random(),
            allowed,
            k: rng.random_range(1..=frontier_len),
            beam_width,
            frontier_len,
            max_hops: if form == DistanceForm::HalfSquaredL2 { TO_THE_END } else { max_hops },
            expansions: *[1, 1, 2, 3, 4, 7].choose(rng).expect("there are some"),
            visited_buckets: *[0, 32, 64, 1024, 2048].choose(rng).expect("there are some"),
            candidates_len,
            has_estimated_hits: rng.random(),
            start_points,
        }
    }

    /// The start points of query `i`.
    pub(super) fn start_points_of<T: Element>(&self, graph: &Graph<T>, i: usize) -> Vec<Slot> {
        match &self.start_points {
            Some(start_points) => start_points[i].iter().flatten().copied().collect(),
            None => graph.adjacency().start_points().to_vec(),
        }
    }

    /// Result `place` after those found for query `i`.
    pub(super) fn estimated_hit(&self, i: usize, place: usize) -> DeviceHit {
        if self.has_estimated_hits { earlier(i * self.k as usize + place) } else { NO_HIT }
    }

    /// Uploads everything, calls `launch`, and downloads the output.
    pub(super) fn launch<T: Element, S: Stream>(
        &self,
        stream: &S,
        graph: &Graph<T>,
        launch: impl FnOnce(SearchArgs) -> Result<(), S::Error>,
    ) -> SearchOutput {
        let on_device = UploadedGraph::upload(stream, graph);
        let len = self.queries.len();
        let queries = stream.upload(&graphs::rows(graph, self.queries.iter().copied())).unwrap();
        let names: Vec<u32> = self.queries.iter().map(|slot| slot.get()).collect();
        let names = self.names_rows.then(|| stream.upload(&names).unwrap());
        let allowed = self.allowed.as_ref().map(|allowed| {
            let mut words = allowed.words().to_vec();
            words.resize(graph.slots().div_ceil(32), 0);
            stream.upload(&words).unwrap()
        });
        let mut results = stream.allocate::<DeviceHit>(len * self.k as usize).unwrap();
        let mut work = stream.allocate::<[u32; 2]>(len).unwrap();
        let mut expanded = (self.max_hops != TO_THE_END).then(|| {
            let mut expanded = stream.allocate::<u64>(len * self.max_hops as usize).unwrap();
            stream.fill(&mut expanded, u8::MAX).unwrap();
            expanded
        });
        let mut candidates = stream.allocate::<u32>(len * self.candidates_len as usize).unwrap();
        let estimated_hits: Vec<_> = (0..len * self.k as usize).map(earlier).collect();
        let estimated_hits = self.has_estimated_hits.then(|| stream.upload(&estimated_hits).unwrap());
        let start_points = self.start_points.as_ref().map(|start_points| {
            let start_points = start_points.iter().flatten().map(|start| start.map_or(NO_SLOT, Slot::get));
            stream.upload(&start_points.collect::<Vec<_>>()).unwrap()
        });
        let mut graph = on_device.args();
        if let Some(start_points) = &start_points {
            (graph.start_points, graph.start_points_len) =
                (start_points.input(), (start_points.len() / len) as u32);
        }
        let args = SearchArgs {
            graph,
            queries: if names.is_some() { graph.vectors } else { queries.input().cast() },
            query_rows: names.as_ref().map_or(DevicePtr::null(), |names| names.input()),
            allowed: allowed.as_ref().map_or(DevicePtr::null(), |allowed| allowed.input()),
            results: results.output(),
            estimated_hits: estimated_hits
                .as_ref()
                .map_or(DevicePtr::null(), |estimated_hits| estimated_hits.input()),
            candidates: candidates.output(),
            costs: work.output().cast(),
            expanded_entries: expanded.as_mut().map_or(DevicePtrMut::null(), |expanded| expanded.output()),
            queries_len: len as u32,
            k: self.k,
            beam_width: self.beam_width,
            frontier_len: self.frontier_len,
            max_hops: self.max_hops,
            expansions: self.expansions,
            visited_buckets: self.visited_buckets,
            start_points_stride: if start_points.is_some() { graph.start_points_len } else { 0 },
            start_point_parts: 1,
            candidates_len: self.candidates_len,
            distances_so_far: 0,
            form: self.form,
        };
        // The buffers have just been made in these shapes, and live until the downloads have waited.
        launch(args).unwrap();
        SearchOutput {
            results: stream.download(&results).unwrap(),
            costs: stream.download(&work).unwrap(),
            expanded: expanded.map(|expanded| stream.download(&expanded).unwrap()),
            candidates: stream.download(&candidates).unwrap(),
        }
    }
}
