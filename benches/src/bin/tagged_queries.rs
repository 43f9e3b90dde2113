//! Measures batches whose queries ask for vectors with one tag or two, of which few are frequent and most are rare, while the
//! tags of some vectors change. Prints one line of JSON per measurement.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin tagged_queries -- --vectors 10000000
//! ```
//!
//! Vectors are synthetic clusters of 192 x u8, as many as photographs in the YFCC set of the big-ann benchmarks. Each has ten
//! tags on average, half of them drawn from all vectors and half from its cluster by Zipf's law. A query asks for the tags of
//! some vector of its cluster. The recall is among the vectors with the tags.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use jasper::attributes::{Expression, Frame, Value, column};
use jasper::{Device, Filter, Index, IndexBuilder, Key, Matches, MatrixView, Metric, SearchParams};
use jasper_core::synthetic::{Clusters, rng};
use rand::{Rng, RngExt};
use rayon::prelude::*;
use serde_json::json;

const DIMENSION: usize = 192;
const CLUSTERS: usize = 100;
/// Results per query.
const K: usize = 10;
/// The recall for which the beam width is chosen.
const RECALL: f64 = 0.9;
/// Queries with which it is chosen.
const JUDGED: usize = 200;
const WIDTHS: [usize; 8] = [10, 16, 24, 32, 48, 64, 96, 128];
/// Calls that are timed, after one that is timed by itself.
const TIMED: usize = 15;
/// Vectors whose tags one call changes.
const CHANGED: usize = 100;

/// Measures searches for vectors with tags.
#[derive(clap::Parser)]
struct Options {
    /// Number of vectors.
    #[arg(long, default_value_t = 10_000_000)]
    vectors: usize,
    /// Number of tags.
    #[arg(long, default_value_t = 200_000)]
    tags: usize,
    /// Queries of a batch.
    #[arg(long, default_value_t = 10_000)]
    queries: usize,
    /// Search on the CPU.
    #[arg(long)]
    cpu: bool,
}

/// Draws tags by Zipf's law.
struct Zipf {
    tags: usize,
}

impl Zipf {
    /// A tag whose share falls with its number; those of a cluster are others.
    fn draw(&self, rng: &mut impl Rng, cluster: Option<usize>) -> usize {
        // The inverse of the distribution of ranks, nearly.
        let rank = (self.tags as f64).powf(rng.random_range(0.0..1.0)) as usize - 1;
        match cluster {
            None => rank,
            Some(cluster) => (rank * CLUSTERS + cluster * 7 + 13) % self.tags,
        }
    }

    fn of_vector(&self, rng: &mut impl Rng, cluster: usize) -> Vec<u32> {
        let len = rng.random_range(2..19);
        let mut tags: Vec<u32> =
            (0..len).map(|i| self.draw(rng, (i % 2 == 0).then_some(cluster)) as u32).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }
}

struct Bench {
    index: Index,
    zipf: Zipf,
    clusters: Vec<usize>,
    tags: Vec<Vec<u32>>,
    queries: Vec<u8>,
    /// The tags that each query asks for.
    wanted: Vec<Vec<u32>>,
    filters: Vec<Expression>,
    /// The distances to each judged query of the vectors with its tags.
    near: Vec<Vec<(u32, Key)>>,
}

fn value(tags: &[u32]) -> Value {
    Value::Keywords(tags.iter().map(|tag| format!("t{tag}")).collect())
}

fn main() -> Result<()> {
    let options: Options = clap::Parser::parse();
    let bench = Bench::new(&options)?;
    let (width, _) = bench.batches("one tag or two", None)?;
    for tags in [1, 2] {
        bench.some(&format!("{tags} tags"), width, |wanted| wanted.len() == tags)?;
    }
    bench.beside_changes(width)
}

impl Bench {
    fn new(options: &Options) -> Result<Self> {
        let (n, zipf) = (options.vectors, Zipf { tags: options.tags });
        let set = Clusters { clusters: CLUSTERS, latent: 24, ..Clusters::new(DIMENSION, 1) };
        let mut random = rng(2);
        let clusters: Vec<usize> = (0..n).map(|_| random.random_range(0..CLUSTERS)).collect();
        let of_queries: Vec<usize> = (0..options.queries).map(|_| random.random_range(0..CLUSTERS)).collect();
        let chunks: Vec<(usize, &[usize])> = clusters.chunks(100_000).enumerate().collect();
        let rows: Vec<Vec<u8>> =
            chunks.into_par_iter().map(|(chunk, labels)| set.rows_of(labels, chunk as u64)).collect();
        let rows = rows.concat();
        let queries: Vec<u8> = set.rows_of(&of_queries, 1 << 40);
        let tags: Vec<Vec<u32>> = clusters
            .par_chunks(1 << 16)
            .enumerate()
            .flat_map_iter(|(chunk, clusters)| {
                let mut rng = rng(3 << 32 | chunk as u64);
                clusters.iter().map(|&cluster| zipf.of_vector(&mut rng, cluster)).collect::<Vec<_>>()
            })
            .collect();
        let device = if options.cpu { Device::CPU } else { Device::cuda(0) };
        let begun = Instant::now();
        let index = IndexBuilder::new(Metric::L2).device(device).build(MatrixView::new(&rows, DIMENSION)?)?;
        let built = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let keys: Vec<Key> = (0..n as Key).collect();
        for (keys, tags) in keys.chunks(1 << 20).zip(tags.chunks(1 << 20)) {
            let values: Vec<Value> = tags.par_iter().map(|tags| value(tags)).collect();
            index.set_attributes(keys, &Frame::new(keys.len()).column("tags", values)?)?;
        }
        let set_in = begun.elapsed().as_secs_f64();
        let index = if options.cpu { index } else { index.to_device(device)? };
        if !options.cpu {
            index.warm_up()?;
        }
        println!(
            "{}",
            json!({"what": "index", "device": index.device_info().name, "vectors": n, "build_s": built, "attributes_s": set_in})
        );
        let mut by_cluster = vec![Vec::new(); CLUSTERS];
        clusters.iter().enumerate().for_each(|(vector, &cluster)| by_cluster[cluster].push(vector));
        let wanted: Vec<Vec<u32>> = of_queries
            .iter()
            .map(|&cluster| {
                let len = random.random_range(1..3);
                loop {
                    let of_vector =
                        &tags[by_cluster[cluster][random.random_range(0..by_cluster[cluster].len())]];
                    if of_vector.len() >= len {
                        let first = random.random_range(0..=of_vector.len() - len);
                        break of_vector[first..first + len].to_vec();
                    }
                }
            })
            .collect();
        let filters = wanted
            .iter()
            .map(|tags| column("tags").contains_all(tags.iter().map(|tag| format!("t{tag}"))))
            .collect();
        let near = queries.chunks_exact(DIMENSION).zip(&wanted).take(JUDGED).collect::<Vec<_>>();
        let near = near.into_par_iter().map(|(query, wanted)| {
            let has = |vector: &usize| wanted.iter().all(|tag| tags[*vector].binary_search(tag).is_ok());
            let distance = |vector: usize| {
                let row = &rows[vector * DIMENSION..][..DIMENSION];
                let distance = row
                    .iter()
                    .zip(query)
                    .map(|(&x, &y)| i32::from(x).abs_diff(i32::from(y)).pow(2))
                    .sum::<u32>();
                (distance, vector as Key)
            };
            let mut near: Vec<_> = (0..n).filter(has).map(distance).collect();
            near.sort_unstable();
            near
        });
        let near: Vec<Vec<(u32, Key)>> = near.collect();
        let mut counts: Vec<usize> = near.iter().map(Vec::len).collect();
        counts.sort_unstable();
        println!(
            "{}",
            json!({"what": "selected", "least": counts[0], "median": counts[counts.len() / 2], "most": counts[counts.len() - 1]})
        );
        Ok(Self { index, zipf, clusters, tags, queries, wanted, filters, near })
    }

    /// The recall of the judged queries among the vectors with their tags, and whether all others have them too.
    fn recall(&self, keys: &[Key]) -> (f64, bool) {
        let (mut right, mut wanted, mut is_allowed) = (0, 0, true);
        for (near, found) in self.near.iter().zip(keys.chunks_exact(K)) {
            let Some(&(bound, _)) = near[..K.min(near.len())].last() else { continue };
            let found: Vec<Key> = found.iter().copied().filter(|&key| key != jasper::NO_KEY).collect();
            let distance = |key: Key| near.iter().find(|pair| pair.1 == key).map(|pair| pair.0);
            is_allowed &= found.iter().all(|&key| distance(key).is_some());
            wanted += K.min(near.len());
            right += found.iter().filter(|&&key| distance(key).is_some_and(|of_key| of_key <= bound)).count();
        }
        (right as f64 / wanted as f64, is_allowed)
    }

    fn search(&self, width: usize, keys: &mut [Key], distances: &mut [f32]) -> Result<f64> {
        let filters: Vec<Filter<'_>> = self.filters.iter().map(Filter::from).collect();
        let begun = Instant::now();
        let params = SearchParams::new(K).beam_width(width).filter(&filters[..]);
        self.index.search_batch_into(MatrixView::new(&self.queries, DIMENSION)?, params, keys, distances)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Measures batches of all queries, of a width or the least that reaches the recall; returns it, and queries per second.
    fn batches(&self, name: &str, width: Option<usize>) -> Result<(usize, f64)> {
        let n = self.filters.len();
        let (mut keys, mut distances) = Matches::new(n, K)?.into_arrays();
        let first = self.search(WIDTHS[0], &mut keys, &mut distances)?;
        for _ in 0..10 {
            self.search(WIDTHS[0], &mut keys, &mut distances)?;
        }
        let (mut chosen, mut recall) = (0, (0.0, true));
        for candidate in width.map_or(WIDTHS.to_vec(), |width| vec![width]) {
            self.search(candidate, &mut keys, &mut distances)?;
            (chosen, recall) = (candidate, self.recall(&keys));
            if recall.0 >= RECALL {
                break;
            }
        }
        let mut times = Vec::new();
        for _ in 0..TIMED {
            times.push(self.search(chosen, &mut keys, &mut distances)?);
        }
        let rate = n as f64 / median(times.clone());
        println!(
            "{}",
            json!({"what": "batches", "filters": name, "beam_width": chosen, "recall": recall.0, "all_allowed": recall.1,
                "queries_per_second": rate.round(), "slowest_ms": times.iter().copied().fold(0.0, f64::max) * 1e3, "first_ms": first * 1e3})
        );
        Ok((chosen, rate))
    }

    /// Measures batches of some queries.
    fn some(&self, name: &str, width: usize, is_one: impl Fn(&[u32]) -> bool) -> Result<()> {
        let rows: Vec<usize> = (0..self.wanted.len()).filter(|&row| is_one(&self.wanted[row])).collect();
        let filters: Vec<Filter<'_>> = rows.iter().map(|&row| Filter::from(&self.filters[row])).collect();
        let queries: Vec<u8> =
            rows.iter().flat_map(|&row| &self.queries[row * DIMENSION..][..DIMENSION]).copied().collect();
        let (mut keys, mut distances) = Matches::new(rows.len(), K)?.into_arrays();
        let params = SearchParams::new(K).beam_width(width).filter(&filters[..]);
        let (mut times, mut report) = (Vec::new(), jasper::SearchReport::default());
        for _ in 0..TIMED {
            let begun = Instant::now();
            report = self.index.search_batch_into(
                MatrixView::new(&queries, DIMENSION)?,
                params,
                &mut keys,
                &mut distances,
            )?;
            times.push(begun.elapsed().as_secs_f64());
        }
        let n = rows.len() as f64;
        println!(
            "{}",
            json!({"what": "part", "filters": name, "queries": rows.len(), "queries_per_second": (n / median(times)).round(),
                "scanned": report.scanned as f64 / n, "distances": report.cost.distances as f64 / n, "hops": report.cost.hops as f64 / n})
        );
        Ok(())
    }

    /// Searches while the tags of one vector in twenty change.
    fn beside_changes(&self, width: usize) -> Result<()> {
        let n = self.clusters.len();
        let (is_over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (batches, seconds, slowest) = thread::scope(|scope| -> Result<_> {
            let searcher = scope.spawn(|| -> Result<(usize, f64, f64)> {
                let (mut keys, mut distances) = Matches::new(self.filters.len(), K)?.into_arrays();
                let (mut batches, mut slowest, begun) = (0, 0.0_f64, Instant::now());
                while !is_over.load(Ordering::Relaxed) {
                    slowest = slowest.max(self.search(width, &mut keys, &mut distances)?);
                    batches += 1;
                }
                Ok((batches, begun.elapsed().as_secs_f64(), slowest))
            });
            let mut rng = rng(5);
            while done.load(Ordering::Relaxed) < n / 20 {
                let vectors: Vec<usize> = (0..CHANGED).map(|_| rng.random_range(0..n)).collect();
                let keys: Vec<Key> = vectors.iter().map(|&vector| vector as Key).collect();
                let mut keys: Vec<Key> = keys;
                keys.sort_unstable();
                keys.dedup();
                let values: Vec<Value> = keys
                    .iter()
                    .map(|&key| value(&self.zipf.of_vector(&mut rng, self.clusters[key as usize])))
                    .collect();
                self.index.set_attributes(&keys, &Frame::new(keys.len()).column("tags", values)?)?;
                done.fetch_add(keys.len(), Ordering::Relaxed);
            }
            is_over.store(true, Ordering::Relaxed);
            searcher.join().expect("no panic")
        })?;
        let rate = (batches * self.filters.len()) as f64 / seconds;
        println!(
            "{}",
            json!({"what": "beside changes", "changed": done.load(Ordering::Relaxed), "seconds": seconds,
                "queries_per_second": rate.round(), "slowest_ms": slowest * 1e3, "tags": self.tags.len()})
        );
        Ok(())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
