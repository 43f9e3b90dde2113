//! What a runbook is played on.

use jasper_build::{
    ConsolidateError, ConsolidateReport, Hit, InsertError, InsertReport, SearchError, SearchParams,
    SearchReport,
};
use jasper_core::{Element, Key, MatrixView, ProgressFn};

use crate::{DeleteError, Index, IndexStats, SharedIndex};

/// An index that is changed and asked in turn, wherever it lives. All methods are those of [`Index`].
pub trait LiveIndex<T: Element> {
    /// See [`Index::insert_with`].
    ///
    /// # Errors
    /// [`InsertError`].
    fn insert(
        &mut self,
        rows: MatrixView<'_, T>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError>;

    /// See [`Index::upsert`].
    ///
    /// # Errors
    /// [`InsertError`].
    fn upsert(&mut self, rows: MatrixView<'_, T>, keys: &[Key]) -> Result<InsertReport, InsertError>;

    /// See [`Index::delete`].
    ///
    /// # Errors
    /// [`DeleteError`].
    fn delete(&mut self, keys: &[Key]) -> Result<(), DeleteError>;

    /// See [`Index::consolidate_with`].
    ///
    /// # Errors
    /// [`ConsolidateError`].
    fn consolidate(&mut self, progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, ConsolidateError>;

    /// See [`Index::search_into`].
    ///
    /// # Errors
    /// [`SearchError`].
    fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError>;

    /// See [`Index::stats`].
    fn stats(&self) -> IndexStats;
}

impl<T: Element> LiveIndex<T> for Index<T> {
    fn insert(
        &mut self,
        rows: MatrixView<'_, T>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError> {
        self.insert_with(&rows, keys, progress)
    }

    fn upsert(&mut self, rows: MatrixView<'_, T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        self.upsert(&rows, keys)
    }

    fn delete(&mut self, keys: &[Key]) -> Result<(), DeleteError> {
        self.delete(keys)
    }

    fn consolidate(&mut self, progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, ConsolidateError> {
        self.consolidate_with(progress)
    }

    fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        self.search_into(queries, params, hits)
    }

    fn stats(&self) -> IndexStats {
        self.stats()
    }
}

/// Others may search it, and change other keys, while the runbook is played.
impl<T: Element> LiveIndex<T> for &SharedIndex<T> {
    fn insert(
        &mut self,
        rows: MatrixView<'_, T>,
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError> {
        SharedIndex::insert_with(self, &rows, keys, progress)
    }

    fn upsert(&mut self, rows: MatrixView<'_, T>, keys: &[Key]) -> Result<InsertReport, InsertError> {
        SharedIndex::upsert(self, &rows, keys)
    }

    fn delete(&mut self, keys: &[Key]) -> Result<(), DeleteError> {
        SharedIndex::delete(self, keys)
    }

    fn consolidate(&mut self, progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, ConsolidateError> {
        SharedIndex::consolidate_with(self, progress)
    }

    fn search_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError> {
        SharedIndex::search_into(self, queries, params, hits)
    }

    fn stats(&self) -> IndexStats {
        SharedIndex::stats(self)
    }
}
