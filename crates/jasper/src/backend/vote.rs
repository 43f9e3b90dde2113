//! One change that several devices make at the same time: all of them, or none.
//!
//! This is the vote of a two-phase commit. Each device computes the change and, at its [commit
//! point](ChangeHooks::commit_point), waits for the others. When all have reached it, all make the change visible; if
//! one does not reach it, all are cancelled, or the others go on without it ([`Vote::new`]). The caller votes too: the
//! first device calls the caller's hooks, which may cancel the change of all. If the first device fails and the others
//! go on, the caller's hooks are called for the commit point all the same.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use jasper_core::{no_progress, sync};
use jasper_vamana::ChangeHooks;

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

    /// Makes the change of each device, given by its number, at the same time. The first calls the caller's `hooks`.
    pub(crate) fn make_all<R: Send, E: Send>(
        devices: usize,
        is_unanimous: bool,
        hooks: ChangeHooks<'_>,
        make: impl Fn(usize, ChangeHooks<'_>) -> Result<R, E> + Sync,
    ) -> io::Result<Vec<Result<R, E>>> {
        let vote = Self::new(devices, is_unanimous);
        let first = || vote.make(true, hooks, |hooks| make(0, hooks));
        let other =
            |device| vote.make(false, ChangeHooks::new(&mut no_progress), |hooks| make(device, hooks));
        at_once(first, (1..devices).map(|device| move || other(device)))
    }

    /// Makes the change of one device: `make` gets hooks that vote. The first device has the caller's, which may cancel
    /// the change of all.
    fn make<R, E>(
        &self,
        is_first: bool,
        mut caller: ChangeHooks<'_>,
        make: impl FnOnce(ChangeHooks<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut ballot = Ballot { vote: self, is_cast: false, has_failed: true };
        let result = make(ChangeHooks {
            progress: &mut |report| {
                self.cancel_if((caller.progress)(report).is_break());
                self.flow()
            },
            before_commit: Some(&mut || {
                let flow = caller.before_commit.as_mut().map_or(ControlFlow::Continue(()), |hook| hook());
                self.cancel_if(flow.is_break());
                ballot.cast();
                self.flow()
            }),
        });
        ballot.has_failed = result.is_err();
        if is_first && ballot.has_failed && !ballot.is_cast && !self.is_unanimous {
            self.wait(1);
            self.cancel_if(self.flow().is_continue() && caller.commit_point(0).is_err());
        }
        result
    }

    /// Waits until at most `missing` devices have neither voted nor ended, or the change is cancelled.
    fn wait(&self, missing: usize) {
        let is_open = |state: &mut State| state.missing > missing && !state.is_cancelled;
        drop(self.changed.wait_while(self.lock(), is_open));
    }

    /// Cancels the change, unless all have voted: some may have made it visible then.
    fn cancel_if(&self, is_cancelled: bool) {
        if is_cancelled {
            let mut state = self.lock();
            state.is_cancelled |= state.missing > 0;
            self.changed.notify_all();
        }
    }

    /// Whether the change goes on or is cancelled.
    fn flow(&self) -> ControlFlow<()> {
        if self.lock().is_cancelled { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
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
        self.vote.cancel_if(self.has_failed && (self.vote.is_unanimous || thread::panicking()));
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use jasper_core::{Cancelled, Progress, Stage};

    use super::*;

    #[test]
    fn the_caller_is_asked_when_the_first_device_has_failed() {
        for [cancels, fails_to_log] in [[false, false], [true, false], [false, true]] {
            let flow = |breaks| if breaks { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            let (mut reports, mut commits) = (0, 0);
            let hooks = ChangeHooks {
                progress: &mut |report: Progress| {
                    assert_eq!(report.stage, Stage::Committing);
                    reports += 1;
                    flow(cancels)
                },
                before_commit: Some(&mut || {
                    commits += 1;
                    flow(fails_to_log)
                }),
            };
            let make = |device: usize, hooks: ChangeHooks<'_>| match device {
                0 => Err(None::<Cancelled>),
                _ => hooks.commit_point(1).map_err(Some),
            };
            let results = Vote::make_all(3, false, hooks, make).unwrap();
            let is_cancelled = cancels || fails_to_log;
            assert!(results[1..].iter().all(|result| result.is_err() == is_cancelled), "{results:?}");
            assert_eq!((reports, commits), (1, usize::from(!cancels)));
        }
    }
}
