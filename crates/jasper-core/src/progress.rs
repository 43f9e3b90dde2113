//! Progress reports of long calls, and cancellation.

use std::ops::ControlFlow;

/// The stage of a long call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Stage {
    /// Reading, checking and copying vectors.
    Reading,
    /// Linking vertices: searching for candidates and pruning them.
    Linking,
    /// Repairing the graph around deleted vertices.
    Consolidating,
    /// Finding unreachable vertices and giving them edges.
    Reconnecting,
    /// The commit point of an insert or a consolidation, which is reported last: everything is computed, and edges are
    /// published, but no search returns the new vectors yet. The call can be cancelled for the last time here, and then
    /// waits for other devices and for the journal.
    Committing,
    /// Moving vectors into free slots.
    Compacting,
    /// Writing the index file.
    Saving,
    /// Verifying an index, or the checksums of its file.
    Checking,
    /// Computing exact distances.
    Scanning,
    /// Trying and timing searches.
    Tuning,
    /// Training a quantizer and encoding vectors, or trying one for a build.
    Quantizing,
    /// Making the changes of a journal again.
    Replaying,
}

/// The variant's name in lower case.
impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// The progress of a long call: `done` of `total` items of the current stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// Number of items done: vectors, searches tried, or changes replayed.
    pub done: usize,
    /// Total number of items.
    pub total: usize,
}

/// A progress callback, called between the batches of a long call. Returning `ControlFlow::Break(())` cancels the call.
///
/// A cancelled call leaves the index as it was before the call, unless its documentation says otherwise.
pub type ProgressFn<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// A call was cancelled by its progress callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled while {stage} ({done} of {total})")]
pub struct Cancelled {
    /// The stage when it was cancelled.
    pub stage: Stage,
    /// Number of items done by then.
    pub done: usize,
    /// Total number of items.
    pub total: usize,
}

impl Progress {
    /// Calls `report` with this progress.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if `report` returns `Break`.
    pub fn report(self, report: &mut ProgressFn<'_>) -> Result<(), Cancelled> {
        match report(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(Cancelled { stage: self.stage, done: self.done, total: self.total })
            }
        }
    }
}

/// A progress callback that does nothing and never cancels.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
