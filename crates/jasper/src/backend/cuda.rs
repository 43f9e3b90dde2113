//! An index on a CUDA device.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jasper_core::{Element, MatrixView, ProgressFn};
use jasper_cuda::{
    Context, DeviceBatch, DeviceGraph, DeviceLinker, KernelPreload, MutableDeviceGraph, PoolRetention,
    SearchContexts, Stream,
};
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{
    BuildShape, Bytes, Checkpoints, CompactReport, CpuExecutor, GraphLock, Hit, Ingested, Linked, MatchesMut,
    MemoryPlan, MutableGraph, SearchCost, SearchError, SearchParams, SearchReport, UpdateError,
    VectorStorage,
};

use crate::DeviceError;
use crate::bench::DevicePeaks;

fn failed(device: usize) -> impl Fn(jasper_cuda::Error) -> DeviceError {
    move |error| match error.is_unavailable() {
        true => DeviceError::Unavailable { device, source: Box::new(error) },
        false => DeviceError::Failed { device, source: Box::new(error) },
    }
}

/// Whether the device is there.
pub(crate) fn find(ordinal: usize) -> Result<(), DeviceError> {
    jasper_cuda::Device::get(ordinal).map(drop).map_err(failed(ordinal))
}

/// Numbers of the devices that are there.
pub(crate) fn ordinals() -> Result<Vec<usize>, DeviceError> {
    let devices = jasper_cuda::Device::list().map_err(failed(0))?;
    Ok(devices.into_iter().map(|device| device.ordinal).collect())
}

/// What a build takes of a device that need not be there.
pub(crate) fn plan_build<T: Element>(shape: &BuildShape, ordinal: usize) -> Result<MemoryPlan, DeviceError> {
    jasper_cuda::plan_build::<T>(shape).map_err(failed(ordinal))
}

/// What an index takes of a device that need not be there.
pub(crate) fn plan_graph<T: Element>(graph: &Graph<T>, storage: VectorStorage) -> Option<MemoryPlan> {
    Some(DeviceGraph::<T>::plan(graph, storage))
}

/// A copy of a graph in device memory, before the graph itself is handed over.
pub(crate) struct CudaGraph<T: Element> {
    stream: Stream,
    graph: DeviceGraph<T>,
}

impl<T: Element> CudaGraph<T> {
    pub(crate) fn upload(
        graph: &Graph<T>,
        pool: &ThreadPool,
        ordinal: usize,
        storage: Option<VectorStorage>,
    ) -> Result<Self, DeviceError> {
        let upload = || {
            let context = Context::open(ordinal)?;
            let (storage, _) = DeviceGraph::<T>::plan_within(graph, storage, context.free_memory()?)?;
            let stream = Stream::new(&context)?;
            let copy = pool.install(|| DeviceGraph::upload(&stream, graph, storage))?;
            copy.check_search(&context)?;
            context.synchronize()?;
            Ok(Self { stream, graph: copy })
        };
        upload().map_err(failed(ordinal))
    }
}

/// A graph on a device, with what searches and changes it there.
#[derive(Debug)]
pub(crate) struct CudaBackend<T: Element> {
    graph: RwLock<MutableDeviceGraph<T>>,
    searches: SearchContexts<T>,
    linker: DeviceLinker<T>,
}

impl<T: Element> CudaBackend<T> {
    pub(crate) fn new(graph: Graph<T>, copy: CudaGraph<T>, executor: &Arc<CpuExecutor>) -> Self {
        let CudaGraph { stream, graph: copy } = copy;
        let searches = SearchContexts::new(stream.context());
        let linker = DeviceLinker::new(stream.clone(), &graph).with_threads_of(executor.clone());
        Self { graph: RwLock::new(MutableDeviceGraph::new(stream, graph, copy)), searches, linker }
    }

    pub(crate) fn executor(&self) -> &DeviceLinker<T> {
        &self.linker
    }

    pub(crate) fn graph(&self) -> &RwLock<MutableDeviceGraph<T>> {
        &self.graph
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> R {
        GraphLock::read(&&self.graph, |graph| read(graph.host()))
    }

    fn write<R>(
        &self,
        write: impl FnOnce(&mut MutableDeviceGraph<T>) -> jasper_cuda::Result<R>,
    ) -> Result<R, DeviceError> {
        GraphLock::write(&mut &self.graph, write).map_err(failed(self.ordinal()))
    }

    pub(crate) fn read_edges(&self, pool: &ThreadPool) -> Result<(), DeviceError> {
        self.write(|graph| graph.read_links(pool))
    }

    pub(crate) fn into_graph(self) -> Graph<T> {
        self.graph.into_inner().unwrap_or_else(PoisonError::into_inner).into_host()
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.searches.context().device().ordinal
    }

    pub(crate) fn device_name(&self) -> String {
        self.searches.context().device().name.clone()
    }

    pub(crate) fn max_beam_width(&self) -> usize {
        jasper_cuda::MAX_BEAM_WIDTH as usize
    }

    pub(crate) fn vector_storage(&self) -> VectorStorage {
        GraphLock::read(&&self.graph, |graph| graph.copy().vectors())
    }

    pub(crate) fn bytes(&self) -> u64 {
        GraphLock::read(&&self.graph, |graph| graph.copy().bytes())
    }

    pub(crate) fn check_updates(&self) -> Result<(), DeviceError> {
        GraphLock::read(&&self.graph, MutableDeviceGraph::check_updates).map_err(failed(self.ordinal()))
    }

    /// Keeps freed memory in the device's pool for the allocations of one change.
    pub(crate) fn pin_memory(&self) -> Result<PoolRetention, DeviceError> {
        PoolRetention::new(self.searches.context()).map_err(failed(self.ordinal()))
    }

    pub(crate) fn compact(&self) -> Result<CompactReport, DeviceError> {
        self.write(MutableDeviceGraph::compact)
    }

    pub(crate) fn search(
        &self,
        pool: &ThreadPool,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        GraphLock::read(&&self.graph, |graph| self.searches.answer_one(graph.view()?, pool, query, params))
    }

    pub(crate) fn search_batch(
        &self,
        pool: &ThreadPool,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        GraphLock::read(&&self.graph, |graph| {
            self.searches.answer(graph.view()?, pool, queries, params, matches)
        })
    }

    /// Queues a search of queries in device memory.
    pub(crate) fn launch(
        &self,
        pool: &ThreadPool,
        stream: &Stream,
        params: SearchParams<'_>,
        arrays: DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        GraphLock::read(&&self.graph, |graph| {
            self.searches.launch(graph.view()?, pool, stream, params, arrays)
        })
    }

    /// Time of the launch alone, and the cost of each query.
    pub(crate) fn profile(
        &self,
        pool: &ThreadPool,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<(Duration, Vec<SearchCost>), SearchError> {
        GraphLock::read(&&self.graph, |graph| {
            let profile = self.searches.profile(graph.view()?, pool, queries, params)?;
            Ok((profile.time, profile.costs))
        })
    }

    pub(crate) fn peaks(&self) -> Result<DevicePeaks, DeviceError> {
        let context = self.searches.context();
        let bandwidth = || jasper_cuda::copy_bandwidth(&Stream::new(context)?);
        Ok(DevicePeaks {
            bytes_per_second: bandwidth().map_err(failed(self.ordinal()))?,
            operations_per_second: context.device().peak_f32(),
        })
    }
}

/// A device that is about to build.
pub(crate) struct CudaBuilder(Context);

impl CudaBuilder {
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

    /// Has the driver compile what [`Self::link`] launches, while the caller keeps the result.
    pub(crate) fn prepare<T: Element>(&self, shape: &BuildShape) -> KernelPreload {
        KernelPreload::for_build::<T>(&self.0, shape)
    }

    /// Links the vertices of a bulk build.
    pub(crate) fn link<T: Element>(
        &self,
        executor: &CpuExecutor,
        ingested: Ingested<T>,
        checkpoints: Option<Checkpoints<'_>>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        jasper_cuda::link_on_device(&self.0, executor.pool(), ingested, checkpoints, progress)
    }
}
