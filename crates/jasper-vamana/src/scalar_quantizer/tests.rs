//! Bytes keep the order of neighbors, or the trial refuses them.

use std::ops::ControlFlow;

use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, MatrixView, no_progress};

use super::*;
use crate::{CpuExecutor, Ingested, bulk_build, ingest, link_on_host};

#[test]
fn bytes_are_the_nearest() {
    for x in [-300.0, -127.0, -126.51, -1.5, -0.5, -0.4, 0.0, 0.6, 1.5, 2.5, 126.6, 1e9] {
        assert_eq!(f32::from(nearest_byte(x)), x.round_ties_even().clamp(-LARGEST, LARGEST), "{x}");
    }
}

#[test]
fn sq4_values_are_the_nearest() {
    for (byte, shift) in (i8::MIN..=i8::MAX).flat_map(|byte| (1..=4).map(move |shift| (byte, shift))) {
        let steps = f64::from(byte) / f64::from(1 << shift);
        // Halves are rounded up.
        let nearest = (steps + 0.5).floor().clamp(-8.0, 7.0);
        assert_eq!(f64::from(ScalarQuantizer::sq4_value(byte, shift)), nearest, "{byte}, {shift}");
    }
}

/// Vectors of this dimension, as a bulk build has them before it links them.
fn ingested(
    executor: &CpuExecutor,
    values: &[f32],
    dimension: usize,
    metric: Metric,
    params: BuildParams,
) -> Ingested {
    let vectors = MatrixView::new(values, dimension).unwrap().into();
    ingest(executor, vectors, None, metric, params, &mut no_progress).unwrap()
}

/// The graph of such vectors, without edges.
fn graph_of(executor: &CpuExecutor, values: &[f32], dimension: usize, metric: Metric) -> Graph {
    ingested(executor, values, dimension, metric, BuildParams::default()).graph
}

fn by_trial(executor: &CpuExecutor, graph: &Graph) -> Option<ScalarQuantizer> {
    ScalarQuantizer::by_trial(graph, executor.pool(), &mut no_progress).unwrap()
}

/// Clusters, and their quantizer; the first `wide` dimensions are wider, yet not so much that they are rotated.
fn by_trial_of(dimension: usize, wide: usize) -> (Graph, ScalarQuantizer) {
    let mut values: Vec<f32> = Clusters::new(dimension, 3).rows(400, 0);
    values.chunks_mut(dimension).for_each(|row| row[..wide].iter_mut().for_each(|x| *x *= 1.9));
    let cpu = CpuExecutor::new(2).unwrap();
    let graph = graph_of(&cpu, &values, dimension, Metric::L2);
    let quantizer = by_trial(&cpu, &graph);
    (graph, quantizer.unwrap())
}

const LONG: usize = ScalarQuantizer::MIN_SQ4_DIMENSION;

#[test]
fn the_step_of_sq4_is_finer_where_few_coordinates_fill_the_range() {
    let shift = |dimension, wide| by_trial_of(dimension, wide).1.sq4_shift();
    let (of_all, of_one) = (shift(LONG, 0).unwrap(), shift(LONG, 1).unwrap());
    assert!(of_one < of_all, "{of_one}, {of_all}");
    assert_eq!(shift(LONG - 1, 0), None, "rows are too short");
}

#[test]
fn a_quantizer_does_not_suit_what_sq4_clamps() {
    let (graph, quantizer) = by_trial_of(LONG, 1);
    let slots: Vec<_> = graph.keys().vertices().collect();
    assert!(quantizer.suits(&graph, &slots));
    // All coordinates of these are as far out as one of those.
    let (wide, _) = by_trial_of(LONG, LONG);
    assert!(ScalarQuantizer { sq4: None, ..quantizer.clone() }.suits(&wide, &slots));
    assert!(!quantizer.suits(&wide, &slots));
}

#[test]
fn few_large_coordinates_are_spread_by_a_rotation() {
    const DIMENSION: usize = 100;
    let cpu = CpuExecutor::new(2).unwrap();
    let mut values: Vec<f32> = Clusters::new(DIMENSION, 3).rows(1000, 0);
    let even = values.clone();
    values.chunks_mut(DIMENSION).for_each(|row| row[..3].iter_mut().for_each(|x| *x *= 300.0));
    for (metric, values) in Metric::ALL.into_iter().flat_map(|metric| [(metric, &even), (metric, &values)]) {
        let mut graph = graph_of(&cpu, values, DIMENSION, metric);
        let quantizer = by_trial(&cpu, &graph).unwrap();
        let is_even = *values == even;
        assert_eq!(quantizer.rotation().is_none(), is_even, "{metric}");
        assert_eq!(quantizer.dimension(), if is_even { DIMENSION } else { 128 });
        let plain = ScalarQuantizer { rotation: None, scale: 1.0, ..quantizer.clone() };
        let slots: Vec<Slot> = graph.keys().vertices().collect();
        let largest = plain.largest_difference(&graph, &slots, usize::MAX);
        assert!(is_even || quantizer.scale() * largest > ROTATION_GAIN * LARGEST, "steps are finer");
        cpu.pool().install(|| quantizer.quantize_graph(&mut graph)).unwrap();
        let sq8 = graph.vectors().sq8().unwrap();
        let slots = [5, 900].map(Slot::from_index);
        let bytes = quantizer.quantize_slots(&graph, &slots);
        assert!(slots.iter().flat_map(|&slot| sq8.padded::<i8>(slot)).eq(&bytes));
        // Distances are kept, in steps.
        let exact =
            graph.vectors().distance_computer_from::<f32>(Origin::Center, slots[0]).distance_to(slots[1]);
        let by_bytes = sq8.distance_computer_from::<i8>(Origin::Center, slots[0]).distance_to(slots[1]);
        let factor = if metric == Metric::Cosine { 2.0 } else { 1.0 };
        let error = by_bytes / quantizer.scale().powi(2) / factor - exact;
        let relative = error / exact.abs().max(graph.vectors().alpha_offset(Origin::Center));
        assert!(relative.abs() < 0.02, "{metric}: {relative}");
    }
}

/// Edges that two graphs share, of those of the first.
fn shared(a: &Graph, b: &Graph) -> f64 {
    let rows =
        || a.keys().vertices().map(|slot| (a.adjacency().neighbors(slot), b.adjacency().neighbors(slot)));
    let same: usize = rows().map(|(a, b)| a.iter().filter(|id| b.contains(id)).count()).sum();
    same as f64 / rows().map(|(a, _)| a.len()).sum::<usize>() as f64
}

#[test]
fn sq8_links_are_nearly_those_by_rows() {
    let executor = CpuExecutor::new(2).unwrap();
    // Far from the origin, and no dimension like another.
    let mut rows: Vec<f32> = Clusters::new(24, 3).rows(3000, 0);
    rows.iter_mut().enumerate().for_each(|(i, x)| *x = *x * (1.0 + (i % 24) as f32) + 100.0);
    let view = MatrixView::new(&rows, 24).unwrap();
    let params = BuildParams::builder().max_degree(16).build_beam_width(32).build().unwrap();
    for metric in Metric::ALL {
        let exact = bulk_build(&executor, view, None, metric, params, &mut no_progress).unwrap().0;
        let ingested = ingested(&executor, &rows, 24, metric, params);
        let quantizer = by_trial(&executor, &ingested.graph);
        assert!(quantizer.is_some(), "{metric}: bytes tell these vectors apart");
        let linked = link_on_host(&executor, ingested, quantizer.as_ref(), None, &mut no_progress).unwrap();
        let (sq8, _) = linked.finish();
        assert!(sq8.check_structure().is_sound() && sq8.vectors().sq8().is_none());
        let shared = shared(&exact, &sq8);
        assert!(shared > 0.8, "{metric}: {shared} of the edges");
    }
}

#[test]
fn vectors_that_bytes_do_not_tell_apart_are_not_quantized() {
    let executor = CpuExecutor::new(2).unwrap();
    let clusters: Vec<f32> = Clusters::new(24, 3).rows(1500, 0);
    // Clusters so narrow that the vectors of one are rounded to nearly the same bytes.
    let narrow: Vec<f32> = (0..1500 * 24)
        .map(|i| clusters[i % (10 * 24)] + clusters[(i * 7 + i / 24) % clusters.len()] * 3e-3)
        .collect();
    for (rows, is_bytes) in [(&clusters, true), (&narrow, false)] {
        for metric in [Metric::L2, Metric::InnerProduct] {
            let graph = graph_of(&executor, rows, 24, metric);
            assert_eq!(by_trial(&executor, &graph).is_some(), is_bytes, "{metric}");
        }
    }
}

/// Bytes do not suit a part of the vectors, which take turns with the others or are together.
#[test]
fn a_tight_cluster_among_other_vectors_is_not_quantized() {
    let executor = CpuExecutor::new(2).unwrap();
    let wide: Vec<f32> = Clusters::new(24, 3).rows(2048, 0);
    let refuses = |is_tight: &dyn Fn(usize) -> bool, width: f32| {
        let value = |i: usize| wide[i % 24] + wide[i] * width;
        let rows: Vec<f32> =
            (0..wide.len()).map(|i| if is_tight(i / 24) { value(i) } else { wide[i] }).collect();
        by_trial(&executor, &graph_of(&executor, &rows, 24, Metric::L2)).is_none()
    };
    assert!(!refuses(&|_| false, 0.0));
    assert!(refuses(&|row| row < 100, 1e-3));
    for (every, width) in [(2, 1e-3), (3, 1e-5), (20, 1e-4)] {
        assert!(refuses(&|row| row % every == 1, width), "one in {every} of width {width}");
    }
}

#[test]
fn the_trial_finds_the_nearest_by_definition() {
    let executor = CpuExecutor::new(2).unwrap();
    let rows: Vec<f32> = Clusters::new(5, 8).rows(700, 0);
    for metric in Metric::ALL {
        let graph = graph_of(&executor, &rows, 5, metric);
        let quantizer = ScalarQuantizer::new(&graph);
        let slots: Vec<Slot> = graph.keys().vertices().collect();
        let sample = [3, 400, 699].map(Slot::from_index);
        let bytes = quantizer.quantize_slots(&graph, &slots);
        let vector = |slot: Slot| &bytes[slot.index() * 16..][..16];
        let pool = executor.pool();
        let nearest =
            |pass| quantizer.nearest_in_passes(&graph, sample.into(), pass, pool, &mut no_progress).unwrap();
        assert_eq!(nearest(300), nearest(700));
        for (query, found) in sample.iter().zip(nearest(300)) {
            let distance = |slot: Slot| match metric {
                Metric::InnerProduct => -(i8::distance_fns().dot)(vector(*query), vector(slot)),
                _ => (i8::distance_fns().squared_l2)(vector(*query), vector(slot)),
            };
            let others = slots.iter().filter(|slot| *slot != query);
            let mut expected: Vec<_> = others.map(|&slot| Neighbor::new(distance(slot), slot)).collect();
            expected.sort_unstable();
            let expected = expected.iter().map(|near| near.slot());
            assert!(found.into_iter().eq(expected.take(TRIAL_CANDIDATES)));
        }
    }
}

#[test]
fn a_trial_is_cancelled_between_its_passes() {
    let executor = CpuExecutor::new(2).unwrap();
    let rows: Vec<f32> = Clusters::new(5, 8).rows(700, 0);
    let graph = graph_of(&executor, &rows, 5, Metric::L2);
    let quantizer = ScalarQuantizer::new(&graph);
    for last in [0, 300, 600, 700] {
        let mut stop = |progress: Progress| match progress.done == last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let sample = vec![Slot::from_index(3)];
        let found = quantizer.nearest_in_passes(&graph, sample, 300, executor.pool(), &mut stop);
        assert_eq!(found, Err(Cancelled { stage: Stage::Quantizing, done: last, total: 700 }));
    }
}

#[test]
fn vectors_of_another_range_do_not_suit() {
    let executor = CpuExecutor::new(2).unwrap();
    let rows: Vec<f32> = Clusters::new(8, 8).rows(500, 0);
    let far: Vec<f32> = rows[..80].iter().enumerate().map(|(i, x)| x + f32::from(i % 8 == 3) * 1e3).collect();
    for metric in [Metric::L2, Metric::InnerProduct] {
        let mut graph = graph_of(&executor, &[&rows[..], &far].concat(), 8, metric);
        let before = graph_of(&executor, &rows, 8, metric);
        // New vectors leave the center where it is.
        let center = before.vectors().center_coordinates();
        graph.set_center(center, |chunks| chunks.into_iter().for_each(VectorChunk::update_terms));
        let quantizer = by_trial(&executor, &before).unwrap();
        let slots: Vec<Slot> = graph.keys().vertices().collect();
        assert!(quantizer.suits(&graph, &slots[..500]) && quantizer.suits(&graph, &[]), "{metric}");
        assert!(!quantizer.suits(&graph, &slots[500..]), "{metric}");
    }
}

#[test]
fn a_tight_cluster_of_new_vectors_does_not_suit() {
    let executor = CpuExecutor::new(2).unwrap();
    let wide: Vec<f32> = Clusters::new(24, 3).rows(1000, 0);
    let tight: Vec<f32> = (0..200 * 24).map(|i| wide[i % 24] + wide[i] * 1e-3).collect();
    let graph = graph_of(&executor, &[&wide[..], &tight].concat(), 24, Metric::L2);
    let quantizer = by_trial(&executor, &graph_of(&executor, &wide, 24, Metric::L2)).unwrap();
    let slots: Vec<Slot> = graph.keys().vertices().collect();
    assert!(quantizer.suits(&graph, &slots[..1000]));
    assert!(!quantizer.suits(&graph, &slots[700..]));
}
