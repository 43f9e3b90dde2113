//! Changes of an index, the same for one that is owned and one that is shared, on a processor and on a device.

use std::collections::HashSet;
use std::convert::Infallible;

use jasper_core::{Element, Key, ProgressFn, VectorSource};
use jasper_graph::{Graph, KeyError, KeyMap, VectorError};
use jasper_vamana::{
    ConsolidateError, ConsolidateReport, Executor, Existing, GraphLock, InsertError, InsertReport,
    MutableGraph, consolidate, insert,
};

/// Keys could not be deleted or restored; the index is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// A key is not there to be deleted or restored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key was given twice in one call.
    #[error("key {0} is given twice")]
    RepeatedKey(Key),
    /// The device failed.
    #[cfg(feature = "cuda")]
    #[error("the device could not mark the vectors")]
    Device(#[from] jasper_cuda::Error),
}

/// Free slots could not be given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The operating system gives no memory for tables; the index is as it was.
    #[error(transparent)]
    Memory(#[from] VectorError),
    /// The device failed, and no longer has the index.
    #[cfg(feature = "cuda")]
    #[error("the device could not move the vectors")]
    Device(#[from] jasper_cuda::Error),
}

impl From<Infallible> for DeleteError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The changes, on a graph wherever it is kept.
pub(crate) struct Updater<'a, E, C> {
    pub(crate) executor: &'a E,
    pub(crate) cell: C,
}

impl<E, C> Updater<'_, E, C> {
    pub(crate) fn insert<T: Element>(
        mut self,
        rows: &dyn VectorSource<T>,
        keys: &[Key],
        existing: Existing,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, InsertError>
    where
        E: Executor<T>,
        C: GraphLock<E::Live>,
    {
        insert(self.executor, &mut self.cell, rows, keys, existing, progress)
    }

    /// Inserts under the keys that follow the largest there is; gives the first of them.
    pub(crate) fn insert_next<T: Element>(
        self,
        rows: &dyn VectorSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Key, InsertError>
    where
        E: Executor<T>,
        C: GraphLock<E::Live>,
    {
        let first = self.cell.read(|graph| graph.host().keys().next_key());
        // NO_KEY itself ends the keys there are.
        let end = first.checked_add(rows.len() as Key).ok_or(KeyError::Reserved)?;
        let keys: Vec<Key> = (first..end).collect();
        self.insert(rows, &keys, Existing::Refuse, progress)?;
        Ok(first)
    }

    pub(crate) fn delete<T: Element>(self, keys: &[Key]) -> Result<(), DeleteError>
    where
        E: Executor<T, Error: Into<DeleteError>>,
        C: GraphLock<E::Live>,
    {
        self.change_keys(keys, KeyMap::check_live, KeyMap::delete)
    }

    pub(crate) fn undelete<T: Element>(self, keys: &[Key]) -> Result<(), DeleteError>
    where
        E: Executor<T, Error: Into<DeleteError>>,
        C: GraphLock<E::Live>,
    {
        self.change_keys(keys, KeyMap::check_restorable, KeyMap::restore)
    }

    /// Changes all keys, if all of them pass the check.
    fn change_keys<T: Element>(
        mut self,
        keys: &[Key],
        check: impl Fn(&KeyMap, Key) -> Result<(), KeyError>,
        change: impl Fn(&mut KeyMap, Key) -> Result<(), KeyError>,
    ) -> Result<(), DeleteError>
    where
        E: Executor<T, Error: Into<DeleteError>>,
        C: GraphLock<E::Live>,
    {
        check_distinct(keys)?;
        self.cell.read(|graph| keys.iter().try_for_each(|&key| check(graph.host().keys(), key)))?;
        let change = |host: &mut Graph<T>| keys.iter().try_for_each(|&key| change(host.keys_mut(), key));
        Ok(self.cell.write(|graph| graph.change(change)).map_err(Into::into)??)
    }

    pub(crate) fn consolidate<T: Element>(
        mut self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<ConsolidateReport, ConsolidateError>
    where
        E: Executor<T>,
        C: GraphLock<E::Live>,
    {
        consolidate(self.executor, &mut self.cell, progress)
    }
}

fn check_distinct(keys: &[Key]) -> Result<(), DeleteError> {
    let mut seen = HashSet::with_capacity(keys.len());
    keys.iter()
        .try_for_each(|&key| if seen.insert(key) { Ok(()) } else { Err(DeleteError::RepeatedKey(key)) })
}
