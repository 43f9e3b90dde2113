//! Prunes the candidates of a new vertex into its row.

use cuda_std::prelude::*;

use super::layout::new_capacity;
use super::pair_distances::PairDistances;
use super::remaining::DeferredRange;
use super::robust_prune::{PruneBlock, SharedMemory};
use super::sort::{distinct, sort_padded};
use super::{DISTANCES, DUPLICATES, HOPS, PruneNewArgs};
use crate::collectives::block_stride;
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_CANDIDATE};

/// Sorts the candidates of one new vertex, prunes them and writes its row; one block per vertex.
///
/// # Safety
/// The arguments are what [`PruneNewArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[inline(always)]
pub(super) unsafe fn prune_new<S: PairDistances>(args: PruneNewArgs) {
    let batch_index = thread::block_idx_x() as usize;
    let stride = args.prune.graph.edges_stride;
    let capacity = new_capacity(args.candidates.stride, peers_len(&args));
    let block = PruneBlock::<S>::new(&args.prune, capacity);
    // SAFETY: all threads of the block reach every barrier; reads and writes are in the places of this vertex.
    unsafe {
        let vertex = global::load_readonly(args.candidates.new_vertices.at(batch_index));
        let duplicate_of = global::load_readonly(args.duplicate_of.at(batch_index));
        let is_linked = duplicate_of == NO_SLOT;
        let count = if is_linked { sorted_candidates(&args, batch_index, vertex, &block.memory) } else { 0 };
        let (neighbors, ordered_distances) = (
            args.neighbors.add(batch_index * stride as usize),
            args.ordered_distances.add(batch_index * stride as usize),
        );
        let store = |place: u32, entry: u64| {
            global::store(neighbors.at(place as usize), neighbor::slot(entry));
            global::store(ordered_distances.at(place as usize), neighbor::ordered_bits(entry));
        };
        let store_once = |place, entry| {
            if thread::thread_idx_x() == 0 {
                store(place, entry);
            }
        };
        let none = DeferredRange { old: block.memory.old, begin: 0, end: 0 };
        let count = count.min(args.prune.max_candidates);
        let kept = block.robust_prune(count, args.prune.max_degree, &none, store_once);
        let kept = block.fill(count, kept, args.prune.min_degree, neighbors, store);
        block_stride(stride - kept, |place| {
            global::store(neighbors.at((kept + place) as usize), NO_SLOT);
        });
        if thread::thread_idx_x() == 0 {
            global::store(args.row_vertices.at(batch_index), if is_linked { vertex } else { NO_SLOT });
            let counters = args.prune.counters;
            let costs = args.candidates.costs.add(2 * batch_index);
            atomic::add(counters.at(HOPS), u64::from(global::load_readonly(costs.at(0))));
            atomic::add(counters.at(DISTANCES), u64::from(global::load_readonly(costs.at(1))));
            if !is_linked {
                atomic::add(counters.at(DUPLICATES), 1);
            }
        }
    }
}

/// Places for candidates from the same batch.
#[inline(always)]
fn peers_len(args: &PruneNewArgs) -> u32 {
    if args.peers.is_null() { 0 } else { args.prune.max_degree }
}

/// Loads the candidates of a vertex of the batch into shared memory, sorted, distinct and without the vertex itself;
/// returns their number. Called by the whole block, with a barrier.
///
/// # Safety
/// The same as for [`prune_new`].
#[inline(always)]
unsafe fn sorted_candidates(
    args: &PruneNewArgs,
    batch_index: usize,
    vertex: u32,
    memory: &SharedMemory,
) -> u32 {
    let (entries, of_batch) = (memory.entries, peers_len(args));
    // SAFETY: all threads of the block reach this; there is room for all candidates.
    unsafe {
        let found = global::load_readonly(args.candidates.costs.at(2 * batch_index));
        let candidates = args.candidates.entries_of(batch_index);
        block_stride(found, |place| {
            let entry = neighbor::new_candidate(global::load_streaming(candidates.at(place as usize)));
            entries.add(place).store(if neighbor::slot(entry) == vertex { NO_CANDIDATE } else { entry });
        });
        let peers = args.peers.add(batch_index * of_batch as usize);
        block_stride(of_batch, |place| {
            entries.add(found + place).store(global::load_streaming(peers.at(place as usize)));
        });
        sort_padded(entries, found + of_batch);
        if of_batch > 0 {
            return distinct(entries, found + of_batch, memory.count);
        }
        // The candidates of a search are distinct.
        if found > 0 && entries.add(found - 1).load() == NO_CANDIDATE { found - 1 } else { found }
    }
}
