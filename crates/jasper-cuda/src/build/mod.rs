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

use jasper_core::{Element, ProgressFn, VectorId};
use jasper_data::ThreadPool;
use jasper_graph::{Graph, VectorError};
use jasper_vamana::{
    BuildShape, Checkpoints, Exclusive, InsertError, LinkProgress, LinkReport, WriteFn, finish, link_growing,
};

use crate::memory_pool::PoolRetention;
use crate::search::launch::check_shared_memory;
use crate::{Bytes, Context, DeviceGraph, Error, MutableDeviceGraph, Stream, VectorStorage};

pub use linker::DeviceLinker;
pub(crate) use plan::check_beam;
pub use plan::plan_build;
pub use preload::KernelPreload;

/// Links `order` into a graph of which one vertex is linked, on a device, in the batches of a bulk build: for
/// [`jasper_vamana::bulk_build_by`]. Where sums do not round, as those of bytes never do, the graph is the one that the
/// CPU executor links, byte for byte.
///
/// Vectors are copied to the device once, by the threads of `pool`, and links back once, when every vertex can be reached,
/// and for each checkpoint; in between, little more than counters comes to the host.
///
/// # Errors
/// [`Error::BuildParam`] and, when it or a row does not fit, [`Error::Plan`] or [`Error::RowTooLong`] with the numbers, before
/// anything is linked; what the device says; a checkpoint that cannot be written or taken up; a cancel. Without
/// checkpoints the graph is as it was.
pub fn link_on_device<T: Element>(
    context: &Context,
    pool: &ThreadPool,
    graph: &mut Graph<T>,
    order: &[VectorId],
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<LinkReport, InsertError> {
    // The host's part of the plan was asked for before the rows were read, which are in memory now.
    let fits = || {
        let free = Bytes { host: u64::MAX, ..context.free_memory()? };
        Ok::<_, Error>(plan_build::<T>(&BuildShape::of(graph))?.check(free)?)
    };
    fits().map_err(InsertError::device)?;
    let growth = pool.install(|| LinkProgress::resume(graph, order, checkpoints))?;
    let copied = || {
        let stream = Stream::new(context)?;
        let copy = DeviceGraph::upload(&stream, graph, VectorStorage::Device)?;
        check_shared_memory(&copy, graph.params().build_beam_width(), context.device().shared_per_block)?;
        Ok::<_, Error>((stream, copy))
    };
    let _kept = PoolRetention::new(context).map_err(InsertError::device)?;
    let (stream, copy) = pool.install(copied).map_err(InsertError::device)?;
    link(&DeviceLinker::new(stream, graph), copy, pool, graph, order, growth, progress)
}

/// Links into a copy of the graph, in any stream, and copies the links back.
fn link<T: Element, S: gpu_kernels::Stream<Error: Clone> + Clone>(
    linker: &DeviceLinker<T, S>,
    mut copy: DeviceGraph<T, S>,
    pool: &ThreadPool,
    graph: &mut Graph<T>,
    order: &[VectorId],
    growth: LinkProgress<'_>,
    progress: &mut ProgressFn<'_>,
) -> Result<LinkReport, InsertError> {
    let params = *graph.params();
    let keep = |copy: &DeviceGraph<T, S>, write: &mut WriteFn<'_, T>| {
        copy.read_links(linker.stream(), pool, graph).map_err(InsertError::device)?;
        Ok(write(graph)?)
    };
    let cost = link_growing(linker, &mut Exclusive(&mut copy), growth, &params, keep, progress)?;
    // The end is that of an update: the host has vectors and start points, the device has the links.
    linker.stream().synchronize().map_err(InsertError::device)?;
    let nothing = Graph::new(graph.metric(), graph.dimension(), params).map_err(VectorError::from)?;
    let host = std::mem::replace(graph, nothing);
    let mut linked = MutableDeviceGraph::with_links(linker.stream().clone(), host, copy);
    let finished = finish(linker, &mut Exclusive(&mut linked), order, progress)
        .map_err(InsertError::from)
        .and_then(|reconnected| linked.read_links(pool).map(|()| reconnected).map_err(InsertError::device));
    *graph = linked.take_host();
    Ok(LinkReport { reconnected: finished?, cost })
}
