//! Building graphs on a device.
//!
//! | module | holds |
//! | --- | --- |
//! | `executor` | the steps of builds and updates, as launches in one stream |
//! | `plan` | the memory of a build, planned before it starts |

mod executor;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jasper_core::{Element, ProgressFn};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildSpec, BulkLinker, Checkpoints, CpuExecutor, Ingested, Linked, ScalarQuantizer, UpdateError,
};

use crate::memory_pool::PoolRetention;
use crate::search::launch::check_shared_memory;
use crate::{Bytes, Context, DeviceGraph, Error, HostAndDeviceGraph, MemorySpace, Stream};

pub use executor::DeviceExecutor;
pub(crate) use executor::SEARCH_CHUNK;
pub use plan::plan_build;
pub(crate) use plan::{batch_bytes, check_beam};

/// Links the vertices of a bulk build on a device, in the batches of [`jasper_vamana::link_on_host`]. If distances are
/// exact integers, the graph is the same, byte for byte.
///
/// If there is a `quantizer`, vectors are quantized to bytes (SQ8) on the device, and distances are those of the bytes.
///
/// The threads of `cpu` copy the vectors to the device once. Edges are copied back at the end and for each checkpoint.
/// In between, only counters are copied to the host.
///
/// # Errors
/// Returns [`ErrorKind::BuildParam`](crate::ErrorKind::BuildParam), [`ErrorKind::Plan`](crate::ErrorKind::Plan) or
/// [`ErrorKind::RowTooLong`](crate::ErrorKind::RowTooLong) if a parameter, the graph or a row does not fit the device,
/// before anything is linked; other errors of the device; a checkpoint cannot be read or written; the build is
/// cancelled.
pub fn link_on_device<T: Element>(
    context: &Context,
    cpu: &Arc<CpuExecutor>,
    ingested: Ingested<T>,
    quantizer: Option<&ScalarQuantizer>,
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked<T>, UpdateError> {
    let Ingested { mut graph, order } = ingested;
    check_device_memory(context, &graph, quantizer.is_none())?;
    let linker = cpu.pool().install(|| BulkLinker::new(&mut graph, &order, quantizer, checkpoints))?;
    let _retention = PoolRetention::new(context)?;
    let copy = cpu.pool().install(|| upload(context, &graph, quantizer))?;
    let executor = DeviceExecutor::new(copy.stream.clone(), &graph, cpu.clone());
    linker.run(&executor, HostAndDeviceGraph::new(graph, copy), progress)
}

/// Checks that the build fits the memory of the device. The host's part of the plan was checked before the vectors were
/// read, and they are in memory now.
fn check_device_memory<T: Element>(
    context: &Context,
    graph: &Graph<T>,
    exact_linking: bool,
) -> Result<(), Error> {
    let free = Bytes { host: u64::MAX, ..context.free_memory()? };
    let planned =
        plan_build::<T>(&BuildSpec::of(graph), exact_linking).and_then(|plan| Ok(plan.check(free)?));
    planned.map_err(|kind| context.fail(kind))
}

fn upload<T: Element>(
    context: &Context,
    graph: &Graph<T>,
    quantizer: Option<&ScalarQuantizer>,
) -> Result<DeviceGraph<T>, Error> {
    let stream = Stream::new(context)?;
    let copy = match quantizer {
        Some(quantizer) => DeviceGraph::upload_sq8(&stream, graph, quantizer)?,
        None => DeviceGraph::upload(&stream, graph, MemorySpace::Device)?,
    };
    let room = context.device().shared_per_block;
    check_shared_memory(&copy, graph.params().build_beam_width(), room).map_err(|kind| context.fail(kind))?;
    Ok(copy)
}
