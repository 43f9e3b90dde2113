//! Scans of listed slots, as a product and in parts, against a scan by one search per query.

use jasper_core::{Element, Metric, Slot, f16, synthetic};
use jasper_graph::Graph;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::case::{SearchCase, SearchOutput};
use super::graphs;
use crate::graph::DistanceForm;
use crate::knn::{MAX_K, ProductScratch, nearest_slots};
use crate::search::{Search, SearchArgs, scan_in_parts};
use crate::{Buffer, Stream};

/// Slots, queries, k and a bound of scratch memory: fewer slots and queries than a tile and more, fewer slots than k,
/// several chunks of queries and of slots, and several segments.
const CASES: [(usize, usize, u32, usize); 6] = [
    (1, 1, 1, 1 << 20),
    (90, 3, 10, 1 << 20),
    (60, 2, MAX_K as u32, 1 << 20),
    (150, 130, 3, 0),
    (300, 5, 33, 0),
    (520, 2, 20, 1 << 20),
];

/// All elements with all forms, over a few shapes: results are the same to the bit.
///
/// # Panics
/// If they are not, or the stream fails.
pub fn scans_agree_with_a_search_for_each_query(stream: &impl Stream, seed: u64) {
    for (number, seed) in (0..CASES.len()).zip(seed << 32..) {
        for (i, metric) in Metric::ALL.into_iter().enumerate() {
            // A large case is for one metric of each element.
            let is_large = number >= 3;
            let runs = |element: usize| !is_large || (number + element + seed as usize) % 3 == i;
            if runs(0) {
                agrees::<f32>(stream, metric, number, seed);
            }
            if runs(1) {
                agrees::<f16>(stream, metric, number, seed);
            }
            if runs(2) {
                agrees::<u8>(stream, metric, number, seed);
            }
            if runs(3) {
                agrees::<i8>(stream, metric, number, seed);
            }
        }
    }
}

fn agrees<T: Element>(stream: &impl Stream, metric: Metric, number: usize, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let (slots_len, queries_len, k, scratch_bytes) = CASES[number];
    // Vectors on few lines would be at equal angles, many more than k.
    let dimension = rng.random_range(6..40);
    let mut graph = graphs::random::<T>(&mut rng, metric, dimension, slots_len + 50);
    let mut slots: Vec<Slot> = graph.keys().vertices().collect();
    slots.shuffle(&mut rng);
    slots.truncate(slots_len);
    slots.sort_unstable();
    graph.adjacency_mut().set_start_points(slots);
    let case = SearchCase {
        form: DistanceForm::new(metric, T::EXACT_SUMS),
        queries: (0..queries_len).map(|_| Slot::from_index(rng.random_range(0..slots_len))).collect(),
        names_rows: false,
        allowed: None,
        changed: None,
        tested_slots: u32::MAX,
        k,
        beam_width: k,
        frontier_len: k,
        max_hops: 0,
        expansions: 2,
        visited_buckets: 0,
        candidates_len: 0,
        has_estimated_hits: false,
        start_points: None,
        has_lists: false,
    };
    let kernel = |args: &SearchArgs, warps| {
        Search::for_rows(T::KIND, case.form.op(), args.graph.shape.row_bytes(), k, warps)
    };
    // SAFETY: the arguments are of buffers that live until this has run, here and below; start points are distinct.
    let expected = case.launch(stream, &graph, |args| unsafe { stream.launch(&kernel(&args, 1), args) });
    let name = format!("{} {metric}, dimension {dimension}, case {number}", T::KIND);
    let mut scratch = ProductScratch::new(stream, scratch_bytes).unwrap();
    for warps in [1, 8].into_iter().filter(|warps| *warps == 8 || number < 3) {
        let found = case.launch(stream, &graph, |args| {
            // SAFETY: as above, and ascending.
            unsafe { nearest_slots(stream, args, T::KIND, warps, &mut scratch) }
        });
        is_same(&found, &expected, &name);
        for parts in [2, 7] {
            if parts as usize <= slots_len {
                let found = case.launch(stream, &graph, |args| {
                    let mut candidates = stream.allocate(parts as usize * k as usize * queries_len)?;
                    // SAFETY: as above, and there is room for the candidates.
                    unsafe { scan_in_parts(stream, args, parts, candidates.output(), T::KIND, warps) }
                });
                is_same(&found, &expected, &format!("{name}, {parts} parts"));
            }
        }
    }
}

/// Scans of a list for each query, some of them equal and one empty, in parts and not, against one after another.
///
/// # Panics
/// If they differ, or the stream fails.
pub fn scans_of_lists_agree_with_one_after_another(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let graph = graphs::random::<u8>(&mut rng, Metric::L2, 20, 300);
    let mut list = |len: usize| {
        let mut slots: Vec<_> = (0..graph.slots()).map(|slot| Some(Slot::from_index(slot))).collect();
        slots.shuffle(&mut rng);
        slots.truncate(len);
        slots
    };
    let (long, short) = (list(290), list(31));
    let lists = vec![long.clone(), list(0), short, long, list(3), list(100)];
    let k = 17;
    let case = SearchCase {
        form: DistanceForm::SquaredL2,
        queries: (0..lists.len()).map(|i| Slot::from_index(i * 17)).collect(),
        names_rows: false,
        allowed: None,
        changed: None,
        tested_slots: u32::MAX,
        k,
        beam_width: k,
        frontier_len: k,
        max_hops: 0,
        expansions: 2,
        visited_buckets: 0,
        candidates_len: 0,
        has_estimated_hits: false,
        start_points: Some(lists),
        has_lists: true,
    };
    let plain = case;
    for case in [plain.clone(), plain.tested(&mut rng, graph.slots())] {
        lists_agree(stream, &graph, &case);
    }
}

fn lists_agree(stream: &impl Stream, graph: &Graph, case: &SearchCase) {
    let k = case.k;
    let kernel = |args: &SearchArgs, warps| {
        Search::for_rows(u8::KIND, case.form.op(), args.graph.shape.row_bytes(), k, warps)
    };
    let whole = |case: &SearchCase, warps| {
        case.launch(stream, graph, |args| {
            let kernel = kernel(&args, warps);
            // SAFETY: the arguments are of buffers that live until this has run.
            unsafe { stream.launch(&kernel, args) }
        })
    };
    let one_by_one = (0..case.queries.len()).flat_map(|i| whole(&case.of_query(i), 1).results);
    let expected: Vec<_> = one_by_one.collect();
    for warps in [1, 8] {
        assert_eq!(whole(case, warps).results, expected, "{warps} warps");
        for parts in [2, 5] {
            let found = case.launch(stream, graph, |args| {
                let len = parts as usize * k as usize * case.queries.len();
                let mut candidates = stream.allocate(len)?;
                // SAFETY: as above; there is room for the candidates.
                unsafe { scan_in_parts(stream, args, parts, candidates.output(), u8::KIND, warps) }
            });
            assert!(found.results == expected, "{warps} warps, {parts} parts");
        }
    }
}

fn is_same(found: &SearchOutput, expected: &SearchOutput, name: &str) {
    assert_eq!(found.results, expected.results, "{name}");
    for (found, expected) in found.costs.iter().zip(&expected.costs) {
        assert!(found[0] == 0 && found[1] > expected[1], "{name}: {found:?} after {expected:?}");
    }
}
