//! The queue that gathers single searches of many callers into batches.
//!
//! ```text
//! a blocking caller arrives:
//!     fewer than max_running batches run: its search runs at once, with the queued ones that may share its batch
//!     else: it is queued
//! a search is submitted: it is queued, and a worker thread is notified
//! a batch ends:
//!     the first queued search and those behind it that may share a batch are the next batch;
//!     the thread of the first runs it if that thread waits, else a worker thread does
//! ```
//!
//! No timer delays a single search. Under load, a batch has the searches that arrived while others ran. Queries and
//! answers are type parameters, and threads and locks come from `super::sync`, so that the model checker of `tests.rs`
//! compiles this file with its own.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::sync::thread::{self, Thread};
use super::sync::{Condvar, Mutex, MutexGuard};

/// Runs the batches of a queue.
pub(crate) trait Run {
    /// The query of a caller.
    type Query;
    /// The answer to a query.
    type Answer;

    /// Whether two queries may be in one batch.
    fn are_compatible(&self, first: &Self::Query, other: &Self::Query) -> bool;

    /// The answers to the queries of a batch, in their order.
    fn run(&self, batch: &[&Self::Query]) -> Vec<Self::Answer>;
}

/// Searches that wait for their batch.
pub(crate) struct Queue<Q, A> {
    state: Mutex<State<Q, A>>,
    /// Notified when there may be work for a worker.
    work: Condvar,
    max_running: usize,
    max_batch: usize,
}

struct State<Q, A> {
    waiting: VecDeque<Arc<Request<Q, A>>>,
    /// Number of batches that run, or that are assigned to a thread.
    running: usize,
    is_closed: bool,
}

/// The query of one caller.
struct Request<Q, A> {
    query: Q,
    /// Whether the caller's thread waits and can therefore run a batch.
    is_blocking: bool,
    outcome: Mutex<Outcome<A>>,
}

enum Outcome<A> {
    /// The waker of a caller that has begun to wait.
    Pending(Option<Waker>),
    /// The caller's thread must run the next batch.
    Lead,
    Answered(A),
    /// The thread that ran the batch panicked.
    Failed,
    /// The caller has taken its answer, or has withdrawn the query.
    Taken,
}

impl<Q, A> Queue<Q, A> {
    /// A queue of which at most `max_running` batches, of at most `max_batch` queries each, run at a time.
    pub(crate) fn new(max_running: usize, max_batch: usize) -> Self {
        let state = State { waiting: VecDeque::new(), running: 0, is_closed: false };
        Self { state: Mutex::new(state), work: Condvar::new(), max_running, max_batch }
    }

    /// Waits for the answer to a query.
    ///
    /// # Panics
    /// Panics if the thread that ran its batch panicked.
    pub(crate) fn call(&self, runner: &impl Run<Query = Q, Answer = A>, query: Q) -> A {
        let request = Arc::new(Request::new(query, true));
        let mut state = self.lock();
        let leads = state.running < self.max_running;
        if leads {
            state.running += 1;
        } else {
            state.waiting.push_back(Arc::clone(&request));
        }
        drop(state);
        if !leads && let Some(answer) = request.wait_or_lead() {
            return answer;
        }
        self.run(runner, Arc::clone(&request));
        request.wait_or_lead().expect("a batch answers its first query")
    }

    /// Queues a query; a worker runs it, or a thread in [`Self::call`].
    pub(crate) fn submit(&self, query: Q) -> Submitted<Q, A> {
        let request = Arc::new(Request::new(query, false));
        let mut state = self.lock();
        state.waiting.push_back(Arc::clone(&request));
        self.notify_worker(&state);
        Submitted(request)
    }

    /// Runs batches until the queue is closed and empty.
    pub(crate) fn work(&self, runner: &impl Run<Query = Q, Answer = A>) {
        let mut state = self.lock();
        loop {
            if state.running < self.max_running
                && let Some(first) = state.next()
            {
                state.running += 1;
                drop(state);
                self.run(runner, first);
                state = self.lock();
            } else if state.is_closed && state.waiting.is_empty() {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        }
    }

    /// Ends the workers once they have answered all queued queries.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
    }

    /// Runs the batch of `first`, which is counted as running, then passes the permit on.
    fn run(&self, runner: &impl Run<Query = Q, Answer = A>, first: Arc<Request<Q, A>>) {
        let batch = Batch(self.take_batch(runner, first));
        let permit = RunPermit(self);
        let answers = runner.run(&batch.0.iter().map(|request| &request.query).collect::<Vec<_>>());
        // The next batch begins before this one's callers wake up.
        drop(permit);
        for (request, answer) in batch.0.iter().zip(answers) {
            request.set(Outcome::Answered(answer));
        }
    }

    fn take_batch(&self, runner: &impl Run<Query = Q>, first: Arc<Request<Q, A>>) -> Vec<Arc<Request<Q, A>>> {
        let mut batch = vec![first];
        let mut state = self.lock();
        let mut at = 0;
        // Only the first `max_batch` queries are considered, which bounds the time if they differ.
        while at < state.waiting.len().min(self.max_batch) && batch.len() < self.max_batch {
            if runner.are_compatible(&batch[0].query, &state.waiting[at].query) {
                batch.extend(state.waiting.remove(at).filter(|request| !request.is_withdrawn()));
            } else {
                at += 1;
            }
        }
        batch
    }

    fn notify_worker(&self, state: &State<Q, A>) {
        if state.running < self.max_running && !state.waiting.is_empty() {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<Q, A> State<Q, A> {
    /// Takes the first request that is not withdrawn.
    fn next(&mut self) -> Option<Arc<Request<Q, A>>> {
        while let Some(next) = self.waiting.pop_front() {
            if !next.is_withdrawn() {
                return Some(next);
            }
        }
        None
    }
}

impl<Q, A> Request<Q, A> {
    fn new(query: Q, is_blocking: bool) -> Self {
        Self { query, is_blocking, outcome: Mutex::new(Outcome::Pending(None)) }
    }

    fn lock(&self) -> MutexGuard<'_, Outcome<A>> {
        self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn is_withdrawn(&self) -> bool {
        matches!(*self.lock(), Outcome::Taken)
    }

    /// Sets the outcome, unless there is one already, and wakes the caller.
    fn set(&self, new: Outcome<A>) {
        let mut outcome = self.lock();
        if let Outcome::Pending(waker) = &mut *outcome {
            let waker = waker.take();
            *outcome = new;
            drop(outcome);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the answer if there is one; otherwise the next outcome wakes `waker`.
    fn poll(&self, waker: &Waker) -> Poll<Option<A>> {
        let mut outcome = self.lock();
        match mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Pending(_) => {
                *outcome = Outcome::Pending(Some(waker.clone()));
                Poll::Pending
            }
            Outcome::Lead => {
                *outcome = Outcome::Pending(None);
                Poll::Ready(None)
            }
            Outcome::Answered(answer) => Poll::Ready(Some(answer)),
            Outcome::Failed => panic!("the search of this batch panicked"),
            Outcome::Taken => panic!("a search was polled after its result was taken"),
        }
    }

    /// Blocks until there is an answer. Returns `None` if this thread must run the next batch.
    fn wait_or_lead(&self) -> Option<A> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match self.poll(&waker) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Wakes a thread that waits in [`Request::wait_or_lead`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A batch. Dropping it fails the requests that have no answer, because its thread is panicking.
struct Batch<Q, A>(Vec<Arc<Request<Q, A>>>);

impl<Q, A> Drop for Batch<Q, A> {
    fn drop(&mut self) {
        self.0.iter().for_each(|request| request.set(Outcome::Failed));
    }
}

/// The permission to run one batch. Dropping it passes it on.
struct RunPermit<'a, Q, A>(&'a Queue<Q, A>);

impl<Q, A> Drop for RunPermit<'_, Q, A> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(next) = state.waiting.pop_front_if(|next| next.is_blocking) {
            drop(state);
            next.set(Outcome::Lead);
        } else {
            state.running -= 1;
            self.0.notify_worker(&state);
        }
    }
}

/// The answer to a submitted query, as a future. Dropping it withdraws the query unless its batch has begun.
pub(crate) struct Submitted<Q, A>(Arc<Request<Q, A>>);

impl<Q, A> Future for Submitted<Q, A> {
    type Output = A;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A> {
        self.0
            .poll(context.waker())
            .map(|answer| answer.expect("only a waiting thread is told to run a batch"))
    }
}

impl<Q, A> Drop for Submitted<Q, A> {
    fn drop(&mut self) {
        *self.0.lock() = Outcome::Taken;
    }
}
