//! Searches on a device give the results of the CPU, from any thread and at any batch size.

use std::marker::PhantomData;
use std::sync::Arc;

use gpu_kernels::search::DeviceHit;
use gpu_kernels::{Buffer as _, Stream as _};
use jasper_core::synthetic::Clusters;
use jasper_core::{
    BuildParams, Element, ElementKind, Key, MatrixView, Metric, NO_KEY, Slot, VectorView, f16, no_progress,
    padded_len,
};
use jasper_cuda::{
    Buffer, Context, DeviceBatch, DeviceGraph, DeviceSearcher, GraphView, HostAndDeviceGraph, MemorySpace,
    Stream, hit_from_device, plan_graph, plan_graph_within,
};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::{
    CpuExecutor, Distances, Filter, Hit, LaunchParams, Matches, MutableGraph as _, SearchError, SearchParams,
    bulk_build, quantize,
};

/// A graph on the host and on the device.
struct Both<T: Element> {
    cpu: Arc<CpuExecutor>,
    graph: HostAndDeviceGraph,
    searcher: DeviceSearcher,
    element: PhantomData<T>,
}

/// All entries of the results, [`Hit::NONE`] where a query has fewer.
fn entries(matches: &Matches) -> Vec<Hit> {
    let entries = matches.keys().iter().zip(matches.distances());
    entries.map(|(&key, &distance)| Hit { key, distance }).collect()
}

impl<T: Element> Both<T> {
    fn new(context: &Context, rows: usize, dimension: usize, metric: Metric) -> Self {
        let cpu = Arc::new(CpuExecutor::new(None).unwrap());
        let values = Clusters::new(dimension, 3).rows::<T>(rows, 0);
        let params = BuildParams::builder().max_degree(32).build_beam_width(64).build().unwrap();
        let rows = MatrixView::new(&values, dimension).unwrap();
        let (graph, _) = bulk_build(&cpu, rows, None, metric, params, &mut no_progress).unwrap();
        Self::of(context, cpu, graph)
    }

    fn of(context: &Context, cpu: Arc<CpuExecutor>, graph: Graph) -> Self {
        Self::with_vectors(context, cpu, graph, MemorySpace::Device)
    }

    fn with_vectors(context: &Context, cpu: Arc<CpuExecutor>, graph: Graph, vectors: MemorySpace) -> Self {
        let (vectors, _) = plan_graph_within(&graph, Some(vectors), context.free_memory().unwrap()).unwrap();
        let stream = Stream::new(context).unwrap();
        let copy = cpu.pool().install(|| DeviceGraph::upload(&stream, &graph, vectors)).unwrap();
        stream.synchronize().unwrap();
        copy.check_search(context).unwrap();
        assert_eq!(copy.vector_storage(), vectors);
        // The CPU searches the host's graph, for comparison.
        let mut graph = HostAndDeviceGraph::new(graph, copy);
        graph.free_uploaded_edges();
        graph.sync_host_edges(cpu.pool()).unwrap();
        let searcher = DeviceSearcher::new(context, Arc::clone(&cpu));
        Self { searcher, cpu, graph, element: PhantomData }
    }

    /// 8,000 quantized vectors, every seventh of them deleted.
    fn quantized(context: &Context, dimension: usize, metric: Metric, code: Quantization) -> Self {
        let both = Self::new(context, 8000, dimension, metric);
        both.changed(context, MemorySpace::Device, |cpu, graph| {
            quantize(cpu, graph, code).unwrap();
            (0..8000).step_by(7).for_each(|key| graph.keys_mut().delete(key).unwrap());
        })
    }

    /// The graph on the host, after `change`, and on the device again.
    fn changed(
        self,
        context: &Context,
        vectors: MemorySpace,
        change: impl FnOnce(&CpuExecutor, &mut Graph),
    ) -> Self {
        let mut graph = self.graph.into_host();
        change(&self.cpu, &mut graph);
        Self::with_vectors(context, self.cpu, graph, vectors)
    }

    fn host(&self) -> &Graph {
        self.graph.host()
    }

    fn view(&self) -> GraphView<'_> {
        self.graph.view().unwrap()
    }

    fn queries(&self, n: usize) -> Vec<T> {
        Clusters::new(self.host().dimension(), 3).rows(n, 1)
    }

    fn search(&self, queries: &[T], params: SearchParams<'_>) -> Vec<Hit> {
        let queries = MatrixView::new(queries, self.host().dimension()).unwrap();
        let mut matches = Matches::new(queries.len(), params.k).unwrap();
        let queries: Vec<_> = queries.rows().map(VectorView::from).collect();
        self.searcher.search_batch(self.view(), &queries, params, matches.as_mut()).unwrap();
        entries(&matches)
    }

    fn search_one(&self, query: &[T], params: SearchParams<'_>) -> Vec<Hit> {
        self.searcher.search_one(self.view(), query.into(), params).unwrap()
    }

    /// The device's results, compared with those of the CPU for the same plan: equal where sums are exact, else nearly
    /// equal.
    fn compare(&self, queries: &[T], params: SearchParams<'_>) -> Vec<Hit> {
        let view = MatrixView::new(queries, self.host().dimension()).unwrap();
        let mut expected = Matches::new(view.len(), params.k).unwrap();
        let plan = self.searcher.plan(self.view(), params, view.len()).unwrap();
        self.cpu
            .search_planned(&plan, &view.rows().map(VectorView::from).collect::<Vec<_>>(), expected.as_mut())
            .unwrap();
        let expected = entries(&expected);
        let hits = self.search(queries, params);
        let different = hits.iter().zip(&expected).filter(|(hit, expected)| hit.key != expected.key).count();
        let exact = T::EXACT_SUMS && self.host().metric() != Metric::Cosine;
        let most = if exact { 0 } else { hits.len() / 100 };
        let name = format!("{} {}, {params:?}, {} queries", T::KIND, self.host().metric(), view.len());
        assert!(different <= most, "{name}: {different} of {} results differ", hits.len());
        if self.host().metric() == Metric::L2 {
            let most = self.host().dimension() as f32 * f32::EPSILON;
            for (hit, expected) in
                hits.iter().zip(&expected).filter(|(hit, expected)| hit.key == expected.key)
            {
                let apart = (hit.distance - expected.distance).abs();
                assert!(
                    hit == expected || apart <= most * expected.distance,
                    "{name}: {hit:?}, not {expected:?}"
                );
            }
        }
        for hits in hits.chunks(params.k) {
            let mut keys: Vec<_> = hits.iter().map(|hit| hit.key).filter(|&key| key != NO_KEY).collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{name}: a key comes twice");
        }
        hits
    }
}

/// Queries in device memory, and buffers for their results.
struct There<T: Element> {
    stream: Stream,
    queries: Buffer<T>,
    results: Buffer<DeviceHit>,
    costs: Buffer<u32>,
}

impl<T: Element> There<T> {
    fn new(both: &Both<T>, stream: &Stream, queries: &[T], params: SearchParams<'_>) -> Self {
        let queries = MatrixView::new(queries, both.host().dimension()).unwrap();
        let (prepared, count) = (both.host().vectors().prepare_all(queries.rows()).unwrap(), queries.len());
        Self {
            stream: stream.clone(),
            queries: stream.upload(&prepared).unwrap(),
            results: stream.allocate(count * params.k).unwrap(),
            costs: stream.allocate(count * 2).unwrap(),
        }
    }

    fn try_launch(&mut self, both: &Both<T>, params: SearchParams<'_>) -> Result<(), SearchError> {
        let Self { stream, queries, results, costs } = self;
        both.searcher.enqueue(both.view(), stream, params, DeviceBatch { queries, results, costs })
    }

    fn launch(&mut self, both: &Both<T>, params: SearchParams<'_>) {
        self.try_launch(both, params).unwrap();
    }

    /// Downloads the results.
    fn found(&self) -> Vec<Hit> {
        let results = self.stream.download(&self.results).unwrap();
        results.into_iter().map(hit_from_device).collect()
    }
}

fn agrees<T: Element>(context: &Context) {
    for (metric, dimension) in [(Metric::L2, 128), (Metric::InnerProduct, 200), (Metric::Cosine, 33)] {
        let both = Both::<T>::new(context, 8000, dimension, metric);
        let queries = both.queries(5000);
        for (k, beam_width, n) in [
            (10, 32, 5000),
            (10, 64, 100),
            (100, 128, 5000),
            (10, 1, 0),
            (1, 1, 300),
            (50, 500, 1000),
            (1000, 1024, 20),
            (10, 1000, 1),
        ] {
            both.compare(
                &queries[..n * dimension],
                SearchParams::new(k.min(beam_width)).beam_width(beam_width),
            );
        }
        let half = |key| key % 2 == 1;
        both.compare(&queries[..500 * dimension], SearchParams::new(10).filter(&half));
        let few = |key| key % 1000 == 3;
        both.compare(&queries[..500 * dimension], SearchParams::new(10).filter(&few));
        let both = both.changed(context, MemorySpace::Device, |_, graph| {
            (0..8000).step_by(4).for_each(|key| graph.keys_mut().delete(key).unwrap());
        });
        both.compare(&queries[..500 * dimension], SearchParams::new(10));
    }
}

#[test]
fn streams_and_arrays_of_others_are_searched_as_our_own() {
    let Some(context) = crate::common::context() else { return };
    let both = Both::<f32>::new(&context, 4000, 32, Metric::L2);
    let (params, queries) = (SearchParams::new(10), both.queries(500));
    let mut own = There::new(&both, &Stream::new(&context).unwrap(), &queries, params);
    own.launch(&both, params);
    let expected = own.found();

    let other = There::new(&both, &Stream::new(&context).unwrap(), &queries, params);
    assert_eq!(jasper_cuda::device_of(other.queries.address()).unwrap(), Some(context.device().ordinal));
    assert_eq!(jasper_cuda::device_of(8).unwrap(), None);
    for handle in [other.stream.handle(), 0, 1] {
        other.stream.synchronize().unwrap();
        // SAFETY: the stream and the queries live until the end of this test.
        let (stream, queries) = unsafe {
            let stream = Stream::borrow(&context, handle).unwrap();
            let queries = Buffer::borrow(&stream, other.queries.address(), other.queries.len());
            (stream, queries)
        };
        let (results, costs) = (stream.allocate(500 * 10).unwrap(), stream.allocate(500 * 2).unwrap());
        let mut borrowed = There { stream, queries, results, costs };
        borrowed.launch(&both, params);
        assert_eq!(borrowed.found(), expected);
    }
    // What was borrowed is still there.
    assert_eq!(other.stream.download(&other.queries).unwrap().len(), 500 * 32);
}

#[test]
fn answers_are_those_of_the_cpu() {
    let Some(context) = crate::common::context() else { return };
    agrees::<f32>(&context);
    agrees::<f16>(&context);
    agrees::<u8>(&context);
    agrees::<i8>(&context);
}

/// Quantized with a rerank, and exact: both launches use the same distances, so results are equal.
fn does_not_depend_on_the_place<T: Element>(
    context: &Context,
    dimension: usize,
    metric: Metric,
    code: Quantization,
) {
    let mut both = Both::<T>::quantized(context, dimension, metric, code);
    let queries = both.queries(3000);
    let few = |key| key % 1000 == 3;
    let mut expected = Vec::new();
    for vectors in [MemorySpace::Device, MemorySpace::Host] {
        both = both.changed(context, vectors, |_, _| {});
        let mut found = Vec::new();
        for distances in [Distances::Auto, Distances::Exact, Distances::Quantized { rerank: 20 }] {
            let params = SearchParams::new(10).distances(distances);
            for n in [1, 100, 3000] {
                found.push(both.search(&queries[..n * dimension], params));
            }
            found.push(both.search(&queries[..500 * dimension], params.filter(&few)));
        }
        assert!(expected.is_empty() || found == expected, "{} {metric} {code}", T::KIND);
        expected = found;
    }
    let [device, host] =
        [MemorySpace::Device, MemorySpace::Host].map(|vectors| plan_graph(both.host(), vectors));
    let rows = (8000 * padded_len::<T>(dimension) * size_of::<T>()) as u64;
    assert_eq!(device.total(MemorySpace::Device) - host.total(MemorySpace::Device), rows);
    assert!(both.graph.on_device().bytes() < device.total(MemorySpace::Device) - rows / 2);
}

#[test]
fn answers_do_not_depend_on_where_vectors_are() {
    let Some(context) = crate::common::context() else { return };
    does_not_depend_on_the_place::<f32>(&context, 200, Metric::L2, Quantization::Mixed { sectors: 1 });
    does_not_depend_on_the_place::<f16>(&context, 96, Metric::InnerProduct, Quantization::Rabitq { bits: 4 });
    does_not_depend_on_the_place::<u8>(&context, 128, Metric::Cosine, Quantization::Rabitq { bits: 7 });
}

#[test]
fn a_batch_may_be_larger_than_a_grid_is_high() {
    let Some(context) = crate::common::context() else { return };
    let both = Both::<u8>::new(&context, 5000, 8, Metric::L2);
    let queries = both.queries(200_000);
    let hits = both.compare(&queries, SearchParams::new(5).beam_width(16));
    // Any batch gives a query the same results.
    for n in [1, 70, 300, 5000] {
        assert!(both.search(&queries[..n * 8], SearchParams::new(5).beam_width(16)) == hits[..n * 5], "{n}");
    }
}

#[test]
fn threads_search_at_the_same_time_and_get_the_same() {
    let Some(context) = crate::common::context() else { return };
    let both = Both::<f32>::new(&context, 20_000, 96, Metric::L2);
    let (queries, params) = (both.queries(3000), SearchParams::new(10));
    let expected = both.search(&queries, params);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (both, queries, expected) = (&both, &queries, &expected);
            scope.spawn(move || {
                for round in 0..20 {
                    let (first, n) =
                        ((thread * 37 + round * 11) % 1000, 1 + (thread * 251 + round * 97) % 2000);
                    let hits = both.search(&queries[first * 96..(first + n) * 96], params);
                    assert!(hits == expected[first * 10..(first + n) * 10], "{n} queries from {first} on");
                    let query = &queries[first * 96..][..96];
                    assert_eq!(both.search_one(query, params), expected[first * 10..][..10]);
                }
            });
        }
    });
}

#[test]
fn queries_on_the_device_are_searched_there() {
    let Some(context) = crate::common::context() else { return };
    let mut both = Both::<i8>::new(&context, 6000, 100, Metric::L2);
    let queries = both.queries(700);
    for deleted in [0, 2000] {
        both = both.changed(&context, MemorySpace::Device, |_, graph| {
            (0..deleted).for_each(|key| graph.keys_mut().delete(key).unwrap());
        });
        let (half, few) = (|key: Key| key.is_multiple_of(2), |key: Key| key.is_multiple_of(500));
        let plain = SearchParams::new(10).beam_width(40);
        let team = LaunchParams { warps: 8, expansions: 1, visited_buckets: 512 };
        let filtered = [&half as &(dyn Fn(Key) -> bool + Sync), &few]
            .map(|filter| plain.filter(Filter::Predicate(filter)));
        for params in [plain, filtered[0], filtered[1], plain.launch(team)] {
            let stream = Stream::new(&context).unwrap();
            let mut there = There::new(&both, &stream, &queries, params);
            there.launch(&both, params);
            assert!(there.found() == both.search(&queries, params), "{params:?}");
            let costs = stream.download(&there.costs).unwrap();
            assert!(costs.chunks(2).all(|work| work[1] > 0));
        }
    }
}

/// The device quantizes queries in its memory, with the results of a batch from the host.
fn queries_on_the_device_go_by_codes<T: Element>(
    context: &Context,
    dimension: usize,
    metric: Metric,
    code: Quantization,
) {
    let mut both = Both::<T>::quantized(context, dimension, metric, code);
    let queries = both.queries(3000);
    let few = |key: Key| key.is_multiple_of(1000);
    let half = |key: Key| key.is_multiple_of(2);
    for (vectors, dropped) in
        [(MemorySpace::Device, false), (MemorySpace::Host, false), (MemorySpace::Device, true)]
    {
        both = both.changed(context, vectors, |_, graph| {
            if dropped {
                graph.drop_vectors();
            }
        });
        for distances in [
            Distances::Auto,
            Distances::Quantized { rerank: 0 },
            Distances::Quantized { rerank: 20 },
            Distances::Exact,
        ] {
            let plain = SearchParams::new(10).distances(distances);
            let filters = [&half as &(dyn Fn(Key) -> bool + Sync), &few];
            let filtered = filters.map(|filter| plain.filter(Filter::Predicate(filter)));
            for params in [plain, filtered[0], filtered[1]] {
                for n in [1, 2, 100, 3000] {
                    let queries = &queries[..n * dimension];
                    let stream = Stream::new(context).unwrap();
                    if dropped && distances == Distances::Exact {
                        let mut there = There::new(&both, &stream, queries, params);
                        assert!(matches!(there.try_launch(&both, params), Err(SearchError::Vector(_))));
                        continue;
                    }
                    let mut there = There::new(&both, &stream, queries, params);
                    there.launch(&both, params);
                    let expected = both.search(queries, params);
                    assert!(there.found() == expected, "{} {vectors:?}, {params:?}, {n} queries", T::KIND);
                }
            }
        }
    }
}

#[test]
fn queries_on_the_device_are_searched_for_by_codes() {
    let Some(context) = crate::common::context() else { return };
    queries_on_the_device_go_by_codes::<f32>(&context, 200, Metric::L2, Quantization::Mixed { sectors: 1 });
    queries_on_the_device_go_by_codes::<f16>(
        &context,
        96,
        Metric::InnerProduct,
        Quantization::Rabitq { bits: 4 },
    );
    queries_on_the_device_go_by_codes::<u8>(&context, 128, Metric::Cosine, Quantization::Rabitq { bits: 7 });
}

/// A batch of more than one part.
#[test]
fn many_queries_on_the_device_share_memory() {
    let Some(context) = crate::common::context() else { return };
    let both = Both::<f32>::new(&context, 5000, 16, Metric::L2);
    let both = both.changed(&context, MemorySpace::Device, |cpu, graph| {
        quantize(cpu, graph, Quantization::Rabitq { bits: 8 }).unwrap();
    });
    // 64 bytes of levels at least, 24 of factors, 2,048 of candidates, 8 of costs: more than 256 MiB.
    let queries = both.queries(200_000);
    let params = SearchParams::new(5).beam_width(512);
    let stream = Stream::new(&context).unwrap();
    let mut there = There::new(&both, &stream, &queries, params);
    there.launch(&both, params);
    assert!(there.found() == both.search(&queries, params));
}

/// Launches without synchronization, in two streams of one thread and concurrently with another thread: the temporary
/// memory of one is not used by another.
#[test]
fn streams_search_by_codes_at_the_same_time() {
    let Some(context) = crate::common::context() else { return };
    let mut both = Both::<f32>::new(&context, 20_000, 96, Metric::L2);
    both = both.changed(&context, MemorySpace::Device, |cpu, graph| {
        quantize(cpu, graph, Quantization::Mixed { sectors: 1 }).unwrap();
    });
    for vectors in [MemorySpace::Device, MemorySpace::Host] {
        both = both.changed(&context, vectors, |_, _| {});
        let queries = both.queries(6000);
        let params = [SearchParams::new(10), SearchParams::new(10).beam_width(150)];
        let expected = params.map(|params| both.search(&queries, params));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (both, queries, expected, context) = (&both, &queries, &expected, &context);
                scope.spawn(move || {
                    let streams = [(); 2].map(|()| Stream::new(context).unwrap());
                    let part = |round: usize| {
                        let first = (thread * 1500 + round * 397) % 3000;
                        first..first + 100 + round % 5 * 600
                    };
                    let rounds = (0..20).map(|round| {
                        let (part, which) = (part(round), round / 2 % 2);
                        let queries = &queries[part.start * 96..part.end * 96];
                        (There::new(both, &streams[round % 2], queries, params[which]), part, which)
                    });
                    let mut rounds: Vec<_> = rounds.collect();
                    rounds.iter_mut().for_each(|(there, _, which)| there.launch(both, params[*which]));
                    for (there, part, which) in rounds {
                        let expected = &expected[which][part.start * 10..part.end * 10];
                        assert!(there.found() == expected, "{vectors:?}, {part:?}");
                    }
                });
            }
        });
    }
}

/// Corners of a hypercube, each linked to those that differ in one coordinate: a search ends at the corner that it
/// looks for. The rows take more than 4 GiB with padding.
#[test]
fn rows_lie_beyond_what_32_bits_can_address() {
    const SIDES: usize = 20;
    const DIMENSION: usize = 4500;
    let Some(context) = crate::common::context() else { return };
    let params = BuildParams::builder().max_degree(SIDES).build().unwrap();
    let mut graph = Graph::new(ElementKind::U8, Metric::L2, DIMENSION, params).unwrap();
    let mut row = vec![0_u8; padded_len::<u8>(DIMENSION)];
    let corner = |row: &mut [u8], number: usize| {
        // The sides are spread over the row.
        (0..SIDES).for_each(|side| row[side * (DIMENSION / SIDES)] = (number >> side & 1) as u8);
    };
    for number in 0..1 << SIDES {
        corner(&mut row, number);
        let slot = graph.add_vector(&row, 0.0).unwrap();
        graph.keys_mut().assign_unused(number as u64 + (1 << 40), slot);
        let neighbors: Vec<_> = (0..SIDES).map(|side| Slot::from_index(number ^ 1 << side)).collect();
        graph.adjacency_mut().set_neighbors(slot, &neighbors);
    }
    graph.adjacency_mut().set_start_points(vec![Slot::new(0)]);
    assert!(graph.vectors().bytes() as u64 > 1 << 32);
    let both = Both::of(&context, Arc::new(CpuExecutor::new(None).unwrap()), graph);
    let numbers: Vec<usize> = (0..400).map(|i| (1 << SIDES) - 1 - i * 2600).collect();
    let mut queries = vec![0_u8; numbers.len() * DIMENSION];
    for (query, &number) in queries.chunks_mut(DIMENSION).zip(&numbers) {
        corner(query, number);
    }
    let hits = both.search(&queries, SearchParams::new(1));
    for (hit, number) in hits.iter().zip(numbers) {
        assert_eq!(*hit, Hit { key: number as u64 + (1 << 40), distance: 0.0 });
    }
}
