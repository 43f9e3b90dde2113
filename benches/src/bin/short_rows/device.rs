//! The measurements on a GPU.

use std::fs::File;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use gpu_kernels::graph::{DistanceEpilogue, DistanceOpKind, GraphArgs};
use gpu_kernels::knn::{ProductScratch, nearest_slots};
use gpu_kernels::search::{DeviceHit, Search, SearchArgs};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, RowShape, Stream};
use jasper::bench::recall::mean_recall;
use jasper::data::{GroundTruth, Rows};
use jasper::{Element, Key};
use jasper_core::synthetic::permutation;
use serde_json::json;

use super::order;
use super::tables::{DEGREE, Tables, ranks};

const K: usize = 10;
const PRODUCT_BYTES: usize = 16 << 20;
/// Rounds in which all variants are measured in turn.
const ROUNDS: usize = 3;
/// Recalls at which variants are compared.
const RECALLS: [f64; 4] = [0.90, 0.95, 0.98, 0.99];

/// The median seconds of queued work.
pub type Timer<'a> = &'a dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<f64>;

/// What is measured, and how much of it.
pub struct Plan<'a> {
    pub set: &'a str,
    pub beams: &'a [usize],
    /// Bytes per second of a copy.
    pub copy: f64,
    pub timer: Timer<'a>,
    pub log: &'a mut File,
    /// Names and edges of the same vertices in other graphs.
    pub graphs: Vec<(String, Vec<u32>)>,
}

struct DeviceTables<S: Stream> {
    rows: S::Buffer<u8>,
    keys: S::Buffer<Key>,
    starts: S::Buffer<u32>,
    row_bytes: u32,
}

impl<S: Stream> DeviceTables<S> {
    fn new<T: Element>(stream: &S, tables: &Tables<T>) -> Result<Self, S::Error> {
        Ok(Self {
            rows: stream.upload(bytemuck::cast_slice(&tables.rows))?,
            keys: stream.upload(&tables.keys)?,
            starts: stream.upload(&tables.starts)?,
            row_bytes: (tables.width * size_of::<T>()) as u32,
        })
    }
}

/// One way to search.
struct Variant<'a, S: Stream> {
    name: String,
    tables: &'a DeviceTables<S>,
    edges: &'a S::Buffer<u32>,
    /// Start points of each query, and how many.
    starts: Option<(&'a S::Buffer<u32>, u32)>,
    /// The query of each block, on the host too.
    query_rows: Option<(&'a S::Buffer<u32>, &'a [u32])>,
    expansions: u32,
    visited: u32,
    max_hops: u32,
    /// Milliseconds of the product that found the start points.
    product: f64,
}

impl<S: Stream> Clone for Variant<'_, S> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), ..*self }
    }
}

impl<S: Stream> Variant<'_, S> {
    fn args(&self, queries: DevicePtr<u8>, count: usize, beam: usize, out: &mut Output<S>) -> SearchArgs {
        let starts = self
            .starts
            .map_or((self.tables.starts.input(), self.tables.starts.len() as u32, 0), |(list, len)| {
                (list.input(), len, len)
            });
        SearchArgs {
            graph: GraphArgs {
                rows: self.tables.rows.input(),
                edges: self.edges.input(),
                squared_norms: DevicePtr::null(),
                keys: self.tables.keys.input(),
                start_points: starts.0,
                start_points_len: starts.1,
                shape: RowShape::new(self.tables.row_bytes),
                edges_stride: DEGREE as u32,
                largest_squared_norm: 0.0,
            },
            queries,
            query_rows: self.query_rows.map_or(DevicePtr::null(), |(rows, _)| rows.input()),
            allowed: DevicePtr::null(),
            results: out.results.output(),
            padding_hits: DevicePtr::null(),
            rerank_slots: DevicePtrMut::null(),
            costs: out.costs.output(),
            expanded_entries: DevicePtrMut::null(),
            queries_len: count as u32,
            k: K as u32,
            beam_width: beam as u32,
            frontier_len: beam as u32,
            max_hops: self.max_hops,
            expansions: self.expansions,
            visited_capacity: self.visited,
            start_points_stride: starts.2,
            start_point_parts: 1,
            rerank_len: 0,
            distances_before: 0,
            epilogue: DistanceEpilogue::SquaredL2,
        }
    }
}

struct Output<S: Stream> {
    results: S::Buffer<DeviceHit>,
    costs: S::Buffer<u32>,
}

/// A measured setting.
#[derive(Clone, Copy, Default)]
struct Point {
    beam: usize,
    recall: f64,
    ms: f64,
    hops: f64,
    distances: f64,
}

fn launch<T: Element, S: Stream>(stream: &S, args: SearchArgs) -> Result<()>
where
    S::Error: Send + Sync + 'static,
{
    let row_bytes = args.graph.shape.row_bytes();
    let kernel = Search::for_rows(T::KIND, DistanceOpKind::SquaredL2, row_bytes, args.frontier_len, 1);
    // SAFETY: the tables were made with the shapes of the arguments and outlive the launch, as do queries and outputs,
    // which have room for all queries.
    unsafe { stream.launch(&kernel, args)? };
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The rate at `recall`, log-linear between beam widths.
fn rate_at(points: &[Point], recall: f64, count: usize, product: f64) -> Option<f64> {
    let next = points.iter().position(|point| point.recall >= recall)?;
    let rate = |point: &Point| (count as f64 / (point.ms + product) / 1e3).ln();
    let Some(below) = next.checked_sub(1).map(|i| &points[i]) else { return Some(rate(&points[next]).exp()) };
    let share = (recall - below.recall) / (points[next].recall - below.recall);
    Some((rate(below) + share * (rate(&points[next]) - rate(below))).exp())
}

/// Measures all variants.
pub fn run<T: Element, S: Stream>(
    stream: &S,
    plan: Plan<'_>,
    tables: &Tables<T>,
    queries: &Rows<T>,
    truth: &GroundTruth,
    many: usize,
) -> Result<()>
where
    S::Error: Send + Sync + 'static,
{
    let Plan { set, beams, copy, timer, log, graphs } = plan;
    let (slots, count) = (tables.slots(), queries.view().len().min(many));
    let mut padded = Vec::with_capacity(count * tables.width);
    for row in queries.view().rows().take(count) {
        padded.extend_from_slice(row);
        padded.resize(padded.len().next_multiple_of(tables.width), T::default());
    }
    let device_queries = stream.upload::<u8>(bytemuck::cast_slice(&padded))?;
    let mut out = Output::<S> {
        results: stream.allocate(count.max(many) * K)?,
        costs: stream.allocate(count.max(many) * 2)?,
    };

    // Orders.
    let begun = std::time::Instant::now();
    let (breadth_first, (clusters, greedy)) = rayon::join(
        || order::breadth_first(tables),
        || rayon::join(|| order::clusters(&tables.rows, tables.width), || order::greedy(tables)),
    );
    eprintln!("{set}: orders after {:.1} s", begun.elapsed().as_secs_f64());
    let plain = DeviceTables::new(stream, tables)?;
    let moved: Vec<(&str, DeviceTables<S>, S::Buffer<u32>, S::Buffer<u32>)> =
        [("breadth first", &breadth_first), ("clusters", &clusters), ("greedy", &greedy)]
            .into_iter()
            .map(|(name, order)| {
                let tables = tables.renumbered(order);
                let sorted = stream.upload(&tables.sorted_edges())?;
                Ok((name, DeviceTables::new(stream, &tables)?, stream.upload(&tables.edges)?, sorted))
            })
            .collect::<Result<_>>()?;
    let edges = stream.upload(&tables.edges)?;
    let sorted = stream.upload(&tables.sorted_edges())?;
    let in_degrees = tables.in_degrees();
    let mut ascending = in_degrees.clone();
    ascending.sort_unstable();
    let middle = ascending[slots / 2];
    let low =
        stream.upload(&tables.shortened_edges(|slot| if in_degrees[slot] < middle { 32 } else { DEGREE }))?;
    let high = stream
        .upload(&tables.shortened_edges(|slot| if in_degrees[slot] >= middle { 32 } else { DEGREE }))?;
    let all = stream.upload(&tables.shortened_edges(|_| 48))?;
    eprintln!("{set}: tables after {:.1} s", begun.elapsed().as_secs_f64());

    // Orders of the queries.
    let by_cluster = order::clusters(&padded, tables.width);
    let few: Vec<u32> = (0..count as u32).map(|query| query % 64).collect();
    let same = vec![0; count];
    let by_cluster_rows = stream.upload(&by_cluster)?;
    let (few_rows, same_rows) = (stream.upload(&few)?, stream.upload(&same)?);
    let graphs: Vec<(String, S::Buffer<u32>)> =
        graphs.into_iter().map(|(name, edges)| Ok((name, stream.upload(&edges)?))).collect::<Result<_>>()?;

    let base = Variant {
        name: "as built".to_owned(),
        tables: &plain,
        edges: &edges,
        starts: None,
        query_rows: None,
        expansions: 1,
        visited: 1024,
        max_hops: u32::MAX,
        product: 0.0,
    };
    let named = |name: &str| Variant { name: name.to_owned(), ..base.clone() };

    // Start points from a product.
    let mut starts: Vec<(String, S::Buffer<u32>, u32, f64)> = Vec::new();
    let mut scratch = ProductScratch::new(stream, PRODUCT_BYTES)?;
    for (sample, wanted) in [(1024, 1), (4096, 1), (8192, 1), (4096, 4)] {
        let chosen: Vec<u32> = (0..slots as u32).step_by(slots.div_ceil(sample)).collect();
        let buffer = stream.upload(&chosen)?;
        let product =
            Variant { starts: Some((&buffer, chosen.len() as u32)), max_hops: 0, visited: 0, ..base.clone() };
        let mut args = product.args(device_queries.input(), count, wanted, &mut out);
        (args.k, args.start_points_stride) = (wanted as u32, 0);
        let seconds = timer(&mut || {
            // SAFETY: the sample is ascending and distinct, and everything outlives the launches.
            unsafe { nearest_slots(stream, args, T::KIND, 1, &mut scratch)? };
            Ok(())
        })?;
        let hits = stream.download_range(&out.results, 0..count * wanted)?;
        let found: Vec<u32> = hits.iter().map(|hit| hit.slot).collect();
        let name = format!("best {wanted} of {}", chosen.len());
        starts.push((name, stream.upload(&found)?, wanted as u32, seconds * 1e3));
    }
    let first: Vec<u32> = vec![tables.starts[0]; count];
    let first = stream.upload(&first)?;

    let of_cluster = &moved[1];
    let best = &starts[1];
    let mut variants = vec![
        base.clone(),
        Variant { visited: 2048, ..named("visited 2048") },
        Variant { expansions: 2, ..named("2 expansions") },
        Variant { expansions: 4, ..named("4 expansions") },
    ];
    for (name, tables, edges, sorted) in &moved {
        variants.push(Variant { tables, edges, ..named(name) });
        variants.push(Variant { tables, edges: sorted, ..named(&format!("{name}, sorted")) });
    }
    variants.extend([
        Variant { edges: &sorted, ..named("sorted") },
        Variant { starts: Some((&first, 1)), ..named("one start") },
    ]);
    let shortened = [("low in-degree: 32", &low), ("high in-degree: 32", &high), ("nearest 48", &all)];
    let built = graphs.iter().map(|(name, edges)| (&name[..], edges));
    for (name, edges) in shortened.into_iter().chain(built) {
        for expansions in [1, 2] {
            variants.push(Variant { edges, expansions, ..named(&format!("{name}, {expansions} at once")) });
        }
    }
    for (name, list, len, ms) in &starts {
        variants.push(Variant { starts: Some((list, *len)), product: *ms, ..named(name) });
    }
    variants.extend([
        Variant { query_rows: Some((&by_cluster_rows, &by_cluster)), ..named("queries by cluster") },
        Variant {
            query_rows: Some((&by_cluster_rows, &by_cluster)),
            tables: &of_cluster.1,
            edges: &of_cluster.3,
            ..named("all by cluster, sorted")
        },
        Variant { query_rows: Some((&few_rows, &few)), ..named("64 queries repeated") },
        Variant { query_rows: Some((&same_rows, &same)), ..named("1 query repeated") },
    ]);
    // Start points of the queries in order, and the base once more, which shows the noise.
    let by_block: Vec<u32> = {
        let found = stream.download(&best.1)?;
        by_cluster.iter().map(|&query| found[query as usize]).collect()
    };
    let by_block = stream.upload(&by_block)?;
    variants.extend([
        Variant {
            query_rows: Some((&by_cluster_rows, &by_cluster)),
            starts: Some((&by_block, 1)),
            product: best.3,
            ..named("queries by cluster, best start")
        },
        named("as built again"),
    ]);

    let mut points: Vec<Vec<Point>> = vec![Vec::new(); variants.len()];
    for &beam in beams {
        let mut times = vec![Vec::new(); variants.len()];
        for _ in 0..ROUNDS {
            for (variant, times) in variants.iter().zip(&mut times) {
                let args = variant.args(device_queries.input(), count, beam, &mut out);
                times.push(timer(&mut || launch::<T, S>(stream, args))?);
            }
        }
        for (i, (variant, times)) in variants.iter().zip(times).enumerate() {
            let args = variant.args(device_queries.input(), count, beam, &mut out);
            launch::<T, S>(stream, args)?;
            let (hops, distances) = costs(stream, &out, count)?;
            let hits = stream.download_range(&out.results, 0..count * K)?;
            let mut keys = vec![Key::MAX; count * K];
            let order = variant.query_rows.map(|(_, order)| order);
            for (block, hits) in hits.chunks_exact(K).enumerate() {
                let query = order.map_or(block, |order| order[block] as usize);
                keys[query * K..][..K].iter_mut().zip(hits).for_each(|(key, hit)| *key = hit.key);
            }
            let is_whole =
                order.is_none_or(|order| order.len() == by_cluster.len() && order == &by_cluster[..]);
            let known = if is_whole { truth.len().min(count) } else { 1 };
            let recall = mean_recall(&keys[..known * K], K, |query| truth.truth(query));
            let point = Point { beam, recall, ms: median(times.clone()) * 1e3, hops, distances };
            let row_bytes = f64::from(variant.tables.row_bytes);
            let bytes = hops * (DEGREE * 4) as f64 + distances * row_bytes;
            let rate = bytes * count as f64 / point.ms * 1e3;
            let line = json!({
                "what": "short_rows", "set": set, "variant": variant.name, "beam_width": beam, "recall": recall,
                "milliseconds": point.ms, "rounds": times.iter().map(|time| time * 1e3).collect::<Vec<_>>(),
                "product_ms": variant.product, "queries_per_second": count as f64 / point.ms * 1e3, "hops": hops,
                "distances": distances, "kb_per_query": bytes / 1e3, "gb_per_s": rate / 1e9, "of_copy": rate / copy,
            });
            writeln!(log, "{line}")?;
            points[i].push(point);
        }
    }

    // Summary: rates at equal recall, with the time of products, and times at equal width.
    println!(
        "{set}: copy {:.0} GB/s; M queries/s at recall {RECALLS:?} (and with the product); relative time by beam",
        copy / 1e9
    );
    let shown: Vec<usize> = (0..beams.len()).step_by(beams.len().div_ceil(4).max(1)).collect();
    for (variant, of) in variants.iter().zip(&points) {
        let mut line = format!("{:31}", variant.name);
        for recall in RECALLS {
            line +=
                &rate_at(of, recall, count, 0.0).map_or("     -".to_owned(), |rate| format!(" {rate:5.2}"));
        }
        if variant.product > 0.0 {
            line += &format!(" (product {:.3} ms:", variant.product);
            for recall in RECALLS {
                line += &rate_at(of, recall, count, variant.product)
                    .map_or(" -".to_owned(), |rate| format!(" {rate:.2}"));
            }
            line += ")";
        }
        for &i in &shown {
            let (point, base) = (of[i], points[0][i]);
            let bytes =
                point.hops * (DEGREE * 4) as f64 + point.distances * f64::from(variant.tables.row_bytes);
            line += &format!(
                " | {} {:.3} r{:.4} h{:.1} d{:.0} {:.0}%",
                point.beam,
                point.ms / base.ms,
                point.recall,
                point.hops,
                point.distances,
                bytes * count as f64 / point.ms * 1e3 / copy * 100.0
            );
        }
        println!("{line}");
    }

    // Random rows by the same kernel, without hops, and batches of vectors of the set.
    let rows = 1024;
    let random: Vec<u32> = permutation(slots, 5).into_iter().cycle().take(count * rows).collect();
    let random = stream.upload(&random)?;
    let scan = Variant { starts: Some((&random, rows as u32)), max_hops: 0, ..named("random rows") };
    let args = scan.args(device_queries.input(), count, 32, &mut out);
    let seconds = timer(&mut || launch::<T, S>(stream, args))?;
    let rate = (count * rows) as f64 * f64::from(plain.row_bytes) / seconds;
    println!(
        "{set}: {rows} random rows per query: {:.3} ms, {:.0}% of a copy",
        seconds * 1e3,
        rate / copy * 100.0
    );
    drop(random);
    let chosen: Vec<u32> = permutation(slots, 6).into_iter().take(many).collect();
    let rank = ranks(&clusters);
    let mut sorted_rows = chosen.clone();
    sorted_rows.sort_unstable_by_key(|&slot| rank[slot as usize]);
    let moved_rows: Vec<u32> = sorted_rows.iter().map(|&slot| rank[slot as usize]).collect();
    let (chosen_rows, sorted_queries) = (stream.upload(&chosen)?, stream.upload(&sorted_rows)?);
    let moved_queries = stream.upload(&moved_rows)?;
    let batches = [
        Variant { query_rows: Some((&chosen_rows, &chosen)), ..named("vectors as queries") },
        Variant { query_rows: Some((&sorted_queries, &sorted_rows)), ..named("by cluster") },
        Variant {
            query_rows: Some((&moved_queries, &moved_rows)),
            tables: &of_cluster.1,
            edges: &of_cluster.2,
            ..named("all by cluster")
        },
    ];
    for beam in [beams[0], beams[beams.len() / 3], beams[beams.len() * 2 / 3]] {
        for variant in &batches {
            let mut line = format!("{set}, {}, beam {beam}, M queries/s by batch:", variant.name);
            // Every so many of them, so that a smaller batch is spread as the large one.
            for size in [2112, 3168, 4224, 6336, 10_000, 20_000, 50_000, many] {
                let size = size.min(many);
                let (_, order) = variant.query_rows.context("a list")?;
                let part: Vec<u32> = (0..size).map(|i| order[i * many / size]).collect();
                let part = stream.upload(&part)?;
                let variant = Variant { query_rows: Some((&part, &[])), ..variant.clone() };
                let args = variant.args(variant.tables.rows.input(), size, beam, &mut out);
                let seconds = timer(&mut || launch::<T, S>(stream, args))?;
                line += &format!(" {size} {:.2}", size as f64 / seconds / 1e6);
            }
            let (hops, distances) = costs(stream, &out, many)?;
            println!("{line} (h{hops:.1} d{distances:.0})");
        }
    }
    Ok(())
}

/// Mean hops and distances of the last launch.
fn costs<S: Stream>(stream: &S, out: &Output<S>, count: usize) -> Result<(f64, f64), S::Error> {
    let costs = stream.download_range(&out.costs, 0..count * 2)?;
    let sum =
        |of: usize| costs.iter().skip(of).step_by(2).map(|&cost| f64::from(cost)).sum::<f64>() / count as f64;
    Ok((sum(0), sum(1)))
}
