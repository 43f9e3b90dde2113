//! Compares beam search with a reference, and the reference with the CPU executor.
//!
//! Coordinates are small integers, so that sums are exact in any order: kernels, teams, batches and visited caches of
//! all sizes must give the same results, with distances equal bit for bit. Vectors of unit length are the exception.

mod case;
mod compare;
mod graphs;
mod quantized;
mod reference;
mod scans;
mod sq4;

use jasper_core::{BitSet, Element, ElementKind, Metric, Slot, f16, synthetic};
use jasper_graph::Graph;
use jasper_vamana::CpuExecutor;
use rand::{Rng, RngExt};

use crate::Stream;
use crate::graph::DistanceForm;
use crate::graph::DistanceOpKind;
use crate::search::{MAX_BEAM_WIDTH, Search};
use case::{Allowed, SearchCase, TO_THE_END};
use compare::agrees;
pub use quantized::{
    searches_by_estimates_agree_with_the_cpu, wide_searches_by_estimates_agree_with_the_cpu,
};

pub use scans::{scans_agree_with_a_search_for_each_query, scans_of_lists_agree_with_one_after_another};
pub use sq4::searches_by_sq4_agree_with_those_by_sq8;

/// The forms that a kernel supports.
fn forms(kernel: Search) -> &'static [DistanceForm] {
    let is_float = matches!(kernel.kind.element, ElementKind::F32 | ElementKind::F16);
    match (kernel.kind.op, is_float) {
        (DistanceOpKind::SquaredL2, true) => &[DistanceForm::SquaredL2, DistanceForm::HalfSquaredL2],
        (DistanceOpKind::SquaredL2, false) => &[DistanceForm::SquaredL2],
        (DistanceOpKind::Dot, true) => &[DistanceForm::NegatedDot],
        (DistanceOpKind::Dot, false) => &[DistanceForm::NegatedDot, DistanceForm::Cosine],
    }
}

/// The metric of graphs whose distances have a form.
fn metric(form: DistanceForm) -> Metric {
    match form {
        DistanceForm::SquaredL2 => Metric::L2,
        DistanceForm::HalfSquaredL2 | DistanceForm::Cosine => Metric::Cosine,
        DistanceForm::NegatedDot | DistanceForm::NegatedDotFromOrigin => Metric::InnerProduct,
    }
}

/// A graph of `slots` that `kernel` can search.
fn graph<T: Element>(rng: &mut impl Rng, kernel: Search, form: DistanceForm, slots: usize) -> Graph {
    // The last unit may be a part of one.
    let bytes = kernel.shape.row_bytes();
    let dimension = bytes as usize / size_of::<T>() - rng.random_range(0..16 / size_of::<T>());
    graphs::random::<T>(rng, metric(form), dimension, slots)
}

/// Bytes per row: for tiles of each width, with one to four units per lane and more than are in flight, and with and
/// without lanes that have a unit less.
const ROW_BYTES: [u32; 8] = [16, 80, 128, 208, 528, 1600, 2416, 8704];

/// Calls `$each::<T>($args)` with the element of `$kernel`.
macro_rules! with_element {
    ($kernel:expr, $each:ident($($args:expr),*)) => {
        match $kernel.kind.element {
            ElementKind::F32 => $each::<f32>($($args),*),
            ElementKind::F16 => $each::<f16>($($args),*),
            ElementKind::U8 => $each::<u8>($($args),*),
            ElementKind::I8 => $each::<i8>($($args),*),
        }
    };
}

/// Every kernel, with every form and rows of several lengths, over random graphs: few results and many, tombstones
/// and filters, single warps and teams.
///
/// # Panics
/// Panics if a result differs from the definition, the definition differs from the CPU executor, or the stream fails.
pub fn searches_agree_with_the_cpu(stream: &impl Stream, seed: u64) {
    fn random<T: Element>(
        stream: &impl Stream,
        cpu: &CpuExecutor,
        kernel: Search,
        form: DistanceForm,
        seed: u64,
    ) {
        let mut rng = synthetic::rng(seed);
        let max_slots =
            if form == DistanceForm::HalfSquaredL2 { kernel.variant.max_frontier_len().min(60) } else { 60 };
        let slots = rng.random_range(1..=max_slots as usize);
        let graph = graph::<T>(&mut rng, kernel, form, slots);
        let case = SearchCase::random(&mut rng, kernel.variant.max_frontier_len(), form, graph.slots());
        agrees(stream, cpu, kernel, &graph, &case);
    }
    let cpu = CpuExecutor::new(1).unwrap();
    // A driver compiles each of them. Every third includes every length and every kernel.
    let kernels = ROW_BYTES.into_iter().flat_map(Search::all).step_by(3);
    let asked = kernels.flat_map(|kernel| forms(kernel).iter().map(move |form| (kernel, *form)));
    for ((kernel, form), seed) in asked.zip(seed << 32..) {
        with_element!(kernel, random(stream, &cpu, kernel, form, seed));
    }
}

/// Beams of hundreds of entries, up to the widest.
///
/// # Panics
/// The same as for [`searches_agree_with_the_cpu`].
pub fn wide_searches_agree_with_the_cpu(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (frontier_len, beam_width, warps) in [
        (129, 129, 1),
        (200, 200, 8),
        (200, 33, 8),
        (333, 333, 1),
        (333, 20, 1),
        (MAX_BEAM_WIDTH, MAX_BEAM_WIDTH, 1),
    ] {
        let kernel = Search::for_rows(ElementKind::U8, DistanceOpKind::SquaredL2, 16, frontier_len, warps);
        let graph = graph::<u8>(&mut rng, kernel, DistanceForm::SquaredL2, frontier_len as usize + 50);
        let random = SearchCase::random(
            &mut rng,
            kernel.variant.max_frontier_len(),
            DistanceForm::SquaredL2,
            graph.slots(),
        );
        let queries = random.queries[..1].to_vec();
        let start_points = random.start_points.as_ref().map(|of_queries| of_queries[..1].to_vec());
        let case = SearchCase {
            start_points,
            beam_width,
            frontier_len,
            k: frontier_len,
            max_hops: TO_THE_END,
            queries,
            candidates_len: 0,
            ..random
        };
        agrees(stream, &cpu, kernel, &graph, &case);
    }
}

/// More queries than a device takes at once, one by one and together.
///
/// # Panics
/// The same as for [`searches_agree_with_the_cpu`].
pub fn searches_do_not_depend_on_the_batch(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for warps in [1, 8] {
        let kernel = Search::for_rows(ElementKind::I8, DistanceOpKind::SquaredL2, 16, 8, warps);
        let graph = graph::<i8>(&mut rng, kernel, DistanceForm::SquaredL2, 12);
        let queries = (0..40 * stream.multiprocessors() as usize).map(|i| Slot::from_index(i % 12));
        let case = SearchCase {
            queries: queries.collect(),
            start_points: None,
            ..SearchCase::random(&mut rng, kernel.variant.max_frontier_len(), DistanceForm::SquaredL2, 12)
        };
        agrees(stream, &cpu, kernel, &graph, &case);
        for query in &case.queries[..12] {
            agrees(stream, &cpu, kernel, &graph, &SearchCase { queries: vec![*query], ..case.clone() });
        }
    }
}

/// Every vertex is a start point, so that there are several chunks of them; without expansions, this is a scan.
///
/// # Panics
/// The same as for [`searches_agree_with_the_cpu`].
pub fn searches_begin_at_all_start_points(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (warps, max_hops) in [(1, 0), (8, 0), (1, TO_THE_END), (8, TO_THE_END)] {
        let kernel = Search::for_rows(ElementKind::F16, DistanceOpKind::Dot, 16, 100, warps);
        let mut graph = graph::<f16>(&mut rng, kernel, DistanceForm::NegatedDot, 130);
        let all = graph.keys().vertices().collect();
        graph.adjacency_mut().set_start_points(all);
        let case =
            SearchCase::random(&mut rng, kernel.variant.max_frontier_len(), DistanceForm::NegatedDot, 130);
        agrees(
            stream,
            &cpu,
            kernel,
            &graph,
            &SearchCase { max_hops, expansions: 2, start_points: None, ..case },
        );
    }
}

/// Graphs without results: without start points, without edges, or without allowed slots; and batches without queries.
///
/// # Panics
/// The same as for [`searches_agree_with_the_cpu`].
pub fn searches_find_nothing_where_nothing_is(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let cpu = CpuExecutor::new(1).unwrap();
    for (frontier_len, warps) in [(10, 1), (10, 8), (MAX_BEAM_WIDTH, 1), (MAX_BEAM_WIDTH, 8)] {
        let kernel = Search::for_rows(ElementKind::F32, DistanceOpKind::SquaredL2, 16, frontier_len, warps);
        let mut graph = graph::<f32>(&mut rng, kernel, DistanceForm::SquaredL2, 9);
        let case = SearchCase {
            start_points: None,
            ..SearchCase::random(&mut rng, kernel.variant.max_frontier_len(), DistanceForm::SquaredL2, 9)
        };
        agrees(stream, &cpu, kernel, &graph, &SearchCase { queries: Vec::new(), ..case.clone() });
        let nothing = Allowed::OfAll(BitSet::new());
        agrees(stream, &cpu, kernel, &graph, &SearchCase { allowed: Some(nothing), ..case.clone() });
        for slot in graph.keys().vertices().collect::<Vec<_>>() {
            graph.adjacency_mut().set_neighbors(slot, &[]);
        }
        agrees(stream, &cpu, kernel, &graph, &case);
        graph.adjacency_mut().set_start_points(Vec::new());
        agrees(stream, &cpu, kernel, &graph, &case);
    }
}
