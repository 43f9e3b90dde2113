//! The index that many threads use at once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jasper_build::{
    CompactReport, ConsolidateError, ConsolidateReport, CpuExecutor, Existing, GraphCell, Hit, InsertError,
    InsertReport, SearchError, SearchParams, SearchReport,
};
use jasper_core::{Element, Key, MatrixView, RowSource, silent};
use jasper_graph::{Graph, RowError, SaveError, SaveStats};

use crate::update::Updater;
use crate::{CheckReport, DeleteError, Index, IndexStats};

/// An [`Index`] that any number of threads search while one changes it. All methods take `&self`.
///
/// A search sees one state: that before or that after a published batch, never half of one. New vectors are returned
/// from the moment their call is done, deleted ones never after theirs. A change is worked out beside the searches, and
/// stops them only while its rows are written; changes wait for one another.
#[derive(Debug)]
pub struct SharedIndex<T: Element> {
    graph: RwLock<Graph<T>>,
    /// Held by whoever changes the index: what was looked up stays true until it is written.
    writer: Mutex<()>,
    executor: Arc<CpuExecutor>,
}

impl<T: Element> SharedIndex<T> {
    /// Shares an index.
    pub fn new(index: Index<T>) -> Self {
        Self { graph: RwLock::new(index.graph), writer: Mutex::new(()), executor: index.executor }
    }

    /// The index, when nobody shares it any more.
    pub fn into_inner(self) -> Index<T> {
        let graph = self.graph.into_inner().unwrap_or_else(PoisonError::into_inner);
        Index { graph, executor: self.executor }
    }

    /// See [`Index::search`].
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.read(|graph| self.executor.answer_one(graph, query, params))
    }

    /// See [`Index::search_into`]. All queries see the same state.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        self.read(|graph| self.executor.answer(graph, queries, params, hits))
    }

    /// See [`Index::insert`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert(&self, rows: &dyn RowSource<T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        self.change(|updater| updater.insert(rows, keys, Existing::Refuse, &mut silent))
    }

    /// See [`Index::insert_next`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn insert_next(&self, rows: &dyn RowSource<T>) -> Result<Key, InsertError> {
        self.change(|updater| updater.insert_next(rows, &mut silent))
    }

    /// See [`Index::upsert`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub fn upsert(&self, rows: &dyn RowSource<T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        self.change(|updater| updater.insert(rows, keys, Existing::Replace, &mut silent))
    }

    /// See [`Index::delete`].
    ///
    /// # Errors
    /// [`DeleteError`].
    pub fn delete(&self, keys: &[Key]) -> Result<(), DeleteError> {
        self.change(|updater| updater.delete(keys))
    }

    /// See [`Index::undelete`].
    ///
    /// # Errors
    /// [`DeleteError`].
    pub fn undelete(&self, keys: &[Key]) -> Result<(), DeleteError> {
        self.change(|updater| updater.undelete(keys))
    }

    /// See [`Index::consolidate`].
    ///
    /// # Errors
    /// As there.
    pub fn consolidate(&self) -> Result<ConsolidateReport, ConsolidateError> {
        self.change(|updater| updater.consolidate(&mut silent))
    }

    /// See [`Index::compact`]. Searches wait until it is done.
    ///
    /// # Errors
    /// As there.
    pub fn compact(&self) -> Result<CompactReport, RowError> {
        self.change(|updater| updater.compact())
    }

    /// See [`Index::save`]. Searches go on meanwhile, changes wait.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<SaveStats, SaveError> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(|graph| graph.save(path, &mut silent))
    }

    /// See [`Index::check`].
    pub fn check(&self) -> CheckReport {
        self.read(|graph| self.executor.pool().install(|| CheckReport::of(graph)))
    }

    /// See [`Index::stats`].
    pub fn stats(&self) -> IndexStats {
        self.read(IndexStats::of)
    }

    /// Whether the key can be found.
    pub fn contains(&self, key: Key) -> bool {
        self.read(|graph| graph.slot_of(key).is_some())
    }

    /// A copy of a key's vector; see [`Index::vector`].
    pub fn vector(&self, key: Key) -> Option<Vec<T>> {
        self.read(|graph| graph.slot_of(key).map(|slot| graph.vector(slot).to_vec()))
    }

    fn read<R>(&self, look: impl FnOnce(&Graph<T>) -> R) -> R {
        GraphCell::read(&&self.graph, look)
    }

    fn change<R>(&self, change: impl FnOnce(Updater<'_, &RwLock<Graph<T>>>) -> R) -> R {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        change(Updater { executor: &self.executor, cell: &self.graph })
    }
}
