//! Changes of an index, the same for one that is owned and one that is shared.

use std::collections::HashSet;

use jasper_build::{
    CompactReport, ConsolidateError, ConsolidateReport, CpuExecutor, Existing, GraphCell, InsertError,
    InsertReport, compact, consolidate, insert,
};
use jasper_core::{Element, Key, ProgressFn, RowSource};
use jasper_graph::{Graph, KeyError, RowError};

/// Keys could not be deleted or restored; the index is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// A key is not there to be deleted or restored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key was given twice in one call.
    #[error("key {0} is given twice")]
    RepeatedKey(Key),
}

/// The changes, on a graph wherever it is kept.
pub(crate) struct Updater<'a, C> {
    pub(crate) executor: &'a CpuExecutor,
    pub(crate) cell: C,
}

impl<C> Updater<'_, C> {
    pub(crate) fn insert<T: Element>(
        mut self,
        rows: &dyn RowSource<T>,
        keys: &[Key],
        existing: Existing,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError>
    where
        C: GraphCell<Graph<T>>,
    {
        insert(self.executor, &mut self.cell, rows, keys, existing, progress)
    }

    /// Inserts under the keys that follow the largest there is; gives the first of them.
    pub(crate) fn insert_next<T: Element>(
        self,
        rows: &dyn RowSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Key, InsertError>
    where
        C: GraphCell<Graph<T>>,
    {
        let first = self.cell.read(Graph::next_key);
        // NO_KEY itself ends the keys there are.
        let end = first.checked_add(rows.len() as Key).ok_or(KeyError::Reserved)?;
        let keys: Vec<Key> = (first..end).collect();
        self.insert(rows, &keys, Existing::Refuse, progress)?;
        Ok(first)
    }

    pub(crate) fn delete<T: Element>(mut self, keys: &[Key]) -> Result<(), DeleteError>
    where
        C: GraphCell<Graph<T>>,
    {
        check_distinct(keys)?;
        self.cell.read(|graph| keys.iter().try_for_each(|&key| graph.check_live(key)))?;
        self.cell.write(|graph| keys.iter().try_for_each(|&key| graph.delete_key(key)))?;
        Ok(())
    }

    pub(crate) fn undelete<T: Element>(mut self, keys: &[Key]) -> Result<(), DeleteError>
    where
        C: GraphCell<Graph<T>>,
    {
        check_distinct(keys)?;
        self.cell.read(|graph| keys.iter().try_for_each(|&key| graph.check_restorable(key)))?;
        self.cell.write(|graph| keys.iter().try_for_each(|&key| graph.restore_key(key)))?;
        Ok(())
    }

    pub(crate) fn consolidate<T: Element>(
        mut self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<ConsolidateReport, ConsolidateError>
    where
        C: GraphCell<Graph<T>>,
    {
        consolidate(self.executor, &mut self.cell, progress)
    }

    pub(crate) fn compact<T: Element>(mut self) -> Result<CompactReport, RowError>
    where
        C: GraphCell<Graph<T>>,
    {
        self.cell.write(compact)
    }
}

fn check_distinct(keys: &[Key]) -> Result<(), DeleteError> {
    let mut seen = HashSet::with_capacity(keys.len());
    keys.iter()
        .try_for_each(|&key| if seen.insert(key) { Ok(()) } else { Err(DeleteError::RepeatedKey(key)) })
}
