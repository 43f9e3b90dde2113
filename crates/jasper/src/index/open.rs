//! Opening index files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use jasper_core::{Element, no_progress};
use jasper_graph::{FileError, FileFault, Graph, TunedSearch};
use jasper_vamana::CpuExecutor;

use crate::{Index, WithProgress};

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
}

impl OpenOptions {
    /// The default options: the file is read into memory, and there is one thread per CPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// Threads for changes and for batches of queries, at least 1; `None`, the default, means one per CPU.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Whether to map the file instead of reading it. Opening then returns at once, and pages are read when searches
    /// access them.
    ///
    /// Checksums are not verified. The file must not be truncated while the index lives; see [`Graph::map`].
    pub fn mapped(mut self, mapped: bool) -> Self {
        self.is_mapped = mapped;
        self
    }

    /// Whether later changes link float vectors themselves: see
    /// [`IndexBuilder::exact_linking`](crate::IndexBuilder::exact_linking).
    pub fn exact_linking(mut self, exact_linking: bool) -> Self {
        self.exact_linking = exact_linking;
        self
    }

    /// Opens an index file. [`Self::open_any`] opens one whose element type is not known.
    ///
    /// # Errors
    /// Returns [`FileError`], also if the file has another element type, or threads cannot be started.
    pub fn open<T: Element>(self, path: impl AsRef<Path>) -> Result<Index<T>, FileError> {
        self.with_progress(&mut no_progress).open(path)
    }

    /// Opens the bytes of an index file, which [`Index::to_bytes`] returns. They are copied, [mapped](Self::mapped) or
    /// not.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`], without a path.
    pub fn open_bytes<T: Element>(self, bytes: &[u8]) -> Result<Index<T>, FileFault> {
        self.with_progress(&mut no_progress).open_bytes(bytes)
    }
}

impl WithProgress<'_, OpenOptions> {
    /// See [`OpenOptions::open`].
    ///
    /// # Errors
    /// Returns [`FileError`].
    pub fn open<T: Element>(self, path: impl AsRef<Path>) -> Result<Index<T>, FileError> {
        let path = path.as_ref();
        let options = self.inner;
        let mut open = || {
            let graph = if options.is_mapped { Graph::map(path) } else { Graph::open(path, self.progress) };
            options.index(graph.map_err(FileError::into_cause)?)
        };
        open().map_err(|fault| FileError::new(path, fault))
    }

    /// See [`OpenOptions::open_bytes`].
    ///
    /// # Errors
    /// Returns [`FileFault`].
    pub fn open_bytes<T: Element>(self, bytes: &[u8]) -> Result<Index<T>, FileFault> {
        self.inner.index(Graph::read_from(bytes, self.progress)?)
    }
}

impl OpenOptions {
    /// An index over a graph that was read.
    fn index<T: Element>(self, graph: Graph<T>) -> Result<Index<T>, FileFault> {
        let executor = CpuExecutor::new(self.threads).map_err(io::Error::other)?;
        TunedSearch::stored(&graph)?;
        Ok(Index::new(graph, Arc::new(executor), self.exact_linking))
    }
}
