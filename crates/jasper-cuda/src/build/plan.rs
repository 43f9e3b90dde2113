//! What a build on a device takes, before it begins.

use gpu_kernels::groups::Groups;
use gpu_kernels::search::MAX_BEAM_WIDTH;
use gpu_kernels::sort::SortScratch;
use jasper_build::largest_batch;
use jasper_core::Element;
use jasper_graph::Graph;

use super::linker::{SEARCHED_AT_ONCE, TARGETS_AT_ONCE};
use crate::graph::links_stride;
use crate::{DeviceGraph, Error, MemoryPlan, Place, Result, Stream};

/// Bytes of one pair of a sort.
const PAIR: u64 = 12;

/// What linking `vertices` into a copy of `graph` takes: the copy, and the largest batch.
///
/// # Errors
/// [`Error::BuildParam`]: the beam is wider, or a batch larger, than kernels are made for.
pub fn plan_build<T: Element>(graph: &Graph<T>, vertices: usize) -> Result<MemoryPlan> {
    let params = graph.params();
    let most = |name, value: f64, most: f64| {
        if value <= most {
            return Ok(());
        }
        Err(Error::BuildParam { name, value: value.to_string(), most: most.to_string() })
    };
    most("build_beam_width", params.build_beam_width() as f64, MAX_BEAM_WIDTH.into())?;
    let batch = largest_batch(vertices + 1, params).min(vertices);
    let row = links_stride(graph);
    let share = params.max_batch_share();
    let sortable = u32::MAX as usize / row;
    most(
        "max_batch_share",
        share.into(),
        if batch > sortable { sortable as f64 / vertices as f64 } else { 1.0 },
    )?;

    let searched = batch.min(SEARCHED_AT_ONCE) as u64;
    let (batch, row) = (batch as u64, row as u64);
    let edges = batch * row;
    let targets = edges.min(TARGETS_AT_ONCE.into()).min(vertices as u64 + 2);
    let candidates = params.most_hops() as u64;
    let sort = SortScratch::<Stream>::bytes(edges as u32) + Groups::<Stream>::bytes(edges as u32);
    Ok(DeviceGraph::<T>::plan(graph)
        .part(Place::Device, "candidates", searched * (candidates * 8 + 32))
        .part(Place::Device, "links", edges * 8 + batch * 8)
        .part(Place::Device, "back edges", edges * PAIR)
        .part(Place::Device, "sort", sort)
        .part(Place::Device, "new rows", targets * (row * 4 + 4)))
}
