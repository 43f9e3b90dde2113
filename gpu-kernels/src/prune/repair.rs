//! Repairs the row of a live vertex that has deleted neighbors.
//!
//! The algorithm is that of the CPU, `repair_row` in `crates/jasper-vamana/src/cpu/mod.rs`, whose docs have the
//! pseudo-code. What differs from it, and why the rows stay the same:
//!
//! 1. *Live neighbors are not compared with each other*: the prune that chose them has done so.
//! 2. *Replacements are gathered from a few deleted neighbors at a time*, as many rows as fit, and only the nearest
//!    `max_candidates` are carried over. The nearest of all are among the nearest of each part, so shared memory does
//!    not limit the degree.

use cuda_std::prelude::*;

use super::fill::{Kept, RowFiller};
use super::kept_before::kept_ends;
use super::layout::{repair_capacity, replacements_capacity};
use super::pair_distances::PairDistances;
use super::robust_prune::{PruneBlock, SharedMemory, warp_index, warps};
use super::sort::{distinct, sort_padded};
use super::{PRUNE_DISTANCES, RepairArgs};
use crate::WARP_SIZE;
use crate::bits::contains;
use crate::collectives::{block_stride, rank_in, warp_reserve, warp_stride};
use crate::graph::NO_SLOT;
use crate::neighbor;

/// Repairs one row; one block per vertex.
///
/// # Safety
/// The arguments are what [`RepairArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[inline(always)]
pub(super) unsafe fn repair<S: PairDistances>(args: RepairArgs) {
    let (row, prune) = (thread::block_idx_x() as usize, &args.prune);
    // SAFETY: the whole block reaches every barrier; candidates are within the memory, writes in the places of this
    // row.
    unsafe {
        let vertex = global::load_readonly(args.row_vertices.at(row));
        let block = PruneBlock::<S>::new(prune, vertex, repair_capacity(prune));
        let memory = &block.memory;
        let Split { live, deleted } = split_row(&args, vertex, memory);
        // The candidates: live neighbors in the order of the old row, then the replacements.
        let live_entries = memory.entries;
        let store_entry = |place, slot, distance| {
            live_entries.add(place).store(neighbor::kept_before(neighbor::entry(distance, slot)));
        };
        block.compute_distances(vertex, live, |place| memory.old.add(place).load(), store_entry);
        let ends = kept_ends(prune, live, live_entries, memory);
        let replacements = nearest_replacements(&block, &args, vertex, &Split { live, deleted });
        let count = (live + replacements).min(prune.max_candidates);
        let limit = (live + deleted).max(prune.max_degree / 2);
        let filler = RowFiller::new(&block, live.min(count), count, limit);
        let (kept_entries, kept) = (filler.kept, filler.fill());
        let stride = prune.graph.edges_stride;
        let neighbors = args.neighbors.add(row * stride as usize);
        block_stride(stride, |place| {
            if place < kept.both_rounds {
                let entry = kept_entries.add(place);
                let to = place_in_row(kept_entries, place, live, ends, kept);
                global::store(neighbors.at(to as usize), neighbor::slot(entry.load()));
            } else {
                global::store(neighbors.at(place as usize), NO_SLOT);
            }
        });
    }
}

/// The place in the row of the kept entry `index`. Replacements are merged into the part of the row whose round kept
/// them, so that later prunes find the parts as their own. The first `live` entries are in the order of the old row, of
/// which earlier rounds kept those before the `ends`.
///
/// # Safety
/// A barrier has passed since the entries were written; there is such an entry.
#[inline(always)]
unsafe fn place_in_row(
    entries: Shared<u64>,
    index: u32,
    live: u32,
    [first_end, second_end]: [u32; 2],
    Kept { first_round: first, both_rounds: all }: Kept,
) -> u32 {
    let second_begin = first_end + first - live;
    // Where the part begins in the row, and its two ascending runs: where the one with the index begins, and the other.
    let (begin, own, [from, to]) = match index {
        _ if index < first_end => (0, 0, [live, first]),
        _ if index < second_end => (second_begin, first_end, [first, all]),
        _ if index < live => return all - live + index,
        _ if index < first => (0, live, [0, first_end]),
        _ => (second_begin, first, [first_end, second_end]),
    };
    let mut before = index - own;
    // SAFETY: all of these are below the number of entries.
    unsafe {
        let entry = entries.add(index).load();
        for other in from..to {
            before += u32::from(entries.add(other).load() < entry);
        }
    }
    begin + before
}

/// How many neighbors of the old row are live and deleted. The live ones are at its start, the deleted ones at its end,
/// in reverse.
struct Split {
    live: u32,
    deleted: u32,
}

/// Loads the row of `vertex` into shared memory, split. Called by the whole block, with a barrier.
///
/// # Safety
/// As for [`repair`].
#[inline(always)]
unsafe fn split_row(args: &RepairArgs, vertex: u32, memory: &SharedMemory) -> Split {
    let stride = args.prune.graph.edges_stride;
    let row = args.prune.graph.edges.add(vertex as usize * stride as usize);
    let (mut live, mut deleted) = (0, 0);
    // SAFETY: the stride is a multiple of the warp size; every warp counts, and the first alone writes.
    unsafe {
        warp_stride(stride, |place| {
            let slot = global::load_readonly(row.at(place as usize));
            let is_live = slot != NO_SLOT && contains(args.live, slot);
            let [live_lanes, deleted_lanes] =
                [is_live, slot != NO_SLOT && !is_live].map(|predicate| warp::ballot(predicate));
            if warp_index() == 0 && slot != NO_SLOT {
                let to = if is_live {
                    live + rank_in(live_lanes)
                } else {
                    stride - 1 - (deleted + rank_in(deleted_lanes))
                };
                memory.old.add(to).store(slot);
            }
            live += live_lanes.count_ones();
            deleted += deleted_lanes.count_ones();
        });
        if thread::thread_idx_x() == 0 {
            memory.count.store(0);
            memory.kept_ends.iter().for_each(|end| end.store(live));
        }
        thread::sync_threads();
    }
    Split { live, deleted }
}

/// Stores the nearest distinct replacement candidates behind the live ones, sorted; returns how many count. Called
/// by the whole block, with a barrier if there is a deleted neighbor.
///
/// # Safety
/// As for [`repair`]; the row is split.
#[inline(always)]
unsafe fn nearest_replacements<S: PairDistances>(
    block: &PruneBlock<'_, S>,
    args: &RepairArgs,
    vertex: u32,
    split: &Split,
) -> u32 {
    let (prune, memory) = (&args.prune, &block.memory);
    let replacements = memory.entries.add(split.live);
    let limit = prune.max_candidates.saturating_sub(split.live);
    let (mut nearest, mut gathered, mut first) = (0, 0, 0);
    // SAFETY: the whole block reaches every barrier; what is carried over leaves room for one row or more.
    unsafe {
        while first < split.deleted {
            let rows =
                ((replacements_capacity(prune) - nearest) / prune.max_degree).min(split.deleted - first);
            let new = replacements.add(nearest);
            gather(args, vertex, split.live, first..first + rows, memory, |index, slot| {
                new.add(index - gathered).store(u64::from(slot));
            });
            thread::sync_threads();
            let len = memory.count.load() - gathered;
            let slot = |place: u32| new.add(place).load() as u32;
            block.compute_distances(vertex, len, slot, |place, slot, distance| {
                new.add(place).store(neighbor::entry(distance, slot));
            });
            sort_padded(replacements, nearest + len);
            nearest = distinct(replacements, nearest + len, memory.kept_ends[0]).min(limit);
            gathered += len;
            first += rows;
        }
        if thread::thread_idx_x() == 0 {
            atomic::add(prune.counters.at(PRUNE_DISTANCES), u64::from(split.live + gathered));
        }
    }
    nearest
}

/// Calls `emit` with the live neighbors of some `deleted` neighbors, each with an index of its own, which
/// `memory.count` counts; in no order, and possibly with duplicates. One warp per deleted neighbor. Called by the whole
/// block.
///
/// # Safety
/// As for [`repair`]; the row is split.
#[inline(always)]
unsafe fn gather(
    args: &RepairArgs,
    vertex: u32,
    live: u32,
    deleted: core::ops::Range<u32>,
    memory: &SharedMemory,
    emit: impl Fn(u32, u32),
) {
    let graph = &args.prune.graph;
    let mut neighbor = deleted.start + warp_index();
    // SAFETY: the row of a deleted neighbor is not written during the launch; neighbors are slots.
    unsafe {
        while neighbor < deleted.end {
            let slot = memory.old.add(graph.edges_stride - 1 - neighbor).load();
            let row = graph.edges.add(slot as usize * graph.edges_stride as usize);
            let mut place = warp::lane_id();
            while place < graph.edges_stride {
                let replacement = global::load_readonly(row.at(place as usize));
                let mut is_new =
                    replacement != NO_SLOT && replacement != vertex && contains(args.live, replacement);
                for known in 0..live {
                    is_new &= memory.old.add(known).load() != replacement;
                }
                let lanes = warp::ballot(is_new);
                let index = warp_reserve(lanes, |count| memory.count.atomic_add(count));
                if is_new {
                    emit(index, replacement);
                }
                place += WARP_SIZE;
            }
            neighbor += warps();
        }
    }
}
