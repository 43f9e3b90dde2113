//! The index.

mod durable;
mod limits;
mod open;
mod quantize;
mod rebuild;
mod search;
pub(crate) mod shard_files;
mod spread;
mod update;

use std::fmt;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, RwLock};

use jasper_core::{BuildParams, Element, Key, Metric, no_progress};
use jasper_graph::{FileError, FileFault, Graph, SaveStats};
use jasper_quant::Quantization;
use jasper_vamana::{CpuExecutor, MemoryPlan, MemorySpace, PoolError};

use crate::backend::{Backend, HostBackend, Sharded, first_available, plan_graph};
use crate::batcher::SearchBatcher;
use crate::changes::Changes;
use crate::changes::small::SmallChanges;
use crate::check::{CheckError, CheckReport};
use crate::progress::long_calls;
use crate::report::BuildReport;
use crate::{Device, DeviceChoice, DeviceError, DeviceOptions, IndexStats, MoveError, Spread};
pub use limits::SearchLimits;
pub(crate) use open::in_bytes;
pub use open::{OpenError, OpenOptions};
pub use shard_files::{is_sharded, shard_files};

/// A vector index: vectors of one element type, each under a key, in host memory or [on a CUDA
/// device](Self::to_device).
///
/// Every method except [`Self::to_device`], [`Self::to_device_with`] and [`Self::to_host`] takes `&self` and may be
/// called from any thread. Searches run concurrently with each other and with changes. On the CPU they wait for no change,
/// and only a change that reuses the memory of deleted vectors waits for searches; on a CUDA device, a change waits for the
/// searches that have begun before it writes, and later ones wait for the write. Changes wait for one another; small ones
/// that wait are made together.
///
/// An insert or delete is visible to every search that starts after the call returns. The vectors of one call become
/// visible at the same moment; on [several devices](crate::Spread), at the same moment on each device.
///
/// A call that fails or is cancelled leaves the index as it was, with two exceptions. [`Self::quantize`] and
/// [`Self::auto_quantize`] may leave it without codes. A device that fails while it compacts, or while it undoes a
/// change, leaves its copy unusable: later calls return the error, and [`Self::rebuild`] makes a new index of what the
/// host has.
///
/// [`Self::with_progress`] adds a [callback](crate::ProgressFn) that receives progress reports of a call and may
/// cancel it.
///
/// See the [crate page](crate) for an example.
pub struct Index<T: Element> {
    pub(crate) backend: Arc<dyn Backend<T>>,
    batcher: SearchBatcher<T>,
    pub(crate) executor: Arc<CpuExecutor>,
    pub(crate) small_changes: SmallChanges<T>,
    pub(crate) changes: Arc<Changes<T>>,
    /// Whether changes on a CUDA device choose edges by exact distances, never by those of SQ8 vectors.
    pub(crate) exact_linking: bool,
    limits: RwLock<SearchLimits>,
    pub(crate) build_report: Option<BuildReport>,
}

impl<T: Element> fmt::Debug for Index<T> {
    /// Writes the element type and the device, and not the vectors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index<{}>({})", T::KIND, self.device())
    }
}

impl<T: Element> Index<T> {
    /// Reads an index file, or the folder of a [sharded index](crate::IndexBuilder::shards), into memory and verifies its
    /// checksums. [`OpenOptions`] has more ways to open it, and also opens the folder of a [durable
    /// index](Self::open_durable), which this method refuses.
    ///
    /// # Errors
    /// Returns [`FileError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        OpenOptions::new().open_on_host(path.as_ref(), &mut no_progress)
    }

    /// Creates an index over a graph, for example one that [`crate::graph::interop`] has read, with one thread per CPU.
    ///
    /// # Errors
    /// Returns [`PoolError`] if the threads cannot be started.
    pub fn from_graph(graph: Graph<T>) -> Result<Self, PoolError> {
        Ok(Self::new(graph, Arc::new(CpuExecutor::new(None)?), false))
    }

    pub(crate) fn new(graph: Graph<T>, executor: Arc<CpuExecutor>, exact_linking: bool) -> Self {
        let backend = Arc::new(HostBackend::new(graph, Arc::clone(&executor)));
        Self::with_backend(backend, executor, exact_linking)
    }

    fn with_backend(backend: Arc<dyn Backend<T>>, executor: Arc<CpuExecutor>, exact_linking: bool) -> Self {
        let changes = Arc::new(Changes::new(Arc::clone(&backend), Arc::clone(&executor)));
        Self {
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
        mut to: impl FnMut(usize, Graph<T>, Arc<CpuExecutor>) -> Arc<dyn Backend<T>>,
    ) -> Self {
        let Self { backend, batcher, small_changes, executor, changes, exact_linking, limits, build_report } =
            self;
        // Waits for submitted searches and changes, which hold the backend.
        drop((batcher, small_changes));
        let changes = Arc::into_inner(changes).expect("submitted changes have ended").without_backend();
        let is_sharded = !backend.shards().is_empty();
        let graphs = backend.into_graphs().into_iter().enumerate();
        let mut backends: Vec<_> =
            graphs.map(|(shard, graph)| to(shard, graph, Arc::clone(&executor))).collect();
        let backend = if is_sharded {
            Arc::new(Sharded::new(backends, Arc::clone(&executor)))
        } else {
            backends.pop().expect("there is a graph")
        };
        let batcher = SearchBatcher::new(Arc::clone(&backend));
        let changes = Arc::new(changes(Arc::clone(&backend)));
        let small_changes = SmallChanges::new(Arc::clone(&changes));
        Self { batcher, small_changes, backend, executor, changes, exact_linking, limits, build_report }
    }

    /// The graph, or those of the shards. The edges are on the host.
    fn into_graphs(self) -> Vec<Graph<T>> {
        let Self { backend, batcher, small_changes, changes, .. } = self;
        drop((batcher, small_changes, changes));
        backend.into_graphs()
    }

    /// Moves the index to a device. [`DeviceChoice::Auto`] is the first CUDA device with room for it, or the CPU if
    /// there is none. On a [`Device::CudaSet`] the index becomes [replicas](crate::Spread::Replicated); an index with
    /// shards keeps them, spread over the devices.
    ///
    /// Copies the index over PCIe once per device. Vectors and keys stay in host memory as well; edges only until the
    /// device's kernels [are compiled](Self::warm_up). Calls that need edges later, such as [`Self::save`], copy them
    /// back.
    ///
    /// # Errors
    /// Returns [`MoveError`], which [contains the index](MoveError::into_index), in host memory if it had to leave its
    /// device.
    pub fn to_device(self, device: impl Into<DeviceChoice>) -> Result<Self, MoveError<Self>> {
        self.to_device_with(device, DeviceOptions::new())
    }

    /// Moves the index as [`Self::to_device`] does, with options for its copy on a CUDA device. An index that is there
    /// with other options is moved to the host and back.
    ///
    /// # Errors
    /// Returns [`MoveError`], which [contains the index](MoveError::into_index), in host memory if it had to leave its
    /// device.
    pub fn to_device_with(
        self,
        device: impl Into<DeviceChoice>,
        options: DeviceOptions,
    ) -> Result<Self, MoveError<Self>> {
        let device = match device.into().resolve() {
            Ok(device) => device,
            Err(error) => return Err(MoveError::new(self, error)),
        };
        if self.is_on(device, options) {
            return Ok(self);
        }
        let index = self.to_host()?;
        let upload = |ordinal| index.upload(&[ordinal], options).map(Some);
        let uploaded = match device {
            Some(Device::CudaSet(set)) => return index.move_to_devices(&set.ordinals(), options),
            Some(Device::Cuda(ordinal)) => upload(ordinal),
            Some(Device::Cpu) => Ok(None),
            None => first_available(upload),
        };
        match uploaded {
            Err(error) => Err(MoveError::new(index, error)),
            Ok(None) => Ok(index),
            Ok(Some(copies)) => Ok(index.moved_to(copies)),
        }
    }

    /// Whether the index is on the device, or on any CUDA device for `None`, as the options want it.
    fn is_on(&self, device: Option<Device>, options: DeviceOptions) -> bool {
        let on = self.device();
        let is_there = device.map_or(on != Device::Cpu, |device| device == on);
        let is_stored = on == Device::Cpu
            || options.vector_storage.is_none_or(|storage| self.backend.stores_vectors_in(storage));
        let is_set = matches!(device, Some(Device::CudaSet(_)));
        is_there && is_stored && !(is_set && options.spread == Spread::Sharded && self.shards() == 1)
    }

    /// Moves the index back to host memory, and frees its device memory.
    ///
    /// Copies the edges over PCIe once.
    ///
    /// # Errors
    /// Returns [`MoveError`], which [contains the index](MoveError::into_index), if the device failed.
    pub fn to_host(self) -> Result<Self, MoveError<Self>> {
        if self.device() == Device::Cpu {
            return Ok(self);
        }
        if let Err(error) = self.backend.sync_host_edges() {
            return Err(MoveError::new(self, error));
        }
        Ok(self.moved(|_, graph, executor| Arc::new(HostBackend::new(graph, executor))))
    }

    /// The memory that the index would take on a CUDA device and on the host, with its vectors in `storage`. The device
    /// need not exist. `None` without the feature `cuda`.
    pub fn memory_plan_on_device(&self, storage: MemorySpace) -> Option<MemoryPlan> {
        let plans = self
            .backend
            .shards_or_self()
            .into_iter()
            .map(|shard| shard.read(|graph| plan_graph(graph, storage)));
        plans.reduce(|sum, plan| Some(sum?.plus(&plan?)))?
    }

    /// Runs `read` on the graph: vectors, edges and keys. Searches continue meanwhile. Changes wait: `read`
    /// deadlocks if it changes the index.
    ///
    /// On the CPU, this does not wait for a change in progress: `read` sees the graph between two writes of the change,
    /// and the next write waits for `read`. On a CUDA device it waits for the change, then copies the edges to the host if
    /// they have changed or [were freed](Self::to_device) there.
    ///
    /// # Errors
    /// Returns [`DeviceError`] if the device failed, or the index has several shards ([`DeviceError::Sharded`]).
    pub fn read_graph<R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> Result<R, DeviceError> {
        // While this lock is held, changes wait before they lock the graph. A write that waits for the graph would
        // delay searches.
        self.backend.require_one_graph("reading the graph")?;
        let _writer = match self.device() {
            Device::Cpu => self.changes.writer.try_lock().ok(),
            _ => Some(self.changes.lock_writer()),
        };
        self.backend.sync_host_edges()?;
        Ok(self.backend.read(read))
    }

    /// Counts and sizes of the index. On a CUDA device, the mean degree is that of the edges when they were last copied
    /// to the host, by [`Self::save`], [`Self::check`] or [`Self::read_graph`]. After a [`Self::compact`], it is 0
    /// until the next copy.
    ///
    /// Reads the degree of every vertex.
    pub fn stats(&self) -> IndexStats {
        let storage = self.backend.vector_storage();
        let shards = self.backend.shards_or_self().into_iter();
        let stats = shards.map(|shard| shard.read(|graph| IndexStats::new(graph, storage)));
        stats.reduce(IndexStats::merge).expect("there is a graph")
    }

    /// What the build of the index did. `None` if it was opened, or created without vectors.
    ///
    /// A move with [`Spread::Sharded`] that builds shards replaces the report by that of this build. After a
    /// [`Self::rebuild`] of several shards, those without vectors are left out of it.
    pub fn build_report(&self) -> Option<&BuildReport> {
        self.build_report.as_ref()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.backend.shards_or_self().iter().map(|shard| shard.read(|graph| graph.keys().len())).sum()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.backend.read(|graph| graph.dimension())
    }

    /// The distance between vectors.
    pub fn metric(&self) -> Metric {
        self.backend.read(|graph| graph.metric())
    }

    /// The quantization; `None` if the index is not quantized.
    pub fn quantization(&self) -> Option<Quantization> {
        self.backend.read(|graph| graph.vectors().codes().map(|codes| codes.quantizer().quantization()))
    }

    /// The parameters that the graph was built with.
    pub fn params(&self) -> BuildParams {
        self.backend.read(|graph| *graph.params())
    }

    /// Whether the key is in the index.
    pub fn contains(&self, key: Key) -> bool {
        self.backend.read_with(key, |graph| graph.keys().slot_of(key).is_some())
    }

    /// The vector of a key as it is stored: at unit length for cosine distances of floats. `None` if there is no such
    /// key, or vectors were [dropped](Self::drop_vectors).
    pub fn vector(&self, key: Key) -> Option<Vec<T>> {
        self.backend.read_with(key, |graph| {
            let slot = graph.keys().slot_of(key).filter(|_| graph.has_vectors())?;
            Some(graph.vectors().get(slot).to_vec())
        })
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<Key> {
        let keys = |graph: &Graph<T>| -> Vec<Key> {
            let keys = graph.keys();
            keys.live_slots().flat_map(|slot| keys.keys_of(slot)).collect()
        };
        self.backend.shards_or_self().into_iter().flat_map(|shard| shard.read(keys)).collect()
    }

    /// The largest beam width of searches: 1024 on a CUDA device, `usize::MAX` on the CPU.
    pub fn max_beam_width(&self) -> usize {
        self.backend.max_beam_width()
    }

    /// Where the index is. Devices that are [left out](Self::device_faults) do not count.
    pub fn device(&self) -> Device {
        self.backend.device()
    }

    /// Name of the CPU or GPU that the index is on.
    pub fn device_name(&self) -> String {
        self.backend.device_name()
    }

    /// The errors of devices that faulted and are left out, where [several](crate::Spread::Replicated) hold the index.
    /// The others answer all searches.
    pub fn device_faults(&self) -> Vec<Arc<DeviceError>> {
        self.backend.device_faults()
    }

    /// Bytes of device memory that the index takes; 0 on the CPU.
    pub fn device_bytes(&self) -> u64 {
        self.backend.device_bytes()
    }
}

// `index` is the `self` of the calls.
long_calls! {
    impl<T: Element> Index<T> as (index, progress);

    /// Writes the index to `path`. A file that is there is replaced in one step, when the new one is complete. If it
    /// differs from the index only in codes and tuned searches, [these alone are written](Graph::save), as after
    /// [`Self::quantize`] or [`Self::tune`]; that is one step as well.
    ///
    /// If it has several [shards](Self::shards), `path` is a folder, of one file per shard and a manifest that is
    /// written last.
    ///
    /// Changes wait meanwhile; searches wait only while edges copied from a CUDA device are stored, one segment at a
    /// time.
    ///
    /// # Errors
    /// Returns [`FileError`]; the old file is unchanged, except after a [`NotSynced`](FileFault::NotSynced) fault,
    /// where the new file is complete but may be lost if the system fails.
    pub fn save(path: impl AsRef<Path>) -> Result<SaveStats, FileError> {
        index.changes.save(path.as_ref(), progress)
    }

    /// The bytes of the file that [`Self::save`] writes, for other places than the file system.
    /// [`OpenOptions::open_bytes`] reads them.
    ///
    /// ```
    /// # use jasper::{Index, IndexBuilder, MatrixView, Metric, OpenOptions};
    /// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
    /// let copy: Index<u8> = OpenOptions::new().open_bytes(&index.to_bytes()?)?;
    /// assert_eq!(copy.vector(1), Some(vec![3, 4]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`FileFault`] if the device failed, or the index has several shards ([`DeviceError::Sharded`]).
    pub fn to_bytes() -> Result<Vec<u8>, FileFault> {
        let mut out = Cursor::new(Vec::new());
        let written = index.read_graph(|graph| graph.write_to(&mut out, progress).map(drop));
        written.map_err(FileFault::Device)??;
        Ok(out.into_inner())
    }

    /// Verifies every vector, edge and key, and that every vector can be reached. Measures on a sample how difficult the
    /// vectors are to search.
    ///
    /// Reads vectors and edges once, traverses the graph once, and makes 512 searches on the CPU. Concurrent searches and
    /// changes behave as in [`Self::read_graph`].
    ///
    /// # Errors
    /// Returns [`CheckError`] if the device failed.
    pub fn check() -> Result<CheckReport, CheckError> {
        let mut check = |graph: &Graph<T>| CheckReport::new(graph, &index.executor, progress);
        let mut report = match index.backend.shards() {
            [] => index.read_graph(check)??,
            shards => {
                let _writer = index.changes.lock_writer();
                index.backend.sync_host_edges()?;
                let reports = shards.iter().map(|shard| shard.read(&mut check));
                reports.reduce(|sum, report| Ok(sum?.merge(report?))).expect("there is a shard")?
            }
        };
        if index.backend.replicas() > 1 {
            let _writer = index.changes.lock_writer();
            report.different = index.backend.differing_replicas(progress)?;
        }
        Ok(report)
    }
}
