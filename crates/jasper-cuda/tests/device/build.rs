//! Graphs built on a device equal those of the CPU.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Instant;

use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, Element, MatrixView, Metric, Vectors, f16, no_progress};
use jasper_cuda::{Context, Error, ErrorKind, link_on_device};
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, InsertReport, UpdateError, bulk_build, ingest};

fn params() -> BuildParams {
    BuildParams::builder().max_degree(32).build_beam_width(64).build().unwrap()
}

fn on_device(
    context: &Context,
    cpu: &Arc<CpuExecutor>,
    rows: Vectors<'_>,
    metric: Metric,
    params: BuildParams,
) -> Result<(Graph, InsertReport), UpdateError> {
    let ingested = ingest(cpu, rows, None, metric, params, &mut no_progress)?;
    let (begun, vertices) = (Instant::now(), ingested.order.len());
    let linked = link_on_device(context, cpu, ingested, None, None, &mut no_progress)?;
    let rate = vertices as f64 / begun.elapsed().as_secs_f64();
    let (graph, report) = linked.finish();
    println!("{} {metric}, dimension {}: {rate:.0} vectors/s, {report:?}", rows.element(), rows.dimension());
    Ok((graph, report))
}

/// The graphs of the CPU and the device over `n` vectors.
fn both<T: Element>(
    context: &Context,
    metric: Metric,
    dimension: usize,
    n: usize,
    params: BuildParams,
) -> [Graph; 2] {
    let cpu = Arc::new(CpuExecutor::new(None).unwrap());
    let values = Clusters::new(dimension, 5).rows::<T>(n, 0);
    let rows = MatrixView::new(&values, dimension).unwrap();
    let (expected, _) = bulk_build(&cpu, rows, None, metric, params, &mut no_progress).unwrap();
    let (found, _) = on_device(context, &cpu, rows.into(), metric, params).unwrap();
    [expected, found]
}

fn degree(graph: &Graph) -> f64 {
    graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum::<usize>() as f64
        / graph.keys().live() as f64
}

#[test]
fn graphs_of_bytes_are_the_same() {
    let Some(context) = crate::common::context() else { return };
    // With so narrow a beam, searches miss neighbors, and overlooked vertices are linked again.
    let narrow = BuildParams::builder().max_degree(16).build_beam_width(16).build().unwrap();
    for (metric, dimension, n, params) in [
        (Metric::L2, 128, 30_000, params()),
        (Metric::L2, 128, 30_000, narrow),
        (Metric::InnerProduct, 40, 8000, params()),
        (Metric::Cosine, 130, 8000, params()),
        (Metric::L2, 1000, 2000, params()),
    ] {
        let [expected, found] = both::<u8>(&context, metric, dimension, n, params);
        let wrong = expected
            .keys()
            .vertices()
            .find(|&slot| found.adjacency().neighbors(slot) != expected.adjacency().neighbors(slot));
        assert_eq!(wrong, None, "the first row that differs: {metric}, dimension {dimension}");
        assert_eq!(found.adjacency().start_points(), expected.adjacency().start_points());
    }
    let [expected, found] = both::<i8>(&context, Metric::L2, 96, 8000, params());
    assert!(
        expected
            .keys()
            .vertices()
            .all(|slot| found.adjacency().neighbors(slot) == expected.adjacency().neighbors(slot))
    );
}

fn like_the_cpu<T: Element>(context: &Context, metric: Metric, dimension: usize) {
    let [expected, found] = both::<T>(context, metric, dimension, 10_000, params());
    assert!(found.check_structure().is_sound());
    let (wanted, degree) = (degree(&expected), degree(&found));
    assert!((degree / wanted - 1.0).abs() < 0.02, "mean degree {degree}, not {wanted}: {} {metric}", T::KIND);
    let same = expected
        .keys()
        .vertices()
        .filter(|&slot| found.adjacency().neighbors(slot) == expected.adjacency().neighbors(slot))
        .count();
    assert!(same > 5000, "{same} rows are the same: {} {metric}, dimension {dimension}", T::KIND);
}

#[test]
fn graphs_of_floats_are_nearly_the_same() {
    let Some(context) = crate::common::context() else { return };
    for metric in Metric::ALL {
        for dimension in [96, 128, 200, 960] {
            like_the_cpu::<f32>(&context, metric, dimension);
            like_the_cpu::<f16>(&context, metric, dimension);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_begins() {
    let Some(context) = crate::common::context() else { return };
    let (cpu, rows) = (Arc::new(CpuExecutor::new(1).unwrap()), [1_u8, 2, 3]);
    let params = BuildParams::builder().build_beam_width(2000).build().unwrap();
    let rows = MatrixView::new(&rows, 1).unwrap();
    let Err(UpdateError::Device(error)) = on_device(&context, &cpu, rows.into(), Metric::L2, params) else {
        panic!("a beam of 2000 is too wide");
    };
    let cause = error.source().and_then(|source| source.downcast_ref::<Error>()).expect("an error of CUDA");
    assert!(matches!(cause.kind, ErrorKind::BuildBeamWidth(_)), "{error}");
}
