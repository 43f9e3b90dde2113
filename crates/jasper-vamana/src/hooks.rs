//! What a change calls while it is made.

use std::ops::ControlFlow;

use jasper_core::{Cancelled, Progress, ProgressFn, Stage};

/// Callbacks of a change or a build, each of which may cancel it. Only inserts and consolidations have a commit point.
pub struct ChangeHooks<'a> {
    /// Called between batches, and for the last time at the commit point, with [`Stage::Committing`].
    pub progress: &'a mut ProgressFn<'a>,
    /// Called at the commit point, after `progress`, to wait for what the change depends on: other devices, or its
    /// record in the journal. `Break` cancels the change.
    pub before_commit: Option<&'a mut (dyn FnMut() -> ControlFlow<()> + 'a)>,
}

impl<'a> ChangeHooks<'a> {
    /// Hooks of a change that depends on nothing else.
    pub fn new(progress: &'a mut ProgressFn<'_>) -> Self {
        Self { progress, before_commit: None }
    }

    /// The commit point of a change: everything is computed. Edges are already published: new vertices are traversed as
    /// tombstones, and no search returns them yet. `total` vertices are about to change.
    ///
    /// # Errors
    /// Returns [`Cancelled`]; the transaction is then to be undone.
    pub fn commit_point(self, total: usize) -> Result<(), Cancelled> {
        let point = Progress { stage: Stage::Committing, done: 0, total };
        point.report(self.progress)?;
        self.before_commit.map_or(Ok(()), |before_commit| point.report(&mut |_| before_commit()))
    }
}
