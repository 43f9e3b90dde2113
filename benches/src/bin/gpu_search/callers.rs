//! Single searches of many callers at a time, from host memory and back.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jasper::{Element, Hit, MatrixView, NewKeys, Pending, SearchParams};
use serde_json::json;

use super::latency::{least_width, quantile};
use super::measure::{Bench, rounded};

/// Results per query.
const K: usize = 10;
/// The recall for which the beam width is chosen.
const RECALL: f64 = 0.965;
/// Queries with which it is chosen.
const RECALL_QUERIES: usize = 2_000;
/// Threads that search one query after another.
const THREADS: [usize; 6] = [1, 4, 16, 64, 128, 256];
/// Threads that submit, and searches that each has under way.
const SUBMITTERS: usize = 16;
const UNDER_WAY: [usize; 3] = [4, 32, 256];
/// Threads that search beside one that inserts, how many vectors it inserts per second, and how many in a call.
const BESIDE_INSERTS: [usize; 2] = [64, 256];
const INSERTED: f64 = 100_000.0;
const INSERTED_AT_ONCE: usize = 10_000;
/// Time of a measurement, after some that is not counted.
const TIMED: Duration = Duration::from_millis(1500);
const UNTIMED: Duration = Duration::from_millis(500);

/// Measures an index, and prints a line per number of callers.
pub fn run<T: Element>(bench: &Bench<'_, T>) -> Result<()> {
    let params = |beam_width| SearchParams::new(K).beam_width(beam_width);
    let recall = |beam_width| {
        let matches = bench.index.search_batch(bench.queries(0, RECALL_QUERIES), params(beam_width))?;
        Ok::<f64, anyhow::Error>(bench.set.recall(K, matches.keys()))
    };
    let (beam_width, recall) = least_width(K, RECALL, recall)?.context("no beam width reaches the recall")?;
    let params = params(beam_width);
    let print = |how, callers, inserted_per_second: Option<f64>, mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        let fields = json!({
            "how": how, "callers": callers, "k": K, "beam_width": beam_width, "recall": rounded(recall, 5),
            "queries_per_second": rounded(times.len() as f64 / TIMED.as_secs_f64(), 0),
            "inserted_per_second": inserted_per_second.map(|rate| rounded(rate, 0)),
            "median_us": rounded(quantile(&times, 0.5), 1), "p99_us": rounded(quantile(&times, 0.99), 1),
        });
        println!("{}", bench.line("callers", fields));
    };
    let search = |first, finish: &mut dyn FnMut(Instant)| {
        let query = bench.queries(first, 1);
        let begun = Instant::now();
        bench.index.search(query.row(0), params).map(drop)?;
        finish(begun);
        Ok(())
    };
    for threads in THREADS {
        print("search", threads, None, time(threads, search)?);
    }
    for under_way in UNDER_WAY {
        let times = time(SUBMITTERS, |first, finish| {
            let mut submitted = Vec::with_capacity(under_way);
            for i in 0..under_way {
                let query = bench.queries(first + i, 1);
                submitted.push((Instant::now(), bench.index.submit(query.row(0), params)?));
            }
            await_all(submitted, finish)
        })?;
        print("submit", SUBMITTERS * under_way, None, times);
    }
    for threads in BESIDE_INSERTS {
        let is_done = AtomicBool::new(false);
        let (times, inserted_per_second) = thread::scope(|scope| {
            let inserter = scope.spawn(|| insert(bench, &is_done));
            let times = time(threads, search);
            is_done.store(true, Ordering::Relaxed);
            (times, inserter.join().expect("no insert panics"))
        });
        print("search beside inserts", threads, Some(inserted_per_second?), times?);
    }
    Ok(())
}

/// Inserts new vectors, as many per second as [`INSERTED`] says at most. Returns how many per second it inserted.
fn insert<T: Element>(bench: &Bench<'_, T>, is_done: &AtomicBool) -> Result<f64> {
    let (dimension, begun) = (bench.index.dimension(), Instant::now());
    let mut inserted = 0;
    // Other vectors than those of an earlier call.
    for round in bench.index.len() / INSERTED_AT_ONCE.. {
        if is_done.load(Ordering::Relaxed) {
            break;
        }
        // Near a query, and different in each round.
        let queries = bench.queries(0, 2 * INSERTED_AT_ONCE);
        let vectors: Vec<T> = (0..INSERTED_AT_ONCE)
            .flat_map(|i| queries.row(i).iter().zip(queries.row(i + round)))
            .map(|(one, other)| T::from_f32(0.8 * one.to_f32() + 0.2 * other.to_f32()))
            .collect();
        bench.index.insert(MatrixView::new(&vectors, dimension)?, NewKeys::NEXT)?;
        inserted += INSERTED_AT_ONCE;
        let due = Duration::from_secs_f64(inserted as f64 / INSERTED);
        thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    Ok(inserted as f64 / begun.elapsed().as_secs_f64())
}

/// A search that was submitted.
type Submitted = Pending<Vec<Hit>>;

/// Polls the searches until all are finished.
fn await_all(mut submitted: Vec<(Instant, Submitted)>, finish: &mut dyn FnMut(Instant)) -> Result<()> {
    while !submitted.is_empty() {
        let mut error = None;
        submitted.retain_mut(|(begun, search)| match poll(search) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                finish(*begun);
                error = result.err().or(error.take());
                false
            }
        });
        error.map_or(Ok(()), Err)?;
        thread::yield_now();
    }
    Ok(())
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls `search` on `threads` threads, again and again, with a number of its first query. Returns the microseconds of
/// all searches that it reported as finished within [`TIMED`].
fn time(
    threads: usize,
    search: impl Fn(usize, &mut dyn FnMut(Instant)) -> Result<()> + Sync,
) -> Result<Vec<f64>> {
    let (is_timed, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let caller = |thread: usize| {
        let mut times = Vec::new();
        for call in 0.. {
            if is_done.load(Ordering::Relaxed) {
                break;
            }
            // Far enough from one another that no query is searched twice at a time.
            let first = (thread * 257 + call * 4099) % 90_000;
            search(first, &mut |begun| {
                if is_timed.load(Ordering::Relaxed) {
                    times.push(begun.elapsed().as_secs_f64() * 1e6);
                }
            })?;
        }
        Ok(times)
    };
    thread::scope(|scope| {
        let caller = &caller;
        let callers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || caller(thread))).collect();
        thread::sleep(UNTIMED);
        is_timed.store(true, Ordering::Relaxed);
        thread::sleep(TIMED);
        is_timed.store(false, Ordering::Relaxed);
        is_done.store(true, Ordering::Relaxed);
        let times: Result<Vec<Vec<f64>>> =
            callers.into_iter().map(|caller| caller.join().expect("no search panics")).collect();
        Ok(times?.concat())
    })
}
