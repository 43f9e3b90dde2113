//! What a build on a device takes, before it begins.

use gpu_kernels::groups::Groups;
use gpu_kernels::links::Reached;
use gpu_kernels::search::MAX_BEAM_WIDTH;
use gpu_kernels::sort::SortScratch;
use jasper_core::{BuildParams, Element};
use jasper_vamana::{BuildShape, largest_batch};

use super::linker::{SEARCHED_AT_ONCE, TARGETS_AT_ONCE};
use crate::graph::links_stride;
use crate::{DeviceGraph, Error, MemoryPlan, MemorySpace, Result, Stream};

/// Bytes of one pair of a sort.
const PAIR: u64 = 12;
/// What the driver's half of a device in use takes of the host, code and tables.
const DRIVER_BYTES: u64 = 256 << 20;

/// Whether kernels search with the beam of these parameters.
pub(crate) fn check_beam(params: &BuildParams) -> Result<()> {
    most("build_beam_width", params.build_beam_width() as f64, MAX_BEAM_WIDTH.into())
}

fn most(name: &'static str, value: f64, most: f64) -> Result<()> {
    if value <= most {
        return Ok(());
    }
    Err(Error::BuildParam { name, value: value.to_string(), most: most.to_string() })
}

/// What a build on a device takes, there and on the host: the graph on both, and the largest batch.
///
/// A batch is searched for and pruned in parts, whose links stay; then its back edges are sorted, which its links do not
/// outlive; then they are merged in parts. At the end, what can be reached is walked to, and what cannot is searched for. So
/// the batch takes what the largest of these steps does.
///
/// # Errors
/// [`Error::BuildParam`]: the beam is wider, or a batch larger, than kernels are made for.
pub fn plan_build<T: Element>(shape: &BuildShape) -> Result<MemoryPlan> {
    let params = &shape.params;
    check_beam(params)?;
    let batch = largest_batch(shape.rows, params).min(shape.rows.saturating_sub(1));
    let row = links_stride(params);
    let share = params.max_batch_share();
    let sortable = u32::MAX as usize / row;
    most(
        "max_batch_share",
        share.into(),
        if batch > sortable { sortable as f64 / shape.rows as f64 } else { 1.0 },
    )?;

    let searched = batch.min(SEARCHED_AT_ONCE) as u64;
    let (batch, row) = (batch as u64, row as u64);
    let edges = batch * row;
    let links = edges * 8 + batch * 8;
    let candidates = searched * (params.max_hops() as u64 * 8 + 40);
    let pairs = edges * PAIR;
    let sort = SortScratch::<Stream>::bytes(edges as u32);
    let groups = Groups::<Stream>::bytes(edges as u32);
    let new_rows = edges.min(TARGETS_AT_ONCE.into()).min(shape.rows as u64) * (row * 4 + 4);
    let walk = Reached::<Stream>::bytes(shape.rows as u32);
    let repair = candidates + shape.rows as u64 / 8;
    let steps = [links + candidates, links + pairs, pairs + sort, pairs + groups + new_rows, walk, repair];
    let largest = steps.into_iter().max().unwrap_or(0);
    let plan = DeviceGraph::<T>::plan_of(shape, shape.plan_beside_device::<T>());
    Ok(plan.part(MemorySpace::Device, "largest batch", largest).part(
        MemorySpace::Host,
        "driver",
        DRIVER_BYTES,
    ))
}
