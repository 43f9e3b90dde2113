//! An index on a CUDA device.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jasper_core::{DeviceError, Element, ProgressFn, Slot, VectorView, sync, with_element};
use jasper_cuda::{
    Buffer, Context, DeviceBatch, DeviceExecutor, DeviceHit, DeviceSearcher, ErrorKind, GraphSnapshot,
    HostAndDeviceGraph, KernelPreload, KernelSet, PoolRetention, QuantizedVectors, SearchedGraph, Stream,
};
use jasper_data::parallel;
use jasper_graph::Graph;
use jasper_quant::Quantizer;
use jasper_vamana::{
    BuildSpec, Bytes, ChangeHooks, Checkpoints, CompactReport, ConsolidateReport, CpuExecutor, Explanation,
    Hit, Ingested, InsertReport, Linked, MatchesMut, MemoryPlan, MemorySpace, MutableGraph, NewVectors,
    OperationCounts, QueryQueue, SearchError, SearchParams, SearchReport, UpdateError, consolidate, insert,
    transaction, without_edges,
};

use super::{Backend, StartedSearch};
use crate::Device;
pub(crate) use jasper_cuda::DeviceGraph;

/// Checks that the device exists.
pub(crate) fn check_device(ordinal: usize) -> Result<(), DeviceError> {
    Ok(jasper_cuda::DeviceProperties::get(ordinal).map(drop)?)
}

/// Numbers of the devices.
pub(crate) fn ordinals() -> Result<Vec<usize>, DeviceError> {
    let devices = jasper_cuda::DeviceProperties::list()?;
    Ok(devices.into_iter().map(|device| device.ordinal).collect())
}

/// Memory of a build on a device, which need not exist.
pub(crate) fn plan_build(
    spec: &BuildSpec,
    exact_linking: bool,
    ordinal: usize,
) -> Result<MemoryPlan, DeviceError> {
    Ok(jasper_cuda::plan_build(spec, exact_linking).map_err(|kind| kind.on(ordinal))?)
}

/// Memory of an index on a device, which need not exist.
pub(crate) fn plan_graph(graph: &Graph, storage: MemorySpace) -> Option<MemoryPlan> {
    Some(jasper_cuda::plan_graph(graph, storage))
}

/// Copies a graph to a device.
pub(crate) fn upload_graph(
    graph: &Graph,
    executor: &CpuExecutor,
    ordinal: usize,
    storage: Option<MemorySpace>,
) -> Result<DeviceGraph, DeviceError> {
    let context = Context::open(ordinal)?;
    let plan = jasper_cuda::plan_graph_within(graph, storage, context.free_memory()?);
    let (storage, _) = plan.map_err(|error| ErrorKind::from(error).on(ordinal))?;
    let stream = Stream::new(&context)?;
    let copy = parallel::install(executor.pool(), || DeviceGraph::upload(&stream, graph, storage))?;
    copy.check_search(&context)?;
    context.synchronize()?;
    Ok(copy)
}

/// The backend of a graph and its copy on a device. Starts to compile the kernels of searches. `writer` is the lock that
/// callers hold while they change the graph.
pub(crate) fn cuda_backend(
    graph: Graph,
    copy: DeviceGraph,
    executor: Arc<CpuExecutor>,
    exact_linking: bool,
    writer: Arc<Mutex<()>>,
) -> Arc<dyn Backend> {
    let graph = HostAndDeviceGraph::new(graph, copy);
    let stream = graph.stream().clone();
    let device_executor = DeviceExecutor::new(stream.clone(), graph.host(), Arc::clone(&executor));
    let kernels = KernelSet::for_query(stream.context(), graph.host());
    let graph = Arc::new(SearchedGraph::new(graph));
    let shared = Arc::clone(&graph);
    let kernels = KernelPreload::new(kernels, move || {
        // As every change: whoever reads the graph for long holds the lock, and a write that waits delays searches.
        let _writer = sync::lock(&writer);
        shared.write(HostAndDeviceGraph::free_uploaded_edges);
    });
    Arc::new(CudaBackend {
        searcher: DeviceSearcher::new(stream.context(), Arc::clone(&executor)),
        device_executor: device_executor.exact_linking(exact_linking),
        kernels,
        graph,
        executor,
    })
}

/// The arrays of a search for queries in device memory: [`DeviceBatch`] of whatever element type.
pub(crate) struct DeviceArrays<'a> {
    /// A [`Buffer`] of this type.
    queries: &'a dyn Any,
    results: &'a mut Buffer<DeviceHit>,
    costs: &'a mut Buffer<u32>,
}

impl<'a, T: Element> From<DeviceBatch<'a, T>> for DeviceArrays<'a> {
    fn from(DeviceBatch { queries, results, costs }: DeviceBatch<'a, T>) -> Self {
        Self { queries, results, costs }
    }
}

/// A thread that opens a device, while another reads the index that is moved there.
pub(crate) struct OpeningDevice(Option<JoinHandle<Option<()>>>);

impl OpeningDevice {
    /// Starts the thread for a device, or the first device. Errors are reported when the index is moved there.
    pub(crate) fn start(device: Device) -> Self {
        let open = move || {
            let ordinals = match device.find().ok()? {
                Some(ordinals) => ordinals,
                None => ordinals().ok()?,
            };
            Context::open(*ordinals.first()?).ok()?.check_kernels().ok()
        };
        Self(thread::Builder::new().name("jasper-open".into()).spawn(open).ok())
    }
}

impl Drop for OpeningDevice {
    fn drop(&mut self) {
        self.0.take().map(JoinHandle::join);
    }
}

/// While kernels are being compiled, the host searches for up to this many queries at a time.
const MAX_QUERIES_ON_HOST: usize = 16;

/// A graph on a device, and the executors that search and change it there. Vectors, keys and tombstones are also on the
/// host, and until the kernels of searches are compiled edges as well, so that the first searches need not wait.
pub(crate) struct CudaBackend {
    /// Compiles the kernels of searches for one query, and then frees the host's edges.
    kernels: KernelPreload,
    graph: Arc<SearchedGraph>,
    searcher: DeviceSearcher,
    device_executor: DeviceExecutor,
    executor: Arc<CpuExecutor>,
}

impl CudaBackend {
    /// Checks that the device can link vertices: kernels take a maximum of build parameters and dimensions. Compiles what
    /// would otherwise be compiled while the graph is locked, and retains the pool for the change.
    fn prepare_linking(&self) -> jasper_cuda::Result<PoolRetention> {
        self.graph.read(HostAndDeviceGraph::check_updates)?;
        KernelSet::for_publishing(self.searcher.context()).load()?;
        self.retain_pool()
    }

    /// The host's graph, if a search reads that: while kernels are being compiled, unless it is large, or has parameters
    /// that only a device limits.
    fn searched_on_host<'a>(
        &self,
        graph: &'a GraphSnapshot,
        queries: usize,
        params: SearchParams<'_>,
    ) -> Option<&'a Graph> {
        let widest = params.k.max(params.effective_beam_width());
        let is_small = queries <= MAX_QUERIES_ON_HOST && widest <= jasper_cuda::MAX_BEAM_WIDTH as usize;
        let is_on_host = is_small && params.launch.is_none() && !self.kernels.is_complete();
        graph.searchable_host().filter(|_| is_on_host)
    }

    /// Keeps freed memory in the device's pool for the allocations of one change.
    fn retain_pool(&self) -> jasper_cuda::Result<PoolRetention> {
        PoolRetention::new(self.searcher.context())
    }
}

impl StartedSearch for jasper_cuda::StartedSearch {
    fn poll(&mut self, answer: &mut dyn FnMut(usize, Vec<Hit>)) -> Result<bool, SearchError> {
        Self::poll(self, answer)
    }
}

impl Backend for CudaBackend {
    fn device(&self) -> Device {
        Device::cuda(self.searcher.context().device().ordinal)
    }

    fn device_name(&self) -> String {
        self.searcher.context().device().name.clone()
    }

    fn device_bytes(&self) -> u64 {
        self.graph.read(|graph| graph.on_device().bytes())
    }

    fn vector_storage(&self) -> MemorySpace {
        self.graph.read(|graph| graph.on_device().vector_storage())
    }

    fn max_beam_width(&self) -> usize {
        jasper_cuda::MAX_BEAM_WIDTH as usize
    }

    fn read_graph(&self, read: &mut dyn FnMut(&Graph)) {
        self.graph.read(|graph| read(graph.host()));
    }

    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        let _retention = self.retain_pool()?;
        let tables = |graph: &HostAndDeviceGraph| {
            let vectors = graph.host().vectors();
            (graph.host().has_vectors(), vectors.codes().map(|codes| Arc::clone(codes.quantizer())))
        };
        let (had_vectors, had_codes) = self.graph.read(tables);
        transaction(&mut &*self.graph, |graph| graph.change_host(change))?;
        let (has_vectors, has_codes) = self.graph.read(tables);
        let is_same = match (&had_codes, &has_codes) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if had_vectors != has_vectors || !is_same {
            // What was replaced takes much memory.
            self.graph.free_old_arrays();
        }
        Ok(())
    }

    fn sync_host_edges(&self) -> Result<(), DeviceError> {
        Ok(HostAndDeviceGraph::sync_host_edges_while_searched(&mut &*self.graph, self.executor.pool())?)
    }

    fn into_graphs(self: Arc<Self>) -> Vec<Graph> {
        let Self { kernels, graph, .. } = Arc::into_inner(self).expect("the caller holds the only reference");
        // Waits for the thread, which holds the graph. Searches that hold it end before the backend has one reference.
        drop(kernels);
        let graph = Arc::into_inner(graph).expect("the thread and started searches have ended");
        vec![graph.into_inner().into_host()]
    }

    fn warm_up(&self) -> Result<(), DeviceError> {
        let kernels = self.graph.read(|graph| KernelSet::for_query(self.searcher.context(), graph.host()));
        kernels.load()?;
        self.kernels.set_complete();
        Ok(())
    }

    fn preload_code_kernels(&self, quantizer: &dyn Quantizer) -> Option<Box<dyn Send>> {
        let context = self.searcher.context();
        let kernels = self.graph.read(|graph| KernelSet::for_codes(context, graph.host(), quantizer));
        Some(Box::new(KernelPreload::new(kernels, || ())))
    }

    fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError> {
        self.graph.search(params.filter, |graph| {
            Ok(self.searcher.plan(graph.view()?, params.of_query(0), queries)?.explain())
        })
    }

    fn search_one(&self, query: VectorView<'_>, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.graph.search(params.filter, |graph| match self.searched_on_host(graph, 1, params) {
            Some(graph) => self.executor.search_one(graph, query, params),
            None => self.searcher.search_one(graph.view()?, query, params),
        })
    }

    fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.graph.search(params.filter, |graph| match self.searched_on_host(graph, queries.len(), params) {
            Some(graph) => self.executor.search_batch(graph, queries, params, matches),
            None => self.searcher.search_batch(graph.view()?, queries, params, matches),
        })
    }

    fn search_queue(
        &self,
        queue: &QueryQueue<'_>,
        params: SearchParams<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.graph.search(params.filter, |graph| self.searcher.search_queue(graph.view()?, queue, params))
    }

    fn start_search(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Option<Box<dyn StartedSearch>>, SearchError> {
        let is_on_host = |graph: &_| self.searched_on_host(graph, queries.len(), params).is_some();
        if !self.kernels.is_complete() && self.graph.search(None, is_on_host) {
            return Ok(None);
        }
        let started = self.searcher.start(&self.graph, queries, params)?;
        Ok(started.map(|search| Box::new(search) as Box<dyn StartedSearch>))
    }

    fn insert(&self, new: NewVectors<'_>, hooks: ChangeHooks<'_>) -> Result<InsertReport, UpdateError> {
        let _retention = self.prepare_linking()?;
        insert(&self.device_executor, &mut &*self.graph, new, hooks)
    }

    fn consolidate(&self, hooks: ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError> {
        let _retention = self.prepare_linking()?;
        consolidate(&self.device_executor, &mut &*self.graph, hooks)
    }

    fn compact(&self) -> Result<CompactReport, UpdateError> {
        Ok(self.graph.compact()?)
    }

    fn without_edges(&self, vertices: &[Slot], work: &mut dyn FnMut()) -> Result<(), DeviceError> {
        let _retention = self.retain_pool()?;
        Ok(without_edges(&self.device_executor, &mut &*self.graph, vertices, work)?)
    }

    fn search_on_device(
        &self,
        stream: &Stream,
        params: SearchParams<'_>,
        DeviceArrays { queries, results, costs }: DeviceArrays<'_>,
    ) -> Result<(), SearchError> {
        self.graph.search(params.filter, |graph| {
            with_element!(graph.host().element(), T => {
                let queries = queries.downcast_ref().expect("queries of the element type of the index");
                let arrays = DeviceBatch::<T> { queries, results, costs };
                self.searcher.enqueue(graph.view()?, stream, params, arrays)
            })
        })
    }

    fn profile(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Option<(Duration, Vec<OperationCounts>)>, SearchError> {
        self.graph
            .search(params.filter, |graph| self.searcher.profile(graph.view()?, queries, params))
            .map(Some)
    }
}

/// A device that is about to build.
pub(crate) struct BuildDevice {
    context: Context,
    /// Threads that compile kernels.
    preloads: Mutex<Vec<KernelPreload>>,
}

impl BuildDevice {
    pub(crate) fn open(ordinal: usize) -> Result<Self, DeviceError> {
        Ok(Self { context: Context::open(ordinal)?, preloads: Mutex::default() })
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.context.device().ordinal
    }

    pub(crate) fn device_name(&self) -> String {
        self.context.device().name.clone()
    }

    pub(crate) fn free_memory(&self) -> Result<Bytes, DeviceError> {
        Ok(self.context.free_memory()?)
    }

    /// Starts to compile the kernels that [`Self::quantize`] launches, and those of [`Self::link`], by bytes unless
    /// `exact_linking` and by the vectors themselves.
    pub(crate) fn preload_kernels(&self, spec: &BuildSpec, exact_linking: bool) {
        self.preload(KernelSet::for_build(&self.context, spec, exact_linking));
    }

    /// Starts to compile these kernels, and no others any more.
    fn preload(&self, kernels: KernelSet) {
        let mut preloads = sync::lock(&self.preloads);
        preloads.iter().for_each(KernelPreload::stop);
        preloads.push(KernelPreload::new(kernels, || ()));
    }

    /// Quantizes the vectors of a bulk build to bytes, if a trial finds that these tell them apart.
    pub(crate) fn quantize(
        &self,
        executor: &CpuExecutor,
        graph: &Graph,
    ) -> Result<Option<QuantizedVectors>, DeviceError> {
        Ok(jasper_cuda::quantize_on_device(&self.context, executor, graph)?)
    }

    /// Links the vertices of a bulk build, by the bytes of `quantized` vectors if there are some.
    pub(crate) fn link(
        &self,
        executor: &Arc<CpuExecutor>,
        ingested: Ingested,
        quantized: Option<QuantizedVectors>,
        checkpoints: Option<Checkpoints<'_>>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Linked, UpdateError> {
        self.preload(KernelSet::for_linking(&self.context, &ingested.graph, quantized.as_ref()));
        jasper_cuda::link_on_device(&self.context, executor, ingested, quantized, checkpoints, progress)
    }
}
