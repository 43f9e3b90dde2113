//! Prunes the candidates of a new vertex into its row.

use cuda_std::prelude::*;

use super::layout::link_capacity;
use super::remaining::Deferred;
use super::robust_prune::{Memory, robust_prune};
use super::sort::{NO_CANDIDATE, distinct, sort_padded};
use super::space::Space;
use super::{DISTANCES, HOPS, IDENTICAL, LinkArgs};
use crate::collectives::block_stride;
use crate::graph::NO_ROW;
use crate::neighbor;

/// Links one new vertex: sorts its candidates, prunes them, writes its row; one block per vertex.
///
/// # Safety
/// The arguments are what [`LinkArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn link<S: Space>(args: LinkArgs) {
    let list = thread::block_idx_x() as usize;
    let stride = args.prune.graph.links_stride;
    let capacity = link_capacity(args.candidates_stride, batch_candidates_len(&args));
    let memory = Memory::carve(&args.prune, capacity);
    let space = S::new(&args.prune.graph, args.prune.form);
    // SAFETY: the whole block reaches every barrier; reads and writes are in the places of this list.
    unsafe {
        let vertex = global::load_readonly(args.batch.at(list));
        let identical = global::load_readonly(args.identical.at(list));
        let count = if identical == NO_ROW { sorted_candidates(&args, list, vertex, &memory) } else { 0 };
        let (ids, distances) =
            (args.ids.add(list * stride as usize), args.distances.add(list * stride as usize));
        let store = |place: u32, key: u64| {
            if thread::thread_idx_x() == 0 {
                global::store(ids.at(place as usize), neighbor::id(key));
                global::store(distances.at(place as usize), neighbor::orderable(key));
            }
        };
        let count = count.min(args.prune.max_candidates);
        let kept = robust_prune(
            &space,
            &args.prune,
            &memory,
            (args.prune.max_degree, count),
            &Deferred::none(memory.old),
            store,
        );
        block_stride(stride - kept.all, |place| {
            global::store(ids.at((kept.all + place) as usize), NO_ROW);
        });
        if thread::thread_idx_x() == 0 {
            global::store(args.vertices.at(list), if identical == NO_ROW { vertex } else { NO_ROW });
            let counters = args.prune.counters;
            let work = args.work.add(2 * list);
            atomic::add(counters.at(HOPS), u64::from(global::load_readonly(work.at(0))));
            atomic::add(counters.at(DISTANCES), u64::from(global::load_readonly(work.at(1))));
            if identical != NO_ROW {
                atomic::add(counters.at(IDENTICAL), 1);
            }
        }
    }
}

/// Places for candidates from the same batch.
#[inline(always)]
fn batch_candidates_len(args: &LinkArgs) -> u32 {
    if args.batch_candidates.is_null() { 0 } else { args.prune.max_degree }
}

/// Loads the candidates of a list into shared memory, sorted, distinct and without the vertex itself; returns their
/// number. Whole block; a barrier.
///
/// # Safety
/// As for [`link`].
#[inline(always)]
unsafe fn sorted_candidates(args: &LinkArgs, list: usize, vertex: u32, memory: &Memory) -> u32 {
    let (keys, of_batch) = (memory.keys, batch_candidates_len(args));
    // SAFETY: whole block; there is room for all candidates.
    unsafe {
        let found = global::load_readonly(args.work.at(2 * list));
        let candidates = args.candidates.add(list * args.candidates_stride as usize);
        block_stride(found, |place| {
            let key = global::load_streaming(candidates.at(place as usize)) | neighbor::UNVISITED;
            keys.add(place).store(if neighbor::id(key) == vertex { NO_CANDIDATE } else { key });
        });
        let batch_candidates = args.batch_candidates.add(list * of_batch as usize);
        block_stride(of_batch, |place| {
            keys.add(found + place).store(global::load_streaming(batch_candidates.at(place as usize)));
        });
        sort_padded(keys, found + of_batch);
        if of_batch > 0 {
            return distinct(keys, found + of_batch, memory.count);
        }
        // The candidates of a search are distinct.
        if found > 0 && keys.add(found - 1).load() == NO_CANDIDATE { found - 1 } else { found }
    }
}
