//! Measures searches on a GPU over the sets of `make_sets.py`. Prints one line of JSON per measurement.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_search -- curves --data FOLDER sift-1m deep-1m
//! ```
//!
//! | part | measures |
//! | --- | --- |
//! | `curves` | recall and queries per second of large batches in device memory |
//! | `latency` | the time of small batches, from host memory and back |
//! | `callers` | single searches of many threads, and submitted ones |
//! | `filters` | batches and single searches with key filters |
//! | `devices` | all GPUs of the host against one, from host memory and back: replicas, shards, and their build |
//!
//! Times are medians of launches timed by events, after one warm-up. Bandwidths count the bytes that the search
//! requests, from any memory, and are compared with that of a copy in the same run.

#![forbid(unsafe_code)]

mod callers;
mod curve;
mod devices;
mod filters;
mod latency;
mod measure;
mod report;
mod set;

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use jasper::{Device, Distances, Element, ElementKind, Index, MemorySpace, Quantization, f16};
use jasper_benches::BuildArgs;

use measure::Bench;
use set::Set;

/// The parts that measure an index on one device.
const PARTS: [&str; 4] = ["curves", "latency", "filters", "callers"];
/// The part that builds indexes on several.
const DEVICES: &str = "devices";

/// Measures searches on a GPU.
#[derive(clap::Parser)]
struct Options {
    /// Parts (curves, latency, callers, filters, devices), and sets of make_sets.py (sift-1m, deep-1m, gist-1m, openai-1m, ..).
    #[arg(value_name = "PART|SET", required = true)]
    names: Vec<String>,
    /// Folder of the files of the sets.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    data: PathBuf,
    /// Keep index files here, and reuse them; use one folder per set of build options.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Where graphs are built: cpu or cuda.
    #[arg(long = "build", value_name = "DEVICE", default_value = "cpu")]
    device: Device,
    /// Measure only these elements; sets of f32 are measured as f16 and f32 by default.
    #[arg(long, value_delimiter = ',')]
    elements: Vec<String>,
    /// Measure quantized searches, such as mixed:1 or rabitq:4; times include the quantization of queries.
    #[arg(long)]
    codes: Option<Quantization>,
    /// Where vectors are stored: device, or host, from which searches read them over PCIe.
    #[arg(long, value_name = "STORAGE", default_value = "device")]
    vectors: MemorySpace,
    /// Rerank the nearest N candidates of quantized searches; the whole frontier by default.
    #[arg(long, value_name = "N")]
    rerank: Option<usize>,
    #[command(flatten)]
    build: BuildArgs,
}

fn main() -> Result<()> {
    let options: Options = clap::Parser::parse();
    let mut failed = Vec::new();
    for name in options.names.iter().filter(|name| !is_part(name)) {
        // A set that is missing or too large does not prevent the others.
        if let Err(error) = measure_set(&options, name) {
            eprintln!("{name}: {error:#}");
            failed.push(&name[..]);
        }
    }
    ensure!(failed.is_empty(), "not measured to the end: {}", failed.join(", "));
    Ok(())
}

fn is_part(name: &str) -> bool {
    name == DEVICES || PARTS.contains(&name)
}

/// Measures one set in each of its elements.
fn measure_set(options: &Options, name: &str) -> Result<()> {
    let set = Set::open(&options.data, name)?;
    let is_measured = |kind: ElementKind| {
        options.elements.is_empty() || options.elements.iter().any(|name| name == kind.name())
    };
    if options.names.iter().any(|name| name == DEVICES) {
        let builder = options.build.builder(set.metric(), options.device);
        match set.element() {
            ElementKind::U8 => devices::run::<u8>(&set, builder)?,
            _ => devices::run::<f32>(&set, builder)?,
        }
    }
    if !options.names.iter().any(|name| PARTS.contains(&&name[..])) {
        return Ok(());
    }
    let (builder, cache) = (options.build.builder(set.metric(), options.device), options.cache.as_deref());
    let index = set.index(builder, cache)?;
    match set.element() {
        ElementKind::U8 => measure::<u8>(options, &set, index),
        ElementKind::F32 => {
            if is_measured(ElementKind::F16) {
                measure::<f16>(options, &set, set::convert::<f16>(&index)?)?;
            }
            if is_measured(ElementKind::F32) {
                measure::<f32>(options, &set, index)?;
            }
            Ok(())
        }
        other => bail!("sets hold u8 or f32, not {other}"),
    }
}

/// Runs all parts on an index, on the device.
fn measure<T: Element>(options: &Options, set: &Set, index: Index) -> Result<()> {
    if let Some(codes) = options.codes {
        index.quantize(codes)?;
    }
    let storage = Device::cuda(0).vector_storage(options.vectors);
    let distances = options.rerank.map_or(Distances::Auto, |rerank| Distances::Quantized { rerank });
    let index = index.to_device(storage)?;
    index.warm_up()?;
    let bench = Bench::<T>::new(set, index, distances)?;
    let parts = [curve::run::<T>, latency::run::<T>, filters::run::<T>, callers::run::<T>];
    for (name, run) in PARTS.into_iter().zip(parts) {
        if options.names.iter().any(|wanted| wanted == name) {
            run(&bench)?;
        }
    }
    Ok(())
}
