//! Measures an index in the states that use brings it into: arbitrary keys, identical vectors, deleted ones. A state
//! that costs much more than the others shows a fault. Prints one line of JSON per state.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin index_states -- cuda:0 --vectors 1000000
//! ```

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::{Device, Index, IndexBuilder, Key, KeyFilter, Matches, MatrixView, Metric, SearchParams};
use jasper_core::synthetic::{Clusters, permutation};
use serde_json::json;

/// Results per query.
const K: usize = 10;
/// Queries of a batch.
const BATCH: usize = 10_000;
/// Single searches and single changes that are timed.
const SINGLE: usize = 1_000;
/// Threads that search at the same time, and for how long.
const CALLERS: usize = 64;
const TIMED: Duration = Duration::from_secs(1);
/// Copies of vectors: one in this many.
const COPIES: usize = 20;

/// Measures an index in the states that use brings it into.
#[derive(clap::Parser)]
struct Options {
    /// Where the index is: cpu or cuda:0.
    device: Device,
    /// Number of vectors.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    vectors: usize,
    /// Dimension of the vectors.
    #[arg(long, value_name = "D", default_value_t = 96)]
    dimension: usize,
}

struct Bench {
    device: Device,
    dimension: usize,
    /// `[vectors][dimension]`
    rows: Vec<f32>,
    /// `[BATCH][dimension]`
    queries: Vec<f32>,
    /// `[SINGLE][dimension]`
    new: Vec<f32>,
}

fn main() -> Result<()> {
    let Options { device, vectors, dimension } = clap::Parser::parse();
    let set = Clusters::new(dimension, 1);
    let [rows, queries, new] =
        [(vectors, 0), (BATCH, 1), (SINGLE, 2)].map(|(count, stream)| set.rows::<f32>(count, stream));
    let bench = Bench { device, dimension, rows, queries, new };
    let ascending: Vec<Key> = (0..vectors as Key).collect();
    let hashed: Vec<Key> = ascending.iter().map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1).collect();
    bench.measure("as built", &bench.build(&bench.rows, &ascending)?)?;
    bench.measure("hashed keys", &bench.build(&bench.rows, &hashed)?)?;

    let copied = vectors / COPIES * dimension;
    let mut rows = bench.rows.clone();
    rows.copy_within(..copied, vectors * dimension - copied);
    bench.measure("one in 20 a copy of another", &bench.build(&rows, &ascending)?)?;
    rows.truncate(rows.len() - copied);
    rows.extend(bench.rows[..dimension].repeat(vectors / COPIES));
    bench.measure("one in 20 a copy of one vector", &bench.build(&rows, &ascending)?)?;

    let index = bench.build(&bench.rows, &ascending)?;
    let order: Vec<Key> = permutation(vectors, 2).into_iter().map(Key::from).collect();
    let (tenth, rest) = order.split_at(vectors / 10);
    index.delete(tenth)?;
    bench.measure("a tenth deleted", &index)?;
    index.delete(&rest[..vectors * 4 / 10])?;
    bench.measure("half deleted", &index)?;
    index.consolidate()?;
    bench.measure("consolidated", &index)?;
    index.compact()?;
    bench.measure("compacted", &index)?;
    let replaced = index.keys()[..vectors / 10].to_vec();
    index.upsert(bench.view(&bench.rows[..replaced.len() * dimension])?, &replaced)?;
    bench.measure("a fifth replaced", &index)
}

impl Bench {
    fn view<'a>(&self, rows: &'a [f32]) -> Result<MatrixView<'a, f32>> {
        Ok(MatrixView::new(rows, self.dimension)?)
    }

    fn build(&self, rows: &[f32], keys: &[Key]) -> Result<Index> {
        Ok(IndexBuilder::new(Metric::L2).device(self.device).keys(keys).build(self.view(rows)?)?)
    }

    fn query(&self, number: usize) -> &[f32] {
        &self.queries[number % BATCH * self.dimension..][..self.dimension]
    }

    fn new_vector(&self, number: usize) -> &[f32] {
        &self.new[number % SINGLE * self.dimension..][..self.dimension]
    }

    /// Searches, then inserts and deletes single vectors, which leaves a few thousand tombstones.
    fn measure(&self, state: &str, index: &Index) -> Result<()> {
        index.warm_up()?;
        let half: KeyFilter = index.keys().into_iter().step_by(2).collect();
        let (all, filtered) = (SearchParams::new(K), SearchParams::new(K).filter(&half));
        let search = |params| median_microseconds(|i| Ok(index.search(self.query(i), params).map(drop)?));
        let beside_changes = self.callers_beside_changes(index, all)?;
        let first = index.stats().next_key;
        let line = json!({
            "state": state,
            "vectors": index.len(),
            "search_us": search(all)?,
            "filtered_search_us": search(filtered)?,
            "batch_per_second": self.batch_rate(index, all)?,
            "filtered_batch_per_second": self.batch_rate(index, filtered)?,
            "callers_per_second": self.callers_rate(index, all)?,
            "callers_beside_changes_per_second": beside_changes,
            "insert_us": median_microseconds(|i| Ok(index.insert(self.new_vector(i), &[first + i as Key]).map(drop)?))?,
            "delete_us": median_microseconds(|i| Ok(index.delete(&[first + i as Key]).map(drop)?))?,
        });
        println!("{line}");
        Ok(())
    }

    /// Queries per second of the fastest of some batches.
    fn batch_rate(&self, index: &Index, params: SearchParams<'_>) -> Result<f64> {
        let (mut keys, mut distances) = Matches::new(BATCH, K)?.into_arrays();
        let mut rate = 0.0_f64;
        for _ in 0..5 {
            let begun = Instant::now();
            index.search_batch_into(self.view(&self.queries)?, params, &mut keys, &mut distances)?;
            rate = rate.max(BATCH as f64 / begun.elapsed().as_secs_f64());
        }
        Ok(rate.round())
    }

    /// As [`Self::callers_rate`], while another thread inserts and deletes single vectors.
    fn callers_beside_changes(&self, index: &Index, params: SearchParams<'_>) -> Result<f64> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let changes = scope.spawn(|| {
                for i in 0.. {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = index.stats().next_key;
                    index.insert(self.new_vector(i), &[key])?;
                    index.delete(&[key])?;
                }
                Ok(())
            });
            let rate = self.callers_rate(index, params);
            is_done.store(true, Ordering::Relaxed);
            changes.join().expect("no change panics").and(rate)
        })
    }

    /// Searches per second of threads that search for one query after another.
    fn callers_rate(&self, index: &Index, params: SearchParams<'_>) -> Result<f64> {
        let end = Instant::now() + TIMED;
        let caller = |thread: usize| {
            let mut searches = 0;
            while Instant::now() < end {
                index.search(self.query(thread * 257 + searches), params)?;
                searches += 1;
            }
            Ok(searches)
        };
        let searches: Result<usize> = thread::scope(|scope| {
            let caller = &caller;
            let callers: Vec<_> = (0..CALLERS).map(|thread| scope.spawn(move || caller(thread))).collect();
            callers.into_iter().map(|caller| caller.join().expect("no search panics")).sum()
        });
        Ok((searches? as f64 / TIMED.as_secs_f64()).round())
    }
}

/// The median time of the calls, which get their numbers.
fn median_microseconds(mut call: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(SINGLE);
    for i in 0..SINGLE {
        let begun = Instant::now();
        call(i)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok((times[SINGLE / 2].as_secs_f64() * 1e7).round() / 10.0)
}
