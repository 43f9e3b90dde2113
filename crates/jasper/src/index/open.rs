//! Opening index files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jasper_core::{DeviceError, Element, ProgressFn};
use jasper_graph::{FileError, FileFault, Graph, TunedSearch};
use jasper_vamana::CpuExecutor;

use super::shard_files::{is_sharded, shard_files};
use crate::backend::OpeningDevice;
use crate::journal::{JournalError, OpenJournal};
use crate::progress::long_calls;
use crate::{DeviceChoice, DeviceOptions, Index};

/// Options for opening an index file.
///
/// ```
/// use jasper::{IndexBuilder, MatrixView, Metric, OpenOptions, SearchParams};
///
/// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("vectors.jasper");
/// index.save(&path)?;
/// let index = OpenOptions::new().mapped(true).threads(2).open::<u8>(&path)?;
/// assert_eq!(index.search(&[3, 4], SearchParams::new(1))?[0].key, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "options do nothing until `open`"]
pub struct OpenOptions {
    threads: Option<usize>,
    is_mapped: bool,
    exact_linking: bool,
    device: Option<(DeviceChoice, DeviceOptions)>,
}

/// An index file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read or is not intact, or the call was cancelled.
    #[error(transparent)]
    File(#[from] FileError),
    /// A durable index cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The index cannot be moved to the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
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

    /// The device to open the index on, as if [moved there](Index::to_device_with) once it is open; by default it stays
    /// in host memory. That takes less time than two calls, because the device is opened while the file is read.
    pub fn device(mut self, device: impl Into<DeviceChoice>, options: DeviceOptions) -> Self {
        self.device = Some((device.into(), options));
        self
    }

    /// An index over a graph that was read.
    fn index<T: Element>(&self, graph: Graph<T>) -> Result<Index<T>, FileFault> {
        let executor = CpuExecutor::new(self.threads).map_err(io::Error::other)?;
        TunedSearch::stored(&graph)?;
        Ok(Index::new(graph, Arc::new(executor), self.exact_linking))
    }

    /// Starts to open the device, if there is one, while the caller reads the index.
    fn open_device(&self) -> Result<Option<OpeningDevice>, DeviceError> {
        let Some((device, _)) = self.device else { return Ok(None) };
        device.resolve()?;
        Ok(Some(OpeningDevice::start(device)))
    }

    /// Moves an index that was opened to the device, if there is one.
    fn move_to_device<T: Element>(&self, index: Index<T>) -> Result<Index<T>, OpenError> {
        let Some((device, options)) = self.device else { return Ok(index) };
        Ok(index.to_device_with(device, options).map_err(DeviceError::from)?)
    }

    /// As [`Self::open_file`], in host memory.
    pub(crate) fn open_on_host<T: Element>(
        &self,
        path: &Path,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Index<T>, FileError> {
        let mut open =
            |path: &Path| if self.is_mapped { Graph::map(path) } else { Graph::open(path, progress) };
        if !is_sharded(path) {
            return self.index(open(path)?).map_err(|fault| FileError::new(path, fault));
        }
        let graphs = shard_files(path)?.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
        let start = || -> Result<_, FileFault> {
            graphs.iter().try_for_each(|graph| TunedSearch::stored(graph).map(drop))?;
            Ok(Arc::new(CpuExecutor::new(self.threads).map_err(io::Error::other)?))
        };
        let executor = start().map_err(|fault| FileError::new(path, fault))?;
        Ok(Index::from_shards(graphs, executor, self.exact_linking))
    }

    /// Opens an index file, or the folder of a sharded index.
    fn open_file<T: Element>(
        &self,
        path: &Path,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Index<T>, OpenError> {
        let _opening = self.open_device()?;
        let index = self.open_on_host::<T>(path, progress)?;
        self.move_to_device(index)
    }

    /// Opens a durable index, and makes the changes in its journal.
    pub(crate) fn open_folder<T: Element>(
        &self,
        journal: OpenJournal,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Index<T>, OpenError> {
        let index = self.open_file(&journal.snapshot(), progress)?;
        index.changes.set_journal(journal.replay(&index, progress)?);
        Ok(index)
    }
}

// `options` is the `self` of the calls.
long_calls! {
    impl OpenOptions as (options, progress);

    /// Opens an index file, the folder of a [sharded index](crate::IndexBuilder::shards), which may be opened on any
    /// number of devices, or the folder of a [durable index](Index::open_durable). [`Self::open_any`] opens one whose
    /// element type is not known.
    ///
    /// # Errors
    /// Returns [`OpenError`], also if the file has another element type, or threads cannot be started.
    pub fn open<T: Element>(path: impl AsRef<Path>) -> Result<Index<T>, OpenError> {
        let path = path.as_ref();
        if path.is_dir() && !is_sharded(path) {
            options.open_folder(OpenJournal::new(path)?, progress)
        } else {
            options.open_file(path, progress)
        }
    }

    /// Opens the bytes of an index file, which [`Index::to_bytes`] returns. They are copied, [mapped](Self::mapped) or
    /// not.
    ///
    /// # Errors
    /// As [`Self::open`], with `<bytes>` for a path.
    pub fn open_bytes<T: Element>(bytes: &[u8]) -> Result<Index<T>, OpenError> {
        let _opening = options.open_device()?;
        let graph = Graph::read_from(bytes, progress);
        let index = graph.and_then(|graph| options.index(graph)).map_err(in_bytes)?;
        options.move_to_device(index)
    }
}

/// The error of bytes, which have no path.
pub(crate) fn in_bytes(fault: FileFault) -> FileError {
    FileError::new(Path::new("<bytes>"), fault)
}
