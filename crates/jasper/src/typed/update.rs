//! Changes: inserts, deletes, consolidation and compaction.

use jasper_core::{Element, Key, MatrixView, Progress, ProgressFn, Stage, VectorSource, no_progress};
use jasper_graph::KeyMap;
use jasper_vamana::{CompactReport, ConsolidateReport, InsertReport, OnConflict, UpdateError};

use super::TypedIndex;
use crate::batcher::Pending;
use crate::changes::NewKeys;
use crate::changes::small::{SMALL, SmallChange};
use crate::journal::Record;

impl<T: Element> TypedIndex<T> {
    pub(crate) fn consolidate(
        &self,
        progress: &mut ProgressFn<'_>,
    ) -> Result<ConsolidateReport, UpdateError> {
        self.changes.change(Some(&Record::Consolidate), progress, |_, hooks| self.backend.consolidate(hooks))
    }

    pub(crate) fn compact(&self, progress: &mut ProgressFn<'_>) -> Result<CompactReport, UpdateError> {
        self.changes.change(Some(&Record::Compact), progress, |_, hooks| {
            let shards = self.backend.shards_or_self().into_iter();
            let total = shards.map(|shard| shard.read(|graph| graph.keys().free())).sum();
            Progress { stage: Stage::Compacting, done: 0, total }.report(hooks.progress)?;
            self.backend.compact()
        })
    }

    /// Makes an insert, if it is small together with others.
    pub(crate) fn insert(
        &self,
        vectors: &dyn VectorSource<T>,
        keys: NewKeys<'_>,
    ) -> Result<(Key, InsertReport), UpdateError> {
        match vectors.in_memory() {
            Some(vectors) if (1..=SMALL).contains(&vectors.len()) => self.small_changes.insert(vectors, keys),
            _ => self.changes.insert(vectors, keys, &mut no_progress),
        }
    }

    pub(crate) fn submit_insert(
        &self,
        vectors: MatrixView<'_, T>,
        keys: &[Key],
        on_conflict: OnConflict,
    ) -> Result<Pending<Result<InsertReport, UpdateError>>, UpdateError> {
        let change = SmallChange::insert(vectors, NewKeys::Given(keys, on_conflict));
        let submitted = self.small_changes.submit(change).map_err(UpdateError::Thread)?;
        Ok(Pending::new(async { Ok(submitted.await?.1) }))
    }

    pub(crate) fn submit_delete(
        &self,
        keys: &[Key],
    ) -> Result<Pending<Result<(), UpdateError>>, UpdateError> {
        let submitted = self.small_changes.submit(SmallChange::Delete(keys.to_vec()));
        let submitted = submitted.map_err(UpdateError::Thread)?;
        Ok(Pending::new(async { submitted.await.map(drop) }))
    }

    pub(crate) fn delete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        if (1..=SMALL).contains(&keys.len()) {
            self.small_changes.delete(keys)
        } else {
            self.changes.delete(keys)
        }
    }

    pub(crate) fn delete_if_present(&self, keys: &[Key]) -> Result<usize, UpdateError> {
        self.changes.change(None, &mut no_progress, |change, _| {
            let mut present = keys.to_vec();
            present.sort_unstable();
            present.dedup();
            present.retain(|&key| self.contains(key));
            if !present.is_empty() {
                change.log::<T>(&Record::Delete(&present))?;
                self.changes.change_checked_keys(&present, [KeyMap::delete, KeyMap::restore])?;
            }
            Ok(present.len())
        })
    }

    pub(crate) fn undelete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        self.changes.change_keys(&Record::Undelete(keys), keys, [KeyMap::restore, KeyMap::delete])
    }

    pub(crate) fn next_key(&self) -> Key {
        self.changes.next_key()
    }
}
