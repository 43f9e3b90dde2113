//! Building graphs on a device.
//!
//! | module | holds |
//! | --- | --- |
//! | `candidates` | what searches for new vertices find |
//! | `edges` | the edges of a batch between the steps that link it |
//! | `executor` | the steps of builds and updates, as launches in one stream |
//! | `few` | merging the back edges of a small batch |
//! | `plan` | the memory of a build, planned before it starts |

mod candidates;
mod edges;
mod executor;
mod few;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jasper_core::ProgressFn;
use jasper_data::parallel;
use jasper_graph::Graph;
use jasper_vamana::{
    BuildSpec, BulkLinker, Checkpoints, CpuExecutor, Ingested, Linked, ScalarQuantizer, UpdateError,
};

use crate::graph::Sq8Rows;
use crate::memory_pool::PoolRetention;
use crate::search::launch::check_shared_memory;
use crate::{Bytes, Context, DeviceGraph, Error, HostAndDeviceGraph, MemorySpace, Stream};

pub use executor::DeviceExecutor;
pub(crate) use executor::SEARCH_CHUNK;
pub use plan::plan_build;
pub(crate) use plan::{batch_bytes, check_beam};

/// The vectors of a build on its device, quantized to bytes (SQ8).
#[derive(Debug)]
pub struct QuantizedVectors {
    stream: Stream,
    rows: Sq8Rows<Stream>,
    quantizer: ScalarQuantizer,
}

impl QuantizedVectors {
    /// Number of bytes per vector, more than it has coordinates if it is rotated.
    pub(crate) fn dimension(&self) -> usize {
        self.quantizer.dimension()
    }

    /// Whether they are quantized to SQ4, too.
    pub(crate) fn has_sq4(&self) -> bool {
        self.rows.has_sq4()
    }
}

/// Quantizes the vectors of a build on a device. Long vectors are also quantized to SQ4, if there is room for it beside
/// the [plan](plan_build). Returns `None` if a [trial](ScalarQuantizer::accepted) finds that bytes do
/// not tell them apart. The threads of `cpu` copy the vectors to the device, which keeps the bytes only.
///
/// # Errors
/// Returns [`ErrorKind::BuildBeamWidth`](crate::ErrorKind::BuildBeamWidth) or
/// [`ErrorKind::Plan`](crate::ErrorKind::Plan) if a parameter or the build does not fit the device; other errors of the
/// device.
pub fn quantize_on_device(
    context: &Context,
    cpu: &CpuExecutor,
    graph: &Graph,
) -> Result<Option<QuantizedVectors>, Error> {
    let room_for_sq4 = room_beside_build(context, graph, false)?;
    let stream = Stream::new(context)?;
    let (quantizer, rows) = parallel::install(cpu.pool(), || {
        let quantizer = ScalarQuantizer::new(graph);
        Sq8Rows::upload(&stream, graph, &quantizer).map(|rows| (quantizer, rows))
    })?;
    let Some(quantizer) = rows.trial(&stream, cpu.pool(), graph, quantizer)? else { return Ok(None) };
    let rows = rows.with_sq4(&stream, &quantizer, room_for_sq4)?;
    Ok(Some(QuantizedVectors { stream, rows, quantizer }))
}

/// Links the vertices of a bulk build on a device, in the batches of [`jasper_vamana::link_on_host`]. If sums are exact
/// integers, the graph is the same, byte for byte.
///
/// If vectors are [`quantized`](quantize_on_device), which `context` has done for this graph, distances are those of
/// the bytes. Otherwise the threads of `cpu` copy the vectors to the device. Edges are copied back at the end and for
/// each checkpoint. In between, only counters are copied to the host.
///
/// # Errors
/// Returns [`ErrorKind::BuildBeamWidth`](crate::ErrorKind::BuildBeamWidth),
/// [`ErrorKind::Plan`](crate::ErrorKind::Plan) or [`ErrorKind::RowTooLong`](crate::ErrorKind::RowTooLong) if a
/// parameter, the graph or a row does not fit the device, before anything is linked; other errors of the device; a
/// checkpoint cannot be read or written; the build is cancelled.
///
/// # Panics
/// Panics if vectors were quantized on another device, or for a graph of another size.
pub fn link_on_device(
    context: &Context,
    cpu: &Arc<CpuExecutor>,
    ingested: Ingested,
    quantized: Option<QuantizedVectors>,
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked, UpdateError> {
    let Ingested { mut graph, order } = ingested;
    match &quantized {
        Some(vectors) => {
            let ordinal = vectors.stream.context().device().ordinal;
            assert_eq!(ordinal, context.device().ordinal, "vectors are quantized on the device of the build");
        }
        None => {
            room_beside_build(context, &graph, true)?;
        }
    }
    let quantizer = quantized.as_ref().map(|vectors| &vectors.quantizer);
    let linker =
        parallel::install(cpu.pool(), || BulkLinker::new(&mut graph, &order, quantizer, checkpoints))?;
    let _retention = PoolRetention::new(context)?;
    let copy = parallel::install(cpu.pool(), || upload(context, &graph, quantized))?;
    let executor = DeviceExecutor::new(copy.stream.clone(), &graph, cpu.clone());
    linker.run(&executor, HostAndDeviceGraph::new(graph, copy), progress)
}

/// Checks that the build fits the memory of the device, and returns how many more bytes may be used. The host's part of
/// the plan was checked before the vectors were read, and they are in memory now.
fn room_beside_build(context: &Context, graph: &Graph, exact_linking: bool) -> Result<u64, Error> {
    let free = Bytes { host: u64::MAX, ..context.free_memory()? };
    let planned = plan_build(&BuildSpec::of(graph), exact_linking).and_then(|plan| {
        plan.check(free)?;
        Ok(plan.left(MemorySpace::Device, free.device).unwrap_or(0))
    });
    planned.map_err(|kind| context.fail(kind))
}

fn upload(
    context: &Context,
    graph: &Graph,
    quantized: Option<QuantizedVectors>,
) -> Result<DeviceGraph, Error> {
    let copy = match quantized {
        Some(QuantizedVectors { stream, rows, .. }) => DeviceGraph::with_sq8(&stream, graph, rows)?,
        None => DeviceGraph::upload(&Stream::new(context)?, graph, MemorySpace::Device)?,
    };
    let room = context.device().shared_per_block;
    check_shared_memory(&copy, graph.params().build_beam_width(), room).map_err(|kind| context.fail(kind))?;
    Ok(copy)
}
