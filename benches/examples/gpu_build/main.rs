//! Where the time of a build on the GPU at hand goes, step by step: one line of JSON a set.
//!
//! ```sh
//! cargo run --release -p jasper-benches --example gpu_build -- sift-1m.u8bin deep-1m.fbin:l2 t2i-1m.fbin:ip
//! ```
//!
//! `--build-beam WIDTH`, `--batch-share SHARE`, `--alpha SLACK` and `--quantized-linking` hold for the sets behind them; the last
//! links rows of floats by bytes.
//!
//! Each set is built three times: its first rows alone, which has the driver compile the kernels; all of it, as ever; and
//! with a wait behind each step of each batch, which tells the steps apart and costs some time itself. `--once` leaves the
//! first and the last out.
//!
//! With `--insert SHARE`, all but this share of a set is built, and the share inserted into the index on the device, in
//! three calls: one that has the driver compile the kernels, one as ever, and one with waits.

mod inserting;
mod stages;
mod timed;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper_core::{BuildParams, Element, ElementKind, Metric, ProgressFn, VectorId, f16, no_progress};
use jasper_cuda::{
    Context, DeviceGraph, DeviceLinker, MemorySpace, PeakMemory, PoolRetention, Stream, VectorStorage,
    link_on_device, plan_build,
};
use jasper_data::{OpenOptions, VectorFile};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildReport, BuildShape, CpuExecutor, Exclusive, InsertError, LinkProgress, LinkReport, Linker,
    SearchCost, WriteFn, bulk_build_by, link_growing, link_quantized,
};
use serde_json::{Value, json};

use stages::Stages;
use timed::Timed;

/// Rows of the first build: enough for batches of every kind.
const FIRST_ROWS: usize = 50_000;

fn main() -> Result<()> {
    let context = Context::open(0)?;
    let (mut params, mut how) = (BuildParams::builder(), How::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(set) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{set} takes a number"));
        match set.as_str() {
            "--build-beam" => params = params.build_beam_width(value()?.parse()?),
            "--batch-share" => params = params.max_batch_share(value()?.parse()?),
            "--alpha" => params = params.alpha(value()?.parse()?),
            "--quantized-linking" => how.quantized_linking = true,
            "--once" => how.once = true,
            "--insert" => how.insert = Some(value()?.parse()?),
            set => println!("{}", measure_set(&context, set, params.build()?, how)?),
        }
    }
    Ok(())
}

/// How sets are built.
#[derive(Clone, Copy, Debug, Default)]
struct How {
    /// Whether floats are linked by rows of bytes.
    quantized_linking: bool,
    /// Whether only one build of each set is wanted.
    once: bool,
    /// The share that is inserted, if the others alone are built.
    insert: Option<f64>,
}

/// What is measured of the set in a file, whose metric may stand behind a colon.
fn measure_set(context: &Context, set: &str, params: BuildParams, how: How) -> Result<Value> {
    let (path, metric) = set.split_once(':').unwrap_or((set, "l2"));
    let rows = VectorFile::open(Path::new(path)).with_context(|| path.to_owned())?;
    let metric = metric.parse()?;
    let as_they_are = How { quantized_linking: false, ..how };
    match rows.element() {
        ElementKind::F32 => measure::<f32>(context, path, &rows, metric, params, how),
        ElementKind::F16 => measure::<f16>(context, path, &rows, metric, params, how),
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
    How { quantized_linking, once, insert }: How,
) -> Result<Value> {
    if let Some(share) = insert {
        return inserting::measure::<T>(context, set, rows, metric, params, share);
    }
    let cpu = CpuExecutor::new(0)?;
    let on_device =
        |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| match quantized_linking {
            true => link_quantized(&cpu, graph, |bytes| {
                link_on_device(context, cpu.pool(), bytes, order, None, progress)
            }),
            false => link_on_device(context, cpu.pool(), graph, order, None, progress),
        };
    let begun = Instant::now();
    if !once {
        let first = OpenOptions::new().max_rows(FIRST_ROWS.min(rows.len())).open(rows.path())?;
        build::<T>(&cpu, &first, metric, params, on_device, &mut no_progress)?;
    }
    let first_seconds = begun.elapsed().as_secs_f64();

    let (mut stages, mut linking) = (Stages::new(), (0.0, 0.0));
    let peak = PeakMemory::new(context)?;
    let begun = Instant::now();
    let link = |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| {
        let before = begun.elapsed().as_secs_f64();
        let report = on_device(graph, order, progress)?;
        linking = (before, begun.elapsed().as_secs_f64());
        Ok(report)
    };
    let (graph, report) =
        build::<T>(&cpu, rows, metric, params, link, &mut |progress| stages.note(progress))?;
    let all = begun.elapsed().as_secs_f64();
    let peak = peak.bytes()?;
    let shape = BuildShape::of(&graph);
    let plan =
        if quantized_linking { plan_build::<i8>(&shape.quantized())? } else { plan_build::<T>(&shape)? };
    let degrees: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
    drop(graph);

    let mut steps = Value::Null;
    let timed =
        |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| match quantized_linking {
            true => link_quantized(&cpu, graph, |bytes| {
                link_timed(context, &cpu, bytes, order, progress, &mut steps)
            }),
            false => link_timed(context, &cpu, graph, order, progress, &mut steps),
        };
    if !once {
        build::<T>(&cpu, rows, metric, params, timed, &mut no_progress)?;
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

/// A build that `link` links.
fn build<T: Element>(
    cpu: &CpuExecutor,
    rows: &VectorFile,
    metric: Metric,
    params: BuildParams,
    link: impl FnOnce(&mut Graph<T>, &[VectorId], &mut ProgressFn<'_>) -> Result<LinkReport, InsertError>,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph<T>, BuildReport), InsertError> {
    bulk_build_by(cpu, link, rows, None, metric, params, progress)
}

/// What [`link_on_device`] does up to the repair, and the seconds of each step.
fn link_timed<T: Element>(
    context: &Context,
    cpu: &CpuExecutor,
    graph: &mut Graph<T>,
    order: &[VectorId],
    progress: &mut ProgressFn<'_>,
    steps: &mut Value,
) -> Result<LinkReport, InsertError> {
    let stream = Stream::new(context).map_err(InsertError::device)?;
    let _kept = PoolRetention::new(context).map_err(InsertError::device)?;
    let linker = Timed::new(DeviceLinker::new(stream.clone(), graph));
    let begun = Instant::now();
    let mut copy = cpu
        .pool()
        .install(|| DeviceGraph::upload(&stream, graph, VectorStorage::Device))
        .map_err(InsertError::device)?;
    stream.synchronize().map_err(InsertError::device)?;
    let uploading = begun.elapsed().as_secs_f64();
    let growth = LinkProgress::new(order);
    let keep = |_: &GraphOf<T>, _: &mut WriteFn<'_, T>| Ok(());
    let cost = link_growing(&linker, &mut Exclusive(&mut copy), growth, graph.params(), keep, progress)?;
    let begun = Instant::now();
    copy.read_links(&stream, cpu.pool(), graph).map_err(InsertError::device)?;
    let reading = begun.elapsed().as_secs_f64();
    *steps = linker.spent();
    steps["upload"] = uploading.into();
    steps["read_links"] = reading.into();
    Ok(LinkReport { cost, reconnected: 0 })
}

/// The graph that a linker works on.
type GraphOf<T> = <DeviceLinker<T> as Linker<T>>::Graph;
