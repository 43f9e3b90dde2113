//! The links of a new vertex, from what its search expanded.

use cuda_std::prelude::*;

use super::layout::link_capacity;
use super::remaining::Deferred;
use super::robust_prune::{Memory, robust_prune};
use super::sort::{NO_CANDIDATE, distinct, for_my_places, sort_padded};
use super::space::Space;
use super::{DISTANCES, HOPS, IDENTICAL, LinkArgs};
use crate::graph::NO_ROW;
use crate::neighbor;

/// Prunes one list; one block a list.
///
/// # Safety
/// The arguments are what [`LinkArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn link<S: Space>(args: LinkArgs) {
    let list = thread::block_idx_x() as usize;
    let stride = args.prune.graph.links_stride;
    let memory =
        Memory::carve(&args.prune, link_capacity(args.candidates_stride, batch_candidates_len(&args)));
    let space = S::new(&args.prune.graph, args.prune.form);
    // SAFETY: the whole block comes to every step; reads and writes are in the places of this list.
    unsafe {
        let vertex = global::load_readonly(args.batch.at(list));
        let identical = global::load_readonly(args.identical.at(list));
        let count = if identical == NO_ROW { sorted_candidates(&args, list, vertex, &memory) } else { 0 };
        let (ids, distances) =
            (args.ids.add(list * stride as usize), args.distances.add(list * stride as usize));
        let take = |place: u32, key: u64| {
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
            take,
        );
        for_my_places(stride - kept.all, |place| {
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

/// Places for candidates from the batch itself.
#[inline(always)]
fn batch_candidates_len(args: &LinkArgs) -> u32 {
    if args.batch_candidates.is_null() { 0 } else { args.prune.max_degree }
}

/// Brings the candidates of a list to shared memory, sorted, distinct and without the vertex itself; returns how many there
/// are. Whole block; a barrier.
///
/// # Safety
/// As for [`link`].
#[inline(always)]
unsafe fn sorted_candidates(args: &LinkArgs, list: usize, vertex: u32, memory: &Memory) -> u32 {
    let (keys, batch_candidates_len) = (memory.keys, batch_candidates_len(args));
    // SAFETY: the whole block comes here; there is room for what was found and what joins.
    unsafe {
        let found = global::load_readonly(args.work.at(2 * list));
        let candidates = args.candidates.add(list * args.candidates_stride as usize);
        for_my_places(found, |place| {
            let key = global::load_streaming(candidates.at(place as usize)) | neighbor::UNVISITED;
            keys.add(place).store(if neighbor::id(key) == vertex { NO_CANDIDATE } else { key });
        });
        let batch_candidates = args.batch_candidates.add(list * batch_candidates_len as usize);
        for_my_places(batch_candidates_len, |place| {
            keys.add(found + place).store(global::load_streaming(batch_candidates.at(place as usize)));
        });
        sort_padded(keys, found + batch_candidates_len);
        if batch_candidates_len > 0 {
            return distinct(keys, found + batch_candidates_len, memory.fresh);
        }
        // What a search found is distinct.
        if found > 0 && keys.add(found - 1).load() == NO_CANDIDATE { found - 1 } else { found }
    }
}
