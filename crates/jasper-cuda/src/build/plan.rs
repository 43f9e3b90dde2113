//! Memory of a build on a device, planned before it starts.

use gpu_kernels::edges::ReachableSet;
use gpu_kernels::groups::Groups;
use gpu_kernels::search::MAX_BEAM_WIDTH;
use gpu_kernels::sort::SortScratch;
use jasper_core::BuildParams;
use jasper_vamana::{BuildSpec, largest_batch};

use super::executor::{MERGE_CHUNK, SEARCH_CHUNK};
use crate::graph::{UPLOAD_BYTES, edges_stride, plan_copy};
use crate::{ErrorKind, MemoryPlan, MemorySpace, Stream};

/// Bytes of one pair of a sort.
const PAIR: u64 = 12;
/// Bytes of host memory that the driver takes for code and tables of a device in use.
const DRIVER_BYTES: u64 = 256 << 20;

/// Checks that kernels support the beam width of these parameters.
pub(crate) fn check_beam(params: &BuildParams) -> Result<(), ErrorKind> {
    let beam_width = params.build_beam_width();
    if beam_width > MAX_BEAM_WIDTH as usize { Err(ErrorKind::BuildBeamWidth(beam_width)) } else { Ok(()) }
}

/// The memory of a build, on the device and on the host: the graph on both, and the largest batch. Unless
/// `exact_linking`, the device holds SQ8 vectors only.
///
/// A batch is searched for and pruned in chunks, whose edges are kept. Then these edges are reversed and freed, and the
/// back edges are sorted and merged in chunks. At the end of the build, a breadth-first search finds the unreachable
/// vertices, which are searched for. The plan has the memory of the largest of these steps.
///
/// # Errors
/// Returns [`ErrorKind::BuildBeamWidth`] if the beam width is more than kernels support.
pub fn plan_build(spec: &BuildSpec, exact_linking: bool) -> Result<MemoryPlan, ErrorKind> {
    let params = &spec.params;
    check_beam(params)?;
    let batch = largest_batch(spec.rows, params).min(spec.rows.saturating_sub(1));

    let (space, host) = (Some(MemorySpace::Device), spec.plan_host_for_device());
    let (plan, upload) = if exact_linking {
        (plan_copy(spec, space, host), 0)
    } else {
        (plan_copy(&spec.sq8(), space, host), 2 * UPLOAD_BYTES as u64)
    };
    let plan = plan.part(MemorySpace::Device, "largest batch", batch_bytes(batch, spec).max(upload));
    Ok(plan.part(MemorySpace::Host, "driver", DRIVER_BYTES))
}

/// Device memory of a batch of `batch` vertices: that of its largest step.
pub(crate) fn batch_bytes(batch: usize, spec: &BuildSpec) -> u64 {
    let params = &spec.params;
    let searched = batch.min(SEARCH_CHUNK) as u64;
    let (batch, row) = (batch as u64, edges_stride(params) as u64);
    let edges = batch * row;
    let lists = edges * 8 + batch * 8;
    let candidates = |beam_width| searched * (BuildParams::max_hops(beam_width) as u64 * 8 + 40);
    let pairs = edges * PAIR;
    let sort = SortScratch::<Stream>::bytes(edges as u32);
    let groups = Groups::<Stream>::bytes(edges as u32);
    let new_rows = edges.min(MERGE_CHUNK.into()).min(spec.rows as u64) * (row * 4 + 4);
    let reachability = ReachableSet::<Stream>::bytes(spec.rows as u32);
    let linking = lists + candidates(params.bulk_beam_width(spec.metric));
    let reconnecting = candidates(params.build_beam_width()) + spec.rows as u64 / 8;
    let steps = [linking, lists + pairs, pairs + sort, pairs + groups + new_rows, reachability, reconnecting];
    steps.into_iter().max().unwrap_or(0)
}
