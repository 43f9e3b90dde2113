//! Adds reversed edges to the row of their target.
//!
//! ```text
//! merge(p, edges):                         edges sorted by (distance, source), at most max_candidates + max_degree
//!     new <- edges whose source is not in the row of p
//!     if the row has room for new, or max_kept is 0: append new, the nearest first, as far as there is room
//!     else: row <- robust_prune(p, row + new), at most max_kept of them, filled to min_degree
//! ```
//!
//! While there is room, edges are appended without a prune. DiskANN's `inter_insert` lets a row exceed its maximum by
//! some slack before it prunes; a bulk build prunes to some room below it, because all rows have the same memory. What
//! differs from the pseudo-code, and why the rows stay the same:
//!
//! 1. *Entries of the row that an earlier prune kept are not compared with each other* (`kept_before`): that prune
//!    has done so, with the same distances.
//! 2. *Few candidates are pruned on bit sets* (`all_pairs`), with the same decisions.
//! 3. *Edges beyond `max_candidates + max_degree` are not read*: even if the row already has `max_degree` of those
//!    read, `max_candidates` are left, and a prune considers no more.

use cuda_std::prelude::*;

use super::all_pairs::AllPairs;
use super::kept_before::mark_kept_before;
use super::layout::merge_capacity;
use super::pair_distances::PairDistances;
use super::robust_prune::{PruneBlock, SharedMemory, warp_index, warps};
use super::sort::sort_padded;
use super::{MergeArgs, PRUNE_DISTANCES, PruneArgs};
use crate::WARP_SIZE;
use crate::collectives::{block_stride, strided};
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_CANDIDATE};

/// Merges the edges of one target; one block per target.
///
/// # Safety
/// The arguments are what [`MergeArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[inline(always)]
pub(super) unsafe fn merge<S: PairDistances>(args: MergeArgs) {
    let target_index = thread::block_idx_x() as usize;
    let prune = &args.prune;
    let stride = prune.graph.edges_stride;
    // SAFETY: all threads of the block reach every barrier, or returns here; reads and writes are in the places of this
    // target.
    unsafe {
        let [begin, end] =
            [target_index, target_index + 1].map(|index| global::load_readonly(args.offsets.at(index)));
        let target = (global::load_readonly(args.sort_keys.at(begin as usize)) >> 32) as u32;
        if thread::thread_idx_x() == 0 {
            global::store(args.row_vertices.at(target_index), target);
        }
        if target == NO_SLOT {
            return;
        }
        let capacity = merge_capacity(prune.max_candidates, prune.max_degree);
        let block = PruneBlock::<S>::new(prune, target, capacity);
        let memory = &block.memory;
        let neighbors = args.neighbors.add(target_index * stride as usize);
        let degree = load_row(prune, target, memory);
        let edges = (end - begin).min(prune.max_candidates + prune.max_degree);
        let new = load_new_edges(&args, begin as usize, edges, degree, memory);
        let mut kept = degree + new;
        if kept <= prune.max_degree || args.max_kept == 0 {
            kept = kept.min(prune.max_degree);
            sort_padded(memory.entries, edges);
            block_stride(stride, |place| {
                let slot = match place {
                    _ if place < degree => memory.old.add(place).load(),
                    _ if place < kept => neighbor::slot(memory.entries.add(place - degree).load()),
                    _ => NO_SLOT,
                };
                global::store(neighbors.at(place as usize), slot);
            });
            return;
        }
        // Compute the distances of the old row, store its entries after the new edges, and mark those kept before.
        let old_entries = memory.entries.add(edges);
        let store_entry =
            |place, slot, distance| old_entries.add(place).store(neighbor::entry(distance, slot));
        block.compute_distances(target, degree, |place| memory.old.add(place).load(), store_entry);
        if thread::thread_idx_x() == 0 {
            atomic::add(prune.counters.at(PRUNE_DISTANCES), u64::from(degree));
        }
        let deferred = mark_kept_before(prune, degree, old_entries, memory);
        // Prune both.
        let count = kept.min(prune.max_candidates);
        let all_pairs = AllPairs::new(prune, memory, edges + degree, old_entries, &deferred);
        sort_padded(memory.entries, edges + degree);
        let store =
            |place: u32, entry: u64| global::store(neighbors.at(place as usize), neighbor::slot(entry));
        kept = match all_pairs {
            Some(all_pairs) => all_pairs.robust_prune(&block, count, args.max_kept, store),
            None => {
                let store = |place, entry| {
                    if thread::thread_idx_x() == 0 {
                        store(place, entry);
                    }
                };
                block.robust_prune(count, args.max_kept, &deferred, store)
            }
        };
        kept = block.fill(count, kept, prune.min_degree.min(args.max_kept), neighbors, store);
        block_stride(stride, |place| {
            if place >= kept {
                global::store(neighbors.at(place as usize), NO_SLOT);
            }
        });
    }
}

/// Loads the row of `target` into shared memory; returns its length. Called by the whole block, with a barrier.
///
/// # Safety
/// The target is a vertex; all threads of the block call this.
#[inline(always)]
pub(super) unsafe fn load_row(args: &PruneArgs, target: u32, memory: &SharedMemory) -> u32 {
    let stride = args.graph.edges_stride;
    let row = args.graph.edges.add(target as usize * stride as usize);
    let mut degree = 0;
    // SAFETY: indices are below the stride; all threads of the block reach every barrier.
    unsafe {
        if thread::thread_idx_x() == 0 {
            memory.count.store(0);
        }
        strided(0, stride, thread::block_dim_x(), |first| {
            let place = first + thread::thread_idx_x();
            let slot = if place < stride { global::load_readonly(row.at(place as usize)) } else { NO_SLOT };
            if slot != NO_SLOT {
                memory.old.add(place).store(slot);
            }
            degree += thread::sync_threads_count(slot != NO_SLOT);
        });
        if thread::thread_idx_x() == 0 {
            memory.kept_ends.iter().for_each(|end| end.store(degree));
        }
    }
    degree
}

/// Loads the edges from `begin` on into shared memory as candidates, with [`NO_CANDIDATE`] in place of edges that the
/// row already has; returns the number of new ones. Each edge takes one warp. Called by the whole block, with a
/// barrier.
///
/// # Safety
/// The same as for [`merge`].
#[inline(always)]
unsafe fn load_new_edges(
    args: &MergeArgs,
    begin: usize,
    edges: u32,
    degree: u32,
    memory: &SharedMemory,
) -> u32 {
    let mut new = 0;
    // SAFETY: all lanes of a warp have the same edge; a barrier has passed since the old row was written.
    unsafe {
        strided(warp_index(), edges, warps(), |edge| {
            let source = global::load_streaming(args.sources.at(begin + edge as usize));
            let mut known = false;
            strided(0, degree, WARP_SIZE, |first| {
                let place = first + warp::lane_id();
                let is_equal = place < degree && memory.old.add(place).load() == source;
                known |= warp::any(is_equal);
            });
            if warp::lane_id() == 0 {
                let ordered_bits = global::load_streaming(args.sort_keys.at(begin + edge as usize)) as u32;
                let entry = if known { NO_CANDIDATE } else { neighbor::entry_of_bits(ordered_bits, source) };
                memory.entries.add(edge).store(entry);
            }
            new += u32::from(!known);
        });
        if warp::lane_id() == 0 && new > 0 {
            memory.count.atomic_add(new);
        }
        thread::sync_threads();
        memory.count.load()
    }
}
