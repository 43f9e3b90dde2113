//! What an index consists of, and its calls with their parameters as they are checked and converted.

mod durable;
mod quantize;
mod rebuild;
mod search;
mod several_devices;
pub(crate) mod shard_files;
mod update;

use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, RwLock};

use jasper_attributes::Frame;
use jasper_core::{BuildParams, DeviceError, ElementKind, Key, Metric, ProgressFn, sync};
use jasper_graph::{FileError, FileFault, Graph, SaveStats};
use jasper_quant::{Quantization, Quantizer};
use jasper_vamana::{CpuExecutor, MemoryPlan, MemorySpace};

use crate::BuildReport;
use crate::backend::{Backend, HostBackend, Sharded, first_available, plan_graph};
use crate::batcher::SearchBatcher;
use crate::changes::Changes;
use crate::changes::small::SmallChanges;
use crate::check::CheckReport;
use crate::device::MoveError;
use crate::error::Result;
use crate::{Device, IndexStats, SearchLimits};
pub(crate) use quantize::CodeCheck;
pub(crate) use shard_files::{is_sharded, manifest_checksum, remove_manifest, shard_files};

/// What an [`Index`](crate::Index) consists of; those with a progress callback share it. Methods without a comment are those
/// of the index, given vectors of its element type.
pub(crate) struct IndexInner {
    // The next three never change, and no search waits for a lock to know them.
    /// Type of a coordinate.
    pub(crate) element: ElementKind,
    /// Coordinates per vector.
    pub(crate) dimension: usize,
    pub(crate) metric: Metric,
    pub(crate) backend: Arc<dyn Backend>,
    batcher: SearchBatcher,
    pub(crate) executor: Arc<CpuExecutor>,
    pub(crate) small_changes: SmallChanges,
    pub(crate) changes: Arc<Changes>,
    /// Whether changes on a CUDA device choose edges by exact distances, never by those of SQ8 vectors.
    pub(crate) exact_linking: bool,
    limits: RwLock<SearchLimits>,
    pub(crate) build_report: Option<BuildReport>,
}

impl IndexInner {
    pub(crate) fn new(graph: Graph, executor: Arc<CpuExecutor>, exact_linking: bool) -> Self {
        let backend = Arc::new(HostBackend::new(graph, Arc::clone(&executor)));
        Self::with_backend(backend, executor, exact_linking)
    }

    fn with_backend(backend: Arc<dyn Backend>, executor: Arc<CpuExecutor>, exact_linking: bool) -> Self {
        Self::with_changes(Changes::new(backend, executor), exact_linking)
    }

    pub(crate) fn with_changes(changes: Changes, exact_linking: bool) -> Self {
        let (backend, executor) = (Arc::clone(&changes.backend), Arc::clone(&changes.executor));
        let changes = Arc::new(changes);
        let (element, dimension, metric) =
            backend.read(|graph| (graph.element(), graph.dimension(), graph.metric()));
        Self {
            element,
            dimension,
            metric,
            batcher: SearchBatcher::new(Arc::clone(&backend)),
            small_changes: SmallChanges::new(Arc::clone(&changes)),
            changes,
            backend,
            executor,
            exact_linking,
            limits: RwLock::default(),
            build_report: None,
        }
    }

    /// Moves the graph of each shard to a backend that `to` makes from its number.
    pub(crate) fn moved(
        self,
        mut to: impl FnMut(usize, Graph, Arc<CpuExecutor>) -> Arc<dyn Backend>,
    ) -> Self {
        let Self {
            backend,
            batcher,
            small_changes,
            executor,
            changes,
            exact_linking,
            limits,
            build_report,
            ..
        } = self;
        // Waits for submitted searches and changes, which hold the backend.
        drop((batcher, small_changes));
        let changes = Arc::into_inner(changes).expect("submitted changes have ended");
        let changes = changes.without_backend(exact_linking);
        let is_sharded = !backend.shards().is_empty();
        let graphs = backend.into_graphs().into_iter().enumerate();
        let mut backends: Vec<_> =
            graphs.map(|(shard, graph)| to(shard, graph, Arc::clone(&executor))).collect();
        let backend = if is_sharded {
            Arc::new(Sharded::new(backends, Arc::clone(&executor)))
        } else {
            backends.pop().expect("there is a graph")
        };
        Self { limits, build_report, ..Self::with_changes(changes(backend), exact_linking) }
    }

    /// The graph, or those of the shards. The edges are on the host.
    fn into_graphs(self) -> Vec<Graph> {
        let Self { backend, batcher, small_changes, changes, .. } = self;
        drop((batcher, small_changes, changes));
        backend.into_graphs()
    }

    pub(crate) fn moved_to_device(self, device: Device) -> Result<Self, MoveError<Self>> {
        let ordinals = match device.find() {
            Ok(ordinals) => ordinals,
            Err(error) => return Err(MoveError::new(self, error)),
        };
        if self.is_on(ordinals.as_deref(), device) {
            return Ok(self);
        }
        let index = self.moved_to_host()?;
        let upload = |ordinal| index.upload(&[ordinal], device).map(Some);
        let uploaded = match ordinals.as_deref() {
            None => first_available(upload),
            Some([]) => Ok(None),
            Some(&[ordinal]) => upload(ordinal),
            Some(several) => return index.move_to_devices(several, device),
        };
        match uploaded {
            Err(error) => Err(MoveError::new(index, error)),
            Ok(None) => Ok(index),
            Ok(Some(copies)) => Ok(index.moved_to(copies)),
        }
    }

    /// Whether the index is on the CUDA devices, or on any for `None`, as `device` wants it.
    fn is_on(&self, ordinals: Option<&[usize]>, device: Device) -> bool {
        let on = self.device().cuda_ordinals();
        let is_there = ordinals.map_or(!on.is_empty(), |ordinals| ordinals == on);
        let is_stored = on.is_empty()
            || device.vector_storage.is_none_or(|storage| self.backend.stores_vectors_in(storage));
        let is_set = ordinals.is_some_and(|ordinals| ordinals.len() > 1);
        is_there && is_stored && !(is_set && device.is_sharded && self.shards() == 1)
    }

    fn moved_to_host(self) -> Result<Self, MoveError<Self>> {
        if self.device() == Device::CPU {
            return Ok(self);
        }
        if let Err(error) = self.backend.sync_host_edges() {
            return Err(MoveError::new(self, error));
        }
        Ok(self.moved(|_, graph, executor| Arc::new(HostBackend::new(graph, executor))))
    }

    pub(crate) fn memory_plan_on_device(&self, storage: MemorySpace) -> Option<MemoryPlan> {
        let plans = self.backend.shards_or_self().into_iter().map(|shard| {
            shard.read(|graph| {
                let attributes = graph.keys().attributes().memory() as u64;
                Some(plan_graph(graph, storage)?.part(MemorySpace::Host, "attributes", attributes))
            })
        });
        plans.reduce(|sum, plan| Some(sum?.plus(&plan?)))?
    }

    pub(crate) fn read_graph<R>(&self, read: impl FnOnce(&Graph) -> R) -> Result<R, DeviceError> {
        // While this lock is held, changes wait before they lock the graph. A write that waits for the graph would
        // delay searches.
        self.backend.require_one_graph("reading the graph")?;
        let _writer = match self.device() {
            Device::CPU => self.changes.writer.try_lock().ok(),
            _ => Some(self.changes.lock_writer()),
        };
        self.backend.sync_host_edges()?;
        Ok(self.backend.read(read))
    }

    pub(crate) fn stats(&self) -> IndexStats {
        let storage = self.backend.vector_storage();
        let shards = self.backend.shards_or_self().into_iter();
        let stats = shards.map(|shard| shard.read(|graph| IndexStats::new(graph, storage)));
        let stats = stats.reduce(IndexStats::merge).expect("there is a graph");
        IndexStats { build: self.build_report.clone(), ..stats }
    }

    pub(crate) fn len(&self) -> usize {
        self.backend.shards_or_self().iter().map(|shard| shard.read(|graph| graph.keys().len())).sum()
    }

    pub(crate) fn quantization(&self) -> Option<Quantization> {
        self.quantizer().map(|quantizer| quantizer.quantization())
    }

    pub(crate) fn quantizer(&self) -> Option<Arc<dyn Quantizer>> {
        self.backend.read(|graph| graph.vectors().codes().map(|codes| codes.quantizer().clone()))
    }

    pub(crate) fn params(&self) -> BuildParams {
        self.backend.read(|graph| *graph.params())
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.backend.read_with(key, |graph| graph.keys().slot_of(key).is_some())
    }

    pub(crate) fn vector(&self, key: Key) -> Option<Vec<f32>> {
        self.backend.read_with(key, |graph| {
            let slot = graph.keys().slot_of(key).filter(|_| graph.has_vectors())?;
            Some(graph.vectors().view(slot).to_f32())
        })
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let keys = |graph: &Graph| -> Vec<Key> {
            let keys = graph.keys();
            keys.live_slots().flat_map(|slot| keys.keys_of(slot)).collect()
        };
        self.backend.shards_or_self().into_iter().flat_map(|shard| shard.read(keys)).collect()
    }

    pub(crate) fn attributes(&self, keys: &[Key]) -> Frame {
        let rows_of = |shard: &dyn Backend, keys: &[Key]| -> Frame {
            shard.read(|graph| graph.keys().attributes().rows(keys))
        };
        if self.backend.shards().is_empty() {
            return rows_of(&*self.backend, keys);
        }
        let (mut of_shards, mut places) = (vec![Vec::new(); self.shards()], Vec::new());
        for &key in keys {
            let shard = self.backend.shard_of(key);
            places.push((shard, of_shards[shard].len()));
            of_shards[shard].push(key);
        }
        let shards = self.backend.shards_or_self().into_iter();
        let parts: Vec<Frame> = shards.zip(&of_shards).map(|(shard, keys)| rows_of(shard, keys)).collect();
        parts[0].columns().fold(Frame::new(keys.len()), |all, (name, kind)| {
            let values = places.iter().map(|&(part, row)| parts[part].value(row, name));
            let kind = kind.expect("a column of an index has a kind");
            all.column_of(name, kind, values).expect("all shards have the same columns")
        })
    }

    pub(crate) fn device(&self) -> Device {
        self.backend.device()
    }

    pub(crate) fn set_limits(&self, limits: SearchLimits) {
        *sync::write(&self.limits) = limits;
    }

    pub(crate) fn limits(&self) -> SearchLimits {
        *sync::read(&self.limits)
    }

    pub(crate) fn save(&self, path: &Path, progress: &mut ProgressFn<'_>) -> Result<SaveStats, FileError> {
        self.changes.save(path, progress)
    }

    pub(crate) fn to_bytes(&self, progress: &mut ProgressFn<'_>) -> Result<Vec<u8>, FileFault> {
        let mut out = Cursor::new(Vec::new());
        let written = self.read_graph(|graph| graph.write_to(&mut out, progress).map(drop));
        written.map_err(FileFault::Device)??;
        Ok(out.into_inner())
    }

    pub(crate) fn check(&self, progress: &mut ProgressFn<'_>) -> Result<CheckReport> {
        let mut check = |graph: &Graph| CheckReport::new(graph, &self.executor, progress);
        let mut report = match self.backend.shards() {
            [] => self.read_graph(check)??,
            shards => {
                let _writer = self.changes.lock_writer();
                self.backend.sync_host_edges()?;
                let reports = shards.iter().map(|shard| shard.read(&mut check));
                reports.reduce(|sum, report| Ok(sum?.merge(report?))).expect("there is a shard")?
            }
        };
        if self.backend.replicas() > 1 {
            let _writer = self.changes.lock_writer();
            report.different = self.backend.differing_replicas(progress)?;
        }
        Ok(report)
    }
}
