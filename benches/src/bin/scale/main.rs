//! Builds, searches and changes indexes of growing size, up to a billion vectors. Prints lines of JSON.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin scale -- cuda:all 1000000 10000000 100000000 1000000000
//! ```
//!
//! No file is read: [vectors](rule::Rule) are made whenever they are read. Each size is planned first, and skipped if it
//! does not fit. On several GPUs the index is sharded. With `--only-codes`, vectors are quantized and dropped on the host,
//! for more of them than the GPUs hold.

#![forbid(unsafe_code)]

mod rule;
mod truth;

use std::ops::RangeInclusive;

use anyhow::{Context as _, Result, anyhow, ensure};
use jasper::{
    Device, Distances, Element, ErrorKind, Index, IndexBuilder, Key, MatrixView, MemorySpace, Metric,
    Quantization, SearchParams, Vectors,
};
use jasper_data::{GroundTruth, ThreadPoolBuilder};
use serde_json::json;

use jasper_benches::{Stages, measure_search, step};
use rule::Rule;
use truth::Scanner;

/// Builds, searches and changes indexes of growing size, under L2.
#[derive(clap::Parser)]
struct Args {
    /// Where indexes are: cpu, cuda:0, cuda:0,1 or cuda:all.
    device: Device,
    /// Vectors of each index.
    #[arg(required = true)]
    sizes: Vec<usize>,
    /// Coordinates of a vector.
    #[arg(long, default_value_t = 96)]
    dimension: usize,
    /// Hold vectors as f32 instead of u8.
    #[arg(long)]
    f32: bool,
    #[arg(long, default_value_t = 32)]
    max_degree: usize,
    #[arg(long, default_value_t = 64)]
    build_beam_width: usize,
    /// How vectors are quantized.
    #[arg(long, default_value = "mixed:1")]
    quantization: Quantization,
    /// Make the vectors before the build, and hold them in memory.
    #[arg(long)]
    in_memory: bool,
    /// Search by codes only, without vectors.
    #[arg(long)]
    only_codes: bool,
    /// Vectors to insert and to delete, at most a tenth of all.
    #[arg(long, default_value_t = 1_000_000)]
    changes: usize,
    /// Queries of a batch.
    #[arg(long, default_value_t = 40_000)]
    queries: usize,
    /// Queries whose true neighbors are looked for.
    #[arg(long, default_value_t = 1000)]
    judged: usize,
}

/// Results per query.
const K: usize = 10;
/// Vectors of the smallest index, a tenth of which has enough neighbors for each query.
const LEAST_SIZE: usize = 1000;
/// Beam widths of searches, until one reaches the recall.
const BEAM_WIDTHS: [usize; 12] = [10, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 512];
const ENOUGH_RECALL: f64 = 0.99;
/// The recall for which the summary says how many queries are answered per second.
const RECALL: f64 = 0.95;

fn main() -> Result<()> {
    let args: Args = clap::Parser::parse();
    let rule = Rule::new(args.dimension);
    for &size in &args.sizes {
        if args.f32 { run::<f32>(&args, &rule, size) } else { run::<u8>(&args, &rule, size) }?;
    }
    Ok(())
}

/// Measures an index of one size.
fn run<T: Element>(args: &Args, rule: &Rule, size: usize) -> Result<()> {
    ensure!(size >= LEAST_SIZE, "a size of {size} is less than {LEAST_SIZE}");
    let &Args { device, dimension, quantization, .. } = args;
    let builder = IndexBuilder::new(Metric::L2).device(device.sharded(true)).keep_on_host(true);
    let builder = builder.max_degree(args.max_degree).build_beam_width(args.build_beam_width);
    let plan = builder.memory_plan(T::KIND, size, dimension)?;
    let [host, on_device] = [MemorySpace::Host, MemorySpace::Device].map(|space| plan.total(space));
    println!("{}", json!({"what": "plan", "vectors": size, "host_bytes": host, "device_bytes": on_device}));
    if let Err(error) = builder.check_memory(T::KIND, size, dimension)
        && error.kind() == ErrorKind::OutOfMemory
    {
        println!("{}", json!({"what": "refused", "vectors": size, "why": error.to_string()}));
        return Ok(());
    }
    let vectors = rule.vectors(0..size);
    let (index, build_seconds) = if args.in_memory {
        let vectors: Vec<T> = vectors.collect(0..size);
        build(builder, MatrixView::new(&vectors, dimension)?.into())?
    } else {
        build(builder, Vectors::from_source::<T>(&vectors))?
    };
    if args.only_codes {
        timed("quantize", size, || Ok(index.quantize(quantization)?))?;
        index.drop_vectors()?;
    }
    let index = timed("to device", size, || Ok(index.to_device(device)?))?;
    report_bytes(&index, size);

    // Inserts continue the numbers, and deletes take the first.
    let changes = args.changes.min(size / 10);
    let queries: Vec<T> = rule.queries(args.queries);
    let queries = MatrixView::new(&queries, dimension)?;
    let pool = ThreadPoolBuilder::new().build()?;
    let scanner = Scanner { rule, device, pool: &pool };
    let judged = queries.slice(0..args.judged.min(args.queries));
    let (deleted, kept, inserted) = timed("truth", size + changes, || {
        let nearest = |numbers| scanner.nearest(judged, numbers);
        Ok((nearest(0..changes)?, nearest(changes..size)?, nearest(size..size + changes)?))
    })?;
    let truth = deleted.merge(&kept)?;
    let exact = |truth| curve("exact", &index, queries.into(), Distances::Exact, truth);
    let quantized = |truth| curve(&quantization.to_string(), &index, queries.into(), Distances::Auto, truth);
    if args.only_codes {
        return quantized(&truth).map(drop);
    }
    let graph_bytes = index.device_info().bytes;
    let exact_rate = exact(&truth)?;
    timed("quantize", size, || Ok(index.quantize(quantization)?))?;
    report_bytes(&index, size);
    let summary = json!({
        "what": "scale", "vectors": size, "device": index.device_info().name, "shards": index.stats().shards,
        "build_seconds": build_seconds, "device_bytes": graph_bytes, "quantized_device_bytes": index.device_info().bytes,
        "recall": RECALL, "exact": exact_rate, "quantized": quantized(&truth)?,
    });
    println!("{summary}");

    let keys = |numbers: RangeInclusive<usize>| numbers.map(|number| number as Key).collect::<Vec<Key>>();
    let new = rule.vectors(size..size + changes);
    let stages = Stages::begin();
    let new_keys = keys(size..=size + changes - 1);
    index.with_progress(stages.note()).insert(Vectors::from_source::<T>(&new), &new_keys)?;
    stages.report("insert", changes);
    timed("delete", changes, || Ok(index.delete(&keys(0..=changes - 1))?))?;
    let stages = Stages::begin();
    index.with_progress(stages.note()).consolidate()?;
    stages.report("consolidate", changes);
    report_bytes(&index, size);
    let truth = kept.merge(&inserted)?;
    exact(&truth)?;
    quantized(&truth)?;
    Ok(())
}

/// Builds the index, prints how long it took, and returns it with the seconds.
fn build(builder: IndexBuilder<'_>, vectors: Vectors<'_>) -> Result<(Index, f64)> {
    let size = vectors.len();
    let stages = Stages::begin();
    let index = builder.with_progress(stages.note()).build(vectors)?;
    let seconds = stages.report("build", size);
    let report = index.stats().build.context("it was built")?;
    let line = json!({
        "what": "built", "vectors": size, "device": report.device_name, "shards": index.stats().shards,
        "duplicates": report.duplicates, "reconnected": report.reconnected, "mean_degree": report.mean_degree,
    });
    println!("{line}");
    Ok((index, seconds))
}

/// Searches at growing beam widths. Returns the queries per second at [`RECALL`], by interpolation between the widths, or
/// at the width that first has more.
fn curve(
    what: &str,
    index: &Index,
    queries: Vectors<'_>,
    distances: Distances,
    truth: &GroundTruth,
) -> Result<Option<f64>> {
    let (mut before, mut found) = (None, None);
    for beam_width in BEAM_WIDTHS {
        let params = SearchParams::new(K).beam_width(beam_width).distances(distances);
        let (recall, rate) = measure_search(what, index, queries, params, truth)?;
        if recall >= RECALL && found.is_none() {
            let between =
                |(less, faster): (f64, f64)| faster + (rate - faster) * (RECALL - less) / (recall - less);
            found = Some(before.map_or(rate, between));
        }
        before = Some((recall, rate));
        if recall >= ENOUGH_RECALL {
            break;
        }
    }
    Ok(found)
}

/// Prints the memory of the index and of the process.
fn report_bytes(index: &Index, size: usize) {
    let stats = index.stats();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok()
    };
    let line = json!({
        "what": "bytes", "vectors": size, "vector_bytes": stats.vector_bytes, "graph_bytes": stats.graph_bytes,
        "code_bytes": stats.code_bytes, "device_bytes": index.device_info().bytes,
        "process_kib": kilobytes("VmRSS:"), "process_peak_kib": kilobytes("VmHWM:"),
    });
    println!("{line}");
}

/// [`step`], with the errors of this program.
fn timed<R>(what: &str, count: usize, work: impl FnOnce() -> Result<R>) -> Result<R> {
    step(what, count, || Ok(work()?)).map_err(|error| anyhow!("{what}: {error:?}"))
}
