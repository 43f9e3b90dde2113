//! Durable indexes, whose changes are on disk before their calls return.

use std::path::Path;

use jasper_core::ProgressFn;
use jasper_graph::SaveStats;

use super::IndexInner;
use crate::journal::{self, JournalError};

impl IndexInner {
    pub(crate) fn save_durable(
        &self,
        folder: &Path,
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, JournalError> {
        journal::create(folder, |path| self.save(path, progress))
    }

    pub(crate) fn snapshot(&self, progress: &mut ProgressFn<'_>) -> Result<(), JournalError> {
        self.changes.take_snapshot(false, progress)
    }
}
