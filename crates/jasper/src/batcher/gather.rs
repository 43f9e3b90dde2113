//! The queue that gathers changes of many callers, which are made one batch after another.
//!
//! ```text
//! a blocking caller arrives:
//!     nothing is under way or queued: it makes its change itself, on its own thread
//!     else: its change is queued, and it waits for the answer
//! a change is submitted: it is queued
//! the thread of the queue, again and again:
//!     when nothing is under way, takes the first change, and those after it that can be made with it
//!     makes them, and answers their callers
//!     waits for a moment for these callers to come back
//! ```
//!
//! Changes begin in the order in which they were queued. Types of changes and answers are parameters, and threads and
//! locks come from `super::sync`, so that the model checker of `tests.rs` compiles this file with its own.

use std::collections::VecDeque;
use std::sync::Arc;

use super::request::{Batch, Request, Submitted};
use super::sync::thread;
use super::sync::{Condvar, Mutex, MutexGuard};

/// Makes the batches of a queue.
pub(crate) trait ChangeRunner {
    /// The change of a caller.
    type Change;
    /// What the caller gets.
    type Answer;

    /// How many of the changes, from the first on, are made together. At least one.
    fn batch_len(&self, changes: &[&Self::Change]) -> usize;

    /// Makes changes: calls `answer` with the number of each.
    fn run(&self, batch: &[&Self::Change], answer: &mut dyn FnMut(usize, Self::Answer));
}

/// Changes that wait for those before them.
pub(crate) struct Gather<C, A> {
    state: Mutex<State<C, A>>,
    /// Notified when the thread of the queue may have something to do.
    work: Condvar,
    /// How often the thread looks for callers to come back.
    looks: usize,
}

struct State<C, A> {
    waiting: VecDeque<Arc<Request<C, A>>>,
    /// Whether a batch or the change of a blocking caller is being made.
    is_busy: bool,
    is_closed: bool,
}

impl<C, A> Gather<C, A> {
    /// An empty queue, whose thread looks this often for the callers of a batch to come back, until as many are there.
    /// Without this, of 32 callers one would always be late, and be alone in every second batch.
    pub(crate) fn new(looks: usize) -> Self {
        let state = State { waiting: VecDeque::new(), is_busy: false, is_closed: false };
        Self { state: Mutex::new(state), work: Condvar::new(), looks }
    }

    /// Permission to make a change directly, if no other is under way or queued. Others are queued until it is dropped.
    pub(crate) fn try_direct(&self) -> Option<Permit<'_, C, A>> {
        let mut state = self.lock();
        let is_idle = !state.is_busy && state.waiting.is_empty();
        state.is_busy |= is_idle;
        is_idle.then(|| Permit(self))
    }

    /// Queues a change.
    pub(crate) fn submit(&self, change: C) -> Submitted<C, A> {
        let request = Request::new(change);
        let mut state = self.lock();
        state.waiting.push_back(Arc::clone(&request));
        let is_idle = !state.is_busy;
        drop(state);
        if is_idle {
            self.work.notify_one();
        }
        Submitted(request)
    }

    /// Makes changes until the queue is closed and empty.
    pub(crate) fn work<R: ChangeRunner<Change = C, Answer = A>>(&self, runner: &R) {
        while let Some(permit) = self.wait_for_permit() {
            let mut together = 1;
            loop {
                for _ in 0..self.looks * usize::from(together > 1) {
                    if self.lock().waiting.len() >= together {
                        break;
                    }
                    thread::yield_now();
                }
                let batch = self.take_batch(runner);
                if batch.0.is_empty() {
                    break;
                }
                together = batch.0.len();
                runner.run(&batch.items(), &mut |change, answer| batch.answer(change, answer));
            }
            drop(permit);
        }
    }

    /// Ends the thread once it has made all queued changes.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// Waits until something is queued and nothing is under way; `None` if the queue is closed and empty.
    fn wait_for_permit(&self) -> Option<Permit<'_, C, A>> {
        let mut state = self.lock();
        while state.is_busy || (state.waiting.is_empty() && !state.is_closed) {
            state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if state.waiting.is_empty() {
            return None;
        }
        state.is_busy = true;
        Some(Permit(self))
    }

    /// The next batch; empty if nothing is queued.
    fn take_batch<R: ChangeRunner<Change = C, Answer = A>>(&self, runner: &R) -> Batch<C, A> {
        let mut state = self.lock();
        state.waiting.retain(|request| !request.is_withdrawn());
        let waiting: Vec<&C> = state.waiting.iter().map(|request| &request.item).collect();
        let len = if waiting.is_empty() { 0 } else { runner.batch_len(&waiting) };
        Batch(state.waiting.drain(..len).collect())
    }

    fn lock(&self) -> MutexGuard<'_, State<C, A>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The permission to make changes, until it is dropped.
pub(crate) struct Permit<'a, C, A>(&'a Gather<C, A>);

impl<C, A> Drop for Permit<'_, C, A> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_busy = false;
        let is_wanted = !state.waiting.is_empty() || state.is_closed;
        drop(state);
        if is_wanted {
            self.0.work.notify_one();
        }
    }
}
