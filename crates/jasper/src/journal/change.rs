//! One change of a durable index, from its beginning to its end.

use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};

use jasper_core::ProgressFn;
use jasper_vamana::{ChangeHooks, UpdateError};

use super::turns::Turn;
use super::{Journal, Record};

/// A change of an index, which its journal logs if it has one.
pub(crate) struct Change<'a> {
    /// The journal, and when it is the turn of the change.
    journal: Option<(&'a Journal, Turn<'a>)>,
    /// Whether the log has the change.
    is_logged: bool,
    /// Whether a drop logs that the change has failed, if the log has or may have it.
    fail_on_drop: bool,
}

/// A change that another thread logs.
struct Logging<'scope> {
    thread: Option<ScopedJoinHandle<'scope, io::Result<()>>>,
    result: thread::Result<io::Result<()>>,
}

impl Logging<'_> {
    /// Waits until the change is on disk, or cannot be written; returns whether it is on disk.
    fn wait(&mut self) -> bool {
        if let Some(thread) = self.thread.take() {
            self.result = thread.join();
        }
        matches!(self.result, Ok(Ok(())))
    }
}

impl<'a> Change<'a> {
    /// Logs a change of an index with this journal, waits until earlier changes have ended, and calls `make`. If that
    /// fails, so does the change in the log.
    ///
    /// A change [with a commit point](Record::has_commit_point) is logged while it is computed: at the commit point it
    /// waits until it is on disk, and is cancelled if it cannot be written. One without a record is logged by `make`.
    pub(crate) fn make<R, E: From<UpdateError>>(
        journal: Option<&'a Journal>,
        record: Option<&Record<'_>>,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(&mut Self, ChangeHooks<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let journal = journal.map(|journal| (journal, journal.turns.take()));
        let mut change = Self { journal, is_logged: false, fail_on_drop: false };
        let made = match record {
            Some(record) if record.has_commit_point() => change.make_while_logged(record, progress, make),
            record => {
                record.map_or(Ok(()), |record| change.log(record))?;
                change.wait();
                make(&mut change, ChangeHooks::new(progress))
            }
        };
        if made.is_err() {
            change.fail().map_err(UpdateError::Journal)?;
        }
        change.end();
        made
    }

    /// Logs the change, in the place of what it logged before, and returns when it is on disk.
    pub(crate) fn log(&mut self, record: &Record<'_>) -> Result<(), UpdateError> {
        if let Some((journal, turn)) = &self.journal {
            let log = journal.prepare(turn.number(), record);
            log.and_then(|log| log()).map_err(UpdateError::Journal)?;
            self.set_logged(record);
        }
        Ok(())
    }

    /// Keeps the change in the log, even if it fails.
    pub(crate) fn keep(&mut self) {
        self.fail_on_drop = false;
    }

    /// Logs that the change has ended.
    fn end(&mut self) {
        self.keep();
        if let (Some((journal, turn)), true) = (&self.journal, self.is_logged) {
            journal.end(turn.number());
        }
    }

    fn wait(&self) {
        if let Some((_, turn)) = &self.journal {
            turn.wait();
        }
    }

    fn set_logged(&mut self, record: &Record<'_>) {
        if let Some((journal, _)) = &self.journal {
            (self.is_logged, self.fail_on_drop) = (true, true);
            journal.logged_bytes.fetch_add(record.bytes(), Ordering::Relaxed);
        }
    }

    fn make_while_logged<R, E: From<UpdateError>>(
        &mut self,
        record: &Record<'_>,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(&mut Self, ChangeHooks<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let Some((journal, turn)) = &self.journal else {
            return make(self, ChangeHooks::new(progress));
        };
        let log = journal.prepare(turn.number(), record).map_err(UpdateError::Journal)?;
        // Should `make` panic, the change fails when the thread has logged it.
        self.fail_on_drop = true;
        let (made, logged) = thread::scope(|scope| {
            let thread = thread::Builder::new().name("jasper-journal".into()).spawn_scoped(scope, log)?;
            let mut logging = Logging { thread: Some(thread), result: Ok(Ok(())) };
            self.wait();
            let hooks = ChangeHooks {
                before_commit: Some(&mut || match logging.wait() {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }),
                ..ChangeHooks::new(progress)
            };
            let made = make(self, hooks);
            debug_assert!(
                made.is_err() || logging.thread.is_none(),
                "the change is visible before it is logged"
            );
            logging.wait();
            Ok((made, logging.result.unwrap_or_else(|panic| resume_unwind(panic))))
        })
        .map_err(UpdateError::Journal)?;
        if let Err(error) = logged {
            // The store has logged that it failed.
            self.keep();
            return Err(UpdateError::Journal(error).into());
        }
        self.set_logged(record);
        made
    }

    fn fail(&mut self) -> io::Result<()> {
        match (&self.journal, mem::take(&mut self.fail_on_drop)) {
            (Some((journal, turn)), true) => {
                self.is_logged = false;
                journal.fail(turn.number())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Change<'_> {
    /// Fails a change that panicked.
    fn drop(&mut self) {
        // If this cannot be logged, it is before another change is.
        let _ = self.fail();
    }
}
