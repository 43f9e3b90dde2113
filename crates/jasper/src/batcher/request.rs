//! What one caller asked for, and its answer, for which it waits or is woken.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::sync::thread::{self, Thread};
use super::sync::{Mutex, MutexGuard};

/// The query or the change of one caller.
pub(crate) struct Request<Q, A> {
    pub(super) item: Q,
    outcome: Mutex<Outcome<A>>,
}

pub(super) enum Outcome<A> {
    /// The waker of a caller that has begun to wait.
    Pending(Option<Waker>),
    Answered(A),
    /// The thread that ran the batch panicked.
    Failed,
    /// The caller has taken its answer, or has withdrawn the request.
    Taken,
}

impl<Q, A> Request<Q, A> {
    pub(super) fn new(item: Q) -> Arc<Self> {
        Arc::new(Self { item, outcome: Mutex::new(Outcome::Pending(None)) })
    }

    fn lock(&self) -> MutexGuard<'_, Outcome<A>> {
        self.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        matches!(*self.lock(), Outcome::Taken)
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(*self.lock(), Outcome::Pending(_))
    }

    /// Sets the outcome, unless there is one already, and wakes the caller.
    pub(super) fn set(&self, new: Outcome<A>) {
        let mut outcome = self.lock();
        if let Outcome::Pending(waker) = &mut *outcome {
            let waker = waker.take();
            *outcome = new;
            drop(outcome);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the answer if there is one; otherwise it wakes `waker`.
    fn poll(&self, waker: &Waker) -> Poll<A> {
        let mut outcome = self.lock();
        match mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Pending(_) => {
                *outcome = Outcome::Pending(Some(waker.clone()));
                Poll::Pending
            }
            Outcome::Answered(answer) => Poll::Ready(answer),
            Outcome::Failed => panic!("the thread that ran the batch panicked"),
            Outcome::Taken => panic!("a future was polled after its result was taken"),
        }
    }
}

/// Requests that were taken from a queue: a batch, or those that one is chosen from. Dropping them fails those that are
/// pending, which there are only if the thread panics.
pub(super) struct Batch<Q, A>(pub(super) Vec<Arc<Request<Q, A>>>);

impl<Q, A> Batch<Q, A> {
    pub(super) fn items(&self) -> Vec<&Q> {
        self.0.iter().map(|request| &request.item).collect()
    }

    pub(super) fn answer(&self, number: usize, answer: A) {
        self.0[number].set(Outcome::Answered(answer));
    }
}

impl<Q, A> Drop for Batch<Q, A> {
    fn drop(&mut self) {
        self.0.iter().for_each(|request| request.set(Outcome::Failed));
    }
}

/// The answer to a request, as a future. Dropping it withdraws the request unless its batch has begun.
pub(crate) struct Submitted<Q, A>(pub(super) Arc<Request<Q, A>>);

impl<Q, A> Submitted<Q, A> {
    /// Blocks until there is an answer.
    ///
    /// # Panics
    /// Panics if the thread that ran its batch panicked.
    pub(crate) fn wait(self) -> A {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match self.0.poll(&waker) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }
}

/// Wakes a thread that waits in [`Submitted::wait`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<Q, A> Future for Submitted<Q, A> {
    type Output = A;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A> {
        self.0.poll(context.waker())
    }
}

impl<Q, A> Drop for Submitted<Q, A> {
    fn drop(&mut self) {
        let before = mem::replace(&mut *self.0.lock(), Outcome::Taken);
        // Not under the lock: a waker may own the index, whose end waits for threads that take the lock.
        drop(before);
    }
}
