//! One change that several devices make at the same time: all of them, or none.
//!
//! This is the vote of a two-phase commit. Each device computes the change and, at its commit point
//! ([`Stage::Committing`]), waits for the others. When all have reached it, all make the change visible; if one does
//! not reach it, all are cancelled, or the others go on without it ([`Vote::new`]). The caller votes too: the first
//! device reports its progress to the caller, who may cancel the change of all. If the first device fails and the
//! others go on, the caller gets the report of the commit point all the same.

use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use jasper_core::{Progress, ProgressFn, Stage};

use super::at_once;

/// The votes of a change.
pub(crate) struct Vote {
    /// Whether one device that fails cancels the change of all.
    is_unanimous: bool,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Devices that have neither voted nor ended.
    missing: usize,
    is_cancelled: bool,
}

impl Vote {
    /// The vote of this number of devices. If one fails, all are cancelled if the vote is to be unanimous; otherwise
    /// the others go on without it.
    fn new(devices: usize, is_unanimous: bool) -> Self {
        let state = State { missing: devices, is_cancelled: false };
        Self { is_unanimous, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Makes the change of each device, given by its number, at the same time. The progress of the first is reported to
    /// `progress`.
    pub(crate) fn make_all<R: Send, E: Send>(
        devices: usize,
        is_unanimous: bool,
        progress: &mut ProgressFn<'_>,
        make: impl Fn(usize, &mut ProgressFn<'_>) -> Result<R, E> + Sync,
    ) -> Vec<Result<R, E>> {
        let vote = Self::new(devices, is_unanimous);
        let first = || vote.make(Some(progress), |progress| make(0, progress));
        at_once(devices, first, |device| vote.make(None, |progress| make(device, progress)))
    }

    /// Makes the change of one device: `make` gets a callback that votes. The progress of one device is reported to
    /// `progress`, which may cancel the change of all.
    fn make<R, E>(
        &self,
        mut progress: Option<&mut ProgressFn<'_>>,
        make: impl FnOnce(&mut ProgressFn<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut ballot = Ballot { vote: self, is_cast: false, has_failed: true };
        let result = make(&mut |report: Progress| {
            if progress.as_mut().is_some_and(|progress| progress(report).is_break()) {
                self.cancel();
            }
            if report.stage == Stage::Committing {
                ballot.cast();
            }
            if self.lock().is_cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        ballot.has_failed = result.is_err();
        if let Some(progress) =
            progress.filter(|_| ballot.has_failed && !ballot.is_cast && !self.is_unanimous)
        {
            self.wait(1);
            let report = Progress { stage: Stage::Committing, done: 0, total: 0 };
            if !self.lock().is_cancelled && progress(report).is_break() {
                self.cancel();
            }
        }
        result
    }

    /// Waits until at most `missing` devices have neither voted nor ended, or the change is cancelled.
    fn wait(&self, missing: usize) {
        let is_open = |state: &mut State| state.missing > missing && !state.is_cancelled;
        drop(self.changed.wait_while(self.lock(), is_open));
    }

    fn cancel(&self) {
        self.lock().is_cancelled = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The vote of one device.
struct Ballot<'a> {
    vote: &'a Vote,
    is_cast: bool,
    /// Whether the change has failed or panicked.
    has_failed: bool,
}

impl Ballot<'_> {
    /// Votes for the change, and waits for the others.
    fn cast(&mut self) {
        self.count();
        self.vote.wait(0);
    }

    fn count(&mut self) {
        if !self.is_cast {
            self.is_cast = true;
            self.vote.lock().missing -= 1;
            self.vote.changed.notify_all();
        }
    }
}

impl Drop for Ballot<'_> {
    /// A change that ends without a vote does not keep the others waiting. A panic cancels it, because the caller
    /// panics.
    fn drop(&mut self) {
        if self.has_failed && (self.vote.is_unanimous || thread::panicking()) {
            self.vote.cancel();
        }
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use jasper_core::Cancelled;

    use super::*;

    #[test]
    fn the_caller_is_asked_when_the_first_device_has_failed() {
        for cancels in [false, true] {
            let mut reports = 0;
            let mut progress = |report: Progress| {
                assert_eq!(report.stage, Stage::Committing);
                reports += 1;
                if cancels { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let make = |device: usize, progress: &mut ProgressFn<'_>| match device {
                0 => Err(None::<Cancelled>),
                _ => Progress { stage: Stage::Committing, done: 0, total: 1 }.report(progress).map_err(Some),
            };
            let results = Vote::make_all(3, false, &mut progress, make);
            assert!(results[1..].iter().all(|result| result.is_err() == cancels), "{results:?}");
            assert_eq!(reports, 1);
        }
    }
}
