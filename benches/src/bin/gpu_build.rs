//! Measures builds on a GPU. Prints one line of JSON per set.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_build -- sift-1m.u8bin deep-1m.fbin:l2 t2i-1m.fbin:ip
//! ```
//!
//! A build of the first vectors lets the driver compile the kernels beforehand.

#![forbid(unsafe_code)]

use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper::{Device, IndexBuilder, MemorySpace, VectorFile};
use jasper_benches::{BuildArgs, Stages};
use jasper_cuda::{Context, PeakMemory};
use jasper_data::VectorFileOptions;
use serde_json::{Value, json};

/// Vectors of the first build: enough for batches of every kind.
const FIRST_VECTORS: usize = 50_000;

/// Measures builds on a GPU.
#[derive(clap::Parser)]
struct Options {
    /// Vector files, each with its metric, or without for l2.
    #[arg(value_name = "FILE[:METRIC]", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    build: BuildArgs,
}

fn main() -> Result<()> {
    let Options { files, build } = clap::Parser::parse();
    for file in files {
        let (path, metric) = file.split_once(':').unwrap_or((&file, "l2"));
        let builder = build.builder(metric.parse()?, Device::cuda(0));
        let file = VectorFile::open(path)?;
        println!("{}", measure(path, &file, builder)?);
    }
    Ok(())
}

/// Builds an index of the vectors in a file.
fn measure(set: &str, file: &VectorFile, builder: IndexBuilder<'_>) -> Result<Value> {
    let first = VectorFileOptions::new().max_rows(FIRST_VECTORS.min(file.len())).open(file.path())?;
    drop(builder.build(&first)?);

    let peak = PeakMemory::new(&Context::open(0)?)?.context("this device has no memory pool to measure")?;
    let (begun, stages) = (Instant::now(), Stages::begin());
    let builder = builder.with_progress(stages.note());
    let index = builder.build(file)?;
    let seconds = begun.elapsed().as_secs_f64();
    let report = index.stats().build.context("it was built")?;
    let (stats, cost, reconnected, mean_degree) =
        (index.stats(), report.cost, report.reconnected, report.mean_degree);
    let params = stats.params;
    let plan = builder.memory_plan(file.element(), file.len(), file.dimension())?;
    let peak_bytes = peak.bytes()?;
    let begun = Instant::now();
    index.to_device(Device::cuda(0))?;
    let move_seconds = begun.elapsed().as_secs_f64();
    Ok(json!({
        "set": set, "element": file.element().name(), "metric": stats.metric.name(), "vectors": file.len(),
        "dimension": file.dimension(), "build_beam_width": params.build_beam_width(),
        "max_batch_share": params.max_batch_share(), "alpha": params.alpha(), "seconds": seconds,
        "vectors_per_second": file.len() as f64 / seconds, "stages_end": stages.ends(), "mean_degree": mean_degree,
        "move_seconds": move_seconds, "reconnected": reconnected, "peak_device_bytes": peak_bytes,
        "planned_device_bytes": plan.total(MemorySpace::Device),
        "hops": cost.hops, "distances": cost.distances, "prune_distances": cost.prune_distances,
    }))
}
