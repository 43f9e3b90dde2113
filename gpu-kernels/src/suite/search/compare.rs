//! Compares the output of a kernel with the reference, and the reference with the CPU executor.

use jasper_core::{Neighbor, Slot, with_element};
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, Hit, Matches, SearchParams};

use super::case::{SearchCase, SearchOutput, TO_THE_END};
use super::graphs;
use super::reference::{ReferenceSearch, search};
use crate::Stream;
use crate::graph::{DistanceForm, NO_SLOT};
use crate::search::{DeviceHit, Search};

/// Tolerance of a distance between vectors of unit length: some roundings of a sum near 1.
const UNIT_TOLERANCE: f32 = 2e-6;

/// Runs `kernel` on `stream`, and compares its output with the reference.
pub(super) fn agrees(
    stream: &impl Stream,
    cpu: &CpuExecutor,
    kernel: Search,
    graph: &Graph,
    case: &SearchCase,
) {
    // SAFETY: the arguments are of buffers that live until this has run.
    let output = case.launch(stream, graph, |args| unsafe { stream.launch(&kernel, args) });
    for (i, &query) in case.queries.iter().enumerate() {
        let context = || format!("{kernel:?}, {} slots, {query:?} of {case:?}", graph.slots());
        let distance_to = |id| {
            let vectors = graph.vectors();
            with_element!(graph.element(), T => {
                vectors.distance_computer::<T>(vectors.padded(query)).distance_to(id)
            })
        };
        let of = QueryCheck { case, i, warps: kernel.warps, distance_to: &distance_to, context: &context };
        let expected = of.agrees(&output, graph);
        let is_plain =
            case.start_points.is_none() && case.candidates_len == 0 && case.beam_width == case.frontier_len;
        if (of.expansions(), case.max_hops) == (1, TO_THE_END) && is_plain {
            is_of_the_cpu(cpu, graph, query, &expected, case, &context);
        }
    }
}

/// The check of one query of a case.
pub(super) struct QueryCheck<'a> {
    pub(super) case: &'a SearchCase,
    /// The number of the query.
    pub(super) i: usize,
    /// Warps per query.
    pub(super) warps: u32,
    /// The distance of the query to a vertex.
    pub(super) distance_to: &'a dyn Fn(Slot) -> f32,
    pub(super) context: &'a dyn Fn() -> String,
}

impl QueryCheck<'_> {
    /// Vertices visited per step: a team visits one at a time.
    fn expansions(&self) -> u32 {
        if self.warps > 1 { 1 } else { self.case.expansions }
    }

    /// Compares the output with the definition, and returns the latter.
    pub(super) fn agrees(&self, output: &SearchOutput, graph: &Graph) -> ReferenceSearch {
        let &Self { case, i, distance_to, context, .. } = self;
        let expected = search(graph, distance_to, case.start_points_of(graph, i), case, self.expansions());
        let candidates_len = case.candidates_len as usize;
        let (candidates, entries) = expected.nearest.split_at(expected.nearest.len().min(candidates_len));
        let mut slots: Vec<u32> = candidates.iter().map(|near| near.slot().get()).collect();
        slots.resize(candidates_len, NO_SLOT);
        if case.form != DistanceForm::HalfSquaredL2 {
            assert_eq!(output.candidates[i * candidates_len..][..candidates_len], slots, "{}", context());
        }
        let is_allowed = |near: &&Neighbor| case.allows(i, near.slot());
        let k = case.k as usize;
        let nearest: Vec<Neighbor> = entries.iter().filter(is_allowed).take(k).copied().collect();
        let (found, estimated_hits) = output.results[i * k..][..k].split_at(nearest.len());
        are_near(found, &nearest, distance_to, case.form, context);
        let behind: Vec<DeviceHit> =
            (0..estimated_hits.len()).map(|place| case.estimated_hit(i, place)).collect();
        assert_eq!(estimated_hits, behind, "behind {found:?}, {}", context());
        let [hops, distances] = output.costs[i];
        assert_eq!(hops as usize, expected.expanded.len(), "hops, {}", context());
        if let Some(recorded) = &output.expanded {
            let recorded = &recorded[i * case.max_hops as usize..][..expected.expanded.len()];
            let expanded: Vec<u64> = expected.expanded.iter().map(|vertex| vertex.to_bits()).collect();
            assert_eq!(recorded, expanded, "what was expanded, {}", context());
        }
        // The visited cache is lossy. Without it, distances are computed as often as vertices are encountered.
        let least = if case.visited_buckets == 0 { expected.met } else { expected.distinct };
        assert!((least..=expected.met).contains(&distances), "{distances} distances, {}", context());
        expected
    }
}

/// Whether the results are `nearest`. Distances between vectors of unit length may differ slightly, and vertices of
/// nearly equal distance may replace each other.
fn are_near(
    found: &[DeviceHit],
    nearest: &[Neighbor],
    distance_to: &dyn Fn(Slot) -> f32,
    form: DistanceForm,
    context: &dyn Fn() -> String,
) {
    let mut slots = Vec::new();
    for (answer, near) in found.iter().zip(nearest) {
        let (distance, slot) = (answer.distance, Slot::new(answer.slot));
        assert_eq!(answer.key, graphs::key(slot), "{answer:?}, {}", context());
        if form == DistanceForm::HalfSquaredL2 {
            let is_near = |other: f32| (distance - other).abs() <= UNIT_TOLERANCE;
            let is_both = is_near(near.distance()) && is_near(distance_to(slot));
            assert!(is_both, "{answer:?} for {near:?}, {}", context());
        } else {
            let is_same = (distance, slot) == (near.distance(), near.slot());
            assert!(is_same, "{found:?} for {nearest:?}, {}", context());
        }
        slots.push(slot);
    }
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), found.len(), "an answer twice: {found:?}, {}", context());
}

/// Whether the CPU executor has the results and the cost of the definition.
fn is_of_the_cpu(
    cpu: &CpuExecutor,
    graph: &Graph,
    query: Slot,
    expected: &ReferenceSearch,
    case: &SearchCase,
    context: &dyn Fn() -> String,
) {
    let width = case.beam_width as usize;
    let mut matches = Matches::new(1, width).unwrap();
    let params = SearchParams::new(width).beam_width(width);
    let report = with_element!(graph.element(), T => {
        cpu.search_batch(graph, &[graph.vectors().view(query)], params, matches.as_mut()).unwrap()
    });
    let hits: Vec<Hit> = matches.hits(0).collect();
    if case.form == DistanceForm::HalfSquaredL2 {
        assert_eq!(hits.len(), expected.nearest.len(), "{}", context());
    } else {
        let nearest = expected.nearest.iter();
        let nearest = nearest.map(|near| Hit { key: graphs::key(near.slot()), distance: near.distance() });
        assert_eq!(hits, nearest.collect::<Vec<_>>(), "{}", context());
    }
    let work = (report.cost.hops, report.cost.distances);
    assert_eq!(work, (expected.expanded.len() as u64, expected.distinct.into()), "{}", context());
}
