//! Measures builds on a GPU. Prints one line of JSON per set.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_build -- sift-1m.u8bin deep-1m.fbin:l2 t2i-1m.fbin:ip
//! ```
//!
//! `--build-beam WIDTH`, `--batch-share SHARE`, `--alpha SLACK` and `--exact-linking` apply to the sets after them;
//! the last links floats by vectors rounded to bytes. A build of the first vectors lets the driver compile the kernels
//! beforehand.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper::cuda::{Context, PeakMemory};
use jasper::data::{VectorFile, VectorFileOptions};
use jasper::memory::MemorySpace;
use jasper::{Device, Element, IndexBuilder, Metric, Progress, with_element};
use serde_json::{Value, json};

/// Vectors of the first build: enough for batches of every kind.
const FIRST_VECTORS: usize = 50_000;

fn main() -> Result<()> {
    let (mut options, mut arguments) = (Vec::new(), std::env::args().skip(1));
    while let Some(argument) = arguments.next() {
        if argument == "--exact-linking" {
            options.push((argument, String::new()));
        } else if argument.starts_with('-') {
            let value = arguments.next().with_context(|| format!("{argument} takes a number"))?;
            options.push((argument, value));
        } else {
            let (path, metric) = argument.split_once(':').unwrap_or((&argument, "l2"));
            let file = VectorFile::open(path)?;
            let builder = builder(metric.parse()?, &options)?;
            println!("{}", with_element!(file.element(), T => measure::<T>(path, &file, builder))?);
        }
    }
    Ok(())
}

fn builder(metric: Metric, options: &[(String, String)]) -> Result<IndexBuilder<'static>> {
    let mut builder = IndexBuilder::new(metric).device(Device::Cuda(0));
    for (option, value) in options {
        builder = match &option[..] {
            "--build-beam" => builder.build_beam_width(value.parse()?),
            "--batch-share" => builder.max_batch_share(value.parse()?),
            "--alpha" => builder.alpha(value.parse()?),
            "--exact-linking" => builder.exact_linking(),
            other => anyhow::bail!("no such option: {other}"),
        };
    }
    Ok(builder)
}

/// Builds an index of the vectors in a file.
fn measure<T: Element>(set: &str, file: &VectorFile, builder: IndexBuilder<'_>) -> Result<Value> {
    let first = VectorFileOptions::new().max_rows(FIRST_VECTORS.min(file.len())).open(file.path())?;
    drop(builder.build::<T>(&first)?);

    // When each stage ended, in seconds.
    let mut stages = BTreeMap::new();
    let peak = PeakMemory::new(&Context::open(0)?)?;
    let begun = Instant::now();
    let mut note = |progress: Progress| {
        stages.insert(progress.stage.to_string(), begun.elapsed().as_secs_f64());
        ControlFlow::Continue(())
    };
    let (index, report) = builder.build_with_progress::<T>(file, &mut note)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (params, stats, cost) = (index.params(), index.stats(), report.cost);
    let plan = builder.memory_plan::<T>(file.len(), file.dimension())?;
    Ok(json!({
        "set": set, "element": T::KIND.name(), "metric": stats.metric.name(), "vectors": file.len(),
        "dimension": file.dimension(), "build_beam_width": params.build_beam_width(),
        "max_batch_share": params.max_batch_share(), "alpha": params.alpha(), "seconds": seconds,
        "vectors_per_second": file.len() as f64 / seconds, "stages_end": stages, "mean_degree": stats.mean_degree,
        "reconnected": report.reconnected, "peak_device_bytes": peak.bytes()?,
        "planned_device_bytes": plan.total(MemorySpace::Device),
        "hops": cost.hops, "distances": cost.distances, "prune_distances": cost.prune_distances,
    }))
}
