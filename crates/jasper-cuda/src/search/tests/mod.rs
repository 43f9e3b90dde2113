//! Compares batches in the emulator with the CPU executor.

mod each;
mod emulated_buffers;
mod filters;
mod queue;
mod snapshots;
mod started;

use std::ops::Range;

use bytemuck::Zeroable;
use cuda_std::emulator::Emulator;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::emulated::{EmulatedBuffer as Buffer, EmulatedFault, EmulatedStream};
use gpu_kernels::encode::{DeviceQuantizer, QueryCodes};
use gpu_kernels::knn::ProductScratch;
use gpu_kernels::search::{DeviceHit, ListPart, MAX_BEAM_WIDTH, SlotTest};
use gpu_kernels::{Buffer as _, Stream as _};
use jasper_core::synthetic::{Clusters, rng};
use jasper_core::{
    BuildParams, Element, ElementKind, MatrixView, Metric, NO_KEY, VectorView, f16, no_progress,
};
use jasper_graph::{Graph, KeyFilter};
use jasper_quant::Quantization;
use jasper_vamana::{
    ChangeHooks, CostModel, CpuExecutor, Distances, Hit, LaunchParams, Matches, MatchesMut, PendingQuery,
    QueryQueue, SearchError, SearchParams, SearchPlan, SearchReport, bulk_build, consolidate, quantize,
};
use rand::RngExt;

use super::batch::{BatchSearch, MAX_CHUNKS_IN_FLIGHT, Plans};
use super::buffers::{QuantizedQueries, QueryBuffers, Results, SearchBuffers};
use super::device_batch::{self, SCRATCH_BYTES};
use super::hit_from_device;
use super::launch::{BufferSizes, LaunchPointers, LaunchStreams, check_shared_memory};
use super::params::cost_of_each;
use crate::graph::SlotFormat;
use crate::{DeviceBatch, DeviceGraph, MemorySpace};
use emulated_buffers::EmulatedBuffers;

/// All entries of the results, [`Hit::NONE`] where a query has fewer.
fn entries(matches: &Matches) -> Vec<Hit> {
    let entries = matches.keys().iter().zip(matches.distances());
    entries.map(|(&key, &distance)| Hit { key, distance }).collect()
}

/// The strategies of the CPU, up to the widest beam of a device.
const AS_CPU: CostModel = CostModel { max_beam_width: MAX_BEAM_WIDTH as usize, ..CostModel::CPU };

/// One executor on the host, one on an emulated device.
struct Both {
    cpu: CpuExecutor,
    stream: EmulatedStream,
    /// Where the device's copies of vectors are.
    vectors: MemorySpace,
    /// What the strategies of the device are chosen for.
    cost_model: CostModel,
}

impl Both {
    fn new(seed: u64) -> Self {
        let emulator = Emulator::new(seed).threads(2);
        let stream = EmulatedStream::new(emulator);
        Self { cpu: CpuExecutor::new(2).unwrap(), stream, vectors: MemorySpace::Device, cost_model: AS_CPU }
    }

    /// The emulated device's results.
    fn emulated<T: Element>(
        &self,
        graph: &Graph,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<(Vec<Hit>, SearchReport), SearchError> {
        let copy = DeviceGraph::upload(&self.stream, graph, self.vectors).map_err(SearchError::device)?;
        self.searched(graph, &copy, queries, params)
    }

    /// The results of a search of a copy of the graph.
    fn searched<T: Element>(
        &self,
        graph: &Graph,
        copy: &DeviceGraph<EmulatedStream>,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<(Vec<Hit>, SearchReport), SearchError> {
        let plan = SearchPlan::new(graph, params, queries.len(), self.cost_model)?;
        let buffers = || EmulatedBuffers::new(&self.stream);
        let (mut matches, mut sets) = (Matches::new(queries.len(), params.k)?, vec![buffers()?]);
        let queries: Vec<_> = queries.rows().map(VectorView::from).collect();
        let queue = QueryQueue::new(&queries, params.k, matches.as_mut(), 1)?;
        let batch = BatchSearch { plans: Plans::One(&plan), graph: copy.searched(), pool: self.cpu.pool() };
        let report = batch.search(&queue, &mut sets, buffers)?;
        assert!(sets.len() <= MAX_CHUNKS_IN_FLIGHT);
        Ok((entries(&matches), report))
    }

    /// The results to queries that lie on the emulated device, prepared, and hops and distances of each.
    fn launched<T: Element>(
        &self,
        graph: &Graph,
        prepared: &[T],
        params: SearchParams<'_>,
        scratch_bytes: usize,
    ) -> Result<(Vec<Hit>, Vec<u32>), SearchError> {
        let copy = DeviceGraph::upload(&self.stream, graph, self.vectors).map_err(SearchError::device)?;
        let count = prepared.len() / copy.searched().row_len();
        let plan = SearchPlan::new(graph, params, count, self.cost_model)?;
        let queries = self.stream.upload(prepared).unwrap();
        let mut results = self.stream.allocate(count * params.k).unwrap();
        let mut costs = self.stream.allocate(count * 2).unwrap();
        let arrays = DeviceBatch { queries: &queries, results: &mut results, costs: &mut costs };
        // SAFETY: the arrays are of this stream, and the copy lives until its launches have run: each has when it
        // returns.
        unsafe {
            device_batch::launch(
                &plan,
                copy.searched(),
                self.cpu.pool(),
                &self.stream,
                arrays,
                scratch_bytes,
            )?;
        }
        let hits = results.array.read().unwrap().into_iter().map(hit_from_device);
        Ok((hits.collect(), costs.array.read().unwrap()))
    }

    /// Searches with both, compares, and returns the results.
    fn agree<T: Element>(&self, graph: &Graph, queries: &[T], params: SearchParams<'_>) -> Vec<Hit> {
        let queries = MatrixView::new(queries, graph.dimension()).unwrap();
        let mut expected = Matches::new(queries.len(), params.k).unwrap();
        let cpu = self
            .cpu
            .search_batch(
                graph,
                &queries.rows().map(VectorView::from).collect::<Vec<_>>(),
                params,
                expected.as_mut(),
            )
            .unwrap();
        let expected = entries(&expected);
        let (hits, report) = self.emulated(graph, queries, params).unwrap();
        let name = format!("{} {}, {params:?}, {} queries", T::KIND, graph.metric(), queries.len());
        let rounds = graph.metric() == Metric::Cosine;
        for (query, (hits, expected)) in hits.chunks(params.k).zip(expected.chunks(params.k)).enumerate() {
            for (hit, expected) in hits.iter().zip(expected) {
                // Where distances round, they are compared; the keys of ties may then differ.
                let same = if rounds {
                    hit.distance == expected.distance || (hit.distance - expected.distance).abs() < 1e-6
                } else {
                    hit == expected
                };
                assert!(same, "{name}: query {query} is answered {hits:?}, not {expected:?}");
            }
        }
        assert_eq!((report.scanned, report.reranked), (cpu.scanned, cpu.reranked), "{name}");
        if !rounds {
            assert_eq!(report.cost.hops, cpu.cost.hops, "{name}");
            assert!(report.cost.distances >= cpu.cost.distances, "{name}");
        }
        hits
    }
}

/// Rows of whole numbers, whose squares and products are exact in every element.
fn whole<T: Element>(n: usize, dimension: usize, seed: u64) -> Vec<T> {
    let mut random = rng(seed);
    (0..n * dimension).map(|_| T::from_f32(random.random_range(1..60) as f32)).collect()
}

fn built<T: Element>(rows: &[T], dimension: usize, metric: Metric, both: &Both) -> Graph {
    let params = BuildParams::builder().max_degree(10).build_beam_width(20).build().unwrap();
    let rows = MatrixView::new(rows, dimension).unwrap();
    bulk_build(&both.cpu, rows, None, metric, params, &mut no_progress).unwrap().0
}

/// One warp per query, for any batch.
const ALONE: LaunchParams = LaunchParams { warps: 1, expansions: 1, visited_buckets: 64 };

fn agrees<T: Element>(seed: u64) {
    let both = Both::new(seed);
    for (metric, dimension) in [(Metric::L2, 19), (Metric::InnerProduct, 32), (Metric::Cosine, 5)] {
        let graph = built(&whole::<T>(500, dimension, 3), dimension, metric, &both);
        let queries = whole::<T>(9, dimension, 4);
        for (k, beam_width) in [(1, 1), (10, 10), (7, 33), (100, 120)] {
            let params = SearchParams::new(k).beam_width(beam_width);
            both.agree(&graph, &queries, params);
            both.agree(&graph, &queries, params.launch(ALONE));
        }
    }
}

#[test]
fn answers_are_those_of_the_processor() {
    agrees::<f32>(1);
    agrees::<f16>(2);
    agrees::<u8>(3);
    agrees::<i8>(4);
}

#[test]
fn a_query_is_answered_the_same_in_any_batch() {
    let both = Both::new(5);
    let rows = Clusters::new(24, 5).rows::<f32>(800, 0);
    let graph = built(&rows, 24, Metric::Cosine, &both);
    let queries = Clusters::new(24, 5).rows::<f32>(12, 1);
    let params = SearchParams::new(5).beam_width(24);
    let view = MatrixView::new(&queries, 24).unwrap();
    let (all, _) = both.emulated(&graph, view, params).unwrap();
    for query in 0..view.len() {
        let (one, _) = both.emulated(&graph, view.slice(query..query + 1), params).unwrap();
        assert_eq!(one, all[query * 5..][..5], "query {query}");
    }
}

#[test]
fn what_a_frontier_leaves_short_is_found_by_a_scan() {
    let both = Both::new(7);
    let mut graph = built(&whole::<i8>(300, 6, 9), 6, Metric::L2, &both);
    let queries = whole::<i8>(6, 6, 10);
    // Deletes all vertices but the farthest from the first query, so that a frontier holds no live one.
    let near = both.agree(&graph, &queries, SearchParams::new(290).beam_width(300));
    for hit in &near[..280] {
        graph.keys_mut().delete(hit.key).unwrap();
    }
    let all = |_| true;
    both.agree(&graph, &queries, SearchParams::new(20).beam_width(20));
    both.agree(&graph, &queries, SearchParams::new(20).beam_width(20).filter(&all));
}

#[test]
fn tombstones_are_walked_through_and_never_answers() {
    let both = Both::new(8);
    let mut graph = built(&whole::<f16>(400, 9, 11), 9, Metric::InnerProduct, &both);
    let queries = whole::<f16>(6, 9, 12);
    let params = SearchParams::new(10).beam_width(20);
    (0..400).step_by(3).for_each(|key| graph.keys_mut().delete(key).unwrap());
    let hits = both.agree(&graph, &queries, params);
    assert!(hits.iter().all(|hit| hit.key % 3 != 0));
    consolidate(&both.cpu, &mut graph, ChangeHooks::new(&mut no_progress)).unwrap();
    assert!(graph.keys().free() > 0);
    both.agree(&graph, &queries, params);
    let remaining: Vec<_> = (0..400).filter(|key| key % 3 != 0).collect();
    remaining.into_iter().for_each(|key| graph.keys_mut().delete(key).unwrap());
    assert!(both.agree(&graph, &queries, params).iter().all(|&hit| hit == Hit::NONE));
}

#[test]
fn identical_rows_are_answers_under_all_their_keys() {
    let both = Both::new(9);
    let rows = whole::<u8>(60, 7, 13);
    let mut graph = built(&rows.repeat(4), 7, Metric::L2, &both);
    assert_eq!((graph.keys().live(), graph.keys().len()), (60, 240));
    let queries = whole::<u8>(6, 7, 14);
    let params = SearchParams::new(10).beam_width(12);
    let hits = both.agree(&graph, &queries, params);
    assert_eq!(hits[0].key % 60, hits[3].key % 60);
    (0..240).filter(|key| key % 7 < 5).for_each(|key| graph.keys_mut().delete(key).unwrap());
    both.agree(&graph, &queries, params);
    let odd = |key| key % 2 == 1;
    both.agree(&graph, &queries, params.filter(&odd));
    // More results than there are vertices.
    both.agree(&graph, &queries, SearchParams::new(100));
}

#[test]
fn nothing_is_found_in_an_empty_index() {
    let both = Both::new(10);
    let graph = Graph::new(ElementKind::F32, Metric::L2, 3, BuildParams::default()).unwrap();
    assert_eq!(both.agree(&graph, &[0.5; 18], SearchParams::new(2)), [Hit::NONE; 12]);
    both.agree::<f32>(&graph, &[], SearchParams::new(2));
}

/// So many queries that every set of buffers is used twice.
#[test]
fn chunks_come_back_to_their_queries() {
    let both = Both::new(11);
    let values: Vec<u8> = (0..=255).collect();
    let graph = built(&values, 1, Metric::L2, &both);
    let queries: Vec<u8> = (0..1000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let hits = both.agree(&graph, &queries, SearchParams::new(1).beam_width(24));
    assert!(hits.iter().zip(&queries).all(|(hit, &query)| hit.key.abs_diff(query.into()) <= 2));
}

/// So many values that several threads prepare queries and collect results.
#[test]
fn long_queries_and_many_answers_are_shared_among_threads() {
    let both = Both::new(13);
    let graph = built(&whole::<f32>(420, 1500, 16), 1500, Metric::L2, &both);
    let mut queries = whole(70, 1500, 17);
    both.agree(&graph, &queries, SearchParams::new(410).beam_width(420));
    for row in [69, 50, 13] {
        queries[row * 1500 + 1499] = f32::INFINITY;
        let view = MatrixView::new(&queries, 1500).unwrap();
        let message = both.emulated(&graph, view, SearchParams::new(1)).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("query: row {row} holds a value that is not finite")),
            "{message}"
        );
    }
}

/// A search keeps its query in shared memory.
#[test]
fn rows_that_no_block_has_room_for_are_refused() {
    let both = Both::new(14);
    let check = |dimension: usize, kilobytes: u32| {
        let graph = built(&whole::<f32>(2, dimension, 18), dimension, Metric::L2, &both);
        check_shared_memory(
            &DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap(),
            64,
            kilobytes << 10,
        )
    };
    assert_eq!(check(23_000, 227), Ok(()));
    assert_eq!(check(20_000, 99), Ok(()));
    let message = check(23_000, 99).unwrap_err().to_string();
    assert!(message.starts_with("searches of rows of 92000 bytes need 1"), "{message}");
    assert!(message.contains("this device has 101376"), "{message}");
}

/// Searches of a quantized graph with all kinds of parameters.
fn estimates_agree<T: Element>(metric: Metric, dimension: usize, code: Quantization, seed: u64) {
    let both = Both::new(seed);
    let mut graph = built(&whole::<T>(400, dimension, seed + 1), dimension, metric, &both);
    quantize(&both.cpu, &mut graph, code).unwrap();
    let queries = whole::<T>(9, dimension, seed + 2);
    let even = |key| key % 2 == 0;
    for round in 0..2 {
        for (k, beam_width) in [(1_usize, 1_usize), (10, 10), (7, 40), (60, 130)] {
            for distances in [
                Distances::Auto,
                Distances::Exact,
                Distances::Quantized { rerank: 0 },
                Distances::Quantized { rerank: k.div_ceil(2) },
                Distances::Quantized { rerank: beam_width - beam_width / 4 },
            ] {
                let params = SearchParams::new(k).beam_width(beam_width).distances(distances);
                both.agree(&graph, &queries, params);
                both.agree(&graph, &queries, params.launch(ALONE));
                both.agree(&graph, &queries, params.filter(&even));
            }
        }
        // Once more among the deleted, then without vectors.
        if round == 0 {
            (0..400).step_by(3).for_each(|key| graph.keys_mut().delete(key).unwrap());
        }
    }
    graph.drop_vectors();
    let params = SearchParams::new(7).beam_width(30);
    both.agree(&graph, &queries, params);
    both.agree(&graph, &queries, params.launch(ALONE));
    let few: KeyFilter = (0..40).collect();
    both.agree(&graph, &queries, params.filter(&few));
}

#[test]
fn estimates_lead_to_the_answers_of_the_processor() {
    estimates_agree::<f32>(Metric::L2, 19, Quantization::Mixed { sectors: 1 }, 20);
    estimates_agree::<u8>(Metric::L2, 40, Quantization::Rabitq { bits: 4 }, 21);
    estimates_agree::<f16>(Metric::InnerProduct, 33, Quantization::Rabitq { bits: 7 }, 22);
    estimates_agree::<i8>(Metric::Cosine, 70, Quantization::Mixed { sectors: 2 }, 23);
}

#[test]
fn answers_do_not_depend_on_where_vectors_are() {
    let mut both = Both::new(24);
    let mut graph = built(&whole::<f32>(400, 33, 25), 33, Metric::L2, &both);
    quantize(&both.cpu, &mut graph, Quantization::Mixed { sectors: 1 }).unwrap();
    (0..400).step_by(5).for_each(|key| graph.keys_mut().delete(key).unwrap());
    let queries = whole::<f32>(9, 33, 26);
    let view = MatrixView::new(&queries, 33).unwrap();
    let few: KeyFilter = (0..30).collect();
    for distances in [Distances::Auto, Distances::Exact, Distances::Quantized { rerank: 12 }] {
        let params = SearchParams::new(7).beam_width(40).distances(distances);
        for params in [params, params.launch(ALONE), params.filter(&few)] {
            both.vectors = MemorySpace::Device;
            let expected = both.emulated(&graph, view, params).unwrap();
            both.vectors = MemorySpace::Host;
            let found = both.emulated(&graph, view, params).unwrap();
            assert_eq!(found.0, expected.0, "{params:?}");
            assert_eq!(found.1.reranked, expected.1.reranked, "{params:?}");
            assert_eq!(found.1.reranked > 0, distances != Distances::Exact && params.filter.is_none());
            both.agree(&graph, &queries, params);
        }
    }
}

/// Queries as the device has them.
fn prepared<T: Element>(graph: &Graph, queries: &[T]) -> Vec<T> {
    graph.vectors().prepare_all(queries.chunks_exact(graph.dimension())).unwrap()
}

/// Searches of a quantized graph for queries in device memory, in one chunk or several.
fn queries_on_the_device_agree<T: Element>(metric: Metric, dimension: usize, code: Quantization, seed: u64) {
    let mut both = Both::new(seed);
    let mut graph = built(&whole::<T>(400, dimension, seed + 1), dimension, metric, &both);
    quantize(&both.cpu, &mut graph, code).unwrap();
    let queries = whole::<T>(9, dimension, seed + 2);
    let there = prepared(&graph, &queries);
    let width = there.len() / 9;
    let agree = |both: &Both, graph: &Graph, params: SearchParams<'_>, n: usize, scratch_bytes: usize| {
        let view = MatrixView::new(&queries[..n * dimension], dimension).unwrap();
        let (expected, report) = both.emulated(graph, view, params).unwrap();
        let (found, costs) = both.launched(graph, &there[..n * width], params, scratch_bytes).unwrap();
        assert_eq!(found, expected, "{} {metric}, {params:?}, {n} queries", T::KIND);
        let hops: u64 = costs.chunks(2).map(|costs| u64::from(costs[0])).sum();
        assert_eq!(hops, report.cost.hops, "{params:?}, {n} queries");
        assert!(costs.chunks(2).all(|costs| costs[1] > 0));
    };
    let few: KeyFilter = (0..40).collect();
    for vectors in [MemorySpace::Device, MemorySpace::Host] {
        both.vectors = vectors;
        for distances in [
            Distances::Auto,
            Distances::Exact,
            Distances::Quantized { rerank: 0 },
            Distances::Quantized { rerank: 5 },
        ] {
            let params = SearchParams::new(7).beam_width(40).distances(distances);
            // Batches for single warps and for teams, of one query, which the host would quantize, and of none; in
            // chunks of all queries down to one.
            let most = if vectors == MemorySpace::Device { 5 } else { 1 };
            for &(n, bytes) in &[(9, SCRATCH_BYTES), (9, 2 << 10), (4, 0), (1, 0), (0, 0)][..most] {
                agree(&both, &graph, params, n, bytes);
            }
            agree(&both, &graph, params.launch(ALONE), 9, 0);
            agree(&both, &graph, params.filter(&few), 9, 0);
        }
    }
    graph.drop_vectors();
    both.vectors = MemorySpace::Device;
    let params = SearchParams::new(7).beam_width(30);
    for distances in [Distances::Auto, Distances::Quantized { rerank: 5 }] {
        agree(&both, &graph, params.distances(distances), 9, 0);
        agree(&both, &graph, params.distances(distances), 2, SCRATCH_BYTES);
        agree(&both, &graph, params.distances(distances).filter(&few), 9, 0);
    }
}

#[test]
fn queries_on_the_device_are_searched_for_by_codes() {
    queries_on_the_device_agree::<f32>(Metric::L2, 19, Quantization::Mixed { sectors: 1 }, 30);
    queries_on_the_device_agree::<u8>(Metric::InnerProduct, 40, Quantization::Rabitq { bits: 4 }, 31);
    queries_on_the_device_agree::<f16>(Metric::Cosine, 33, Quantization::Rabitq { bits: 7 }, 32);
}

/// Queries in device memory are not checked.
#[test]
fn queries_that_are_no_numbers_do_no_harm_to_others() {
    let both = Both::new(33);
    let mut graph = built(&whole::<f32>(300, 19, 34), 19, Metric::L2, &both);
    quantize(&both.cpu, &mut graph, Quantization::Mixed { sectors: 1 }).unwrap();
    let params = SearchParams::new(5).beam_width(20);
    let queries = prepared(&graph, &whole(7, 19, 35));
    let width = queries.len() / 7;
    let mut harmful = queries.clone();
    harmful[width..2 * width].fill(f32::NAN);
    harmful[3 * width] = f32::INFINITY;
    for distances in [Distances::Auto, Distances::Exact, Distances::Quantized { rerank: 0 }] {
        let params = params.distances(distances);
        let (expected, _) = both.launched(&graph, &queries, params, SCRATCH_BYTES).unwrap();
        let (found, _) = both.launched(&graph, &harmful, params, SCRATCH_BYTES).unwrap();
        for query in [0, 2, 4, 5, 6] {
            assert_eq!(found[query * 5..][..5], expected[query * 5..][..5], "query {query}, {distances:?}");
        }
    }
}

#[test]
fn arrays_on_the_device_have_room_for_what_is_asked() {
    let both = Both::new(36);
    let graph = built(&whole::<f32>(50, 4, 37), 4, Metric::L2, &both);
    let copy = DeviceGraph::upload(&both.stream, &graph, MemorySpace::Device).unwrap();
    let ask = |queries: usize, results: usize, costs: usize, params| {
        let queries = both.stream.upload(&vec![1.0_f32; queries]).unwrap();
        let (mut results, mut costs) =
            (both.stream.allocate(results).unwrap(), both.stream.allocate(costs).unwrap());
        let arrays = DeviceBatch { queries: &queries, results: &mut results, costs: &mut costs };
        let plan = SearchPlan::new(&graph, params, 2, AS_CPU)?;
        // SAFETY: as in `Both::launched`.
        unsafe {
            device_batch::launch(&plan, copy.searched(), both.cpu.pool(), &both.stream, arrays, SCRATCH_BYTES)
        }
    };
    let params = SearchParams::new(3);
    ask(8, 6, 4, params).unwrap();
    assert!(matches!(ask(7, 6, 4, params), Err(SearchError::Vector(_))));
    assert!(matches!(ask(8, 5, 4, params), Err(SearchError::Buffer { given: 5, queries: 2, k: 3 })));
    assert!(matches!(ask(8, 6, 8, params), Err(SearchError::Buffer { given: 8, queries: 2, k: 2 })));
    let by_codes = params.distances(Distances::Quantized { rerank: 3 });
    assert!(matches!(ask(8, 6, 4, by_codes), Err(SearchError::NoCodes)));
}

#[test]
fn what_cannot_be_searched_for_is_refused() {
    let both = Both::new(12);
    let graph = built(&whole::<f32>(50, 4, 15), 4, Metric::L2, &both);
    let queries = [1.0; 4 * 5];
    let ask = |queries: &[f32], dimension, params| {
        let error = both.emulated(&graph, MatrixView::new(queries, dimension).unwrap(), params).unwrap_err();
        error.to_string()
    };
    let params = SearchParams::new(3);
    assert!(ask(&queries, 4, params.beam_width(1025)).contains("beam_width (1025) must be at most 1024"));
    assert!(ask(&queries, 4, params.beam_width(0)).contains("beam_width (0) must be at least 1"));
    assert!(ask(&queries, 5, params).contains("row 0 has 5 coordinates where the index has 4"));
    for (launch, message) in [
        (LaunchParams { warps: 0, ..ALONE }, "warps (0) of the launch parameters must be 1, or at least 8"),
        (LaunchParams { warps: 7, ..ALONE }, "warps (7) of the launch parameters must be 1, or at least 8"),
        (
            LaunchParams { expansions: 0, ..ALONE },
            "expansions (0) of the launch parameters must be between 1 and 8",
        ),
        (LaunchParams { expansions: 9, ..ALONE }, "expansions (9)"),
        (
            LaunchParams { visited_buckets: 48, ..ALONE },
            "visited_buckets (48) of the launch parameters must be 0, or a power of two",
        ),
        (LaunchParams { visited_buckets: 1 << 16, ..ALONE }, "visited_buckets (65536)"),
    ] {
        let said = ask(&queries, 4, params.launch(launch));
        assert!(said.starts_with(message), "{said}");
    }
}
