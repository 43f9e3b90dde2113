//! Changes an index for a long time while threads search it, and shows that memory, open files, recall and latency stay
//! the same.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin soak -- cpu --minutes 60 --plot soak.svg
//! ```
//!
//! The live vectors are a window of consecutive keys, each of a tenant. Each round inserts a hundredth of them at its end,
//! deletes as many at its start, and gives as many in between to another tenant; every tenth round consolidates, and every
//! twentieth saves. Every search is checked, every second one is that of a tenant: a key that was deleted or taken from
//! the tenant before the search began, or a distance that is not that of the key's vector, ends the program. One line of
//! JSON a sixtieth of the time tells the state. It fails if memory, device memory or open files grew, or recall fell, from
//! the second quarter to the last.

#![forbid(unsafe_code)]

mod report;
mod searchers;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::{Device, Index, IndexBuilder, Key, MatrixView, Metric, SearchParams};
use jasper_core::no_progress;
use jasper_core::recall::mean_recall;
use jasper_core::synthetic::Clusters;
use jasper_data::{ThreadPool, ThreadPoolBuilder, exact_knn};

use report::{Process, Report, Sample};
use searchers::Shared;

/// Searches an index of f32 under L2 while it changes.
#[derive(clap::Parser)]
struct Args {
    /// Where the index is: cpu or cuda:0.
    device: Device,
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Live vectors.
    #[arg(long, default_value_t = 100_000)]
    vectors: usize,
    #[arg(long, default_value_t = 96)]
    dimension: usize,
    /// Threads that search one query after another.
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// Milliseconds that each of them waits between searches.
    #[arg(long, default_value_t = 0)]
    pause: u64,
    /// Milliseconds between rounds of changes.
    #[arg(long, default_value_t = 0)]
    round_pause: u64,
    /// The file that the index is saved to.
    #[arg(long, default_value = "soak.jasper")]
    save: PathBuf,
    /// Draw the lines as an SVG.
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// Results per query, beam width, and queries whose recall is measured.
const K: usize = 10;
const BEAM_WIDTH: usize = 32;
const JUDGED: usize = 200;
/// Lines of the report.
const LINES: u32 = 60;
/// Rounds between consolidations and between saves.
const CONSOLIDATE: usize = 10;
const SAVE: usize = 20;

fn main() -> Result<()> {
    let args: Args = clap::Parser::parse();
    let soak = Soak::new(&args)?;
    let report = thread::scope(|scope| {
        let searchers: Vec<_> = (0..args.threads)
            .map(|thread| {
                let soak = &soak;
                scope.spawn(move || soak.shared.search(&soak.index, soak.queries(), thread, args.pause))
            })
            .collect();
        let report = soak.change(&args);
        soak.shared.is_done.store(true, Ordering::Relaxed);
        searchers.into_iter().try_for_each(|searcher| searcher.join().expect("no search panics"))?;
        report
    })?;
    if let Some(path) = &args.plot {
        std::fs::write(path, report.svg(&soak.index.device_info().name)?)?;
    }
    soak.check(&args.save)?;
    report.verdict()
}

/// An index whose live keys are a window, and what its searches are checked against.
struct Soak {
    index: Index,
    shared: Shared,
    queries: Vec<f32>,
    /// Live keys.
    window: usize,
    pool: ThreadPool,
}

impl Soak {
    fn new(args: &Args) -> Result<Self> {
        let clusters = Clusters::new(args.dimension, 11);
        let shared = Shared::new(clusters.rows(2 * args.vectors, 0), args.dimension, args.vectors as Key);
        let built = shared.rows(0..args.vectors as Key);
        let tenants = shared.tenants(0..args.vectors as Key)?;
        let builder = IndexBuilder::new(Metric::L2).device(args.device).attributes(&tenants);
        let index = builder.build(MatrixView::new(&built, args.dimension)?)?.to_device(args.device)?;
        let pool = ThreadPoolBuilder::new().build()?;
        Ok(Self { index, shared, queries: clusters.rows(4096, 1), window: args.vectors, pool })
    }

    fn queries(&self) -> MatrixView<'_, f32> {
        MatrixView::new(&self.queries, self.index.dimension()).expect("whole rows")
    }

    /// Moves the window until the time is over.
    fn change(&self, args: &Args) -> Result<Report> {
        let batch = (self.window / 100).max(1);
        let (begun, mut report) = (Instant::now(), Report::default());
        let line = Duration::from_secs_f64(args.minutes * 60.0) / LINES;
        for round in 1.. {
            if self.shared.has_failed() {
                break;
            }
            self.round(batch, round, args)?;
            report.changes += 2 * batch;
            thread::sleep(Duration::from_millis(args.round_pause));
            if begun.elapsed() >= line * (report.samples.len() as u32 + 1) {
                report.push(begun.elapsed(), self.sample()?);
                if report.samples.len() as u32 == LINES {
                    break;
                }
            }
        }
        Ok(report)
    }

    fn round(&self, batch: usize, round: usize, args: &Args) -> Result<()> {
        let Shared { deleted, inserted, .. } = &self.shared;
        let (first, last) = (deleted.load(Ordering::SeqCst), inserted.load(Ordering::SeqCst));
        let (gone, come) = (first..first + batch as Key, last..last + batch as Key);
        // Searches may find these from now on.
        inserted.store(come.end, Ordering::SeqCst);
        let (rows, tenants) = (self.shared.rows(come.clone()), self.shared.tenants(come.clone())?);
        let keys: Vec<Key> = come.collect();
        self.index.insert(MatrixView::new(&rows, args.dimension)?, (&keys[..], &tenants))?;
        self.index.delete(&gone.clone().collect::<Vec<_>>())?;
        deleted.store(gone.end, Ordering::SeqCst);
        // Other keys in each round, none of those that are deleted in the next.
        let parts = (self.window / batch) as Key;
        let moved = gone.end + batch as Key * (1 + round as Key * 7 % (parts - 1));
        self.shared.move_tenants(&self.index, moved..moved + batch as Key, round as u64)?;
        if round.is_multiple_of(CONSOLIDATE) {
            self.index.consolidate()?;
        }
        if round.is_multiple_of(SAVE) {
            self.index.save(&args.save)?;
        }
        Ok(())
    }

    /// The state between two rounds, while searches go on.
    fn sample(&self) -> Result<Sample> {
        let recall = self.recall()?;
        let (searches, median_us, p99_us) = self.shared.latency.take();
        let device_bytes = self.index.device_info().bytes;
        Ok(Sample { process: Process::now()?, device_bytes, recall, searches, median_us, p99_us })
    }

    fn recall(&self) -> Result<f64> {
        let first = self.shared.deleted.load(Ordering::SeqCst);
        let live = self.shared.rows(first..first + self.window as Key);
        let live = MatrixView::new(&live, self.index.dimension())?;
        let judged = self.queries().slice(0..JUDGED);
        let truth = exact_knn(live, judged, K, Metric::L2, &self.pool, &mut no_progress)?;
        let params = SearchParams::new(K).beam_width(BEAM_WIDTH);
        let matches = self.index.search_batch(judged, params)?;
        let rows: Vec<u64> = matches.keys().iter().map(|&key| key - first).collect();
        Ok(mean_recall(&rows, K, |query| truth.truth(query)))
    }

    /// Checks the structure of the index, and that its file holds the same keys.
    fn check(&self, path: &std::path::Path) -> Result<()> {
        self.index.save(path)?;
        let saved = Index::open(path)?;
        let sorted = |index: &Index| {
            let mut keys = index.keys();
            keys.sort_unstable();
            keys
        };
        anyhow::ensure!(sorted(&saved) == sorted(&self.index), "the file has other keys than the index");
        let report = self.index.check()?;
        anyhow::ensure!(report.is_sound(), "{report:?}");
        Ok(())
    }
}
