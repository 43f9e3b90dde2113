//! Measures batches on a GPU in which every query has a filter of its own, and single searches with filters. Prints one line
//! of JSON per measurement.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin filtered_queries -- --vectors 1000000
//! ```
//!
//! Vectors are synthetic clusters of 96 x f16. Each has labels, of which one in ten thousand, thousand, hundred, ten and two
//! vectors have the same, and a number of its own. Beam widths are the least that reach the recall among the hits that
//! filters allow. The first call with its filters is timed by itself, since later ones find what it left on the device.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::attributes::{Expression, Frame, column};
use jasper::{
    Device, Filter, Index, IndexBuilder, Key, KeyFilter, Matches, MatrixView, Metric, SearchParams, f16,
};
use jasper_core::synthetic::{Clusters, permutation, rng};
use rand::RngExt;
use rayon::prelude::*;
use serde_json::json;

const DIMENSION: usize = 96;
/// Results per query.
const K: usize = 10;
/// The recall for which the beam width is chosen.
const RECALL: f64 = 0.95;
/// Queries with which it is chosen.
const JUDGED: usize = 200;
const WIDTHS: [usize; 8] = [10, 16, 24, 32, 48, 64, 96, 128];
/// Calls that are timed, after one that is timed by itself.
const TIMED: usize = 15;

/// Measures searches with a filter for each query.
#[derive(clap::Parser)]
struct Options {
    /// Number of vectors.
    #[arg(long, default_value_t = 1_000_000)]
    vectors: usize,
    /// Queries of a batch.
    #[arg(long, default_value_t = 10_000)]
    queries: usize,
    /// Search on the CPU, to try the program.
    #[arg(long)]
    cpu: bool,
}

/// An index, queries, and what the filters are made of.
struct Bench {
    index: Index,
    queries: Vec<f16>,
    /// The distances of all vectors to each judged query.
    distances: Vec<Vec<f32>>,
    /// The number of each vector.
    numbers: Vec<i64>,
}

/// The filters of a batch, and which vectors each of them allows.
struct Filters<'a> {
    name: String,
    of: Vec<Filter<'a>>,
    allows: Box<dyn Fn(usize, usize) -> bool + Sync + 'a>,
}

fn main() -> Result<()> {
    let options: Options = clap::Parser::parse();
    let bench = Bench::new(&options)?;
    let n = options.queries;
    let unfiltered = bench.batch("unfiltered", None, n, &|_, _| true)?;
    bench.single("unfiltered", unfiltered, None)?;

    let one = column("label_10").eq(3);
    bench.batch("one filter of 10%", Some(Filter::from(&one)), n, &|_, vector| vector % 10 == 3)?;
    let keys: KeyFilter = (0..options.vectors as Key).filter(|key| key % 10 == 3).collect();
    bench.batch("one set of 10%", Some(Filter::from(&keys)), n, &|_, vector| vector % 10 == 3)?;
    let few: KeyFilter = (0..options.vectors as Key).filter(|key| key % 100 == 3).collect();
    bench.batch("one set of 1%", Some(Filter::from(&few)), n, &|_, vector| vector % 100 == 3)?;

    for labels in [1000, 100, 10, 2] {
        let name = format!("label_{labels}");
        let expressions: Vec<Expression> =
            (0..n).map(|query| column(&name[..]).eq((query % labels) as i64)).collect();
        bench.filters(&Filters {
            name: format!("labels of {}%", 100.0 / labels as f64),
            of: expressions.iter().map(Filter::from).collect(),
            allows: Box::new(move |query, vector| vector % labels == query % labels),
        })?;
        let (first, len) = (bench.firsts(n, labels), (options.vectors / labels) as i64);
        let range = |&first: &i64| column("number").ge(first).and(column("number").lt(first + len));
        let expressions: Vec<Expression> = first.iter().map(range).collect();
        bench.filters(&Filters {
            name: format!("ranges of {}%", 100.0 / labels as f64),
            of: expressions.iter().map(Filter::from).collect(),
            allows: Box::new(|query, vector| {
                (first[query]..first[query] + len).contains(&bench.numbers[vector])
            }),
        })?;
    }
    bench.others(n, options.vectors)?;
    bench.tenants(options.vectors)
}

impl Bench {
    fn new(options: &Options) -> Result<Self> {
        let (vectors, set) = (options.vectors, Clusters::new(DIMENSION, 1));
        let (rows, queries): (Vec<f16>, Vec<f16>) = (set.rows(vectors, 0), set.rows(options.queries, 1));
        let begun = Instant::now();
        let device = if options.cpu { Device::CPU } else { Device::cuda(0) };
        let index = IndexBuilder::new(Metric::L2).device(device).build(MatrixView::new(&rows, DIMENSION)?)?;
        let numbers: Vec<i64> = permutation(vectors, 2).into_iter().map(i64::from).collect();
        let mut frame = Frame::new(vectors).column("number", numbers.iter().copied())?;
        for labels in [10_000, 1000, 100, 10, 2] {
            let of_label = (0..vectors).map(|vector| (vector % labels) as i64);
            frame = frame.column(format!("label_{labels}"), of_label)?;
        }
        let keys: Vec<Key> = (0..vectors as Key).collect();
        index.set_attributes(&keys, &frame)?;
        let index = if options.cpu { index } else { index.to_device(device)? };
        if !options.cpu {
            index.warm_up()?;
        }
        println!(
            "{}",
            json!({"what": "index", "device": index.device_info().name, "vectors": vectors, "seconds": begun.elapsed().as_secs_f64()})
        );
        let rows: Vec<f32> = rows.par_iter().map(|value| value.to_f32()).collect();
        let distances = queries.chunks_exact(DIMENSION).take(JUDGED).collect::<Vec<_>>();
        let distances = distances.into_par_iter().map(|query| {
            let query: Vec<f32> = query.iter().map(|value| value.to_f32()).collect();
            let distance = |row: &[f32]| row.iter().zip(&query).map(|(x, y)| (x - y) * (x - y)).sum::<f32>();
            rows.chunks_exact(DIMENSION).map(distance).collect()
        });
        let distances = distances.collect();
        Ok(Self { index, queries, distances, numbers })
    }

    /// The first numbers of ranges.
    fn firsts(&self, n: usize, one_in: usize) -> Vec<i64> {
        let (mut rng, len) = (rng(3), self.numbers.len());
        (0..n).map(|_| rng.random_range(0..=(len - len / one_in) as i64)).collect()
    }

    fn view(&self, first: usize, len: usize) -> MatrixView<'_, f16> {
        let range = first * DIMENSION..(first + len) * DIMENSION;
        MatrixView::new(&self.queries[range], DIMENSION).expect("whole rows")
    }

    /// The recall of the first queries among what their filters allow, and whether a hit is not allowed.
    fn recall(&self, keys: &[Key], allows: &(dyn Fn(usize, usize) -> bool + Sync)) -> (f64, bool) {
        let judged = self.distances.len().min(keys.len() / K);
        let of_query = |query: usize| {
            let of_query = &self.distances[query];
            let mut all: Vec<f32> =
                (0..of_query.len()).filter(|&v| allows(query, v)).map(|v| of_query[v]).collect();
            let wanted = K.min(all.len());
            if wanted == 0 {
                return (0, 0, true);
            }
            let bound = *all.select_nth_unstable_by(wanted - 1, f32::total_cmp).1 * 1.00001;
            let found = keys[query * K..(query + 1) * K].iter().filter(|&&key| key != jasper::NO_KEY);
            let right = found.clone().filter(|&&key| of_query[key as usize] <= bound).count();
            (right.min(wanted), wanted, found.clone().all(|&key| allows(query, key as usize)))
        };
        let all: Vec<_> = (0..judged).into_par_iter().map(of_query).collect();
        let (right, wanted) = all.iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        (right as f64 / wanted as f64, all.iter().all(|of| of.2))
    }

    fn filters(&self, filters: &Filters<'_>) -> Result<()> {
        let params = Filter::from(&filters.of[..]);
        let width = self.batch(&filters.name, Some(params), filters.of.len(), &*filters.allows)?;
        self.single(&filters.name, width, Some(&filters.of))
    }

    /// Measures a batch; prints and returns the beam width.
    fn batch(
        &self,
        name: &str,
        filter: Option<Filter<'_>>,
        n: usize,
        allows: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<usize> {
        let queries = self.view(0, n);
        let (mut keys, mut distances) = Matches::new(n, K)?.into_arrays();
        let params = |width| {
            let params = SearchParams::new(K).beam_width(width);
            filter.map_or(params, |filter| params.filter(filter))
        };
        let begun = Instant::now();
        self.index.search_batch_into(queries, params(WIDTHS[0]), &mut keys, &mut distances)?;
        let first = begun.elapsed().as_secs_f64();
        let (mut width, mut recall, mut is_allowed) = (0, 0.0, true);
        for candidate in WIDTHS {
            self.index.search_batch_into(queries, params(candidate), &mut keys, &mut distances)?;
            let (of_width, allowed) = self.recall(&keys, allows);
            (width, recall, is_allowed) = (candidate, of_width, is_allowed && allowed);
            if recall >= RECALL {
                break;
            }
        }
        let mut times = Vec::new();
        let mut report = jasper::SearchReport::default();
        for _ in 0..TIMED {
            let begun = Instant::now();
            report = self.index.search_batch_into(queries, params(width), &mut keys, &mut distances)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        let median = median(times);
        let of_query = |count: u64| count as f64 / n as f64;
        println!(
            "{}",
            json!({
                "what": "batch", "filters": name, "queries": n, "beam_width": width, "recall": recall,
                "all_allowed": is_allowed, "queries_per_second": (n as f64 / median).round(), "ms": median * 1e3,
                "first_ms": first * 1e3, "scanned": report.scanned as f64 / n as f64,
                "hops": of_query(report.cost.hops), "distances": of_query(report.cost.distances),
            })
        );
        Ok(width)
    }

    /// Measures single searches, each with the next filter.
    fn single(&self, name: &str, width: usize, filters: Option<&[Filter<'_>]>) -> Result<()> {
        let mut times = Vec::new();
        for query in 0..600 {
            let vector = self.view(query, 1).row(0);
            let params = SearchParams::new(K).beam_width(width);
            let params = filters.map_or(params, |filters| params.filter(filters[query]));
            let begun = Instant::now();
            self.index.search(vector, params)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        let times = times.split_off(100);
        println!(
            "{}",
            json!({"what": "single", "filters": name, "beam_width": width, "us": median(times) * 1e6})
        );
        Ok(())
    }

    /// Filters that are no ranges of one column.
    fn others(&self, n: usize, vectors: usize) -> Result<()> {
        let first = self.firsts(n, 10);
        let len = (vectors / 10) as i64;
        let both = |(query, &first): (usize, &i64)| {
            let range = column("number").ge(first).and(column("number").lt(first + len));
            range.and(column("label_10").eq((query % 10) as i64))
        };
        let expressions: Vec<Expression> = first.iter().enumerate().map(both).collect();
        self.filters(&Filters {
            name: "ranges of 10% with labels of 10%".into(),
            of: expressions.iter().map(Filter::from).collect(),
            allows: Box::new(|query, vector| {
                (first[query]..first[query] + len).contains(&self.numbers[vector])
                    && vector % 10 == query % 10
            }),
        })?;
        let of_query = |query: usize| (query as Key..vectors as Key).step_by(1000.max(n / 10)).collect();
        let sets: Vec<KeyFilter> = (0..n).map(of_query).collect();
        self.filters(&Filters {
            name: "sets of keys of 0.1%".into(),
            of: sets.iter().map(Filter::from).collect(),
            allows: Box::new(move |query, vector| {
                vector >= query && (vector - query) % 1000.max(n / 10) == 0
            }),
        })
    }

    /// Single searches of 64 threads, each with the filter of one of ten thousand tenants.
    fn tenants(&self, vectors: usize) -> Result<()> {
        let tenants = 10_000.min(vectors / 10);
        let expressions: Vec<Expression> =
            (0..tenants).map(|tenant| column("label_10000").eq(tenant as i64)).collect();
        for (name, is_filtered) in [("unfiltered", false), ("tenants of 0.01%", true)] {
            for threads in [1, 64] {
                let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
                let begun = Instant::now();
                let search = |thread: usize| {
                    let (mut rng, mut wrong) = (rng(thread as u64), 0);
                    while !is_over.load(Ordering::Relaxed) {
                        let query = rng.random_range(0..self.queries.len() / DIMENSION);
                        let tenant = rng.random_range(0..tenants);
                        let params = SearchParams::new(K).beam_width(32);
                        let params = if is_filtered { params.filter(&expressions[tenant]) } else { params };
                        let hits = self.index.search(self.view(query, 1).row(0), params)?;
                        let is_right = |key: Key| !is_filtered || key as usize % 10_000 == tenant;
                        wrong += usize::from(hits.len() != K || !hits.iter().all(|hit| is_right(hit.key)));
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<usize, anyhow::Error>(wrong)
                };
                let wrong = thread::scope(|scope| {
                    let handles: Vec<_> = (0..threads)
                        .map(|thread| {
                            scope.spawn({
                                let search = &search;
                                move || search(thread)
                            })
                        })
                        .collect();
                    thread::sleep(Duration::from_secs(2));
                    is_over.store(true, Ordering::Relaxed);
                    handles.into_iter().map(|handle| handle.join().expect("no panic")).sum::<Result<usize>>()
                })?;
                let rate = done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
                println!(
                    "{}",
                    json!({"what": "callers", "filters": name, "threads": threads, "queries_per_second": rate.round(), "wrong": wrong})
                );
            }
        }
        Ok(())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
