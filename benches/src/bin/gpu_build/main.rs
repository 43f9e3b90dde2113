//! Measures the steps of a build on a GPU. Prints one line of JSON per set.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_build -- sift-1m.u8bin deep-1m.fbin:l2 t2i-1m.fbin:ip
//! ```
//!
//! `--build-beam WIDTH`, `--batch-share SHARE`, `--alpha SLACK` and `--quantized-linking` apply to the sets after them; the
//! last links floats by vectors rounded to bytes.
//!
//! Each set is built three times: its first rows, so that the driver compiles the kernels; all rows; and all rows with a
//! synchronization after each step of each batch, which measures the steps and costs some time itself. `--once` skips the
//! first and the last.
//!
//! With `--insert SHARE`, all but this share of a set is built, and the share is inserted into the index on the device in
//! three calls: one to compile the kernels, one as usual, and one with synchronizations.

mod inserting;
mod stages;
mod timed;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper_core::{BuildParams, Element, ElementKind, Metric, ProgressFn, f16, no_progress};
use jasper_cuda::{
    Context, DeviceGraph, DeviceLinker, MemorySpace, PeakMemory, PoolRetention, Stream, VectorStorage,
    link_on_device, plan_build,
};
use jasper_data::{OpenOptions, VectorFile};
use jasper_vamana::pipeline::{LinkMode, link_batch};
use jasper_vamana::{
    BuildShape, CpuExecutor, Exclusive, Ingested, LinkProgress, Linked, Linker, SearchCost, UpdateError,
    ingest,
};
use serde_json::{Value, json};

use stages::Stages;
use timed::Timed;

/// Rows of the first build: enough for batches of every kind.
const FIRST_ROWS: usize = 50_000;

fn main() -> Result<()> {
    let context = Context::open(0)?;
    let (mut params, mut options) = (BuildParams::builder(), BuildOptions::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(set) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{set} takes a number"));
        match set.as_str() {
            "--build-beam" => params = params.build_beam_width(value()?.parse()?),
            "--batch-share" => params = params.max_batch_share(value()?.parse()?),
            "--alpha" => params = params.alpha(value()?.parse()?),
            "--quantized-linking" => options.quantized_linking = true,
            "--once" => options.once = true,
            "--insert" => options.insert = Some(value()?.parse()?),
            set => println!("{}", measure_set(&context, set, params.build()?, options)?),
        }
    }
    Ok(())
}

/// BuildOptions sets are built.
#[derive(Clone, Copy, Debug, Default)]
struct BuildOptions {
    /// Whether floats are linked by rows of bytes.
    quantized_linking: bool,
    /// Whether only one build of each set is wanted.
    once: bool,
    /// The share that is inserted, if the others alone are built.
    insert: Option<f64>,
}

/// What is measured of the set in a file, whose metric may stand behind a colon.
fn measure_set(context: &Context, set: &str, params: BuildParams, options: BuildOptions) -> Result<Value> {
    let (path, metric) = set.split_once(':').unwrap_or((set, "l2"));
    let rows = VectorFile::open(Path::new(path)).with_context(|| path.to_owned())?;
    let metric = metric.parse()?;
    let as_they_are = BuildOptions { quantized_linking: false, ..options };
    match rows.element() {
        ElementKind::F32 => measure::<f32>(context, path, &rows, metric, params, options),
        ElementKind::F16 => measure::<f16>(context, path, &rows, metric, params, options),
        ElementKind::U8 => measure::<u8>(context, path, &rows, metric, params, as_they_are),
        ElementKind::I8 => measure::<i8>(context, path, &rows, metric, params, as_they_are),
    }
}

/// What is measured of one set.
fn measure<T: Element>(
    context: &Context,
    set: &str,
    rows: &VectorFile,
    metric: Metric,
    params: BuildParams,
    BuildOptions { quantized_linking, once, insert }: BuildOptions,
) -> Result<Value> {
    if let Some(share) = insert {
        return inserting::measure::<T>(context, set, rows, metric, params, share);
    }
    let cpu = CpuExecutor::new(0)?;
    let read = |rows: &VectorFile, progress: &mut ProgressFn<'_>| {
        ingest::<T>(&cpu, rows, None, metric, params, progress)
    };
    let begun = Instant::now();
    if !once {
        let first = OpenOptions::new().max_rows(FIRST_ROWS.min(rows.len())).open(rows.path())?;
        link(context, &cpu, read(&first, &mut no_progress)?, quantized_linking, &mut no_progress)?;
    }
    let first_seconds = begun.elapsed().as_secs_f64();

    let (mut stages, mut linking) = (Stages::new(), (0.0, 0.0));
    let peak = PeakMemory::new(context)?;
    let begun = Instant::now();
    let mut note = |progress| stages.note(progress);
    let ingested = read(rows, &mut note)?;
    linking.0 = begun.elapsed().as_secs_f64();
    let linked = link(context, &cpu, ingested, quantized_linking, &mut note)?;
    linking.1 = begun.elapsed().as_secs_f64();
    let (graph, report) = linked.finish();
    let all = begun.elapsed().as_secs_f64();
    let peak = peak.bytes()?;
    let shape = BuildShape::of(&graph);
    let plan =
        if quantized_linking { plan_build::<i8>(&shape.quantized())? } else { plan_build::<T>(&shape)? };
    let degrees: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
    drop(graph);

    let mut steps = Value::Null;
    if !once {
        let ingested = read(rows, &mut no_progress)?;
        steps = match quantized_linking {
            true => link_timed(context, &cpu, ingested.quantize_vectors(&cpu)?.0)?,
            false => link_timed(context, &cpu, ingested)?,
        };
    }
    let (vertices, SearchCost { hops, distances, prune_distances }) = (rows.len() as f64, report.cost);
    Ok(json!({
        "set": set, "element": T::KIND.name(), "metric": metric.name(), "rows": rows.len(),
        "build_beam_width": params.build_beam_width(), "max_batch_share": params.max_batch_share(), "alpha": params.alpha(),
        "quantized_linking": quantized_linking,
        "dimension": rows.dimension(), "seconds": all, "vectors_per_second": vertices / all,
        "seconds_of_parts": stages.parts(linking, all), "seconds_of_first_rows": first_seconds,
        "mean_degree": degrees as f64 / vertices, "reconnected": report.reconnected,
        "peak_device_bytes": peak, "planned_device_bytes": plan.total(MemorySpace::Device),
        "hops": hops, "distances": distances, "prune_distances": prune_distances,
        "steps_with_waits": steps,
    }))
}

/// Links on the device, by vectors of bytes if asked for.
fn link<T: Element>(
    context: &Context,
    cpu: &CpuExecutor,
    ingested: Ingested<T>,
    quantized_linking: bool,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked<T>, UpdateError> {
    if !quantized_linking {
        return link_on_device(context, cpu.pool(), ingested, None, progress);
    }
    let (ingested, saved) = ingested.quantize_vectors(cpu)?;
    Ok(link_on_device(context, cpu.pool(), ingested, None, progress)?.restore_vectors(saved))
}

/// What [`link_on_device`] does up to the last step; returns the seconds of each step.
fn link_timed<T: Element>(context: &Context, cpu: &CpuExecutor, ingested: Ingested<T>) -> Result<Value> {
    let Ingested { mut graph, order } = ingested;
    let stream = Stream::new(context)?;
    let _retention = PoolRetention::new(context)?;
    let linker = Timed::new(DeviceLinker::new(stream.clone(), &graph));
    let begun = Instant::now();
    let upload = || DeviceGraph::upload(&stream, &graph, VectorStorage::Device);
    let mut copy = cpu.pool().install(upload)?;
    stream.synchronize()?;
    let uploading = begun.elapsed().as_secs_f64();
    let mut linked = LinkProgress::new(&order);
    loop {
        let batch = linked.next_batch(graph.params());
        if batch.is_empty() {
            break;
        }
        let (_, cost) = link_batch(&linker, &mut Exclusive(&mut copy), batch, LinkMode::Bulk)?;
        linked.advance(batch.len(), cost);
    }
    let begun = Instant::now();
    copy.read_links(&stream, cpu.pool(), &mut graph)?;
    let reading = begun.elapsed().as_secs_f64();
    let mut steps = linker.spent();
    steps["upload"] = uploading.into();
    steps["read_links"] = reading.into();
    Ok(steps)
}

/// The graph that a linker works on.
type GraphOf<T> = <DeviceLinker<T> as Linker<T>>::Graph;
