//! Measures inserts of one vector and of a hundred, alone and beside searches.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin small_changes -- cuda:0 --vectors 200000 --dimension 96
//! ```
//!
//! Vectors are synthetic clusters of f32. Prints a line of JSON per measurement: how many inserts and searches a second all
//! threads make, and the slowest hundredth and the slowest of the searches.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::{Device, Index, IndexBuilder, MatrixView, Metric, NewKeys, OpenOptions, SearchParams};
use jasper_core::synthetic::Clusters;
use serde_json::json;

/// Results per query.
const K: usize = 10;
/// Vectors to insert that are drawn together.
const BLOCK: usize = 1 << 12;
const QUERIES: usize = 4096;

/// Measures small inserts.
#[derive(clap::Parser)]
struct Args {
    /// Where the index is: cpu or cuda:0.
    device: Device,
    #[arg(long, default_value_t = 200_000)]
    vectors: usize,
    #[arg(long, default_value_t = 96)]
    dimension: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Threads that search beside inserts.
    #[arg(long, default_value_t = 64)]
    searchers: usize,
    /// A folder that does not exist yet, for a durable index.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// An index, and what is inserted and searched for.
struct Bench {
    index: Index,
    set: Clusters,
    dimension: usize,
    queries: Vec<f32>,
    next_block: AtomicU64,
    time: Duration,
}

fn main() -> Result<()> {
    let args: Args = clap::Parser::parse();
    let set = Clusters::new(args.dimension, 1);
    let rows: Vec<f32> = set.rows(args.vectors, 0);
    let builder = IndexBuilder::new(Metric::L2).device(args.device);
    let built = builder.build(MatrixView::new(&rows, args.dimension)?)?;
    let index = match &args.folder {
        Some(folder) => {
            built.save_durable(folder)?;
            OpenOptions::new().device(args.device).open(folder)?
        }
        None => built.to_device(args.device)?,
    };
    index.warm_up()?;
    let bench = Bench {
        index,
        queries: set.rows(QUERIES, 1),
        set,
        dimension: args.dimension,
        next_block: AtomicU64::new(0),
        time: Duration::from_secs_f64(args.seconds),
    };
    bench.measure("first inserts", 1, 1, 0)?;
    bench.measure("searches", 0, 0, args.searchers)?;
    for (inserters, batch) in [(1, 1), (32, 1), (1, 100)] {
        for searchers in [0, args.searchers] {
            bench.measure("inserts", inserters, batch, searchers)?;
        }
    }
    Ok(())
}

impl Bench {
    /// Measures `inserters` threads that insert `batch` vectors at a time, beside `searchers`.
    fn measure(&self, what: &str, inserters: usize, batch: usize, searchers: usize) -> Result<()> {
        let (is_over, begun) = (AtomicBool::new(false), Instant::now());
        let (inserted, mut latencies) = thread::scope(|scope| {
            let insert = |_| scope.spawn(|| self.insert(batch, &is_over));
            let search = |thread| {
                scope.spawn({
                    let is_over = &is_over;
                    move || self.search(thread, is_over)
                })
            };
            let inserters: Vec<_> = (0..inserters).map(insert).collect();
            let searchers: Vec<_> = (0..searchers).map(search).collect();
            thread::sleep(self.time);
            is_over.store(true, Ordering::Relaxed);
            let inserted = inserters.into_iter().map(|thread| thread.join().expect("no panic"));
            let inserted = inserted.sum::<Result<usize>>()?;
            let latencies = searchers.into_iter().map(|thread| thread.join().expect("no panic"));
            Ok::<_, anyhow::Error>((inserted, latencies.collect::<Result<Vec<_>>>()?.concat()))
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        latencies.sort_unstable_by(f64::total_cmp);
        let slowest = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).map(|s| s * 1e3);
        println!(
            "{}",
            json!({
                "what": what, "inserters": inserters, "batch": batch, "searchers": searchers,
                "inserts_per_second": (inserted as f64 / seconds).round(),
                "searches_per_second": (latencies.len() as f64 / seconds).round(),
                "p99_ms": slowest(0.99), "slowest_ms": latencies.last().map(|s| s * 1e3),
            })
        );
        Ok(())
    }

    /// Inserts until it is over; returns the number of vectors.
    fn insert(&self, batch: usize, is_over: &AtomicBool) -> Result<usize> {
        let mut inserted = 0;
        while !is_over.load(Ordering::Relaxed) {
            // No vector comes twice: the second would share the vertex of the first.
            let block = self.next_block.fetch_add(1, Ordering::Relaxed);
            let rows: Vec<f32> = self.set.rows(BLOCK, 2 + block);
            for rows in rows.chunks_exact(batch * self.dimension) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                self.index.insert(MatrixView::new(rows, self.dimension)?, NewKeys::NEXT)?;
                inserted += batch;
            }
        }
        Ok(inserted)
    }

    /// Searches until it is over; returns the seconds that each search took.
    fn search(&self, thread: usize, is_over: &AtomicBool) -> Result<Vec<f64>> {
        let mut latencies = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let query = (thread * 257 + latencies.len()) % QUERIES;
            let begun = Instant::now();
            self.index
                .search(&self.queries[query * self.dimension..][..self.dimension], SearchParams::new(K))?;
            latencies.push(begun.elapsed().as_secs_f64());
        }
        Ok(latencies)
    }
}
