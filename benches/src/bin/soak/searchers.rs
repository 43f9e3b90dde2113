//! Threads that search, and check what they find.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jasper::attributes::{Expression, Frame, column};
use jasper::{Index, Key, MatrixView, SearchParams};

use super::{BEAM_WIDTH, K};

/// Difference of distances that is due to the order of their sums.
const TOLERANCE: f32 = 1e-4;

/// The column of tenants, and their number.
const TENANT: &str = "tenant";
const TENANTS: u64 = 50;

/// What the threads share.
pub struct Shared {
    /// The vector of a key is that at the key modulo their number.
    vectors: Vec<f32>,
    dimension: usize,
    /// Keys below were deleted.
    pub deleted: AtomicU64,
    /// Keys from here on were not inserted.
    pub inserted: AtomicU64,
    /// For the key at the same place as its vector, its tenant plus [`TENANTS`] times the round that moved it there.
    tenants: Vec<AtomicU64>,
    /// The rounds whose keys have their new tenants.
    moved: AtomicU64,
    pub latency: Histogram,
    pub is_done: AtomicBool,
    has_failed: AtomicBool,
}

impl Shared {
    pub fn new(vectors: Vec<f32>, dimension: usize, inserted: Key) -> Self {
        let [is_done, has_failed] = [(); 2].map(|()| AtomicBool::new(false));
        let (deleted, inserted, moved) = (AtomicU64::new(0), AtomicU64::new(inserted), AtomicU64::new(0));
        let tenants =
            (0..vectors.len() / dimension).map(|row| AtomicU64::new(row as u64 % TENANTS)).collect();
        let latency = Histogram::new();
        Self { vectors, dimension, deleted, inserted, tenants, moved, latency, is_done, has_failed }
    }

    /// The tenants of keys, as a column of attributes.
    pub fn tenants(&self, keys: Range<Key>) -> Result<Frame> {
        let tenants: Vec<i64> = keys.map(|key| self.tenant(key).0 as i64).collect();
        Ok(Frame::new(tenants.len()).column(TENANT, tenants)?)
    }

    fn place(&self, key: Key) -> usize {
        (key % self.tenants.len() as Key) as usize
    }

    /// The tenant of a key, and the round that moved it there.
    fn tenant(&self, key: Key) -> (u64, u64) {
        let word = self.tenants[self.place(key)].load(Ordering::SeqCst);
        (word % TENANTS, word / TENANTS)
    }

    /// Moves keys to the next tenant.
    pub fn move_tenants(&self, index: &Index, keys: Range<Key>, round: u64) -> Result<()> {
        for key in keys.clone() {
            let next = (self.tenant(key).0 + 1) % TENANTS;
            self.tenants[self.place(key)].store(round * TENANTS + next, Ordering::SeqCst);
        }
        index.set_attributes(&keys.clone().collect::<Vec<_>>(), &self.tenants(keys)?)?;
        self.moved.store(round, Ordering::SeqCst);
        Ok(())
    }

    pub fn rows(&self, keys: Range<Key>) -> Vec<f32> {
        keys.flat_map(|key| self.row(key)).copied().collect()
    }

    fn row(&self, key: Key) -> &[f32] {
        &self.vectors[self.place(key) * self.dimension..][..self.dimension]
    }

    /// Whether a search found what it must not.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Searches one query after another until all are done, with `pause` milliseconds between.
    pub fn search(
        &self,
        index: &Index,
        queries: MatrixView<'_, f32>,
        thread: usize,
        pause: u64,
    ) -> Result<()> {
        let params = SearchParams::new(K).beam_width(BEAM_WIDTH);
        let filters: Vec<Expression> = (0..TENANTS as i64).map(|tenant| column(TENANT).eq(tenant)).collect();
        for call in 0.. {
            if self.is_done.load(Ordering::Relaxed) {
                break;
            }
            let query = queries.row((thread * 257 + call) % queries.len());
            let tenant = (call % 2 == 0).then_some((thread + call / 2) as u64 % TENANTS);
            let (deleted, moved) = (self.deleted.load(Ordering::SeqCst), self.moved.load(Ordering::SeqCst));
            let begun = Instant::now();
            let hits = match tenant {
                Some(tenant) => index.search(query, params.filter(&filters[tenant as usize]))?,
                None => index.search(query, params)?,
            };
            self.latency.record(begun.elapsed());
            let live = deleted..self.inserted.load(Ordering::SeqCst);
            let checked = hits.iter().try_for_each(|hit| {
                ensure!(live.contains(&hit.key), "found key {}, but {live:?} are live", hit.key);
                let (now, round) = self.tenant(hit.key);
                // It may have been moved during the search.
                let is_of = |tenant| tenant == now || (tenant + 1) % TENANTS == now && round > moved;
                ensure!(tenant.is_none_or(is_of), "found key {} of tenant {now} for {tenant:?}", hit.key);
                let distance: f32 = query.iter().zip(self.row(hit.key)).map(|(a, b)| (a - b) * (a - b)).sum();
                let is_near = (hit.distance - distance).abs() <= TOLERANCE * distance.max(1.0);
                ensure!(is_near, "key {} is at {distance}, not at {}", hit.key, hit.distance);
                Ok(())
            });
            if checked.is_err() {
                self.has_failed.store(true, Ordering::Relaxed);
                return checked;
            }
            thread::sleep(Duration::from_millis(pause));
        }
        Ok(())
    }
}

/// Times in buckets, each a twentieth longer than the one before.
pub struct Histogram(Vec<AtomicU64>);

const RATIO: f64 = 1.05;
/// The last bucket begins at 40 seconds.
const BUCKETS: usize = 360;

impl Histogram {
    fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }

    fn record(&self, time: Duration) {
        let micros = (time.as_secs_f64() * 1e6).max(1.0);
        let bucket = (micros.ln() / RATIO.ln()) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of the times since the last call, their median and their 99th percentile in microseconds.
    pub fn take(&self) -> (u64, f64, f64) {
        let counts: Vec<u64> = self.0.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let quantile = |share: f64| {
            let mut below = 0;
            let reaches = |&count: &u64| {
                below += count;
                below as f64 >= share * all as f64
            };
            RATIO.powi(counts.iter().position(reaches).unwrap_or(0) as i32)
        };
        (all, quantile(0.5), quantile(0.99))
    }
}
