//! The index that one thread owns.

use std::path::Path;
use std::sync::Arc;

use jasper_core::{
    BuildParams, Element, Key, MatrixView, Metric, NO_KEY, ProgressFn, VectorSource, no_progress,
};
use jasper_graph::{FileError, Graph, SaveStats, VectorError};
use jasper_quant::Quantization;
use jasper_vamana::{
    CodeReport, CompactReport, ConsolidateError, ConsolidateReport, CpuExecutor, Exclusive, Existing, Hit,
    InsertError, InsertReport, MatchesMut, PoolError, QuantizeError, SearchError, SearchParams, SearchReport,
    TunedSearch, VectorStorage, code_report, compact, quantize,
};

#[cfg(feature = "cuda")]
use crate::MemoryPlan;
use crate::update::Updater;
use crate::{CheckReport, DeleteError, IndexBuilder, IndexStats};

/// Vectors of one element type, found by nearness, each under a key.
///
/// Searches take `&self` and changes `&mut self`; [`crate::SharedIndex`] lets both run at once. An error or a cancel
/// leaves the index as it was before the call. See the [crate page](crate) for an example.
#[derive(Debug)]
pub struct Index<T: Element> {
    pub(crate) graph: Graph<T>,
    pub(crate) executor: Arc<CpuExecutor>,
    /// Where vectors are to be on a CUDA device, if that is said.
    pub(crate) vectors: Option<VectorStorage>,
}

impl Index<f32> {
    /// Starts a build. The element type is that of the rows given later.
    pub fn builder<'a>(metric: Metric) -> IndexBuilder<'a> {
        IndexBuilder::new(metric)
    }
}

impl<T: Element> Index<T> {
    /// Reads an index file into memory, and checks every byte of it.
    ///
    /// Cost: one pass over the file; memory is that of the index.
    ///
    /// # Errors
    /// [`FileError`], naming the file, the section and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::open_with(path, 0, &mut no_progress)
    }

    /// [`Self::open`] on `threads` threads (0: one for each processor), telling `progress` how far it is.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open_with(
        path: impl AsRef<Path>,
        threads: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Self, FileError> {
        let path = path.as_ref();
        let graph = Graph::open(path, progress)?;
        TunedSearch::stored(&graph).map_err(|fault| FileError::new(path, fault))?;
        Ok(Self::of_graph(graph, threads).expect("a process may start a thread"))
    }

    /// Maps an index file: opens at once, and pages come in as searches touch them. The file is trusted and must not be
    /// shortened while the index lives; see [`Graph::map`].
    ///
    /// # Errors
    /// [`FileError`].
    pub fn map(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let graph = Graph::map(path)?;
        TunedSearch::stored(&graph).map_err(|fault| FileError::new(path, fault))?;
        Ok(Self::of_graph(graph, 0).expect("a process may start a thread"))
    }

    /// The index over a graph, for example one that [`jasper_graph::interop`] read.
    ///
    /// # Errors
    /// [`PoolError`] when `threads` threads (0: one for each processor) cannot be started.
    pub fn of_graph(graph: Graph<T>, threads: usize) -> Result<Self, PoolError> {
        Ok(Self { graph, executor: Arc::new(CpuExecutor::new(threads)?), vectors: None })
    }

    /// Makes searches on long rows faster, with the same answers: keeps each row of f32 a second time at a byte a
    /// coordinate, by which most rows are ruled out without being read. Takes a quarter of the vectors' memory, and is
    /// kept in step with changes; other elements are small enough and take nothing. Not saved.
    ///
    /// # Errors
    /// [`VectorError::Memory`].
    pub fn sketch(&mut self) -> Result<(), VectorError> {
        Ok(self.graph.vectors_mut().build_sketches(None)?)
    }

    /// Codes all vectors, in the place of what codes there are: searches then find their way by estimated distances, which
    /// cost a fraction of the memory traffic, and only what they find gets exact ones; see [`crate::Distances`]. Codes are kept
    /// in step with changes, and saved. What they are made by is learnt now; where data change much, this is called
    /// again.
    ///
    /// Cost: seconds of learning, and about a search a vector; memory is that of [`IndexStats::code_bytes`].
    ///
    /// # Errors
    /// [`QuantizeError`]; the index is as it was.
    pub fn quantize(&mut self, code: Quantization) -> Result<(), QuantizeError> {
        quantize(&self.executor, &mut self.graph, code)
    }

    /// Gives the memory of vectors back, which is most of an index's: only codes are left. Searches answer by estimates, and
    /// keys can be deleted and restored; inserts, consolidation and new codes take vectors, and are refused.
    ///
    /// # Errors
    /// [`SearchError::NoCodes`]; the index is as it was.
    pub fn drop_vectors(&mut self) -> Result<(), SearchError> {
        if self.graph.vectors().codes().is_none() {
            return Err(SearchError::NoCodes);
        }
        self.graph.drop_vectors();
        Ok(())
    }

    /// Says where vectors are when the index is [on a CUDA device](Self::to_device), or [tuned](Self::tune) there: in its
    /// memory, or in pinned memory of the host, where kernels reach them over the bus. Without this they are on the device
    /// if all of the index fits there, else on the host if it has codes. On a processor it means nothing; it is not saved.
    ///
    /// On the host they take none of the device's memory, which is most of what an index takes, and are there twice, since the
    /// copy that the device reads is pinned. It is for indexes with codes: searches by these read over the bus only the
    /// vectors that get exact distances, and answers are the same. Exact searches, inserts and consolidation read all their
    /// vectors so, at a fraction of the speed.
    ///
    /// ```
    /// use jasper::{Quantization, Device, Index, MatrixView, Metric, VectorStorage, SearchParams, synthetic::Clusters};
    ///
    /// let rows: Vec<f32> = Clusters::new(32, 7).rows(2000, 0);
    /// let mut index = Index::builder(Metric::L2).quantize(Quantization::Rabitq { bits: 4 }).build(&MatrixView::new(&rows, 32)?)?;
    /// index.keep_vectors(VectorStorage::Host);
    /// let index = index.to_device(Device::Auto)?;
    /// assert_eq!(index.stats().vectors, VectorStorage::Host);
    /// assert_eq!(index.search(&rows[..32], SearchParams::new(10))?[0].key, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_vectors(&mut self, place: VectorStorage) {
        self.vectors = Some(place);
    }

    /// What the index takes of a CUDA device and of the host beside it, part by part, with its vectors in that place. Cost:
    /// none; there need not be a device.
    #[cfg(feature = "cuda")]
    pub fn plan_on_device(&self, vectors: VectorStorage) -> MemoryPlan {
        jasper_cuda::DeviceGraph::<T>::plan(&self.graph, vectors)
    }

    /// How well codes fit the vectors as they are now, and how well codes learnt anew would; nothing where there are none.
    /// Data drift: where the second error is much smaller ([`CodeReport::has_drifted`]), [`Self::quantize`] is worth its
    /// time.
    ///
    /// # Errors
    /// [`QuantizeError::Train`]: nothing can be learnt from the vectors that are left.
    pub fn check_codes(&self) -> Result<Option<CodeReport>, QuantizeError> {
        Ok(code_report(&self.executor, &self.graph)?)
    }

    /// Gives the memory of codes back; searches are exact again.
    ///
    /// # Errors
    /// [`VectorError::NoVectors`]: codes are all there is.
    pub fn clear_codes(&mut self) -> Result<(), VectorError> {
        self.graph.require_vectors()?;
        self.graph.clear_codes();
        Ok(())
    }

    /// The graph beneath: vertices, edges, keys.
    pub fn graph(&self) -> &Graph<T> {
        &self.graph
    }

    /// Writes the index to `path`, in the place of what is there. The old file is whole until the new one is.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<SaveStats, FileError> {
        self.save_with(path, &mut no_progress)
    }

    /// [`Self::save`], telling `progress` how far it is.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileError> {
        self.graph.save(path, progress)
    }

    /// The nearest keys to one vector, nearest first; fewer than `k` only where there are fewer.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.executor.answer_one(&self.graph, query, params)
    }

    /// The nearest keys to every row of `queries`, on all threads: `k` places a query, nearest first, then
    /// [`Hit::NONE`] where there are fewer.
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

    /// [`Self::search_batch`] into the caller's `hits`, which holds `queries.len() x k` places; tells what it cost.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        write_hits(hits, |matches| self.executor.answer(&self.graph, queries, params, matches))
    }

    /// Adds `rows` under `keys`, one a row.
    ///
    /// Rows identical to others share their vertex. Small batches are fine: each costs its searches.
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert(&mut self, rows: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        self.insert_with(rows, keys, &mut no_progress)
    }

    /// [`Self::insert`], telling `progress` how far it is.
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_with(
        &mut self,
        rows: &dyn VectorSource<T>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError> {
        self.updater().insert(rows, keys, Existing::Refuse, progress)
    }

    /// Adds `rows` under keys of its own choosing, which go on from the largest ever used; gives the first.
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_next(&mut self, rows: &dyn VectorSource<T>) -> Result<Key, InsertError> {
        self.insert_next_with(rows, &mut no_progress)
    }

    /// [`Self::insert_next`], telling `progress` how far it is.
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_next_with(
        &mut self,
        rows: &dyn VectorSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Key, InsertError> {
        self.updater().insert_next(rows, progress)
    }

    /// Adds `rows` under `keys`; where a key is in the index already, its old vector is deleted in the same moment.
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn upsert(&mut self, rows: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        self.updater().insert(rows, keys, Existing::Replace, &mut no_progress)
    }

    /// Deletes keys: searches return them no more. Their vectors stay, to be restored or walked through, until
    /// [`Self::consolidate`].
    ///
    /// # Errors
    /// [`DeleteError`] if any key is unknown, deleted already, or given twice; none is deleted then.
    pub fn delete(&mut self, keys: &[Key]) -> Result<(), DeleteError> {
        self.updater().delete(keys)
    }

    /// Restores deleted keys, which is possible until [`Self::consolidate`], or until the key is given to another
    /// vector.
    ///
    /// # Errors
    /// [`DeleteError`] if any key cannot be restored; none is then.
    pub fn undelete(&mut self, keys: &[Key]) -> Result<(), DeleteError> {
        self.updater().undelete(keys)
    }

    /// Takes deleted vectors out of the graph, mends what led through them, and frees their slots for inserts.
    ///
    /// Worth it when a tenth of the vertices is deleted: searches walk through them until then.
    ///
    /// # Errors
    /// None on the processor without a progress closure; the type is that of [`Self::consolidate_with`].
    pub fn consolidate(&mut self) -> Result<ConsolidateReport, ConsolidateError> {
        self.consolidate_with(&mut no_progress)
    }

    /// [`Self::consolidate`], telling `progress` how far it is.
    ///
    /// # Errors
    /// [`ConsolidateError`]; the index is as it was.
    pub fn consolidate_with(
        &mut self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<ConsolidateReport, ConsolidateError> {
        self.updater().consolidate(progress)
    }

    /// Moves vectors into free slots and gives the memory behind them back. Keys and answers stay.
    ///
    /// # Errors
    /// [`VectorError::Memory`]; nothing has changed then.
    pub fn compact(&mut self) -> Result<CompactReport, VectorError> {
        compact(&mut self.graph)
    }

    /// Looks at every row, edge and key, and whether every vector can be found.
    pub fn check(&self) -> CheckReport {
        self.executor.pool().install(|| CheckReport::of(&self.graph))
    }

    /// Counts and sizes.
    pub fn stats(&self) -> IndexStats {
        IndexStats::of(&self.graph, VectorStorage::Host)
    }

    /// Keys that can be found.
    pub fn len(&self) -> usize {
        self.graph.keys().len()
    }

    /// Whether no key can be found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.graph.dimension()
    }

    /// How near two vectors are.
    pub fn metric(&self) -> Metric {
        self.graph.metric()
    }

    /// The parameters the graph is built with.
    pub fn params(&self) -> &BuildParams {
        self.graph.params()
    }

    /// Whether the key can be found.
    pub fn contains(&self, key: Key) -> bool {
        self.graph.keys().slot_of(key).is_some()
    }

    /// The vector of a key as it is stored: at unit length where the metric is cosine and the element a float. None where
    /// there is no such key, or only codes.
    pub fn vector(&self, key: Key) -> Option<&[T]> {
        self.graph
            .keys()
            .slot_of(key)
            .filter(|_| self.graph.has_vectors())
            .map(|slot| self.graph.vectors().get(slot))
    }

    /// All keys that can be found, in no order that means anything.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.graph.keys().live_slots().flat_map(|slot| self.graph.keys().keys_of(slot))
    }

    fn updater(&mut self) -> Updater<'_, CpuExecutor, Exclusive<'_, Graph<T>>> {
        Updater { executor: &self.executor, cell: Exclusive(&mut self.graph) }
    }
}

/// Runs a search that writes arrays, and copies its results to `hits`.
pub(crate) fn write_hits(
    hits: &mut [Hit],
    search: impl FnOnce(MatchesMut<'_>) -> Result<SearchReport, SearchError>,
) -> Result<SearchReport, SearchError> {
    let (mut keys, mut distances) = (vec![NO_KEY; hits.len()], vec![f32::INFINITY; hits.len()]);
    let report = search(MatchesMut::new(&mut keys, &mut distances))?;
    let found = keys.into_iter().zip(distances).map(|(key, distance)| Hit { key, distance });
    hits.iter_mut().zip(found).for_each(|(hit, found)| *hit = found);
    Ok(report)
}
