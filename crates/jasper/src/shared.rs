//! The index that many threads use at once, where it lives.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jasper_core::{Element, Key, MatrixView, Metric, ProgressFn, VectorSource, no_progress};
use jasper_graph::{FileError, FileFault, Graph, SaveStats};
use jasper_vamana::{
    CompactReport, ConsolidateError, ConsolidateReport, CpuExecutor, Existing, Hit, InsertError,
    InsertReport, SearchError, SearchParams, SearchReport, VectorStorage, compact,
};

#[cfg(feature = "cuda")]
use jasper_vamana::GraphLock;

use crate::home::Home;
use crate::index::write_hits;
use crate::update::Updater;
use crate::{CheckReport, CompactError, DeleteError, Device, DeviceError, Index, IndexStats};

/// An [`Index`] that any number of threads search while one changes it, on the processor or on a CUDA device. All methods
/// take `&self`. Made by [`SharedIndex::new`] and [`Index::to_device`].
///
/// ```
/// use jasper::{Device, Index, MatrixView, Metric, SearchParams, synthetic::Clusters};
///
/// let rows: Vec<f32> = Clusters::new(32, 7).rows(2000, 0);
/// let index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 32)?)?;
/// let index = index.to_device(Device::Auto)?;
/// println!("on {}, where it takes {} bytes", index.device(), index.device_bytes());
///
/// let hits = index.search(&rows[..32], SearchParams::new(10))?;
/// assert_eq!((hits[0].key, hits[0].distance), (0, 0.0));
/// index.delete(&[0])?;
/// index.insert(&MatrixView::new(&[0.5; 32], 32)?, &[123_456])?;
/// index.consolidate()?;
/// let all = index.search_batch(MatrixView::new(&rows, 32)?, SearchParams::new(1))?;
/// assert_eq!(all[1999].key, 1999);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A search sees one state: that before or that after a published batch, never half of one. New vectors are returned
/// from the moment their call is done, deleted ones never after theirs. A change is worked out beside the searches, and
/// stops them only while its rows are written; changes wait for one another. An error or a cancel leaves the index as it
/// was before the call.
///
/// # On a CUDA device
///
/// Answers and changes are those of the processor: the same keys in the same order, and where sums do not round, as those
/// of bytes never do, the same graph, byte for byte. `beam_width` is at most 1024. Where tombstones or a filter make
/// searches wider than that, they stay at 1024, and find what a search with a smaller `beam_width` does on a processor;
/// what is then still missing of `k` is found by a scan. A filter is asked of every key, in every call.
///
/// Vectors and keys are on the host as well; edges come back when the index is saved, checked or [taken
/// home](Self::into_index). A device that fails while it changes, or faults, is lost
/// with its edges: what is left is the last file that was saved.
#[derive(Debug)]
pub struct SharedIndex<T: Element> {
    pub(crate) home: Home<T>,
    /// Held by whoever changes the index: what was looked up stays true until it is written.
    writer: Mutex<()>,
    pub(crate) executor: Arc<CpuExecutor>,
    /// What [`Index::keep_vectors`] said.
    vectors: Option<VectorStorage>,
}

impl<T: Element> Index<T> {
    /// Takes the index to a device: from now on it is searched and changed there. [`Device::Auto`] is the first CUDA device
    /// that can hold it, or the processor where there is none.
    ///
    /// Vectors go into the device's memory if all of the index fits there. If it does not and the index has codes, they go
    /// into pinned memory of the host, if the rest fits; [`Self::keep_vectors`] says so beforehand, and
    /// [`IndexStats::vectors`] where they are.
    ///
    /// Cost on a CUDA device: one pass over the index, and a start of some tenths of a second; vectors that stay on the host are
    /// copied to memory that is pinned first, some milliseconds for each ten megabytes.
    ///
    /// # Errors
    /// [`DeviceError`]: there is no such device, or the index does not fit, with numbers; a device that fails. The index is
    /// then dropped: where that would be a loss, ask [`Device::find`] first.
    pub fn to_device(self, device: Device) -> Result<SharedIndex<T>, DeviceError> {
        let home = Home::find(self.graph, &self.executor, device, self.vectors)?;
        Ok(SharedIndex { home, writer: Mutex::new(()), executor: self.executor, vectors: self.vectors })
    }
}

/// Runs a change on the graph, wherever it is.
///
/// One that is `linking` vertices asks before whether kernels can.
macro_rules! change {
    ($self:ident, linking $updater:ident => $change:expr) => {{
        #[cfg(feature = "cuda")]
        if let Home::Cuda(cuda) = &$self.home {
            GraphLock::read(&&cuda.graph, |graph| graph.check_updates())?;
        }
        change!($self, $updater => $change)
    }};
    ($self:ident, $updater:ident => $change:expr) => {{
        let _writer = $self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match &$self.home {
            Home::Processor(graph) => {
                let $updater = Updater { executor: &*$self.executor, cell: &**graph };
                $change
            }
            #[cfg(feature = "cuda")]
            Home::Cuda(cuda) => {
                let _kept = jasper_cuda::PoolRetention::new(cuda.contexts.context())?;
                let $updater = Updater { executor: &cuda.linker, cell: &cuda.graph };
                $change
            }
        }
    }};
}

impl<T: Element> SharedIndex<T> {
    /// Shares an index on the processor.
    pub fn new(index: Index<T>) -> Self {
        let Index { graph, executor, vectors } = index;
        Self { home: Home::on_processor(graph), writer: Mutex::new(()), executor, vectors }
    }

    /// The index, when nobody shares it any more and it has left its device.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]: its edges are lost with the device. Never on the processor.
    pub fn into_index(self) -> Result<Index<T>, DeviceError> {
        let graph = self.home.leave(&self.executor)?;
        Ok(Index { graph, executor: self.executor, vectors: self.vectors })
    }

    /// See [`Index::search`].
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        #[cfg(feature = "cuda")]
        if let Home::Cuda(cuda) = &self.home {
            return cuda.search(|graph| cuda.contexts.answer_one(graph, self.executor.pool(), query, params));
        }
        self.home.read(|graph| self.executor.answer_one(graph, query, params))
    }

    /// See [`Index::search_batch`]. All queries see the same state.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let mut hits = params.places(queries.len())?;
        self.search_into(queries, params, &mut hits)?;
        Ok(hits)
    }

    /// See [`Index::search_into`]. All queries see the same state.
    ///
    /// A CUDA device may count more distances than the processor: it forgets some of the vertices that it has seen.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        #[cfg(feature = "cuda")]
        if let Home::Cuda(cuda) = &self.home {
            return write_hits(hits, |matches| {
                cuda.search(|graph| {
                    cuda.contexts.answer(graph, self.executor.pool(), queries, params, matches)
                })
            });
        }
        write_hits(hits, |matches| {
            self.home.read(|graph| self.executor.answer(graph, queries, params, matches))
        })
    }

    /// See [`Index::insert`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert(&self, rows: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        self.insert_with(rows, keys, &mut no_progress)
    }

    /// See [`Index::insert_with`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_with(
        &self,
        rows: &dyn VectorSource<T>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError> {
        change!(self, linking updater => updater.insert(rows, keys, Existing::Refuse, progress))
    }

    /// See [`Index::insert_next`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_next(&self, rows: &dyn VectorSource<T>) -> Result<Key, InsertError> {
        self.insert_next_with(rows, &mut no_progress)
    }

    /// See [`Index::insert_next_with`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_next_with(
        &self,
        rows: &dyn VectorSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Key, InsertError> {
        change!(self, linking updater => updater.insert_next(rows, progress))
    }

    /// See [`Index::upsert`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn upsert(&self, rows: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        change!(self, linking updater => updater.insert(rows, keys, Existing::Replace, &mut no_progress))
    }

    /// See [`Index::delete`].
    ///
    /// # Errors
    /// [`DeleteError`].
    pub fn delete(&self, keys: &[Key]) -> Result<(), DeleteError> {
        change!(self, updater => updater.delete(keys))
    }

    /// See [`Index::undelete`].
    ///
    /// # Errors
    /// [`DeleteError`].
    pub fn undelete(&self, keys: &[Key]) -> Result<(), DeleteError> {
        change!(self, updater => updater.undelete(keys))
    }

    /// See [`Index::consolidate`].
    ///
    /// # Errors
    /// As there.
    pub fn consolidate(&self) -> Result<ConsolidateReport, ConsolidateError> {
        self.consolidate_with(&mut no_progress)
    }

    /// See [`Index::consolidate_with`].
    ///
    /// # Errors
    /// As there.
    pub fn consolidate_with(
        &self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<ConsolidateReport, ConsolidateError> {
        change!(self, linking updater => updater.consolidate(progress))
    }

    /// See [`Index::compact`]. Searches wait until it is done. A CUDA device keeps the memory for later inserts.
    ///
    /// # Errors
    /// [`CompactError`].
    pub fn compact(&self) -> Result<CompactReport, CompactError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.home {
            Home::Processor(graph) => {
                Ok(compact(&mut graph.write().unwrap_or_else(PoisonError::into_inner))?)
            }
            #[cfg(feature = "cuda")]
            Home::Cuda(cuda) => Ok(cuda.graph.write().unwrap_or_else(PoisonError::into_inner).compact()?),
        }
    }

    /// See [`Index::save`]. Changes wait meanwhile; searches go on, but for the time in which a CUDA device gives the edges.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<SaveStats, FileError> {
        self.save_with(path, &mut no_progress)
    }

    /// See [`Index::save_with`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.home
            .bring_links(&self.executor)
            .map_err(|error| FileError::new(path.as_ref(), FileFault::Write(io::Error::other(error))))?;
        self.home.read(|graph| graph.save(path, progress))
    }

    /// See [`Index::check`]. Changes wait meanwhile; searches go on, but for the time in which a CUDA device gives the edges.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`]; never on the processor.
    pub fn check(&self) -> Result<CheckReport, DeviceError> {
        let is_home = matches!(self.home, Home::Processor(_));
        let _writer = (!is_home).then(|| self.writer.lock().unwrap_or_else(PoisonError::into_inner));
        self.home.bring_links(&self.executor)?;
        Ok(self.home.read(|graph| self.executor.pool().install(|| CheckReport::of(graph))))
    }

    /// See [`Index::stats`]. On a CUDA device `mean_degree` counts the edges that the last save or check brought to the host,
    /// none if the index was compacted since.
    pub fn stats(&self) -> IndexStats {
        let vectors = self.vectors();
        self.home.read(|graph| IndexStats::of(graph, vectors))
    }

    /// See [`Index::len`].
    pub fn len(&self) -> usize {
        self.home.read(|graph| graph.keys().len())
    }

    /// See [`Index::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// See [`Index::dimension`].
    pub fn dimension(&self) -> usize {
        self.home.read(Graph::dimension)
    }

    /// See [`Index::metric`].
    pub fn metric(&self) -> Metric {
        self.home.read(Graph::metric)
    }

    /// Whether the key can be found.
    pub fn contains(&self, key: Key) -> bool {
        self.home.read(|graph| graph.keys().slot_of(key).is_some())
    }

    /// A copy of a key's vector; see [`Index::vector`].
    pub fn vector(&self, key: Key) -> Option<Vec<T>> {
        let vector = |graph: &Graph<T>| {
            graph
                .keys()
                .slot_of(key)
                .filter(|_| graph.has_vectors())
                .map(|slot| graph.vectors().get(slot).to_vec())
        };
        self.home.read(vector)
    }

    /// Where it lives: [`Device::Cpu`] or [`Device::Cuda`].
    pub fn device(&self) -> Device {
        self.home.device()
    }

    /// Name of the processor or GPU where it lives, such as `NVIDIA H200`.
    pub fn device_name(&self) -> String {
        self.home.name()
    }

    /// Where searches read vectors, as [`IndexStats::vectors`] says: the cost of a look.
    pub fn vectors(&self) -> VectorStorage {
        self.home.vectors()
    }

    /// Bytes of device memory that the index takes; 0 on the processor.
    pub fn device_bytes(&self) -> u64 {
        match &self.home {
            Home::Processor(_) => 0,
            #[cfg(feature = "cuda")]
            Home::Cuda(cuda) => cuda.graph.read().unwrap_or_else(PoisonError::into_inner).copy().bytes(),
        }
    }
}

#[cfg(feature = "cuda")]
impl<T: Element> SharedIndex<T> {
    /// Queues a search of queries that are in device memory, and does not wait. By codes where the index has them, with the
    /// distances of [`Self::search_batch`]; see [`jasper_cuda::SearchContexts::launch`]. Who launches often by codes holds
    /// [`jasper_cuda::PoolRetention`], so that memory is at hand.
    ///
    /// ```
    /// use jasper::cuda::{Context, DeviceBatch, Stream, hit_from_answer, prelude::*};
    /// use jasper::{Device, Index, MatrixView, Metric, SearchParams, synthetic::Clusters};
    ///
    /// if let Ok(context) = Context::open(0) {
    ///     let rows: Vec<f32> = Clusters::new(32, 1).rows(1000, 0);
    ///     let index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 32)?)?;
    ///     let index = index.to_device(Device::Cuda(0))?;
    ///
    ///     let (stream, params) = (Stream::new(&context)?, SearchParams::new(10));
    ///     let queries = stream.upload(&index.prepare_queries(MatrixView::new(&rows[..320], 32)?)?)?;
    ///     let (mut answers, mut work) = (stream.allocate(10 * params.k)?, stream.allocate(10 * 2)?);
    ///     let arrays = DeviceBatch { queries: &queries, answers: &mut answers, work: &mut work };
    ///     index.search_on_device(&stream, params, arrays)?;
    ///     let nearest = hit_from_answer(stream.download(&answers)?[0]);
    ///     assert_eq!((nearest.key, nearest.distance), (0, 0.0));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SearchError`]; [`DeviceError::OnProcessor`] in it where the index is on no CUDA device.
    ///
    /// # Panics
    /// If `stream` did not make the arrays, or is of another device than the index.
    pub fn search_on_device(
        &self,
        stream: &jasper_cuda::Stream,
        params: SearchParams<'_>,
        arrays: jasper_cuda::DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        let Home::Cuda(cuda) = &self.home else { return Err(SearchError::device(DeviceError::OnProcessor)) };
        cuda.search(|graph| cuda.contexts.launch(graph, self.executor.pool(), stream, params, arrays))
    }

    /// Queries as [`Self::search_on_device`] takes them: checked, of unit length where the metric is cosine and elements are
    /// floats, padded with zeros to whole pieces of 16 bytes.
    ///
    /// # Errors
    /// [`SearchError`], naming the query.
    pub fn prepare_queries(&self, queries: MatrixView<'_, T>) -> Result<Vec<T>, SearchError> {
        self.home.read(|graph| Ok(graph.vectors().prepare_all(queries)?))
    }
}
