//! An index on a CUDA device.

use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jasper_core::{Element, Key, MatrixView, ProgressFn, VectorId, VectorSource};
use jasper_cuda::{
    Context, DeviceBatch, DeviceExecutor, DeviceGraph, KernelPreload, MutableDeviceGraph, PoolRetention,
    SearchContexts, Stream,
};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildShape, Bytes, Checkpoints, CompactReport, ConsolidateReport, CpuExecutor, Existing, GraphLock, Hit,
    Ingested, InsertReport, Linked, MatchesMut, MemoryPlan, MemorySpace, MutableGraph, SearchCost,
    SearchError, SearchParams, SearchReport, UpdateError, consolidate, insert, transaction,
};

use super::{Backend, without_edges};
use crate::bench::DevicePeaks;
use crate::{Device, DeviceError};

fn failed(device: usize) -> impl Fn(jasper_cuda::Error) -> DeviceError {
    move |error| match error.is_unavailable() {
        true => DeviceError::Unavailable { device, source: Box::new(error) },
        false => DeviceError::Failed { device, source: Box::new(error) },
    }
}

/// Turns the [`jasper_cuda::Error`] of a search or an update into a [`DeviceError`], which names the device.
fn named(device: usize, source: Box<dyn Error + Send + Sync>) -> Box<dyn Error + Send + Sync> {
    match source.downcast() {
        Ok(error) => Box::new(failed(device)(*error)),
        Err(source) => source,
    }
}

fn search_failed(device: usize) -> impl Fn(SearchError) -> SearchError {
    move |error| match error {
        SearchError::Device(source) => SearchError::Device(named(device, source)),
        error => error,
    }
}

fn update_failed(device: usize) -> impl Fn(UpdateError) -> UpdateError {
    move |error| match error {
        UpdateError::Device(source) => UpdateError::Device(named(device, source)),
        error => error,
    }
}

/// Checks that the device exists.
pub(crate) fn check_device(ordinal: usize) -> Result<(), DeviceError> {
    jasper_cuda::Device::get(ordinal).map(drop).map_err(failed(ordinal))
}

/// Numbers of the devices.
pub(super) fn ordinals() -> Result<Vec<usize>, DeviceError> {
    let devices = jasper_cuda::Device::list().map_err(failed(0))?;
    Ok(devices.into_iter().map(|device| device.ordinal).collect())
}

/// Memory of a build on a device, which need not exist.
pub(crate) fn plan_build<T: Element>(shape: &BuildShape, ordinal: usize) -> Result<MemoryPlan, DeviceError> {
    jasper_cuda::plan_build::<T>(shape).map_err(failed(ordinal))
}

/// Memory of an index on a device, which need not exist.
pub(crate) fn plan_graph<T: Element>(graph: &Graph<T>, storage: MemorySpace) -> Option<MemoryPlan> {
    Some(DeviceGraph::<T>::plan(graph, storage))
}

/// The device copy of a graph, before it is combined with the graph.
pub(crate) struct Upload<T: Element> {
    stream: Stream,
    copy: DeviceGraph<T>,
}

impl<T: Element> Upload<T> {
    /// Copies a graph to a device.
    pub(crate) fn new(
        graph: &Graph<T>,
        executor: &CpuExecutor,
        ordinal: usize,
        storage: Option<MemorySpace>,
    ) -> Result<Self, DeviceError> {
        let upload = || {
            let context = Context::open(ordinal)?;
            let (storage, _) = DeviceGraph::<T>::plan_within(graph, storage, context.free_memory()?)?;
            let stream = Stream::new(&context)?;
            let copy = executor.pool().install(|| DeviceGraph::upload(&stream, graph, storage))?;
            copy.check_search(&context)?;
            context.synchronize()?;
            Ok(Self { stream, copy })
        };
        upload().map_err(failed(ordinal))
    }

    /// Combines the copy with its graph.
    pub(crate) fn into_backend(self, graph: Graph<T>, executor: Arc<CpuExecutor>) -> Arc<dyn Backend<T>> {
        let Self { stream, copy } = self;
        let searches = SearchContexts::new(stream.context());
        let device_executor = DeviceExecutor::new(stream.clone(), &graph, Arc::clone(&executor));
        let graph = RwLock::new(MutableDeviceGraph::new(stream, graph, copy));
        Arc::new(CudaBackend { graph, searches, device_executor, executor })
    }
}

/// A graph on a device, and the executors that search and change it there. Vectors, keys and tombstones are also on the
/// host.
#[derive(Debug)]
pub(crate) struct CudaBackend<T: Element> {
    graph: RwLock<MutableDeviceGraph<T>>,
    searches: SearchContexts<T>,
    device_executor: DeviceExecutor<T>,
    executor: Arc<CpuExecutor>,
}

impl<T: Element> CudaBackend<T> {
    fn ordinal(&self) -> usize {
        self.searches.context().device().ordinal
    }

    fn read<R>(&self, read: impl FnOnce(&MutableDeviceGraph<T>) -> R) -> R {
        GraphLock::read(&&self.graph, read)
    }

    /// Checks that the device can insert and consolidate. Kernels limit build parameters and dimensions.
    fn check_updates(&self) -> Result<(), DeviceError> {
        self.read(MutableDeviceGraph::check_updates).map_err(failed(self.ordinal()))
    }

    /// Keeps freed memory in the device's pool for the allocations of one change.
    fn retain_pool(&self) -> Result<PoolRetention, DeviceError> {
        PoolRetention::new(self.searches.context()).map_err(failed(self.ordinal()))
    }

    /// Queues a search of queries in device memory.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        params: SearchParams<'_>,
        arrays: DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        let pool = self.executor.pool();
        self.read(|graph| self.searches.launch(graph.view()?, pool, stream, params, arrays))
            .map_err(search_failed(self.ordinal()))
    }
}

impl<T: Element> Backend<T> for CudaBackend<T> {
    fn device(&self) -> Device {
        Device::Cuda(self.ordinal())
    }

    fn device_name(&self) -> String {
        self.searches.context().device().name.clone()
    }

    fn device_bytes(&self) -> u64 {
        self.read(|graph| graph.on_device().bytes())
    }

    fn vector_storage(&self) -> MemorySpace {
        self.read(|graph| graph.on_device().vectors())
    }

    fn max_beam_width(&self) -> usize {
        jasper_cuda::MAX_BEAM_WIDTH as usize
    }

    fn read_graph(&self, read: &mut dyn FnMut(&Graph<T>)) {
        self.read(|graph| read(graph.host()));
    }

    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph<T>)) -> Result<(), DeviceError> {
        let _retention = self.retain_pool()?;
        let failed = failed(self.ordinal());
        transaction(&mut &self.graph, &failed, |graph| graph.change(change).map_err(&failed))
    }

    fn read_edges(&self) -> Result<(), DeviceError> {
        let read = MutableDeviceGraph::read_edges_while_searched(&mut &self.graph, self.executor.pool());
        read.map_err(failed(self.ordinal()))
    }

    fn into_graph(self: Arc<Self>) -> Graph<T> {
        let this = Arc::into_inner(self).expect("the caller holds the only reference");
        this.graph.into_inner().unwrap_or_else(PoisonError::into_inner).into_host()
    }

    fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.read(|graph| self.searches.search_one(graph.view()?, self.executor.pool(), query, params))
            .map_err(search_failed(self.ordinal()))
    }

    fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        let pool = self.executor.pool();
        self.read(|graph| self.searches.search(graph.view()?, pool, queries, params, matches))
            .map_err(search_failed(self.ordinal()))
    }

    fn insert(
        &self,
        vectors: &dyn VectorSource<T>,
        keys: &[Key],
        existing: Existing,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError> {
        self.check_updates()?;
        let _retention = self.retain_pool()?;
        insert(&self.device_executor, &mut &self.graph, vectors, keys, existing, progress)
            .map_err(update_failed(self.ordinal()))
    }

    fn consolidate(&self, progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, UpdateError> {
        self.check_updates()?;
        let _retention = self.retain_pool()?;
        consolidate(&self.device_executor, &mut &self.graph, progress).map_err(update_failed(self.ordinal()))
    }

    fn compact(&self) -> Result<CompactReport, UpdateError> {
        let report = GraphLock::write(&mut &self.graph, MutableDeviceGraph::compact);
        Ok(report.map_err(failed(self.ordinal()))?)
    }

    fn without_edges(&self, vertices: &[VectorId], work: &mut dyn FnMut()) -> Result<(), DeviceError> {
        let _retention = self.retain_pool()?;
        without_edges(&self.device_executor, &mut &self.graph, vertices, work).map_err(failed(self.ordinal()))
    }

    fn profile(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Option<(Duration, Vec<SearchCost>)>, SearchError> {
        self.read(|graph| self.searches.profile(graph.view()?, self.executor.pool(), queries, params))
            .map(Some)
            .map_err(search_failed(self.ordinal()))
    }

    fn peaks(&self) -> Result<Option<DevicePeaks>, DeviceError> {
        let context = self.searches.context();
        let bandwidth = Stream::new(context).and_then(|stream| jasper_cuda::copy_bandwidth(&stream));
        Ok(Some(DevicePeaks {
            bytes_per_second: bandwidth.map_err(failed(self.ordinal()))?,
            operations_per_second: context.device().peak_f32(),
        }))
    }

    fn as_cuda(&self) -> Option<&Self> {
        Some(self)
    }
}

/// A device that is about to build.
pub(crate) struct BuildDevice(Context);

impl BuildDevice {
    pub(crate) fn open(ordinal: usize) -> Result<Self, DeviceError> {
        Context::open(ordinal).map(Self).map_err(failed(ordinal))
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.0.device().ordinal
    }

    pub(crate) fn device_name(&self) -> String {
        self.0.device().name.clone()
    }

    pub(crate) fn free_memory(&self) -> Result<Bytes, DeviceError> {
        self.0.free_memory().map_err(failed(self.ordinal()))
    }

    /// Starts to compile the kernels that [`Self::link`] launches. Dropping the result waits for this.
    pub(crate) fn prepare<T: Element>(&self, shape: &BuildShape) -> KernelPreload {
        KernelPreload::for_build::<T>(&self.0, shape)
    }

    /// Links the vertices of a bulk build.
    pub(crate) fn link<T: Element>(
        &self,
        executor: &Arc<CpuExecutor>,
        ingested: Ingested<T>,
        checkpoints: Option<Checkpoints<'_>>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        jasper_cuda::link_on_device(&self.0, executor, ingested, checkpoints, progress)
            .map_err(update_failed(self.ordinal()))
    }
}
