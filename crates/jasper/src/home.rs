//! Where a shared index lives: on the processor, or on a device.

use std::sync::{Arc, PoisonError, RwLock};

use jasper_core::Element;
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, GraphLock};

#[cfg(feature = "cuda")]
use jasper_cuda::{
    Context, DeviceGraph, DeviceLinker, GraphView, MutableDeviceGraph, SearchContexts, Stream,
};

#[cfg(feature = "cuda")]
use crate::seat::unless_absent;
use crate::{Device, DeviceError, VectorStorage, processor};

/// A graph where it is searched and changed. Without the feature `cuda` all are on the processor.
#[derive(Debug)]
pub(crate) enum Home<T: Element> {
    /// On the host alone.
    Processor(Box<RwLock<Graph<T>>>),
    /// Half on the host and half on a CUDA device.
    #[cfg(feature = "cuda")]
    Cuda(Box<OnCuda<T>>),
}

/// A graph on a CUDA device, and who works on it there.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(crate) struct OnCuda<T: Element> {
    pub(crate) graph: RwLock<MutableDeviceGraph<T>>,
    pub(crate) contexts: SearchContexts<T>,
    pub(crate) linker: DeviceLinker<T>,
}

impl<T: Element> Home<T> {
    /// A graph on the host.
    pub(crate) fn on_processor(graph: Graph<T>) -> Self {
        Self::Processor(Box::new(RwLock::new(graph)))
    }

    /// Takes a graph to a device, and its vectors to the place that is wanted there.
    ///
    /// # Errors
    /// [`DeviceError`], but never for [`Device::Cpu`].
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "nothing is copied"))]
    pub(crate) fn find(
        graph: Graph<T>,
        executor: &Arc<CpuExecutor>,
        device: Device,
        vectors: Option<VectorStorage>,
    ) -> Result<Self, DeviceError> {
        device.find()?;
        #[cfg(feature = "cuda")]
        match device {
            Device::Cpu => {}
            Device::Cuda(ordinal) => {
                let copy = OnCuda::copy(&graph, executor, ordinal, vectors);
                return copy
                    .and_then(|copy| OnCuda::home(graph, executor, copy))
                    .map_err(|error| DeviceError::Cuda { ordinal, error });
            }
            Device::Auto => {
                let devices = unless_absent(0, jasper_cuda::Device::list())?.unwrap_or_default();
                for ordinal in devices.into_iter().map(|device| device.ordinal) {
                    if let Some(copy) =
                        unless_absent(ordinal, OnCuda::copy(&graph, executor, ordinal, vectors))?
                    {
                        return OnCuda::home(graph, executor, copy)
                            .map_err(|error| DeviceError::Cuda { ordinal, error });
                    }
                }
            }
        }
        Ok(Self::on_processor(graph))
    }

    /// [`Device::Cpu`] or [`Device::Cuda`].
    pub(crate) fn device(&self) -> Device {
        match self {
            Self::Processor(_) => Device::Cpu,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Device::Cuda(cuda.contexts.context().device().ordinal),
        }
    }

    /// Name of the processor or GPU.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Processor(_) => processor(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.contexts.context().device().name.clone(),
        }
    }

    /// The widest frontier of its searches.
    pub(crate) fn widest(&self) -> usize {
        match self {
            Self::Processor(_) => usize::MAX,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => jasper_cuda::MAX_BEAM_WIDTH as usize,
        }
    }

    /// Where searches read vectors.
    pub(crate) fn vectors(&self) -> VectorStorage {
        match self {
            Self::Processor(_) => VectorStorage::Host,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => GraphLock::read(&&cuda.graph, |graph| graph.copy().vectors()),
        }
    }

    /// Lets `look` read vectors, keys and marks. Edges are those of a device's last [`Self::bring_links`].
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Graph<T>) -> R) -> R {
        match self {
            Self::Processor(graph) => GraphLock::read(&&**graph, look),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                GraphLock::read(&&cuda.graph, |graph| look(jasper_vamana::MutableGraph::host(graph)))
            }
        }
    }

    /// Brings edges home, while nobody changes the graph.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`].
    #[cfg_attr(
        not(feature = "cuda"),
        expect(unused_variables, clippy::unnecessary_wraps, reason = "they are home")
    )]
    pub(crate) fn bring_links(&self, executor: &CpuExecutor) -> Result<(), DeviceError> {
        match self {
            Self::Processor(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let read = GraphLock::write(&mut &cuda.graph, |graph| graph.read_links(executor.pool()));
                read.map_err(|error| cuda.failed(error))
            }
        }
    }

    /// The graph, all of it on the host.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`].
    #[cfg_attr(
        not(feature = "cuda"),
        expect(unused_variables, clippy::unnecessary_wraps, reason = "it is there")
    )]
    pub(crate) fn leave(self, executor: &CpuExecutor) -> Result<Graph<T>, DeviceError> {
        match self {
            Self::Processor(graph) => Ok(graph.into_inner().unwrap_or_else(PoisonError::into_inner)),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => {
                let ordinal = cuda.contexts.context().device().ordinal;
                let graph = cuda.graph.into_inner().unwrap_or_else(PoisonError::into_inner);
                graph.into_host(executor.pool()).map_err(|error| DeviceError::Cuda { ordinal, error })
            }
        }
    }
}

#[cfg(feature = "cuda")]
impl<T: Element> OnCuda<T> {
    /// Copies a graph to a CUDA device.
    fn copy(
        graph: &Graph<T>,
        executor: &CpuExecutor,
        ordinal: usize,
        vectors: Option<VectorStorage>,
    ) -> jasper_cuda::Result<(Stream, DeviceGraph<T>)> {
        let context = Context::open(ordinal)?;
        let (vectors, _) = DeviceGraph::<T>::plan_within(graph, vectors, context.free_memory()?)?;
        let stream = Stream::new(&context)?;
        let copy = executor.pool().install(|| DeviceGraph::upload(&stream, graph, vectors))?;
        copy.check_search(&context)?;
        Ok((stream, copy))
    }

    /// The home of a graph that was copied.
    fn home(
        graph: Graph<T>,
        executor: &Arc<CpuExecutor>,
        (stream, copy): (Stream, DeviceGraph<T>),
    ) -> jasper_cuda::Result<Home<T>> {
        let contexts = SearchContexts::new(stream.context());
        let linker = DeviceLinker::new(stream.clone(), &graph).with_threads_of(executor.clone());
        let graph = RwLock::new(MutableDeviceGraph::new(stream, graph, copy)?);
        Ok(Home::Cuda(Box::new(Self { graph, contexts, linker })))
    }

    fn failed(&self, error: jasper_cuda::Error) -> DeviceError {
        DeviceError::Cuda { ordinal: self.contexts.context().device().ordinal, error }
    }

    /// Lets `look` search the graph, if the device still has it.
    pub(crate) fn search<R>(
        &self,
        look: impl FnOnce(GraphView<'_, T>) -> Result<R, jasper_vamana::SearchError>,
    ) -> Result<R, jasper_vamana::SearchError> {
        GraphLock::read(&&self.graph, |graph| look(graph.view()?))
    }
}
