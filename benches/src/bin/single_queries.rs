//! Measures single searches of several threads, for `benches/peers/threads_from_python.py`.
//!
//! ```sh
//! single_queries INDEX QUERIES BEAM_WIDTH DEVICE
//! ```
//!
//! `QUERIES` is a file of f32 in native byte order, without a header. For each line of standard input, a number of
//! threads, it prints the searches per second of as many threads that search one query after another.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jasper::{Device, Index, SearchParams};

/// Results per query.
const K: usize = 10;
/// Time of a measurement.
const TIMED: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [index, queries, beam_width, device] = &arguments[..] else {
        bail!("usage: single_queries INDEX QUERIES BEAM_WIDTH DEVICE");
    };
    let index = Index::open(index)?;
    let index = index.to_device(device.parse::<Device>()?)?;
    index.warm_up()?;
    let bytes = std::fs::read(queries)?;
    let (numbers, _) = bytes.as_chunks();
    let queries: Vec<f32> = numbers.iter().map(|&number| f32::from_ne_bytes(number)).collect();
    let params = SearchParams::new(K).beam_width(beam_width.parse()?);
    for threads in std::io::stdin().lines() {
        println!("{}", rate(&index, &queries, params, threads?.parse()?)?);
    }
    Ok(())
}

/// Searches per second of all threads.
fn rate(index: &Index, queries: &[f32], params: SearchParams<'_>, threads: usize) -> Result<f64> {
    let dimension = index.dimension();
    let count = queries.len() / dimension;
    let is_done = AtomicBool::new(false);
    let caller = |thread: usize| {
        let mut searches = 0;
        while !is_done.load(Ordering::Relaxed) {
            let query = (thread * 257 + searches) % count;
            index.search(&queries[query * dimension..][..dimension], params)?;
            searches += 1;
        }
        Ok(searches)
    };
    thread::scope(|scope| {
        let (begun, caller) = (Instant::now(), &caller);
        let callers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || caller(thread))).collect();
        thread::sleep(TIMED);
        is_done.store(true, Ordering::Relaxed);
        let searches: Result<Vec<usize>> =
            callers.into_iter().map(|caller| caller.join().expect("no search panics")).collect();
        Ok(searches?.iter().sum::<usize>() as f64 / begun.elapsed().as_secs_f64())
    })
}
