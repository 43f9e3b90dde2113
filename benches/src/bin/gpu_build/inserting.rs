//! Measures inserts into an index on a GPU.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use jasper_core::{BuildParams, Element, Key, MatrixView, Metric, Stage, no_progress};
use jasper_cuda::{
    Context, DeviceGraph, DeviceLinker, Error, MutableDeviceGraph, PoolRetention, Stream, VectorStorage,
    link_on_device,
};
use jasper_data::VectorFile;
use jasper_vamana::{CpuExecutor, Exclusive, Executor, Existing, InsertReport, SearchCost, ingest, insert};
use serde_json::{Value, json};

use crate::stages::Stages;
use crate::timed::Timed;

/// Calls that vectors are inserted by: one that has the driver compile the kernels, one as ever, and one with a wait behind
/// each step.
const CALLS: usize = 3;

/// Builds all but a share of the vectors, and inserts these.
pub fn measure<T: Element>(
    context: &Context,
    set: &str,
    rows: &VectorFile,
    metric: Metric,
    params: BuildParams,
    share: f64,
) -> Result<Value> {
    let (cpu, all) = (Arc::new(CpuExecutor::new(0)?), rows.load::<T>()?);
    let all = all.view();
    let inserted = (all.len() as f64 * share) as usize / CALLS;
    let built = all.len() - CALLS * inserted;
    let ingested = ingest(&cpu, &all.slice(0..built), None, metric, params, &mut no_progress)?;
    let graph = link_on_device(context, cpu.pool(), ingested, None, &mut no_progress)?.graph;

    let stream = Stream::new(context)?;
    let linker = DeviceLinker::new(stream.clone(), &graph).with_threads_of(Arc::clone(&cpu));
    let copy = cpu.pool().install(|| DeviceGraph::upload(&stream, &graph, VectorStorage::Device))?;
    stream.synchronize()?;
    let mut graph = MutableDeviceGraph::new(stream, graph, copy);
    let _kept = PoolRetention::new(context)?;
    let part = |call: usize| all.slice(built + call * inserted..built + (call + 1) * inserted);
    let (first, ..) = insert_by(&linker, &mut graph, &part(0))?;
    let (seconds, parts, report) = insert_by(&linker, &mut graph, &part(1))?;
    let timed = Timed::new(linker);
    let (_, parts_with_waits, _) = insert_by(&timed, &mut graph, &part(2))?;
    let SearchCost { hops, distances, prune_distances } = report.cost;
    Ok(json!({
        "set": set, "element": T::KIND.name(), "metric": metric.name(), "built": built, "inserted": inserted,
        "build_beam_width": params.build_beam_width(), "dimension": all.dimension(),
        "seconds": seconds, "vectors_per_second": inserted as f64 / seconds,
        "seconds_of_parts": parts, "seconds_of_first_call": first, "reconnected": report.reconnected,
        "hops": hops, "distances": distances, "prune_distances": prune_distances,
        "seconds_of_parts_with_waits": parts_with_waits, "steps_with_waits": timed.spent(),
    }))
}

/// Inserts vectors under the next keys. Gives the seconds of the call, those of its parts, and the report.
fn insert_by<T: Element, E: Executor<T, Live = MutableDeviceGraph<T>, Error = Error>>(
    executor: &E,
    graph: &mut MutableDeviceGraph<T>,
    rows: &MatrixView<'_, T>,
) -> Result<(f64, Value, InsertReport)> {
    let next = jasper_vamana::MutableGraph::host(graph).keys().next_key();
    let keys: Vec<Key> = (next..next + rows.len() as Key).collect();
    let mut stages = Stages::new();
    let begun = Instant::now();
    let note = &mut |progress| stages.note(progress);
    let report = insert(executor, &mut Exclusive(graph), rows, &keys, Existing::Refuse, note)?;
    let all = begun.elapsed().as_secs_f64();
    let (_, read) = stages.of(Stage::Reading).unwrap_or_default();
    let (first, last) = stages.of(Stage::Linking).unwrap_or((read, read));
    let parts = json!({ "read_rows": read, "order": first - read, "link": last - first, "end": all - last });
    Ok((all, parts, report))
}
