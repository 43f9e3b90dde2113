//! Calls reuse the memory of earlier calls; how long one query takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_kernels::Stream as _;
use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, MatrixView, Metric, VectorView, no_progress};
use jasper_cuda::{DeviceBatch, DeviceGraph, DeviceSearcher, Event, HostAndDeviceGraph, MemorySpace, Stream};
use jasper_vamana::{CpuExecutor, Matches, SearchParams, bulk_build};

const DIMENSION: usize = 96;
const QUERIES: usize = 20_000;

/// The median and the 99th percentile.
fn typical(times: impl Iterator<Item = Duration>) -> (Duration, Duration) {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

#[test]
fn a_call_takes_nothing_new() {
    let Some(context) = crate::common::exclusive_context() else { return };
    let cpu = CpuExecutor::new(None).unwrap();
    let set = Clusters::new(DIMENSION, 9);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(100_000, 0), set.rows(QUERIES, 1));
    let rows = MatrixView::new(&rows, DIMENSION).unwrap();
    let (graph, _) =
        bulk_build(&cpu, rows, None, Metric::L2, BuildParams::default(), &mut no_progress).unwrap();
    let stream = Stream::new(&context).unwrap();
    let copy = cpu.pool().install(|| DeviceGraph::upload(&stream, &graph, MemorySpace::Device)).unwrap();
    stream.synchronize().unwrap();
    copy.check_search(&context).unwrap();
    let (graph, searcher) =
        (HostAndDeviceGraph::new(graph, copy), DeviceSearcher::new(&context, Arc::new(cpu)));
    let view = graph.view().unwrap();
    let params = SearchParams::new(10).beam_width(48);
    let mut matches = Matches::new(QUERIES, params.k).unwrap();
    let mut all = || {
        let queries = MatrixView::new(&queries, DIMENSION).unwrap();
        let begun = Instant::now();
        let queries: Vec<_> = queries.rows().map(VectorView::from).collect();
        searcher.search_batch(view, &queries, params, matches.as_mut()).unwrap();
        begun.elapsed()
    };
    let one = |query: &[f32]| {
        let begun = Instant::now();
        searcher.search_one(view, query.into(), params).unwrap();
        begun.elapsed()
    };
    all();
    one(&queries[..DIMENSION]);
    let before = context.free_memory().unwrap().device;
    let (middle, late) = typical(queries.chunks(DIMENSION).take(2000).map(one));
    let (batch, _) = typical((0..20).map(|_| all()));
    assert_eq!(context.free_memory().unwrap().device, before);

    let stream = Stream::new(&context).unwrap();
    let query = stream.upload(&queries[..DIMENSION]).unwrap();
    let (mut results, mut costs) = (stream.allocate(10).unwrap(), stream.allocate(2).unwrap());
    let (begin, end) = (Event::new(&context).unwrap(), Event::new(&context).unwrap());
    let launches = (0..200).map(|_| {
        begin.record(&stream).unwrap();
        let arrays = DeviceBatch { queries: &query, results: &mut results, costs: &mut costs };
        searcher.enqueue(view, &stream, params, arrays).unwrap();
        end.record(&stream).unwrap();
        end.since(&begin).unwrap()
    });
    let (kernel, _) = typical(launches);
    let rate = QUERIES as f64 / batch.as_secs_f64();
    println!("one query: {middle:?}, 99 of 100 within {late:?}; its kernel: {kernel:?}");
    println!("{QUERIES} queries from host memory: {batch:?}, {rate:.0} a second");
}
