//! Opening index files.

use std::ops::ControlFlow;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use jasper_core::{DeviceError, Progress};
use jasper_graph::{FileError, Graph, TunedSearch};
use jasper_vamana::{CpuExecutor, adopt};

use super::{Callback, Index};
use crate::Device;
#[cfg(doc)]
use crate::ErrorKind;
use crate::backend::OpeningDevice;
use crate::error::{Error, Result};
use crate::inner::{IndexInner, is_sharded, shard_files};
use crate::journal::{FollowedLog, JournalError, JournalFault, OpenJournal};

/// Options for opening an index file.
///
/// ```
/// use jasper::{IndexBuilder, MatrixView, Metric, OpenOptions, SearchParams};
///
/// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("vectors.jasper");
/// index.save(&path)?;
/// let index = OpenOptions::new().mapped(true).threads(2).open(&path)?;
/// assert_eq!(index.search(&[3_u8, 4], SearchParams::new(1))?[0].key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until `open`"]
pub struct OpenOptions {
    threads: Option<usize>,
    is_mapped: bool,
    exact_linking: bool,
    follows: bool,
    device: Option<Device>,
    progress: Callback,
}

impl OpenOptions {
    /// The default options: the file is read into memory, and there is one thread per CPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// Threads for changes, and as many for batches of queries, at least 1; `None`, the default, means one per CPU, and more than
    /// that are not started.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Whether to map the file instead of reading it. Opening then returns at once, and pages are read when searches
    /// access them.
    ///
    /// The checksums of the header and the small sections are verified, those of the large tables (vectors, edges, keys
    /// and codes) are not. The file must not be truncated while the index lives; see [`Graph::map`].
    pub fn mapped(mut self, mapped: bool) -> Self {
        self.is_mapped = mapped;
        self
    }

    /// Whether later changes choose the edges of float vectors by exact distances: see
    /// [`IndexBuilder::exact_linking`](crate::IndexBuilder::exact_linking).
    pub fn exact_linking(mut self, exact_linking: bool) -> Self {
        self.exact_linking = exact_linking;
        self
    }

    /// Whether to follow the folder of a [durable index](Index::save_durable) that another process, or another index of
    /// this one, has open and changes. The index makes the same changes, and no others: its calls that change it return
    /// [`ErrorKind::Unsupported`]. Any number of indexes may follow one folder, which they only read.
    ///
    /// A thread looks for changes 20 times a second, until the index is dropped; [`Index::catch_up`] makes at once those
    /// whose calls have returned. A search sees a state that the changed index had: changes are made in their order, and
    /// each is visible at one moment. A change that the thread cannot make, for want of memory for example, is tried again,
    /// after pauses of up to three seconds, and `catch_up` returns the error. As long as an index follows, the parts of the
    /// journal are kept that it has not read.
    ///
    /// ```
    /// use jasper::{ElementKind, ErrorKind, Index, IndexBuilder, Metric, OpenOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("vectors");
    /// IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2)?.save_durable(&folder)?;
    /// let index = Index::open(&folder)?;
    /// let follower = OpenOptions::new().follow(true).open(&folder)?;
    ///
    /// index.insert(&[1_u8, 2], &[7])?;
    /// follower.catch_up()?;
    /// assert!(follower.contains(7));
    /// assert_eq!(follower.delete(&[7]).unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn follow(mut self, follow: bool) -> Self {
        self.follows = follow;
        self
    }

    /// The device to open the index on, as if [moved there](Index::to_device) once it is open; by default it stays
    /// in host memory. That takes less time than two calls, because the device is opened while the file is read.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// The options with a callback, which receives progress reports of opening and may cancel it.
    pub fn with_progress(mut self, report: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) -> Self {
        self.progress = Callback::new(report);
        self
    }

    /// Opens an index file, the folder of a [sharded index](crate::IndexBuilder::shards), which may be opened on any
    /// number of devices, or the folder of a [durable index](Index::save_durable).
    ///
    /// # Errors
    /// Fails with
    /// - [`ErrorKind::Io`] if a file or the journal cannot be read, or threads cannot be started;
    /// - [`ErrorKind::InvalidFile`] if there is no index, or it is damaged, or a durable index of one shard is to be
    ///   divided;
    /// - [`ErrorKind::InUse`] if the folder of a durable index is open, in this process or another;
    /// - [`ErrorKind::OutOfMemory`] or [`ErrorKind::Device`] if there is no room, or the device cannot be used;
    /// - [`ErrorKind::Cancelled`] by the progress callback.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Index> {
        self.open_path(path.as_ref())
    }

    fn open_path(&self, path: &Path) -> Result<Index> {
        if self.follows {
            self.open_followed(FollowedLog::open(path)?)
        } else if path.is_dir() && !is_sharded(path) {
            self.open_folder(path, OpenJournal::new(path)?)
        } else {
            self.open_file(path)
        }
    }

    /// Opens the bytes of an index file, which [`Index::to_bytes`] returns. They are copied, [mapped](Self::mapped) or
    /// not.
    ///
    /// # Errors
    /// As [`Self::open`], with `<bytes>` for a path. Only folders can be [followed](Self::follow).
    pub fn open_bytes(&self, bytes: &[u8]) -> Result<Index> {
        self.refuse_to_follow("<bytes>")?;
        let in_bytes = |fault| FileError::new(Path::new("<bytes>"), fault);
        let _opening = self.open_device()?;
        let graph = Graph::read_from(bytes, &mut self.progress.report()).map_err(in_bytes)?;
        self.move_to_device(self.index(graph, Path::new("<bytes>"))?.into())
    }

    /// Makes an index of a graph as it is.
    ///
    /// # Errors
    /// As [`Self::open`], with `<graph>` for a path.
    pub fn open_graph(&self, graph: Graph) -> Result<Index> {
        self.refuse_to_follow("<graph>")?;
        let index = self.index(graph, Path::new("<graph>"))?;
        self.move_to_device(index.into())
    }

    /// Makes an index of a graph of another library, read by the crate `jasper-interop`. Adds start points, and edges where
    /// few or no paths lead to a part of the graph. Other edges stay, but a full row may lose one to make room for an edge to
    /// a vertex that was unreachable.
    ///
    /// Cost: up to a search for each of 8,192 vertices, one pass over the edges, and a search for each unreachable vertex.
    ///
    /// # Errors
    /// As [`Self::open`], with `<graph>` for a path; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn import_graph(&self, mut graph: Graph) -> Result<Index> {
        self.refuse_to_follow("<graph>")?;
        let _opening = self.open_device()?;
        let executor = self.executor(slice::from_ref(&graph), Path::new("<graph>"))?;
        adopt(&executor, &mut graph, &mut self.progress.report())?;
        let index = IndexInner::new(graph, executor, self.exact_linking);
        self.move_to_device(index.into())
    }

    /// Refuses to follow what is no folder.
    fn refuse_to_follow(&self, path: &str) -> Result<()> {
        if self.follows {
            return Err(JournalError::new(Path::new(path), JournalFault::NotDurable).into());
        }
        Ok(())
    }

    /// Opens a durable index, and makes the changes in its journal.
    fn open_folder(&self, folder: &Path, journal: OpenJournal) -> Result<Index> {
        let index = self.open_snapshot(folder, &journal.snapshot())?;
        let journal = journal.replay(&index.inner, &mut self.progress.report())?;
        index.inner.changes.set_journal(journal);
        Ok(index)
    }

    /// Opens a durable index that another process changes.
    fn open_followed(&self, mut log: FollowedLog) -> Result<Index> {
        let index = loop {
            let opened = log.snapshot().map_err(Error::from);
            match opened.and_then(|snapshot| self.open_snapshot(log.folder(), &snapshot)) {
                Ok(index) => break index,
                // It was removed meanwhile.
                Err(_) if log.has_other_snapshot()? => {}
                Err(error) => return Err(error),
            }
        };
        let IndexInner { changes, exact_linking, .. } = &*index.inner;
        changes.set_follower(log.follow(changes.follower_index(*exact_linking))?);
        Ok(index)
    }

    /// Opens the snapshot of a durable index. It is not divided: keys that the log names would be given otherwise.
    fn open_snapshot(&self, folder: &Path, snapshot: &Path) -> Result<Index> {
        if let Some(device) = self.device
            && device.is_sharded
            && device.find()?.is_some_and(|ordinals| ordinals.len() > 1)
            && !is_sharded(snapshot)
        {
            return Err(JournalError::new(folder, JournalFault::OneShard).into());
        }
        self.open_file(snapshot)
    }

    /// Opens an index file, or the folder of a sharded index.
    fn open_file(&self, path: &Path) -> Result<Index> {
        let _opening = self.open_device()?;
        self.move_to_device(self.open_on_host(path)?.into())
    }

    /// As [`Self::open_file`], in host memory.
    fn open_on_host(&self, path: &Path) -> Result<IndexInner> {
        let open = |path: &Path| {
            if self.is_mapped { Graph::map(path) } else { Graph::open(path, &mut self.progress.report()) }
        };
        if !is_sharded(path) {
            return self.index(open(path)?, path);
        }
        let graphs = shard_files(path)?.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
        let executor = self.executor(&graphs, path)?;
        Ok(IndexInner::from_shards(graphs, executor, self.exact_linking))
    }

    /// An index over a graph that was read from `path`.
    fn index(&self, graph: Graph, path: &Path) -> Result<IndexInner> {
        let executor = self.executor(slice::from_ref(&graph), path)?;
        Ok(IndexInner::new(graph, executor, self.exact_linking))
    }

    /// The executor of an index over graphs that were read from `path`. Checks that their tuned searches can be read.
    fn executor(&self, graphs: &[Graph], path: &Path) -> Result<Arc<CpuExecutor>> {
        let check = |graph: &Graph| TunedSearch::stored(graph).map(drop);
        graphs.iter().try_for_each(check).map_err(|fault| FileError::new(path, fault))?;
        Ok(Arc::new(CpuExecutor::new(self.threads)?))
    }

    /// Starts to open the device, if there is one, while the caller reads the index.
    fn open_device(&self) -> Result<Option<OpeningDevice>> {
        let Some(device) = self.device else { return Ok(None) };
        device.find()?;
        Ok(Some(OpeningDevice::start(device)))
    }

    /// Moves an index that was opened to the device, if there is one.
    fn move_to_device(&self, index: Index) -> Result<Index> {
        let Some(device) = self.device else { return Ok(index) };
        Ok(index.moved_to_device(device).map_err(DeviceError::from)?)
    }
}
