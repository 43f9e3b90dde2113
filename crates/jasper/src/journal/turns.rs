//! The order of the changes of a durable index.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use jasper_core::sync;

/// Numbers changes in the order in which they begin, and lets one at a time go on, in the order of their numbers.
#[derive(Debug)]
pub(super) struct Turns {
    counters: Mutex<Counters>,
    passed: Condvar,
}

#[derive(Debug)]
struct Counters {
    /// Number of the next change that begins.
    next: u64,
    /// Number of the change that may go on.
    current: u64,
}

/// The turn of one change. Dropping it waits until the turn has come, and passes it on.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    /// Numbers changes from `first` on.
    pub(super) fn new(first: u64) -> Self {
        Self { counters: Mutex::new(Counters { next: first, current: first }), passed: Condvar::new() }
    }

    /// Takes the next number.
    pub(super) fn take(&self) -> Turn<'_> {
        let mut counters = self.lock();
        counters.next += 1;
        Turn { turns: self, number: counters.next - 1 }
    }

    fn lock(&self) -> MutexGuard<'_, Counters> {
        sync::lock(&self.counters)
    }

    fn wait(&self, number: u64) -> MutexGuard<'_, Counters> {
        let is_later = |counters: &mut Counters| counters.current != number;
        self.passed.wait_while(self.lock(), is_later).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// The number of the change.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until all changes with lower numbers have ended.
    pub(super) fn wait(&self) {
        drop(self.turns.wait(self.number));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.wait(self.number).current += 1;
        self.turns.passed.notify_all();
    }
}
