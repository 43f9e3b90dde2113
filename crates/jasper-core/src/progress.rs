//! How long work tells where it is, and how it is stopped.

use std::ops::ControlFlow;

/// What a long call is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Rows are read, checked and copied.
    Reading,
    /// Vertices are searched for, pruned and linked.
    Linking,
    /// The graph is repaired around deleted vertices.
    Consolidating,
    /// Unreached vertices are sought and linked again.
    Reconnecting,
    /// Rows move into the holes that deletes left.
    Compacting,
    /// The index file is written.
    Saving,
    /// The index file's checksums are read again.
    Checking,
    /// Exact distances are computed.
    Scanning,
    /// Searches are tried and timed.
    Tuning,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reading => "reading",
            Self::Linking => "linking",
            Self::Consolidating => "consolidating",
            Self::Reconnecting => "reconnecting",
            Self::Compacting => "compacting",
            Self::Saving => "saving",
            Self::Checking => "checking",
            Self::Scanning => "scanning",
            Self::Tuning => "tuning",
        })
    }
}

/// How far a long call has come: `done` of `total` rows of this stage, or of searches that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Rows done, rising to `total`.
    pub done: usize,
    /// Rows there are.
    pub total: usize,
}

/// Called between batches of a long call; `ControlFlow::Break(())` asks it to stop.
///
/// A stopped call leaves the index as it was before the call.
pub type ProgressFn<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// The work was stopped by its progress closure; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled while {stage} ({done} of {total} rows); nothing has changed")]
pub struct Cancelled {
    /// What was being done.
    pub stage: Stage,
    /// Rows done when it was stopped.
    pub done: usize,
    /// Rows there were.
    pub total: usize,
}

impl Progress {
    /// Tells `report`, and turns its wish to stop into an error.
    ///
    /// # Errors
    /// [`Cancelled`] if the closure broke off.
    pub fn report(self, report: &mut ProgressFn<'_>) -> Result<(), Cancelled> {
        match report(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(Cancelled { stage: self.stage, done: self.done, total: self.total })
            }
        }
    }
}

/// The closure of a caller who does not care: never stops anything.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
