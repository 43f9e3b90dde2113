//! The queue under a model checker, which runs its threads in many orders, and the same on real threads.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use shuttle::thread;

use model::queue::{Queue, Run};

/// The queue, compiled with the threads and locks of the model checker.
#[path = "."]
mod model {
    pub(super) mod sync {
        pub(in super::super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
        pub(in super::super) use shuttle::thread;
    }

    #[expect(clippy::duplicate_mod, reason = "once with the threads of std, once with the model checker's")]
    #[path = "queue.rs"]
    pub(super) mod queue;
}

const MAX_RUNNING: usize = 2;
const MAX_BATCH: usize = 3;
const SCHEDULES: usize = 2_000;

/// Answers a query with its square, and counts.
#[derive(Default)]
struct Squares {
    running: AtomicUsize,
    answered: AtomicUsize,
    batches: AtomicUsize,
}

impl Run for Squares {
    type Query = usize;
    type Answer = usize;

    /// Queries of different hundreds do not share a batch.
    fn are_compatible(&self, first: &usize, other: &usize) -> bool {
        first / 100 == other / 100
    }

    fn run(&self, batch: &[&usize]) -> Vec<usize> {
        assert!((1..=MAX_BATCH).contains(&batch.len()));
        assert!(batch.iter().all(|query| self.are_compatible(batch[0], query)));
        assert!(self.running.fetch_add(1, Ordering::Relaxed) < MAX_RUNNING);
        thread::yield_now();
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.answered.fetch_add(batch.len(), Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        batch.iter().map(|query| *query * *query).collect()
    }
}

type Squaring = (Queue<usize, usize>, Squares);

fn squaring() -> Arc<Squaring> {
    Arc::new((Queue::new(MAX_RUNNING, MAX_BATCH), Squares::default()))
}

/// Waits for `callers`, then ends `workers`, which first answer what is queued.
fn finish(shared: &Squaring, callers: Vec<thread::JoinHandle<()>>, workers: Vec<thread::JoinHandle<()>>) {
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    shared.0.close();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(shared.1.running.load(Ordering::Relaxed), 0);
}

fn spawn_each(
    shared: &Arc<Squaring>,
    inputs: impl IntoIterator<Item = usize>,
    work: fn(&Squaring, usize),
) -> Vec<thread::JoinHandle<()>> {
    let spawn = |input| {
        let shared = Arc::clone(shared);
        thread::spawn(move || work(&shared, input))
    };
    inputs.into_iter().map(spawn).collect()
}

fn spawn_workers(shared: &Arc<Squaring>, count: usize) -> Vec<thread::JoinHandle<()>> {
    spawn_each(shared, 0..count, |(queue, squares), _| queue.work(squares))
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, SCHEDULES);
}

#[test]
fn every_waiting_caller_gets_its_own_answer() {
    check(|| {
        let shared = squaring();
        let callers = spawn_each(&shared, [1, 2, 3, 104, 5, 106], |(queue, squares), query| {
            for query in [query, query + 10] {
                assert_eq!(queue.call(squares, query), query * query);
            }
        });
        finish(&shared, callers, vec![]);
        assert_eq!(shared.1.answered.load(Ordering::Relaxed), 12);
    });
}

#[test]
fn submitted_and_waiting_callers_are_answered_together() {
    check(|| {
        let shared = squaring();
        let workers = spawn_workers(&shared, 2);
        let callers = spawn_each(&shared, 1..6, |(queue, squares), query| {
            if query % 2 == 0 {
                assert_eq!(queue.call(squares, query), query * query);
            } else {
                let answers = [queue.submit(query), queue.submit(query + 100)].map(shuttle::future::block_on);
                assert_eq!(answers, [query, query + 100].map(|query| query * query));
            }
        });
        finish(&shared, callers, workers);
        assert_eq!(shared.1.answered.load(Ordering::Relaxed), 8);
    });
}

#[test]
fn a_submitted_search_may_be_dropped_at_any_point() {
    check(|| {
        let shared = squaring();
        let workers = spawn_workers(&shared, 1);
        let callers = spawn_each(&shared, 1..6, |(queue, squares), query| match query {
            1 => drop(queue.submit(query)),
            2 => assert!(matches!(poll(queue.submit(query)), Poll::Pending | Poll::Ready(4))),
            3 => assert_eq!(shuttle::future::block_on(queue.submit(query)), 9),
            _ => assert_eq!(queue.call(squares, query), query * query),
        });
        finish(&shared, callers, workers);
        assert!((3..=5).contains(&shared.1.answered.load(Ordering::Relaxed)));
    });
}

#[test]
fn what_is_queued_is_answered_before_the_workers_end() {
    check(|| {
        let shared = squaring();
        let submitted: Vec<_> = (0..7).map(|query| shared.0.submit(query)).collect();
        let workers = spawn_workers(&shared, 2);
        finish(&shared, vec![], workers);
        for (query, submitted) in submitted.into_iter().enumerate() {
            assert_eq!(shuttle::future::block_on(submitted), query * query);
        }
    });
}

#[test]
fn callers_that_arrive_together_share_batches() {
    let batches = Arc::new(AtomicUsize::new(usize::MAX));
    let fewest = Arc::clone(&batches);
    check(move || {
        let shared = squaring();
        let callers = spawn_each(&shared, 1..9, |(queue, squares), query| {
            assert_eq!(queue.call(squares, query), query * query);
        });
        finish(&shared, callers, vec![]);
        fewest.fetch_min(shared.1.batches.load(Ordering::Relaxed), Ordering::Relaxed);
    });
    assert_eq!(batches.load(Ordering::Relaxed), 8_usize.div_ceil(MAX_BATCH));
}

#[test]
fn two_callers_and_a_worker_in_every_order() {
    let model = || {
        let shared = squaring();
        let workers = spawn_workers(&shared, 1);
        let submitted = shared.0.submit(7);
        let callers = spawn_each(&shared, [3], |(queue, squares), query| {
            assert_eq!(queue.call(squares, query), 9);
        });
        assert_eq!(shuttle::future::block_on(submitted), 49);
        finish(&shared, callers, workers);
    };
    shuttle::check_dfs(model, Some(SCHEDULES * 10));
}

/// Panics for an odd first query.
struct Evens;

impl super::queue::Run for Evens {
    type Query = usize;
    type Answer = usize;

    fn are_compatible(&self, _: &usize, _: &usize) -> bool {
        true
    }

    fn run(&self, batch: &[&usize]) -> Vec<usize> {
        assert!(batch[0].is_multiple_of(2), "odd");
        batch.iter().map(|query| **query).collect()
    }
}

#[test]
fn a_batch_that_panics_fails_its_callers_and_no_others() {
    let queue = super::queue::Queue::new(1, 1);
    let submitted = [0, 1, 2].map(|query| queue.submit(query));
    queue.close();
    let mut panics = 0;
    while catch_unwind(AssertUnwindSafe(|| queue.work(&Evens))).is_err() {
        panics += 1;
    }
    assert_eq!(panics, 1);
    let answers = submitted.map(|submitted| catch_unwind(AssertUnwindSafe(|| poll(submitted))).ok());
    assert_eq!(answers, [Some(Poll::Ready(0)), None, Some(Poll::Ready(2))]);
    assert!(catch_unwind(AssertUnwindSafe(|| queue.call(&Evens, 3))).is_err());
    assert_eq!(queue.call(&Evens, 4), 4);
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
