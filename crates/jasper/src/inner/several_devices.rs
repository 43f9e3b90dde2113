//! An index on several devices, and its shards.

use std::error::Error;
use std::io;
use std::iter;
use std::sync::Arc;
use std::thread;

use jasper_core::{DeviceError, no_progress};
use jasper_graph::Graph;
use jasper_vamana::{Bytes, CpuExecutor, MemoryPlan, MemorySpace, free_host_memory};

use super::IndexInner;
use super::rebuild::build_again;
use crate::Device;
use crate::backend::{
    Backend, DeviceGraph, HostBackend, Replicated, Sharded, at_once, cuda_backend, upload_graph,
};
use crate::device::MoveError;

impl IndexInner {
    /// An index of several graphs in host memory, each with the vectors of its shard.
    pub(crate) fn from_shards(
        graphs: impl IntoIterator<Item = Graph>,
        executor: Arc<CpuExecutor>,
        exact_linking: bool,
    ) -> Self {
        let host = |graph| Arc::new(HostBackend::new(graph, Arc::clone(&executor))) as Arc<dyn Backend>;
        let shards = Sharded::new(graphs.into_iter().map(host).collect(), Arc::clone(&executor));
        Self::with_backend(Arc::new(shards), executor, exact_linking)
    }

    pub(crate) fn shards(&self) -> usize {
        self.backend.shards_or_self().len()
    }

    /// Moves the index from the host to several devices.
    pub(super) fn move_to_devices(self, ordinals: &[usize], device: Device) -> Result<Self, MoveError<Self>> {
        let error = if self.shards() > 1 {
            match self.upload(ordinals, device) {
                Ok(copies) => return Ok(self.moved_to(copies)),
                Err(error) => error,
            }
        } else if device.is_sharded {
            match self.build_shards(ordinals, device) {
                Ok(sharded) => {
                    sharded.set_limits(self.limits());
                    return Ok(sharded);
                }
                Err(error) => error,
            }
        } else {
            match self.copy_to_all(ordinals, device) {
                Ok(copies) => return Ok(self.moved_to_replicas(copies)),
                Err(error) => error,
            }
        };
        Err(MoveError::new(self, error))
    }

    /// Copies the graph, or that of each shard, to one of the devices, in turn.
    pub(super) fn upload(&self, ordinals: &[usize], device: Device) -> Result<Vec<DeviceGraph>, DeviceError> {
        let shards = self.backend.shards_or_self();
        let upload = |shard: usize| {
            let (ordinal, storage) = (ordinals[shard % ordinals.len()], device.vector_storage);
            shards[shard].read(|graph| upload_graph(graph, &self.executor, ordinal, storage))
        };
        // One thread per device, so that the shards of a device are measured against its free memory one by one.
        let devices = ordinals.len().min(shards.len());
        let all = |device: usize| (device..shards.len()).step_by(devices).map(upload).collect();
        let uploaded = at_once(|| all(0), (1..devices).map(|device| move || all(device)))
            .map_err(|error| DeviceError::Unavailable { device: ordinals[0], source: error.into() })?;
        let uploaded: Result<Vec<Vec<_>>, _> = uploaded.into_iter().collect();
        let mut uploaded: Vec<_> = uploaded?.into_iter().map(Vec::into_iter).collect();
        Ok((0..shards.len()).filter_map(|shard| uploaded[shard % devices].next()).collect())
    }

    /// The index with its graphs on devices, which have copies of them.
    pub(super) fn moved_to(self, copies: Vec<DeviceGraph>) -> Self {
        let (exact_linking, writer) = (self.exact_linking, Arc::clone(&self.changes.writer));
        let mut copies = copies.into_iter();
        self.moved(|_, graph, executor| {
            let copy = copies.next().expect("a copy per graph");
            cuda_backend(graph, copy, executor, exact_linking, Arc::clone(&writer))
        })
    }

    fn moved_to_replicas(self, (graphs, copies): Copies) -> Self {
        let (exact_linking, writer) = (self.exact_linking, Arc::clone(&self.changes.writer));
        let mut copies = copies.into_iter();
        let mut graphs = Some(graphs);
        self.moved(|_, graph, executor| {
            let graphs = iter::once(graph).chain(graphs.take().expect("there is one graph"));
            let backends = copies.by_ref().zip(graphs);
            Arc::new(Replicated::new(backends.map(|(copy, graph)| {
                cuda_backend(graph, copy, Arc::clone(&executor), exact_linking, Arc::clone(&writer))
            })))
        })
    }

    /// Copies the graph to each device, and on the host for each device but one.
    fn copy_to_all(&self, ordinals: &[usize], device: Device) -> Result<Copies, DeviceError> {
        self.backend.read(|graph| {
            let refuse = |source: Box<dyn Error + Send + Sync>| DeviceError::Unavailable {
                device: ordinals[ordinals.len() - 1],
                source,
            };
            let free = Bytes { host: free_host_memory(), device: 0 };
            plan_copies(graph, ordinals.len() - 1).check(free).map_err(|error| refuse(error.into()))?;
            let upload = |ordinal| upload_graph(graph, &self.executor, ordinal, device.vector_storage);
            let (graphs, uploaded) = thread::scope(|scope| {
                let upload = &upload;
                let uploads: Vec<_> =
                    ordinals.iter().map(|&ordinal| scope.spawn(move || upload(ordinal))).collect();
                let graphs: io::Result<Vec<_>> = ordinals[1..].iter().map(|_| graph.try_clone()).collect();
                let uploaded = uploads.into_iter().map(|upload| upload.join().expect("an upload panicked"));
                (graphs, uploaded.collect::<Result<Vec<_>, _>>())
            });
            Ok((graphs.map_err(|error| refuse(error.into()))?, uploaded?))
        })
    }

    /// Builds shards of the vectors on the devices, and moves them there.
    fn build_shards(&self, ordinals: &[usize], device: Device) -> Result<Self, DeviceError> {
        let refuse = |source| DeviceError::Unavailable { device: ordinals[0], source };
        if self.changes.journal.get().is_some() || self.changes.follower.get().is_some() {
            let reason = "the index is durable and has one shard, which cannot be divided; save one that was built with shards";
            return Err(refuse(reason.into()));
        }
        let built = self.backend.read(|graph| {
            let builder = self.builder_like(graph).device(device);
            build_again(builder, graph, &mut no_progress)
        });
        let index = built.map_err(|error| refuse(error.into()))?;
        let copies = index.upload(ordinals, device)?;
        Ok(index.moved_to(copies))
    }
}

/// The graphs of all devices but one, and the copies on all devices.
type Copies = (Vec<Graph>, Vec<DeviceGraph>);

/// The host memory of further copies of a graph.
fn plan_copies(graph: &Graph, copies: usize) -> MemoryPlan {
    let bytes = graph.vectors().bytes() + graph.adjacency().bytes() + graph.vectors().code_bytes();
    MemoryPlan::new("the replicas of a graph").remedy("name fewer devices, or build from f16 or bytes").part(
        MemorySpace::Host,
        "replicas",
        (copies * bytes) as u64,
    )
}
