//! Changes: inserts, deletes, consolidation and compaction.

use jasper_core::{Key, Progress, ProgressFn, Stage};
use jasper_graph::KeyMap;
use jasper_vamana::{CompactReport, ConsolidateReport, UpdateError};

use super::IndexInner;
use crate::batcher::Pending;
use crate::changes::small::{Made, SMALL, SmallChange};
use crate::index::DeleteKeys;
use crate::journal::Record;

impl IndexInner {
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

    pub(crate) fn delete(&self, keys: DeleteKeys<'_>) -> Result<usize, UpdateError> {
        let (DeleteKeys::All(all) | DeleteKeys::Present(all)) = keys;
        if (1..=SMALL).contains(&all.len()) {
            self.small_changes.delete(keys)
        } else {
            self.changes.delete_keys(keys)
        }
    }

    /// Queues an insert or a delete. `result` makes the result of the call of what the change did.
    pub(crate) fn submit_change<R: 'static>(
        &self,
        change: SmallChange,
        result: fn(Made) -> R,
    ) -> Result<Pending<R>, UpdateError> {
        let submitted = self.small_changes.submit(change).map_err(UpdateError::Thread)?;
        Ok(Pending::new(async move { Ok(result(submitted.await?)) }))
    }

    pub(crate) fn undelete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        self.changes.change_keys(&Record::Undelete(keys), keys, [KeyMap::restore_all, KeyMap::delete_all])
    }
}
