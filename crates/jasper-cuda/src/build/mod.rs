//! Graphs built on a device.
//!
//! | module | holds |
//! | --- | --- |
//! | `preload` | kernels, compiled before they are launched |
//! | `linker` | the steps of a batch, as launches in one stream |
//! | `executor` | what updates ask beside these |
//! | `parts` | what passes from step to step |
//! | `plan` | what a build takes, before it begins |

mod executor;
mod linker;
mod parts;
mod plan;
mod preload;
#[cfg(test)]
mod tests;

use jasper_core::{Element, ProgressFn};
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::pipeline::{LinkMode, link_batch};
use jasper_vamana::{
    BuildShape, Checkpoints, Exclusive, Ingested, LinkProgress, Linked, SearchCost, UpdateError, connect,
};

use crate::memory_pool::PoolRetention;
use crate::search::launch::check_shared_memory;
use crate::{Bytes, Context, DeviceGraph, Error, MutableDeviceGraph, Stream, VectorStorage};

pub use linker::DeviceLinker;
pub(crate) use plan::check_beam;
pub use plan::plan_build;
pub use preload::KernelPreload;

/// Links the vertices of a bulk build on a device, in the batches of [`jasper_vamana::link_on_host`]. Where distances are
/// exact integers the graph is the same, byte for byte.
///
/// Vectors are copied to the device once, by the threads of `pool`, and edges back once at the end, and for each
/// checkpoint. In between only counters are copied to the host.
///
/// # Errors
/// [`Error::BuildParam`], [`Error::Plan`] or [`Error::RowTooLong`] when a parameter, the graph or a row does not fit the device,
/// before anything is linked; other errors of the device; a checkpoint cannot be read or written; the build is cancelled.
pub fn link_on_device<T: Element>(
    context: &Context,
    pool: &ThreadPool,
    ingested: Ingested<T>,
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked<T>, UpdateError> {
    let Ingested { mut graph, order } = ingested;
    if graph.adjacency().start_points().is_empty() {
        return Ok(Linked { graph, reconnected: 0, cost: SearchCost::default() });
    }
    check_device_memory(context, &graph)?;
    let linked = pool.install(|| LinkProgress::resume(&mut graph, &order, checkpoints))?;
    let _retention = PoolRetention::new(context)?;
    let (stream, copy) = pool.install(|| upload(context, &graph))?;
    link(&DeviceLinker::new(stream, &graph), pool, graph, copy, linked, progress)
}

/// Checks that the build fits the memory of the device. The host's part of the plan was checked before the vectors were
/// read, and they are in memory now.
fn check_device_memory<T: Element>(context: &Context, graph: &Graph<T>) -> Result<(), Error> {
    let free = Bytes { host: u64::MAX, ..context.free_memory()? };
    Ok(plan_build::<T>(&BuildShape::of(graph))?.check(free)?)
}

fn upload<T: Element>(context: &Context, graph: &Graph<T>) -> Result<(Stream, DeviceGraph<T>), Error> {
    let stream = Stream::new(context)?;
    let copy = DeviceGraph::upload(&stream, graph, VectorStorage::Device)?;
    check_shared_memory(&copy, graph.params().build_beam_width(), context.device().shared_per_block)?;
    Ok((stream, copy))
}

/// Links into the `copy` of a graph, and copies the edges back.
fn link<T: Element, S: gpu_kernels::Stream<Error: Clone> + Clone>(
    linker: &DeviceLinker<T, S>,
    pool: &ThreadPool,
    mut graph: Graph<T>,
    mut copy: DeviceGraph<T, S>,
    mut linked: LinkProgress<'_>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked<T>, UpdateError> {
    loop {
        let reported = linked.report(progress);
        if linked.checkpoint_is_due(reported.is_err()) {
            copy.read_links(linker.stream(), pool, &mut graph).map_err(UpdateError::device)?;
            linked.write_checkpoint(&graph)?;
        }
        reported?;
        let batch = linked.next_batch(graph.params());
        if batch.is_empty() {
            break;
        }
        let cell = &mut Exclusive(&mut copy);
        let (_, cost) = link_batch(linker, cell, batch, LinkMode::Bulk).map_err(UpdateError::device)?;
        linked.advance(batch.len(), cost);
    }
    // From here on the host has vectors and start points and the device has the edges, as in an update.
    linker.stream().synchronize().map_err(UpdateError::device)?;
    let mut resident = MutableDeviceGraph::with_links(linker.stream().clone(), graph, copy);
    let reconnected = connect(linker, &mut Exclusive(&mut resident), linked.order(), progress)?;
    resident.read_links(pool).map_err(UpdateError::device)?;
    let graph = resident.into_host();
    Ok(Linked { graph, reconnected, cost: linked.cost() })
}
