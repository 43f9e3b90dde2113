//! The queue that gathers single searches of many callers into batches.
//!
//! ```text
//! a blocking caller arrives:
//!     fewer than MAX_DIRECT callers search directly: so does it, on its own thread
//!     else: its query is queued, and it waits for the answer as a submitted query does
//! a search is submitted: its query is queued
//! a search thread, again and again:
//!     if something waits, and fewer than MAX_STARTED of its batches are under way:
//!         the first queued query and those that may share a batch are started;
//!         if they cannot be, they are run when nothing else is under way
//!     answers of all batches under way that are there are given to their callers
//!     if nothing is under way: it sleeps until something is queued
//! ```
//!
//! No timer delays a search, and none waits for the end of another, except those that cannot be started. Under load, a
//! batch has the searches that arrived since the thread looked last. Queries and answers are type parameters, and
//! threads and locks come from `super::sync`, so that the model checker of `tests.rs` compiles this file with its own.

use std::collections::VecDeque;
use std::sync::Arc;

use super::request::{Batch, Outcome, Request, Submitted};
use super::sync::atomic::{AtomicUsize, Ordering};
use super::sync::thread;
use super::sync::{Condvar, Mutex, MutexGuard};

/// Callers that search directly at a time, for each device.
const MAX_DIRECT: usize = 4;
/// Batches that a search thread has under way at a time.
const MAX_STARTED: usize = 4;
/// Queries in a batch: several times as many as a device searches for concurrently.
const MAX_BATCH: usize = 4096;

/// Answers the batches of a queue.
pub(crate) trait BatchRunner {
    /// The query of a caller.
    type Query;
    /// The answer to a query.
    type Answer;
    /// A batch under way.
    type Started;

    /// Whether two queries may be in one batch.
    fn are_compatible(&self, first: &Self::Query, other: &Self::Query) -> bool;

    /// Begins to answer a batch, and does not wait for it. `None` if it has to be [run](Self::run).
    fn start(&self, batch: &[&Self::Query]) -> Option<Self::Started>;

    /// Calls `answer` with the number of each query that is answered since the last call. Returns whether the batch has
    /// ended; queries that are not answered then have to be run.
    fn poll(&self, started: &mut Self::Started, answer: &mut dyn FnMut(usize, Self::Answer)) -> bool;

    /// Answers a batch: calls `answer` with the number of each query.
    fn run(&self, batch: &[&Self::Query], answer: &mut dyn FnMut(usize, Self::Answer));
}

/// Searches that wait for their batch.
pub(crate) struct Queue<Q, A> {
    state: Mutex<State<Q, A>>,
    /// Notified when something is queued and a search thread sleeps.
    work: Condvar,
    /// Number of callers that search directly.
    direct: AtomicUsize,
    max_direct: usize,
}

struct State<Q, A> {
    waiting: VecDeque<Arc<Request<Q, A>>>,
    /// Number of search threads that wait for something to be queued.
    sleeping: usize,
    is_closed: bool,
}

impl<Q, A> Queue<Q, A> {
    /// A queue for a number of devices that hold the same.
    pub(crate) fn new(devices: usize) -> Self {
        let state = State { waiting: VecDeque::new(), sleeping: 0, is_closed: false };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            direct: AtomicUsize::new(0),
            max_direct: MAX_DIRECT * devices,
        }
    }

    /// Permission to search directly, not in a batch, if few callers do; otherwise queries are to be submitted.
    pub(crate) fn try_direct(&self) -> Option<DirectPermit<'_>> {
        let one_more = |direct| (direct < self.max_direct).then_some(direct + 1);
        let before = self.direct.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        before.is_ok().then(|| DirectPermit(&self.direct))
    }

    /// Queues a query.
    pub(crate) fn submit(&self, query: Q) -> Submitted<Q, A> {
        let request = Request::new(query);
        self.change(|state| state.waiting.push_back(Arc::clone(&request)));
        Submitted(request)
    }

    /// Answers queries until the queue is closed and empty.
    pub(crate) fn work<R: BatchRunner<Query = Q, Answer = A>>(&self, runner: &R) {
        let mut started: Vec<(Batch<Q, A>, R::Started)> = Vec::new();
        // Batches that have to be run. Those under way come first, because running one may take long.
        let mut held: Vec<Batch<Q, A>> = Vec::new();
        loop {
            let batch = match started.len() {
                0 => match self.wait_for_batch(runner) {
                    None => return,
                    batch => batch,
                },
                1..MAX_STARTED if held.is_empty() => {
                    let taken = self.lock().take();
                    self.batch_of(taken, runner)
                }
                _ => None,
            };
            if let Some(batch) = batch {
                match runner.start(&batch.items()) {
                    Some(batch_under_way) => started.push((batch, batch_under_way)),
                    None => held.push(batch),
                }
            }
            held.extend(
                started
                    .extract_if(.., |(batch, batch_under_way)| {
                        runner.poll(batch_under_way, &mut |query, answer| batch.answer(query, answer))
                    })
                    .map(|(batch, _)| batch),
            );
            if started.is_empty() {
                held.drain(..).for_each(|batch| batch.run(runner));
            } else {
                thread::yield_now();
            }
        }
    }

    /// Ends the search threads once they have answered all queued queries.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// The next batch, once there is one; `None` if the queue is closed and empty.
    fn wait_for_batch(&self, runner: &impl BatchRunner<Query = Q>) -> Option<Batch<Q, A>> {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && !state.is_closed {
                state.sleeping += 1;
                state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                state.sleeping -= 1;
            }
            let taken = state.take();
            drop(state);
            if taken.0.is_empty() {
                return None;
            }
            if let Some(batch) = self.batch_of(taken, runner) {
                return Some(batch);
            }
        }
    }

    /// The first request that was taken, and those that may share its batch; the others are queued again, in their
    /// places.
    fn batch_of(&self, taken: Batch<Q, A>, runner: &impl BatchRunner<Query = Q>) -> Option<Batch<Q, A>> {
        let mut batch = taken;
        batch.0.retain(|request| !request.is_withdrawn());
        let first = Arc::clone(batch.0.first()?);
        let others: Vec<_> =
            batch.0.extract_if(1.., |other| !runner.are_compatible(&first.item, &other.item)).collect();
        if !others.is_empty() {
            self.change(|state| others.into_iter().rev().for_each(|other| state.waiting.push_front(other)));
        }
        Some(batch)
    }

    /// Changes what is queued, and wakes a search thread if one sleeps. Notifying costs a system call in any case.
    fn change(&self, queue: impl FnOnce(&mut State<Q, A>)) {
        let mut state = self.lock();
        queue(&mut state);
        let sleeping = state.sleeping;
        drop(state);
        if sleeping > 0 {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The permission of a caller to search directly, until it is dropped.
pub(crate) struct DirectPermit<'a>(&'a AtomicUsize);

impl Drop for DirectPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<Q, A> State<Q, A> {
    /// Takes the first requests. The thread looks at them without the lock, which callers wait for.
    fn take(&mut self) -> Batch<Q, A> {
        Batch(self.waiting.drain(..self.waiting.len().min(MAX_BATCH)).collect())
    }
}

impl<Q, A> Batch<Q, A> {
    /// Runs the queries that are not answered.
    fn run(&self, runner: &impl BatchRunner<Query = Q, Answer = A>) {
        let left: Vec<_> = self.0.iter().filter(|request| request.is_pending()).collect();
        let queries: Vec<_> = left.iter().map(|request| &request.item).collect();
        if !queries.is_empty() {
            runner.run(&queries, &mut |query, answer| left[query].set(Outcome::Answered(answer)));
        }
    }
}
