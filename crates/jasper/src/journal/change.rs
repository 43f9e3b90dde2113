//! One change of a durable index, from its beginning to its end.

use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};

use jasper_core::{Element, ProgressFn};
use jasper_vamana::{ChangeHooks, UpdateError};

use super::turns::Turn;
use super::{Journal, Record, lock};

/// A change that the journal logs. Does nothing if the index has none.
pub(crate) struct Change<'a>(Option<LoggedChange<'a>>);

struct LoggedChange<'a> {
    journal: &'a Journal,
    turn: Turn<'a>,
    /// Whether a drop discards the change, which the log has or may have.
    discard_on_drop: bool,
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
    /// Begins a change of an index.
    pub(crate) fn begin(journal: Option<&'a Journal>) -> Self {
        let begin = |journal: &'a Journal| LoggedChange {
            journal,
            turn: journal.turns.take(),
            discard_on_drop: false,
        };
        Self(journal.map(begin))
    }

    /// Logs the change, in the place of what it logged before, and returns when it is on disk.
    pub(crate) fn log<T: Element>(&mut self, record: &Record<'_, T>) -> Result<(), UpdateError> {
        match &mut self.0 {
            Some(change) => change.log(record).map_err(UpdateError::Journal),
            None => Ok(()),
        }
    }

    /// Waits until earlier changes have ended.
    pub(crate) fn wait(&self) {
        if let Some(change) = &self.0 {
            change.turn.wait();
        }
    }

    /// Logs the change, waits until earlier changes have ended, and calls `make`. A change [with a commit
    /// point](Record::has_commit_point) is logged while it is computed: at the commit point it waits until it is on
    /// disk, and is cancelled if it cannot be written.
    pub(crate) fn make<T: Element, R>(
        &mut self,
        record: &Record<'_, T>,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(ChangeHooks<'_>) -> Result<R, UpdateError>,
    ) -> Result<R, UpdateError> {
        match &mut self.0 {
            Some(change) if record.has_commit_point() => change.make(record, progress, make),
            _ => {
                self.log(record)?;
                self.wait();
                make(ChangeHooks::new(progress))
            }
        }
    }

    /// Ends the change. If it failed, it is removed from the log.
    pub(crate) fn end<R, E: From<UpdateError>>(mut self, result: Result<R, E>) -> Result<R, E> {
        if let Some(change) = &mut self.0
            && result.is_err()
        {
            change.discard().map_err(UpdateError::Journal)?;
        }
        self.keep();
        result
    }

    /// Keeps the change in the log, even if it failed.
    pub(crate) fn keep(&mut self) {
        if let Some(change) = &mut self.0 {
            change.discard_on_drop = false;
        }
    }
}

impl LoggedChange<'_> {
    fn log<T: Element>(&mut self, record: &Record<'_, T>) -> io::Result<()> {
        self.journal.prepare(self.turn.number(), record)?()?;
        self.set_logged(record);
        Ok(())
    }

    fn set_logged<T: Element>(&mut self, record: &Record<'_, T>) {
        self.discard_on_drop = true;
        self.journal.logged_bytes.fetch_add(record.bytes(), Ordering::Relaxed);
    }

    fn make<T: Element, R>(
        &mut self,
        record: &Record<'_, T>,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(ChangeHooks<'_>) -> Result<R, UpdateError>,
    ) -> Result<R, UpdateError> {
        let log = self.journal.prepare(self.turn.number(), record).map_err(UpdateError::Journal)?;
        // Should `make` panic, the change is discarded when the thread has logged it.
        self.discard_on_drop = true;
        let (made, logged) = thread::scope(|scope| {
            let thread = thread::Builder::new().name("jasper-journal".into()).spawn_scoped(scope, log)?;
            let mut logging = Logging { thread: Some(thread), result: Ok(Ok(())) };
            self.turn.wait();
            let made = make(ChangeHooks {
                before_commit: Some(&mut || match logging.wait() {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }),
                ..ChangeHooks::new(progress)
            });
            debug_assert!(
                made.is_err() || logging.thread.is_none(),
                "the change is visible before it is logged"
            );
            logging.wait();
            Ok((made, logging.result.unwrap_or_else(|panic| resume_unwind(panic))))
        })
        .map_err(UpdateError::Journal)?;
        if let Err(error) = logged {
            // The store has removed it.
            self.discard_on_drop = false;
            return Err(UpdateError::Journal(error));
        }
        self.set_logged(record);
        made
    }

    fn discard(&mut self) -> io::Result<()> {
        match mem::take(&mut self.discard_on_drop) {
            true => lock(&self.journal.store).discard(&[self.turn.number()]),
            false => Ok(()),
        }
    }
}

impl Drop for LoggedChange<'_> {
    /// Discards a change that panicked.
    fn drop(&mut self) {
        // If this fails, the change is removed before another is logged.
        let _ = self.discard();
    }
}
