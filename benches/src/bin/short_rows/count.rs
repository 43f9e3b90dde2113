//! What can be counted without a GPU: searches traced on a CPU, the lines and pages that they touch, and hits of a cache.

use anyhow::Result;
use gpu_kernels::graph::NO_SLOT;
use jasper::bench::recall::mean_recall;
use jasper::data::{GroundTruth, Rows};
use jasper::{Element, Key};
use rayon::prelude::*;

use super::order;
use super::tables::{DEGREE, Tables, ranks};

const K: usize = 10;
/// Queries whose hops are counted.
const COUNTED: usize = 2000;
/// Bytes that memory transfers at once, and those of a page at a million vertices.
const SECTORS: usize = 64;
const PAGE: f64 = 2.0 * 1024.0 * 1024.0;
/// Warps that search at once, and bytes of the second cache, at a million vertices; other sets get their share.
const RESIDENT: f64 = 3168.0;
const CACHE: f64 = 50e6;

/// A search: its hops, each with the first of the vertices that it scored, and those vertices.
pub struct Trace {
    hops: Vec<(u32, usize)>,
    scored: Vec<u32>,
    steps: usize,
    found: Vec<u32>,
}

#[derive(Clone, Copy)]
pub struct Setting {
    pub beam: usize,
    /// Expansions per step in the first steps.
    pub wide: (usize, usize),
    pub visited: usize,
}

/// The search of the kernel for one query.
pub fn trace<T: Element>(tables: &Tables<T>, query: &[T], setting: Setting, starts: &[u32]) -> Trace {
    let squared_l2 = T::kernels().squared_l2;
    let (mut hops, mut scored, mut steps) = (vec![(NO_SLOT, 0)], Vec::new(), 0);
    let mut visited = vec![u32::MAX; setting.visited];
    let shift = 32 - setting.visited.ilog2();
    // The key of an entry, and whether it is expanded.
    let mut frontier: Vec<(u64, bool)> = Vec::with_capacity(setting.beam + 1);
    let mut wanted: Vec<u32> = starts.to_vec();
    loop {
        for slot in wanted.drain(..) {
            let bucket = &mut visited[(slot.wrapping_mul(0x9E37_79B1) >> shift) as usize];
            if std::mem::replace(bucket, slot) == slot {
                continue;
            }
            scored.push(slot);
            let distance = squared_l2(query, tables.row(slot));
            let key = u64::from(distance.to_bits()) << 32 | u64::from(slot);
            let place = frontier.partition_point(|entry| entry.0 < key);
            if place < setting.beam && frontier.get(place).is_none_or(|entry| entry.0 != key) {
                frontier.insert(place, (key, false));
                frontier.truncate(setting.beam);
            }
        }
        let expansions = if steps < setting.wide.0 { setting.wide.1 } else { 1 };
        for _ in 0..expansions {
            let Some(nearest) = frontier.iter_mut().find(|entry| !entry.1) else { break };
            nearest.1 = true;
            let vertex = nearest.0 as u32;
            hops.push((vertex, scored.len()));
            wanted.extend(tables.neighbors(vertex));
        }
        if wanted.is_empty() {
            break;
        }
        steps += 1;
    }
    let found = frontier.iter().take(K).map(|entry| entry.0 as u32).collect();
    Trace { hops, scored, steps, found }
}

/// Means over the traces.
pub struct Cost {
    pub steps: f64,
    pub hops: f64,
    pub distances: f64,
    pub recall: f64,
}

pub fn cost<T>(tables: &Tables<T>, traces: &[Trace], truth: &GroundTruth) -> Cost {
    let mean =
        |of: &dyn Fn(&Trace) -> usize| traces.iter().map(of).sum::<usize>() as f64 / traces.len() as f64;
    let keys: Vec<Key> = traces
        .iter()
        .flat_map(|trace| {
            (0..K).map(|i| trace.found.get(i).map_or(Key::MAX, |&slot| tables.keys[slot as usize]))
        })
        .collect();
    Cost {
        steps: mean(&|trace| trace.steps),
        hops: mean(&|trace| trace.hops.len() - 1),
        distances: mean(&|trace| trace.scored.len()),
        recall: mean_recall(&keys, K, |query| truth.truth(query)),
    }
}

pub fn run<T: Element>(
    tables: &Tables<T>,
    queries: &Rows<T>,
    truth: &GroundTruth,
    count: usize,
) -> Result<()> {
    let queries: Vec<Vec<T>> = (0..count)
        .map(|query| {
            let mut row = queries.view().row(query).to_vec();
            row.resize(tables.width, T::default());
            row
        })
        .collect();
    let share = tables.slots() as f64 / 1e6;
    println!(
        "{} vectors, mean degree {:.1}, {} start points",
        tables.slots(),
        tables.mean_degree(),
        tables.starts.len()
    );
    let all_traces =
        |tables: &Tables<T>, setting: Setting, starts: &(dyn Fn(usize) -> Vec<u32> + Sync)| -> Vec<Trace> {
            let of = |(i, query): (usize, &Vec<T>)| trace(tables, query, setting, &starts(i));
            queries.par_iter().enumerate().map(of).collect()
        };
    let all_queries = &queries;
    let queries = &queries[..COUNTED.min(count)];
    let traces =
        |tables: &Tables<T>, setting: Setting, starts: &(dyn Fn(usize) -> Vec<u32> + Sync)| -> Vec<Trace> {
            let of = |(i, query): (usize, &Vec<T>)| trace(tables, query, setting, &starts(i));
            queries.par_iter().enumerate().map(of).collect()
        };
    let plain = |beam| Setting { beam, wide: (0, 1), visited: 1024 };
    let as_built = |_: usize| tables.starts.clone();
    let print = |what: &str, beam: usize, cost: Cost| {
        let Cost { steps, hops, distances, recall } = cost;
        println!(
            "{what:32} beam {beam:3}: recall {recall:.4} steps {steps:6.1} hops {hops:6.1} distances {distances:7.0}"
        );
    };

    // Start points, steps and degrees.
    let squared_l2 = T::kernels().squared_l2;
    let nearest_of = |sample: usize, wanted: usize| -> Vec<Vec<u32>> {
        let step = tables.slots().div_ceil(sample).max(1);
        let best = |query: &Vec<T>| {
            let mut all: Vec<(u32, u32)> = (0..tables.slots() as u32)
                .step_by(step)
                .map(|slot| (squared_l2(query, tables.row(slot)).to_bits(), slot))
                .collect();
            all.select_nth_unstable(wanted - 1);
            all.truncate(wanted);
            all.into_iter().map(|(_, slot)| slot).collect()
        };
        queries.par_iter().map(best).collect()
    };
    // The share of a sample counts, not its size.
    let samples: Vec<(usize, usize, Vec<Vec<u32>>)> =
        [(1024, 1), (4096, 1), (8192, 1), (4096, 4), (32_768, 1)]
            .into_iter()
            .map(|(sample, wanted)| (sample, wanted, nearest_of((sample as f64 * share) as usize, wanted)))
            .collect();
    let in_degrees = tables.in_degrees();
    let mut sorted = in_degrees.clone();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let with_edges = |edges| Tables {
        edges,
        width: tables.width,
        rows: tables.rows.clone(),
        keys: tables.keys.clone(),
        starts: tables.starts.clone(),
    };
    let low = with_edges(tables.shortened_edges(|slot| if in_degrees[slot] < median { 32 } else { DEGREE }));
    let high =
        with_edges(tables.shortened_edges(|slot| if in_degrees[slot] >= median { 32 } else { DEGREE }));
    let all = with_edges(tables.shortened_edges(|_| 48));
    for beam in [10, 16, 22, 32, 48, 64, 128] {
        let base = traces(tables, plain(beam), &as_built);
        print("as built", beam, cost(tables, &base, truth));
        let table = traces(tables, Setting { visited: 2048, ..plain(beam) }, &as_built);
        print("visited 2048", beam, cost(tables, &table, truth));
        let one = traces(tables, plain(beam), &|_| vec![tables.starts[0]]);
        print("one start", beam, cost(tables, &one, truth));
        for (sample, wanted, starts) in &samples {
            let best = traces(tables, plain(beam), &|query| starts[query].clone());
            print(&format!("best {wanted} of {sample} (scaled)"), beam, cost(tables, &best, truth));
        }
        for wide in [(1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (4, 4), (999, 2), (999, 4)] {
            let traces = traces(tables, Setting { wide, ..plain(beam) }, &as_built);
            print(&format!("{} expansions in {} steps", wide.1, wide.0), beam, cost(tables, &traces, truth));
        }
        for (name, tables) in [("low in-degree: 32", &low), ("high in-degree: 32", &high), ("48 edges", &all)]
        {
            let traces = traces(tables, plain(beam), &as_built);
            print(&format!("{name} ({:.1})", tables.mean_degree()), beam, cost(tables, &traces, truth));
        }
    }

    // Lines, pages and hits.
    let orders = [
        ("as built", (0..tables.slots() as u32).collect::<Vec<u32>>()),
        ("breadth first", order::breadth_first(tables)),
        ("clusters", order::clusters(&tables.rows, tables.width)),
        ("greedy", order::greedy(tables)),
    ];
    let flat: Vec<T> = all_queries.iter().flatten().copied().collect();
    let by_cluster = order::clusters(&flat, tables.width);
    for beam in [10, 22, 64] {
        let traces = all_traces(tables, plain(beam), &as_built);
        for (name, order) in &orders {
            let rank = ranks(order);
            let layout =
                Layout { rank: &rank, row_bytes: tables.width * size_of::<T>(), slots: tables.slots() };
            layout.touched(name, beam, &traces, PAGE * share);
            for (queries_name, by) in [("as given", None), ("by cluster", Some(&by_cluster))] {
                for batch in [(10_000.0 * share) as usize, count] {
                    let mut batch: Vec<usize> = match by {
                        None => (0..batch).collect(),
                        Some(by) => by.iter().map(|&q| q as usize).filter(|&q| q < batch).collect(),
                    };
                    // The tail of a batch counts as the rest does.
                    batch.truncate(count);
                    for cache in [0.5, 1.0] {
                        layout.hits(
                            &format!(
                                "{name}, queries {queries_name}, {} of them",
                                (batch.len() as f64 / share) as usize
                            ),
                            beam,
                            &batch,
                            &traces,
                            ((RESIDENT * share) as usize, (CACHE * cache * share) as usize),
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

/// Where rows and edges are.
struct Layout<'a> {
    rank: &'a [u32],
    row_bytes: usize,
    slots: usize,
}

impl Layout<'_> {
    fn row(&self, slot: u32) -> std::ops::Range<usize> {
        let first = self.rank[slot as usize] as usize * self.row_bytes;
        first..first + self.row_bytes
    }

    fn edges(&self, slot: u32) -> std::ops::Range<usize> {
        let base = (self.slots * self.row_bytes).next_multiple_of(256);
        let first = base + self.rank[slot as usize] as usize * DEGREE * 4;
        first..first + DEGREE * 4
    }

    /// Prints the distinct lines and pages of a hop.
    fn touched(&self, name: &str, beam: usize, traces: &[Trace], page: f64) {
        let of = |trace: &Trace| {
            let (mut lines, mut pages, mut rows) = (0, 0, 0);
            for (i, &(vertex, first)) in trace.hops.iter().enumerate().skip(1) {
                let end = trace.hops.get(i + 1).map_or(trace.scored.len(), |next| next.1);
                let mut ranges: Vec<_> =
                    trace.scored[first..end].iter().map(|&slot| self.row(slot)).collect();
                ranges.push(self.edges(vertex));
                rows += ranges.len() - 1;
                let distinct = |bytes: f64| {
                    let mut all: Vec<usize> = ranges
                        .iter()
                        .flat_map(|range| {
                            (range.start as f64 / bytes) as usize..=((range.end - 1) as f64 / bytes) as usize
                        })
                        .collect();
                    all.sort_unstable();
                    all.dedup();
                    all.len()
                };
                lines += distinct(128.0);
                pages += distinct(page);
            }
            (lines, pages, rows, trace.hops.len() - 1)
        };
        let sums = traces
            .par_iter()
            .map(of)
            .reduce(|| (0, 0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2, a.3 + b.3));
        let per_hop = |sum: usize| sum as f64 / sums.3 as f64;
        println!(
            "{name:16} beam {beam:3}: per hop {:.1} rows, {:.1} lines of 128 B, {:.1} pages",
            per_hop(sums.2),
            per_hop(sums.0),
            per_hop(sums.1)
        );
    }

    /// Prints the hits of a second cache of 16 ways, with `resident` searches one hop after another.
    fn hits(
        &self,
        name: &str,
        beam: usize,
        batch: &[usize],
        traces: &[Trace],
        (resident, cache): (usize, usize),
    ) {
        let sets = (cache / SECTORS / 16).max(1);
        let mut ways = vec![[usize::MAX; 16]; sets];
        let (mut hits, mut total) = (0_u64, 0_u64);
        let mut touch = |range: std::ops::Range<usize>| {
            for line in range.start / SECTORS..range.end.div_ceil(SECTORS) {
                let set =
                    &mut ways[((line as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % sets];
                let place = set.iter().position(|&known| known == line);
                hits += u64::from(place.is_some());
                total += 1;
                set[..=place.unwrap_or(15)].rotate_right(1);
                set[0] = line;
            }
        };
        let mut waiting = batch.iter().copied();
        let mut active: Vec<(usize, usize)> =
            waiting.by_ref().take(resident).map(|query| (query, 0)).collect();
        while !active.is_empty() {
            let mut kept = Vec::with_capacity(active.len());
            for (query, hop) in active {
                let trace = &traces[query];
                let (vertex, first) = trace.hops[hop];
                let end = trace.hops.get(hop + 1).map_or(trace.scored.len(), |next| next.1);
                if vertex != NO_SLOT {
                    touch(self.edges(vertex));
                }
                trace.scored[first..end].iter().for_each(|&slot| touch(self.row(slot)));
                if hop + 1 < trace.hops.len() {
                    kept.push((query, hop + 1));
                } else if let Some(query) = waiting.next() {
                    kept.push((query, 0));
                }
            }
            active = kept;
        }
        println!(
            "  {name:52} beam {beam:3}, cache {:4.1} MB: {:.1}% hits, {:.0} KB per query from memory",
            cache as f64 / 1e6,
            100.0 * hits as f64 / total as f64,
            (total - hits) as f64 * SECTORS as f64 / batch.len() as f64 / 1e3
        );
    }
}
