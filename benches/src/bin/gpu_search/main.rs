//! Measures searches on a GPU over the sets of `make_sets.py`. Prints one line of JSON per measurement.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_search -- curves --data FOLDER sift-1m deep-1m
//! ```
//!
//! | part | measures |
//! | --- | --- |
//! | `curves` | recall and queries per second of large batches in device memory, compared with the best other system |
//! | `latency` | the time of small batches, from host memory and back |
//! | `callers` | single searches of many threads, and submitted ones |
//! | `filters` | batches and single searches with prepared filters |
//!
//! Times are medians of launches timed by events, after one warm-up. Bandwidths count the bytes that the search
//! requests, from any memory, and are compared with that of a copy in the same run.

#![forbid(unsafe_code)]

mod callers;
mod curve;
mod filters;
mod front;
mod latency;
mod measure;
mod peers;
mod report;
mod set;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use jasper::{
    Device, Distances, Element, ElementKind, Index, IndexBuilder, MemorySpace, Metric, Quantization, f16,
};

use measure::Bench;
use set::Set;

const USAGE: &str = "\
usage: gpu_search PART.. [OPTION..] SET..

  PART               curves, latency, callers, filters
  SET                a set of make_sets.py: sift-1m, deep-1m, gist-1m, openai-1m, t2i-1m, ..
  --data FOLDER      folder of the files of the sets; the current one by default
  --cache FOLDER     keep index files here, and reuse them; use one folder per set of build options
  --build DEVICE     where graphs are built: cpu (default) or cuda
  --elements f16,..  measure only these elements; sets of f32 are measured as f16 and f32 by default
  --codes CODE       measure quantized searches, such as mixed:1 or rabitq:4; times include the quantization of queries
  --vectors STORAGE  where vectors are stored: device (default), or host, read by searches over PCIe
  --rerank N         rerank the nearest N candidates of quantized searches; the whole frontier by default
  --max-degree R     maximum degree of the graphs; 64 by default
  --alpha ALPHA      pruning slack of the graphs
  --build-beam WIDTH beam width of the builds
  --batch-share S    largest batch of a build, as a share of the linked vertices
  --exact-linking    link floats themselves, not rounded to bytes";

/// The command line.
struct Options {
    curves: bool,
    latency: bool,
    callers: bool,
    filters: bool,
    sets: Vec<String>,
    data: PathBuf,
    cache: Option<PathBuf>,
    /// Options of the build, with their values.
    build: Vec<(String, String)>,
    elements: Vec<ElementKind>,
    codes: Option<Quantization>,
    storage: MemorySpace,
    distances: Distances,
}

impl Options {
    fn builder(&self, metric: Metric) -> Result<IndexBuilder<'static>> {
        let mut builder = IndexBuilder::new(metric).device(Device::Cpu);
        for (option, value) in &self.build {
            builder = match &option[..] {
                "--build" => builder.device(value.parse()?),
                "--max-degree" => builder.max_degree(value.parse()?),
                "--alpha" => builder.alpha(value.parse()?),
                "--build-beam" => builder.build_beam_width(value.parse()?),
                "--batch-share" => builder.max_batch_share(value.parse()?),
                _ => builder.exact_linking(),
            };
        }
        Ok(builder)
    }
}

fn main() -> Result<()> {
    let options = parse(std::env::args().skip(1))?;
    let mut failed = Vec::new();
    for name in &options.sets {
        // A set that is missing or too large does not prevent the others.
        if let Err(error) = measure_set(&options, name) {
            eprintln!("{name}: {error:#}");
            failed.push(&name[..]);
        }
    }
    ensure!(failed.is_empty(), "not measured to the end: {}", failed.join(", "));
    Ok(())
}

/// Measures one set in each of its elements.
fn measure_set(options: &Options, name: &str) -> Result<()> {
    let set = Set::open(&options.data, name)?;
    let is_measured = |kind| options.elements.is_empty() || options.elements.contains(&kind);
    let (builder, cache) = (options.builder(set.metric())?, options.cache.as_deref());
    match set.element() {
        ElementKind::U8 => measure(options, &set, set.index::<u8>(builder, cache)?),
        ElementKind::F32 => {
            let index = set.index::<f32>(builder, cache)?;
            if is_measured(ElementKind::F16) {
                measure(options, &set, set::convert::<f16>(&index)?)?;
            }
            if is_measured(ElementKind::F32) {
                measure(options, &set, index)?;
            }
            Ok(())
        }
        other => bail!("sets hold u8 or f32, not {other}"),
    }
}

/// Runs all parts on an index, on the device.
fn measure<T: Element>(options: &Options, set: &Set, index: Index<T>) -> Result<()> {
    if let Some(codes) = options.codes {
        index.quantize(codes)?;
    }
    index.set_vector_storage(options.storage);
    let bench = Bench::new(set, index.to_device(Device::Cuda(0))?, options.distances)?;
    if options.curves {
        curve::run(&bench)?;
    }
    if options.latency {
        latency::run(&bench)?;
    }
    if options.callers {
        callers::run(&bench)?;
    }
    if options.filters {
        filters::run(&bench)?;
    }
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options {
        curves: false,
        latency: false,
        callers: false,
        filters: false,
        sets: Vec::new(),
        data: ".".into(),
        cache: None,
        build: Vec::new(),
        elements: Vec::new(),
        codes: None,
        storage: MemorySpace::Device,
        distances: Distances::Auto,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "curves" => options.curves = true,
            "latency" => options.latency = true,
            "callers" => options.callers = true,
            "filters" => options.filters = true,
            "--data" => options.data = value()?.into(),
            "--cache" => options.cache = Some(value()?.into()),
            "--exact-linking" => options.build.push((argument, String::new())),
            "--build" | "--max-degree" | "--alpha" | "--build-beam" | "--batch-share" => {
                let value = value()?;
                options.build.push((argument, value));
            }
            "--codes" => options.codes = Some(value()?.parse()?),
            "--vectors" => options.storage = value()?.parse()?,
            "--rerank" => options.distances = Distances::Quantized { rerank: value()?.parse()? },
            "--elements" => {
                let names = value()?;
                let is_named = |kind: &ElementKind| names.split(',').any(|name| name == kind.name());
                options.elements = ElementKind::ALL.into_iter().filter(is_named).collect();
            }
            option if option.starts_with('-') => bail!("no such option: {option}\n{USAGE}"),
            set => options.sets.push(set.to_owned()),
        }
    }
    let any_part = options.curves || options.latency || options.callers || options.filters;
    ensure!(any_part && !options.sets.is_empty(), "{USAGE}");
    Ok(options)
}
