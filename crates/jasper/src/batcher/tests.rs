//! The queue under a model checker, which runs its threads in many orders, and the same on real threads.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use shuttle::thread;

use jasper_attributes::{Expression, Frame, column};
use jasper_core::{MatrixView, Metric, VectorView, no_progress};
use jasper_vamana::{CpuExecutor, SearchError, SearchParams};

use super::{Query, Runner};
use crate::IndexBuilder;
use crate::backend::faulty::{Controls, Faulty};
use model::gather::{ChangeRunner, Gather};
use model::queue::{BatchRunner, Queue};

/// The queue, compiled with the threads and locks of the model checker.
#[path = "."]
mod model {
    pub(super) mod sync {
        pub(in super::super) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};
        pub(in super::super) use shuttle::thread;
    }

    #[expect(clippy::duplicate_mod, reason = "once with the threads of std, once with the model checker's")]
    #[path = "queue.rs"]
    pub(super) mod queue;

    #[expect(clippy::duplicate_mod, reason = "as above")]
    #[path = "gather.rs"]
    pub(super) mod gather;

    #[expect(clippy::duplicate_mod, reason = "as above")]
    #[path = "request.rs"]
    mod request;
}

const SCHEDULES: usize = 2_000;

/// Answers a query with its square, and counts. Of a batch that is started, one query is answered per poll, the last
/// first, and multiples of ten are not.
#[derive(Default)]
struct Squares {
    answered: AtomicUsize,
    batches: AtomicUsize,
}

impl BatchRunner for Squares {
    type Query = usize;
    type Answer = usize;
    /// The queries that are not answered.
    type Started = Vec<usize>;

    /// Queries of different hundreds do not share a batch.
    fn are_compatible(&self, first: &usize, other: &usize) -> bool {
        first / 100 == other / 100
    }

    /// A single query cannot be started.
    fn start(&self, batch: &[&usize]) -> Option<Vec<usize>> {
        assert!(batch.iter().all(|query| self.are_compatible(batch[0], query)));
        self.batches.fetch_add(1, Ordering::Relaxed);
        (batch.len() > 1).then(|| batch.iter().map(|query| **query).collect())
    }

    fn poll(&self, started: &mut Vec<usize>, answer: &mut dyn FnMut(usize, usize)) -> bool {
        thread::yield_now();
        if let Some(query) = started.pop().filter(|query| !query.is_multiple_of(10)) {
            self.answered.fetch_add(1, Ordering::Relaxed);
            answer(started.len(), query * query);
        }
        started.is_empty()
    }

    fn run(&self, batch: &[&usize], answer: &mut dyn FnMut(usize, usize)) {
        assert!(batch.len() == 1 || batch.iter().all(|query| query.is_multiple_of(10)));
        thread::yield_now();
        self.answered.fetch_add(batch.len(), Ordering::Relaxed);
        batch.iter().enumerate().for_each(|(number, query)| answer(number, *query * *query));
    }
}

type Squaring = (Queue<usize, usize>, Squares);

/// Searches for a query as `SearchBatcher::search` does.
fn call((queue, squares): &Squaring, query: usize) -> usize {
    let permit = queue.try_direct();
    if permit.is_none() {
        return queue.submit(query).wait();
    }
    let mut square = None;
    squares.run(&[&query], &mut |_, answer| square = Some(answer));
    square.unwrap()
}

fn squaring() -> Arc<Squaring> {
    Arc::new((Queue::new(1), Squares::default()))
}

/// Waits for `callers`, then ends `threads`, which first answer what is queued.
fn finish(shared: &Squaring, callers: Vec<thread::JoinHandle<()>>, threads: Vec<thread::JoinHandle<()>>) {
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    shared.0.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
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

fn spawn_threads(shared: &Arc<Squaring>, count: usize) -> Vec<thread::JoinHandle<()>> {
    spawn_each(shared, 0..count, |(queue, squares), _| queue.work(squares))
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, SCHEDULES);
}

#[test]
fn every_waiting_caller_gets_its_own_answer() {
    check(|| {
        let shared = squaring();
        let threads = spawn_threads(&shared, 2);
        let callers = spawn_each(&shared, [1, 2, 3, 104, 5, 106, 20], |shared, query| {
            for query in [query, query + 10] {
                assert_eq!(call(shared, query), query * query);
            }
        });
        finish(&shared, callers, threads);
        assert_eq!(shared.1.answered.load(Ordering::Relaxed), 14);
    });
}

#[test]
fn submitted_and_waiting_callers_are_answered_together() {
    check(|| {
        let shared = squaring();
        let threads = spawn_threads(&shared, 2);
        let callers = spawn_each(&shared, 1..6, |shared, query| {
            if query % 2 == 0 {
                assert_eq!(call(shared, query), query * query);
            } else {
                let submitted = [query, query + 100].map(|query| shared.0.submit(query));
                let answers = submitted.map(shuttle::future::block_on);
                assert_eq!(answers, [query, query + 100].map(|query| query * query));
            }
        });
        finish(&shared, callers, threads);
        assert_eq!(shared.1.answered.load(Ordering::Relaxed), 8);
    });
}

#[test]
fn a_submitted_search_may_be_dropped_at_any_point() {
    check(|| {
        let shared = squaring();
        let threads = spawn_threads(&shared, 1);
        let callers = spawn_each(&shared, 1..6, |shared, query| match query {
            1 => drop(shared.0.submit(query)),
            2 => assert!(matches!(poll(shared.0.submit(query)), Poll::Pending | Poll::Ready(4))),
            3 => assert_eq!(shuttle::future::block_on(shared.0.submit(query)), 9),
            _ => assert_eq!(call(shared, query), query * query),
        });
        finish(&shared, callers, threads);
        assert!((3..=5).contains(&shared.1.answered.load(Ordering::Relaxed)));
    });
}

#[test]
fn what_is_queued_is_answered_before_the_threads_end() {
    check(|| {
        let shared = squaring();
        let submitted: Vec<_> = (0..7).map(|query| shared.0.submit(query)).collect();
        let threads = spawn_threads(&shared, 2);
        finish(&shared, vec![], threads);
        for (query, submitted) in submitted.into_iter().enumerate() {
            assert_eq!(shuttle::future::block_on(submitted), query * query);
        }
    });
}

#[test]
fn callers_that_arrive_together_share_batches() {
    check(|| {
        let shared = squaring();
        let submitted: Vec<_> = (1..9).map(|query| shared.0.submit(query)).collect();
        finish(&shared, vec![], spawn_threads(&shared, 1));
        assert_eq!(shared.1.batches.load(Ordering::Relaxed), 1);
        drop(submitted);
    });
}

#[test]
fn few_callers_search_directly() {
    check(|| {
        let shared = squaring();
        let callers =
            spawn_each(&shared, 1..4, |shared, query| assert_eq!(call(shared, query), query * query));
        // There is no search thread.
        finish(&shared, callers, vec![]);
    });
}

#[test]
fn two_callers_and_a_search_thread_in_every_order() {
    let model = || {
        let shared = squaring();
        let threads = spawn_threads(&shared, 1);
        let submitted = shared.0.submit(7);
        let callers = spawn_each(&shared, [3], |shared, query| {
            assert_eq!(call(shared, query), 9);
        });
        assert_eq!(shuttle::future::block_on(submitted), 49);
        finish(&shared, callers, threads);
    };
    shuttle::check_dfs(model, Some(SCHEDULES * 10));
}

/// Panics for an odd query, when it is started or polled.
struct Evens;

impl super::queue::BatchRunner for Evens {
    type Query = usize;
    type Answer = usize;
    type Started = usize;

    fn are_compatible(&self, _: &usize, _: &usize) -> bool {
        false
    }

    fn start(&self, batch: &[&usize]) -> Option<usize> {
        assert_ne!(*batch[0], 1, "odd");
        Some(*batch[0])
    }

    fn poll(&self, query: &mut usize, answer: &mut dyn FnMut(usize, usize)) -> bool {
        assert_ne!(*query, 3, "odd");
        answer(0, *query);
        true
    }

    fn run(&self, _: &[&usize], _: &mut dyn FnMut(usize, usize)) {
        unreachable!("all are started, and answered");
    }
}

#[test]
fn a_batch_that_panics_fails_its_callers() {
    for odd in [1, 3] {
        let queue = super::queue::Queue::new(1);
        let submitted = [0, odd, 2].map(|query| queue.submit(query));
        queue.close();
        let mut panics = 0;
        while catch_unwind(AssertUnwindSafe(|| queue.work(&Evens))).is_err() {
            panics += 1;
        }
        assert_eq!(panics, 1);
        let answers = submitted.map(|submitted| catch_unwind(AssertUnwindSafe(|| poll(submitted))).ok());
        assert_eq!(answers, [Some(Poll::Ready(0)), None, Some(Poll::Ready(2))]);
    }
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Numbers changes in the order in which they are made. Those of one hundred are made together.
#[derive(Default)]
struct Numbers(AtomicUsize);

impl Numbers {
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl ChangeRunner for Numbers {
    type Change = usize;
    type Answer = (usize, usize);

    fn batch_len(&self, changes: &[&usize]) -> usize {
        changes.iter().take_while(|change| **change / 100 == changes[0] / 100).count()
    }

    /// Answers a change with itself and its number. A change of 13 panics.
    fn run(&self, batch: &[&usize], answer: &mut dyn FnMut(usize, (usize, usize))) {
        let number = self.next();
        thread::yield_now();
        assert_eq!(number + 1, self.0.load(Ordering::Relaxed), "batches are made one after another");
        assert!(!batch.contains(&&13));
        batch.iter().enumerate().for_each(|(i, change)| answer(i, (**change, number)));
    }
}

#[test]
fn changes_are_made_one_batch_after_another_and_in_order() {
    let run = || {
        let (queue, runner) = (Arc::new(Gather::new(2)), Arc::new(Numbers::default()));
        let (its_queue, its_runner) = (Arc::clone(&queue), Arc::clone(&runner));
        let worker = thread::spawn(move || its_queue.work(&*its_runner));
        let callers: Vec<_> = [1, 101]
            .into_iter()
            .map(|change| {
                let (queue, runner) = (Arc::clone(&queue), Arc::clone(&runner));
                thread::spawn(move || {
                    let made = match queue.try_direct() {
                        Some(_permit) => {
                            let mut made = None;
                            runner.run(&[&change], &mut |_, answer| made = Some(answer));
                            made.unwrap()
                        }
                        None => queue.submit(change).wait(),
                    };
                    assert_eq!(made.0, change);
                    // Of two that one caller submits, the first is not made after the second; one that is dropped may
                    // not be made at all.
                    let (first, second) = (queue.submit(change + 1), queue.submit(change + 1000));
                    drop(queue.submit(change + 2));
                    let (first, second) = (first.wait(), second.wait());
                    assert!(made.1 < first.1 && first.1 < second.1);
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        queue.close();
        worker.join().unwrap();
    };
    shuttle::check_random(run, SCHEDULES);
    shuttle::check_pct(run, SCHEDULES, 3);
}

#[test]
fn callers_of_a_batch_that_panics_panic_and_others_do_not() {
    let run = || {
        let (queue, runner) = (Arc::new(Gather::new(2)), Numbers::default());
        let its_queue = Arc::clone(&queue);
        let worker =
            thread::spawn(
                move || {
                    while catch_unwind(AssertUnwindSafe(|| its_queue.work(&runner))).is_err() {}
                },
            );
        let unlucky = queue.submit(13);
        let lucky = queue.submit(200);
        assert!(catch_unwind(AssertUnwindSafe(|| unlucky.wait())).is_err());
        assert_eq!(lucky.wait().0, 200);
        queue.close();
        worker.join().unwrap();
    };
    shuttle::check_random(run, SCHEDULES);
}

#[test]
fn a_filter_that_does_not_fit_fails_alone() {
    let years = Frame::new(4).column("year", [1, 2, 3, 4]).unwrap();
    let builder = IndexBuilder::new(Metric::L2).threads(1).device(crate::Device::CPU).attributes(&years);
    let rows = [1_u8, 0, 2, 0, 3, 0, 4, 0];
    let index = builder.build_on_host(MatrixView::new(&rows, 2).unwrap().into(), &mut no_progress).unwrap();
    let graph = index.backend.read(|graph| graph.try_clone().unwrap());
    let (controls, executor) = (Arc::<Controls>::default(), Arc::new(CpuExecutor::new(1).unwrap()));
    let runner = Runner(Faulty::backend(graph, &executor, 0, &controls));
    let filters: Vec<Expression> =
        (1..=4).map(|year| column(if year == 3 { "yeer" } else { "year" }).eq(year)).collect();
    let query =
        |filter| Query::new(VectorView::from(&[0_u8, 0][..]), SearchParams::new(1).filter(filter)).unwrap();
    let queries: Vec<Query> = filters.iter().map(query).collect();
    let mut answers: [_; 4] = std::array::from_fn(|_| None);
    super::BatchRunner::run(&runner, &queries.iter().collect::<Vec<_>>(), &mut |query, answer| {
        answers[query] = Some(answer)
    });
    for (number, answer) in answers.into_iter().enumerate() {
        match answer.expect("an answer for each") {
            Err(error) => assert!(number == 2 && matches!(error, SearchError::Filter(_)), "{error}"),
            Ok(hits) => assert_eq!(hits.iter().map(|hit| hit.key).collect::<Vec<_>>(), [number as u64]),
        }
    }
    // All together, the one that fails, and the others together.
    assert_eq!(controls.searches.load(Ordering::Relaxed), 3);
}
