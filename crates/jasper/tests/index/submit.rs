//! Submitted searches: each has the result of the same search alone.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use jasper::{Device, Error, Hit, Index, KeyFilter, Metric, Pending, SearchParams};
use jasper_core::synthetic::Clusters;
use jasper_vamana::SearchError;

use crate::common::{small, view};

const DIMENSION: usize = 8;
const VECTORS: usize = 600;

fn vectors() -> Vec<u8> {
    Clusters::new(DIMENSION, 17).rows(VECTORS, 0)
}

fn index(device: Device) -> Index {
    index_of(&vectors(), device)
}

fn index_of(vectors: &[u8], device: Device) -> Index {
    let index = small(Metric::L2).build(view(vectors, DIMENSION)).unwrap().to_device(device).unwrap();
    index.warm_up().unwrap();
    index
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: polls when woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Results as text: errors have no equality.
fn text(result: Result<Vec<Hit>, Error>) -> String {
    format!("{result:?}")
}

#[test]
fn each_gets_the_answer_that_the_same_search_gives_alone() {
    let vectors = vectors();
    let with_copies = [&vectors[..], &vectors[..100 * DIMENSION], &vectors[..100 * DIMENSION]].concat();
    let (few, odd) = (KeyFilter::from_iter([1, 9, 300]), (1..600).step_by(2).collect::<KeyFilter>());
    let cases = [(Device::CPU, &vectors), (Device::AUTO, &vectors)];
    for (device, indexed) in cases.into_iter().chain([(Device::AUTO, &with_copies)]) {
        let index = index_of(indexed, device);
        let params = |i: usize| match i % 7 {
            0 => SearchParams::new(0),
            1 => SearchParams::new(3).filter(&few),
            2 => SearchParams::new(3).filter(&odd),
            3 => SearchParams::new(20),
            _ => SearchParams::new(5),
        };
        // Some queries have a wrong length.
        let query = |i: usize| &vectors[i * DIMENSION..][..DIMENSION - usize::from(i % 11 == 5)];
        let submitted: Vec<Pending<Vec<Hit>>> =
            (0..400).map(|i| index.submit(query(i), params(i)).unwrap()).collect();
        for (i, submitted) in submitted.into_iter().enumerate() {
            assert_eq!(text(block_on(submitted)), text(index.search(query(i), params(i))), "{i}");
        }
        let even = |key| key % 2 == 0;
        let refused = index.submit(query(0), SearchParams::new(5).filter(&even));
        assert!(
            matches!(&refused, Err(error) if matches!(error.downcast_ref(), Some(SearchError::SubmittedPredicate)))
        );
    }
}

#[test]
fn callers_of_every_kind_are_answered_beside_changes() {
    let vectors = vectors();
    for device in [Device::CPU, Device::AUTO] {
        let index = index(device);
        let query = |i: usize| &vectors[i * DIMENSION..][..DIMENSION];
        let params = SearchParams::new(3).beam_width(VECTORS);
        thread::scope(|scope| {
            for thread in 0..6 {
                let index = &index;
                scope.spawn(move || {
                    for i in (thread..VECTORS).step_by(6) {
                        let hits = match thread % 2 {
                            0 => index.search(query(i), params),
                            _ => block_on(index.submit(query(i), params).unwrap()),
                        };
                        let hits = hits.unwrap();
                        assert_eq!((hits.len(), hits[0].distance), (3, 0.0));
                        let mut keys: Vec<_> = hits.iter().map(|hit| hit.key).collect();
                        keys.sort_unstable();
                        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    }
                });
            }
            // Each vector gets another key: one is always there.
            for key in 0..20 {
                index.insert(query(key), &[10_000 + key as u64]).unwrap();
                index.delete(&[key as u64]).unwrap();
            }
        });
    }
}

#[test]
fn what_is_submitted_is_answered_though_the_index_moves_or_is_dropped() {
    let vectors = vectors();
    let submit = |index: &Index| -> Vec<Pending<Vec<Hit>>> {
        let params = SearchParams::new(1).beam_width(VECTORS);
        vectors.chunks(DIMENSION).map(|query| index.submit(query, params).unwrap()).collect()
    };
    let mut submitted = Vec::new();
    let index = index(Device::CPU);
    submitted.extend(submit(&index));
    let index = index.to_device(Device::AUTO).unwrap();
    submitted.extend(submit(&index));
    let index = index.to_device(Device::CPU).unwrap();
    submitted.extend(submit(&index));
    drop(index);
    for submitted in submitted {
        let hits = pin!(submitted).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(hits, Poll::Ready(Ok(hits)) if hits[0].distance == 0.0));
    }
}

#[test]
fn a_future_may_be_dropped_or_outlive_its_index() {
    let index = index(Device::AUTO);
    let query = vec![7_u8; DIMENSION];
    for _ in 0..50 {
        drop(index.submit(&query, SearchParams::new(3)).unwrap());
    }
    let expected = index.search(&query, SearchParams::new(3)).unwrap();
    let submitted = index.submit(&query, SearchParams::new(3)).unwrap();
    let waiting = thread::spawn(move || block_on(submitted));
    drop(index);
    assert_eq!(waiting.join().unwrap().unwrap(), expected);
}
