//! Compares whole builds in the emulator with the CPU executor.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use cuda_std::emulator::Emulator;
use gpu_kernels::Stream as _;
use gpu_kernels::emulated::EmulatedStream;
use jasper_core::synthetic::{Clusters, rng};
use jasper_core::{
    BuildParams, Element, ElementKind, MatrixView, Metric, Progress, ProgressFn, Slot, Stage, f16,
    no_progress,
};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildSpec, BulkLinker, Checkpoints, CpuExecutor, Ingested, InsertReport, ScalarQuantizer, UpdateError,
    bulk_build, ingest, largest_batch, link_on_host,
};
use rand::RngExt;

use super::{DeviceExecutor, plan_build};
use crate::graph::{Sq8Rows, sq4_row_bytes};
use crate::{DeviceGraph, HostAndDeviceGraph, MemorySpace};

const DIMENSION: usize = 9;

/// Rows of whole numbers, whose squares and products are exact in every element; some of them twice.
fn whole<T: Element>(n: usize, seed: u64) -> Vec<T> {
    let mut random = rng(seed);
    let mut rows: Vec<T> =
        (0..n * DIMENSION).map(|_| T::from_f32(random.random_range(1..30) as f32)).collect();
    rows.copy_within(..5 * DIMENSION, 20 * DIMENSION);
    rows
}

fn params() -> BuildParams {
    params_of(7)
}

fn params_of(max_degree: usize) -> BuildParams {
    let builder = BuildParams::builder().max_degree(max_degree).build_beam_width(14);
    builder.max_batch_share(0.3).build().unwrap()
}

/// The graph that an emulated device links.
fn built<T: Element>(rows: &MatrixView<'_, T>, metric: Metric, seed: u64) -> (Graph, InsertReport) {
    built_with(rows, metric, params(), seed, None, None, &mut no_progress).unwrap()
}

/// [`built`] with checkpoints, and a progress closure that may cancel; by SQ8 vectors, if there is a number of bytes that
/// SQ4 vectors may take.
fn built_with<T: Element>(
    rows: &MatrixView<'_, T>,
    metric: Metric,
    params: BuildParams,
    seed: u64,
    room_for_sq4: Option<u64>,
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph, InsertReport), UpdateError> {
    let cpu = CpuExecutor::new(2).unwrap();
    let Ingested { mut graph, order } = ingest(&cpu, rows.into(), None, metric, params, progress)?;
    let stream = EmulatedStream::new(Emulator::new(seed).threads(2));
    let quantized = room_for_sq4.map(|room| {
        let quantizer = ScalarQuantizer::new(&graph);
        let rows = Sq8Rows::upload(&stream, &graph, &quantizer).unwrap();
        let quantizer = rows.trial(&stream, cpu.pool(), &graph, quantizer).unwrap().unwrap();
        let rows = rows.with_sq4(&stream, &quantizer, room).unwrap();
        (quantizer, rows)
    });
    let (quantizer, quantized) = quantized.unzip();
    let linker = BulkLinker::new(&mut graph, &order, quantizer.as_ref(), checkpoints)?;
    let copy = match quantized {
        Some(rows) => DeviceGraph::with_sq8(&stream, &graph, rows).unwrap(),
        None => DeviceGraph::upload(&stream, &graph, MemorySpace::Device).unwrap(),
    };
    let executor = DeviceExecutor::new(stream.clone(), &graph, cpu.into());
    Ok(linker.run(&executor, HostAndDeviceGraph::new(graph, copy), progress)?.finish())
}

#[test]
fn rotated_bytes_are_those_of_the_host() {
    const DIMENSION: usize = 75;
    let mut values: Vec<f16> = Clusters::new(DIMENSION, 3).rows(300, 0);
    values.chunks_mut(DIMENSION).for_each(|row| row[7] = f16::from_f32(row[7].to_f32() * 500.0));
    let rows = MatrixView::new(&values, DIMENSION).unwrap();
    let cpu = CpuExecutor::new(2).unwrap();
    for metric in Metric::ALL {
        let graph = ingest(&cpu, rows.into(), None, metric, params(), &mut no_progress).unwrap().graph;
        let quantizer = ScalarQuantizer::new(&graph);
        assert!(quantizer.rotation().is_some());
        let stream = EmulatedStream::new(Emulator::new(5).threads(2));
        let sq8 = Sq8Rows::upload(&stream, &graph, &quantizer).unwrap();
        let slots: Vec<Slot> = graph.keys().vertices().collect();
        assert_eq!(stream.download(sq8.bytes()).unwrap(), quantizer.quantize_slots(&graph, &slots));
    }
}

fn agrees<T: Element>(metric: Metric, n: usize, seed: u64) {
    let rows = whole::<T>(n.max(25), seed);
    let rows = MatrixView::new(&rows[..n * DIMENSION], DIMENSION).unwrap();
    // With room in pruned rows, and without.
    agrees_on(&rows, metric, params_of(11), seed);
    agrees_on(&rows, metric, params(), seed);
}

/// Whether both build the same graph of these rows; the reports of the CPU and the device.
fn same_graph<T: Element>(
    rows: &MatrixView<'_, T>,
    metric: Metric,
    params: BuildParams,
    seed: u64,
) -> [InsertReport; 2] {
    let cpu = CpuExecutor::new(2).unwrap();
    let (expected, report) = bulk_build(&cpu, rows, None, metric, params, &mut no_progress).unwrap();
    let (found, device_report) =
        built_with(rows, metric, params, seed, None, None, &mut no_progress).unwrap();
    let name = format!("{} {metric}, {} rows", T::KIND, rows.len());
    for slot in expected.keys().vertices() {
        assert_eq!(
            found.adjacency().neighbors(slot),
            expected.adjacency().neighbors(slot),
            "row of {}: {name}",
            slot.get()
        );
    }
    assert_eq!(found.adjacency().start_points(), expected.adjacency().start_points(), "{name}");
    assert_eq!(device_report.cost.hops, report.cost.hops, "{name}");
    assert_eq!(device_report.reconnected, report.reconnected, "{name}");
    [report, device_report]
}

/// Whether both build the same graph of these rows, for about as many distances; how many vertices were reconnected.
fn agrees_on<T: Element>(rows: &MatrixView<'_, T>, metric: Metric, params: BuildParams, seed: u64) -> usize {
    let [report, device_report] = same_graph(rows, metric, params, seed);
    let name = format!("{} {metric}, {} rows", T::KIND, rows.len());
    // On the CPU, several kept neighbors are compared with a candidate at once, which may compute more distances. On a
    // device, deferred candidates are compared as neighbors are kept, but on the CPU only if the row has room for them,
    // which under inner products it often does not, and under other metrics sometimes, in the rows of later passes.
    let (on_device, on_cpu) = (device_report.cost.prune_distances, report.cost.prune_distances);
    println!("{name}: {on_device} distances in prunes, {on_cpu} on the CPU");
    let without_room = if metric == Metric::InnerProduct { on_cpu / 3 } else { on_cpu / 50 };
    assert!(on_device <= on_cpu + without_room, "{name}");
    assert!(device_report.cost.distances >= report.cost.distances, "{name}");
    report.reconnected
}

/// A few short vectors among many. Few of the many have a product with them that is among their greatest.
#[test]
fn what_full_rows_drop_is_repaired_as_on_the_cpu() {
    let mut random = rng(12);
    let rows: Vec<u8> = (0..600 * DIMENSION)
        .map(|i| if i < 60 * DIMENSION { random.random_range(0..32) } else { random.random() })
        .collect();
    let rows = MatrixView::new(&rows, DIMENSION).unwrap();
    let reconnected = agrees_on(&rows, Metric::InnerProduct, params(), 12);
    assert!(reconnected > 10, "{reconnected} vertices are none to speak of");
}

#[test]
fn a_device_builds_the_graph_of_the_cpu() {
    for metric in Metric::ALL {
        agrees::<u8>(metric, 300, 1);
        agrees::<i8>(metric, 150, 2);
    }
    for metric in [Metric::L2, Metric::InnerProduct] {
        agrees::<f32>(metric, 150, 3);
        agrees::<f16>(metric, 150, 4);
    }
}

/// Rows of few edges, of short vectors and of long ones, which more warps prune. The third pass has no candidates but
/// these.
#[test]
fn rows_of_one_to_three_edges_are_those_of_the_cpu() {
    const LONG: usize = 600;
    let mut random = rng(8);
    let values: Vec<u8> = (0..60 * LONG).map(|_| random.random()).collect();
    for max_degree in 1..4 {
        for metric in Metric::ALL {
            for dimension in [DIMENSION, LONG] {
                let rows = MatrixView::new(&values[..60 * dimension], dimension).unwrap();
                same_graph(&rows, metric, params_of(max_degree), 9);
            }
        }
    }
}

/// Distances of bytes are exact on both.
#[test]
fn a_device_links_sq8_vectors_as_the_cpu_does() {
    let cpu = CpuExecutor::new(2).unwrap();
    for (metric, seed) in Metric::ALL.into_iter().zip(20..) {
        let values: Vec<f16> = Clusters::new(DIMENSION, 3).rows(400, seed);
        let rows = MatrixView::new(&values, DIMENSION).unwrap();
        let ingested = ingest(&cpu, rows.into(), None, metric, params(), &mut no_progress).unwrap();
        let quantizer = ScalarQuantizer::by_trial(&ingested.graph, cpu.pool(), &mut no_progress).unwrap();
        assert!(quantizer.is_some(), "{metric}");
        let linked = link_on_host(&cpu, ingested, quantizer.as_ref(), None, &mut no_progress).unwrap();
        let (expected, _) = linked.finish();
        let (found, _) = built_with(&rows, metric, params(), seed, Some(0), None, &mut no_progress).unwrap();
        for slot in expected.keys().vertices() {
            assert_eq!(found.adjacency().neighbors(slot), expected.adjacency().neighbors(slot), "{metric}");
        }
        assert_eq!(found.vectors().padded_bytes(Slot::new(7)), expected.vectors().padded_bytes(Slot::new(7)));
    }
}

/// Searches by SQ4 find most of the candidates that those by SQ8 find, and edges are chosen by the same distances. Without
/// room for SQ4, and for few vertices at a time, SQ8 is searched.
#[test]
fn searches_by_sq4_lead_to_most_of_the_edges() {
    let (dimension, n) = (ScalarQuantizer::MIN_SQ4_DIMENSION, 800);
    let params =
        BuildParams::builder().max_degree(7).build_beam_width(32).max_batch_share(1.0).build().unwrap();
    for (metric, seed) in [Metric::L2, Metric::InnerProduct].into_iter().zip(30..) {
        let values: Vec<f16> = Clusters::new(dimension, 3).rows(n, seed);
        let rows = MatrixView::new(&values, dimension).unwrap();
        let [by_sq8, by_sq4] = [sq4_row_bytes(dimension) as usize * n - 1, usize::MAX].map(|room| {
            let room = Some(room as u64);
            built_with(&rows, metric, params, seed, room, None, &mut no_progress).unwrap().0
        });
        assert!(by_sq4.check_structure().is_sound());
        let edges = |graph: &Graph| -> BTreeSet<(Slot, Slot)> {
            let of = |from: Slot| graph.adjacency().neighbors(from).iter().map(move |&to| (from, to));
            graph.keys().vertices().flat_map(of).collect()
        };
        let (by_sq8, by_sq4) = (edges(&by_sq8), edges(&by_sq4));
        let shared = by_sq8.intersection(&by_sq4).count();
        println!("{metric}: {shared} of {} and {} edges", by_sq8.len(), by_sq4.len());
        assert!(by_sq8 != by_sq4, "{metric}: SQ4 was not searched");
        assert!(shared as f64 > 0.9 * by_sq8.len() as f64, "{metric}");
    }
}

#[test]
fn the_smallest_graphs_are_built() {
    for n in [0, 1, 2, 3, 9] {
        agrees::<u8>(Metric::L2, n, 5);
    }
}

#[test]
fn floats_that_round_make_a_sound_graph() {
    let rows = whole::<f32>(200, 7);
    let (graph, report) = built(&MatrixView::new(&rows, DIMENSION).unwrap(), Metric::Cosine, 7);
    assert!(graph.check_structure().is_sound());
    assert!(report.cost.hops > 195 * 14 / 2, "{report:?}");
}

#[test]
fn a_build_can_be_cancelled() {
    let rows = whole::<u8>(60, 8);
    let mut graph = Graph::new(ElementKind::U8, Metric::L2, DIMENSION, params()).unwrap();
    let mut prepared = Vec::new();
    for row in rows.chunks_exact(DIMENSION) {
        let norm = graph.vectors().prepare(0, row, &mut prepared).unwrap();
        let slot = graph.add_vector(&prepared, norm).unwrap();
        graph.keys_mut().assign(u64::from(slot.get()), slot).unwrap();
    }
    graph.adjacency_mut().set_start_points(vec![Slot::new(0)]);
    let order: Vec<Slot> = (1..60).map(Slot::new).collect();
    let stream = EmulatedStream::new(Emulator::new(8));
    let copy = DeviceGraph::upload(&stream, &graph, MemorySpace::Device).unwrap();
    let cpu = CpuExecutor::new(1).unwrap();
    let executor = DeviceExecutor::new(stream.clone(), &graph, cpu.into());
    let mut cancel = |progress: Progress| {
        assert_eq!(progress.stage, Stage::Linking);
        if progress.done < 30 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let linker = BulkLinker::new(&mut graph, &order, None, None).unwrap();
    let graph = HostAndDeviceGraph::new(graph, copy);
    let error = linker.run(&executor, graph, &mut cancel).unwrap_err();
    assert!(matches!(error, UpdateError::Cancelled(_)), "{error}");
}

#[test]
fn a_build_that_was_stopped_goes_on_from_its_checkpoint() {
    let rows = whole::<u8>(120, 9);
    let rows = MatrixView::new(&rows, DIMENSION).unwrap();
    let (expected, whole) = built(&rows, Metric::L2, 9);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let checkpoints = Checkpoints::new(&path, Duration::MAX);
    for stop in [10, 50, 100] {
        let mut stops = |progress: Progress| match progress {
            Progress { stage: Stage::Linking, done, .. } if done >= stop => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let error = built_with(&rows, Metric::L2, params(), stop as u64, None, Some(checkpoints), &mut stops)
            .unwrap_err();
        assert!(matches!(error, UpdateError::Cancelled(_)), "{error}");
    }
    let (found, report) =
        built_with(&rows, Metric::L2, params(), 10, None, Some(checkpoints), &mut no_progress).unwrap();
    for slot in expected.keys().vertices() {
        assert_eq!(
            found.adjacency().neighbors(slot),
            expected.adjacency().neighbors(slot),
            "row of {}",
            slot.get()
        );
    }
    assert_eq!(report.cost.hops, whole.cost.hops);
}

#[test]
fn a_plan_covers_the_batch_and_refuses_what_kernels_cannot() {
    let plan = |rows, params| {
        let (element, metric) = (ElementKind::U8, Metric::L2);
        plan_build(&BuildSpec { rows, element, dimension: 128, metric, params }, true)
    };
    let small = plan(1000, params()).unwrap();
    let large = plan(1_000_000, params()).unwrap();
    let batch_bytes = 200_000 * 32 * (12 + 12);
    assert!(
        large.total(MemorySpace::Device) > batch_bytes
            && small.total(MemorySpace::Device) < batch_bytes / 100
    );
    let wide = BuildParams::builder().build_beam_width(2000).build().unwrap();
    let message = plan(1000, wide).unwrap_err().to_string();
    assert_eq!(
        message,
        "build_beam_width (2000) must be at most 1024 on a device; lower it, or build on the cpu"
    );
}

/// Bytes of a plan beyond vectors and graph, as a share of these.
fn beside(element: ElementKind, rows: usize, dimension: usize) -> f64 {
    let params = BuildParams::default();
    let plan = plan_build(&BuildSpec { rows, element, dimension, metric: Metric::L2, params }, true).unwrap();
    let index = (rows * (dimension * element.size() + params.max_degree() * size_of::<u32>())) as f64;
    plan.total(MemorySpace::Device) as f64 / index - 1.0
}

#[test]
fn a_batch_takes_an_eighth_of_the_index_at_most() {
    assert_eq!(largest_batch(100_000_000, &BuildParams::default()), 200_000);
    for (rows, bounds) in [(10_000_000, 0.02..0.12), (100_000_000, 0.001..0.035)] {
        for (element, dimension) in [(ElementKind::U8, 128), (ElementKind::F32, 96), (ElementKind::F32, 200)]
        {
            let share = beside(element, rows, dimension);
            assert!(bounds.contains(&share), "{share} of {rows} rows");
        }
    }
}

/// Peak bytes of an emulated build, and the planned bytes.
fn peak_and_plan<T: Element>(rows: usize, metric: Metric) -> (u64, u64) {
    let values = whole::<T>(rows, 11);
    let cpu = CpuExecutor::new(2).unwrap();
    let view = MatrixView::new(&values, DIMENSION).unwrap();
    let ingested = ingest(&cpu, view.into(), None, metric, params(), &mut no_progress).unwrap();
    let Ingested { mut graph, order, .. } = ingested;
    let plan = plan_build(&BuildSpec::of(&graph), true).unwrap().total(MemorySpace::Device);
    let stream = EmulatedStream::new(Emulator::new(11).threads(2));
    let copy = DeviceGraph::upload(&stream, &graph, MemorySpace::Device).unwrap();
    let executor = DeviceExecutor::new(stream.clone(), &graph, cpu.into());
    let linker = BulkLinker::new(&mut graph, &order, None, None).unwrap();
    linker.run(&executor, HostAndDeviceGraph::new(graph, copy), &mut no_progress).unwrap();
    let peak = executor.stream.emulator().peak_bytes() as u64;
    (peak, plan)
}

#[test]
fn a_build_takes_what_was_planned_and_no_more() {
    // As many rows as make the last batch the largest that is planned for.
    for (peak, plan) in [peak_and_plan::<u8>(517, Metric::Cosine), peak_and_plan::<f32>(517, Metric::L2)] {
        assert!(peak <= plan && peak > plan * 9 / 10, "{peak} of {plan} bytes");
    }
}
