//! Prunes the candidates of a vertex, new or to be linked again, into its row.

use cuda_std::prelude::*;

use super::layout::new_capacity;
use super::merge::load_row;
use super::pair_distances::PairDistances;
use super::remaining::DeferredRange;
use super::robust_prune::PruneBlock;
use super::sort::{distinct, sort_padded};
use super::{DISTANCES, DUPLICATES, HOPS, PRUNE_DISTANCES, PruneArgs, PruneNewArgs};
use crate::collectives::block_stride;
use crate::graph::{DistanceForm, GraphArgs, NO_SLOT};
use crate::neighbor::{self, NO_CANDIDATE};

/// Sorts the candidates of one new vertex, prunes them and writes its row; one block per vertex.
///
/// # Safety
/// The arguments are what [`PruneNewArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[inline(always)]
pub(super) unsafe fn prune_new<S: PairDistances>(args: PruneNewArgs) {
    let batch_index = thread::block_idx_x() as usize;
    let stride = args.prune.graph.edges_stride;
    let capacity = new_capacity(args.candidates.stride, args.others_len());
    // SAFETY: all threads of the block reach every barrier; reads and writes are in the places of this vertex.
    unsafe {
        let vertex = global::load_readonly(args.candidates.new_vertices.at(batch_index));
        let block = PruneBlock::<S>::new(&args.prune, vertex, capacity);
        let duplicate_of = global::load_readonly(args.duplicate_of.at(batch_index));
        let is_linked = duplicate_of == NO_SLOT;
        let count = if is_linked { sorted_candidates(&args, batch_index, vertex, &block) } else { 0 };
        let (neighbors, ordered_distances) = (
            args.neighbors.add(batch_index * stride as usize),
            args.ordered_distances.add(batch_index * stride as usize),
        );
        let store = |place: u32, entry: u64| {
            global::store(neighbors.at(place as usize), neighbor::slot(entry));
            let reversed = reversed(&args.prune, vertex, entry);
            global::store(ordered_distances.at(place as usize), neighbor::ordered_bits(reversed));
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

/// The entry of a neighbor of `vertex` with its distance from the neighbor's own origin, for the reversed edge.
///
/// # Safety
/// Both are vertices.
#[inline(always)]
unsafe fn reversed(prune: &PruneArgs, vertex: u32, entry: u64) -> u64 {
    let (GraphArgs { terms, origins, .. }, neighbor) = (prune.graph, neighbor::slot(entry));
    if prune.form != DistanceForm::NegatedDotFromOrigin {
        return entry;
    }
    // SAFETY: this form has a term for each vertex.
    let [from, to] = [vertex, neighbor].map(|slot| unsafe { global::load_readonly(terms.at(slot as usize)) });
    let change = origins.term_weight(to) - origins.term_weight(from);
    if change == 0.0 {
        entry
    } else {
        neighbor::entry(neighbor::distance(entry) + change * (from + to), neighbor)
    }
}

/// Loads the candidates of a vertex of the batch into shared memory, sorted, distinct and without the vertex itself;
/// returns their number. Called by the whole block, with a barrier.
///
/// # Safety
/// The same as for [`prune_new`].
#[inline(always)]
unsafe fn sorted_candidates<S: PairDistances>(
    args: &PruneNewArgs,
    batch_index: usize,
    vertex: u32,
    block: &PruneBlock<'_, S>,
) -> u32 {
    let memory = &block.memory;
    let entries = memory.entries;
    // SAFETY: all threads of the block reach this; there is room for all candidates.
    unsafe {
        let found = global::load_readonly(args.candidates.costs.at(2 * batch_index));
        let candidates = args.candidates.entries_of(batch_index);
        block_stride(found, |place| {
            let entry = neighbor::new_candidate(global::load_streaming(candidates.at(place as usize)));
            entries.add(place).store(if neighbor::slot(entry) == vertex { NO_CANDIDATE } else { entry });
        });
        let mut others = args.others_len();
        if args.with_rows != 0 {
            others = load_row(&args.prune, vertex, memory);
            block.compute_distances(
                vertex,
                others,
                |place| memory.old.add(place).load(),
                |place, slot, distance| entries.add(found + place).store(neighbor::entry(distance, slot)),
            );
            if thread::thread_idx_x() == 0 {
                atomic::add(args.prune.counters.at(PRUNE_DISTANCES), u64::from(others));
            }
        } else {
            let peers = args.peers.add(batch_index * others as usize);
            block_stride(others, |place| {
                entries.add(found + place).store(global::load_streaming(peers.at(place as usize)));
            });
        }
        sort_padded(entries, found + others);
        if others > 0 {
            return distinct(entries, found + others, memory.count);
        }
        // The candidates of a search are distinct.
        if found > 0 && entries.add(found - 1).load() == NO_CANDIDATE { found - 1 } else { found }
    }
}
