//! The row of a vertex with the edges that are new to it.

use cuda_std::prelude::*;

use super::all_pairs::AllPairs;
use super::already_pruned::mark_already_pruned;
use super::layout::merge_capacity;
use super::robust_prune::{Memory, robust_prune, warp_number, warps};
use super::score::score;
use super::sort::{NO_CANDIDATE, for_my_places, sort_padded};
use super::space::Space;
use super::{MergeArgs, PRUNE_DISTANCES, PruneArgs};
use crate::graph::NO_ROW;
use crate::neighbor;

/// Appends the new edges of one target while there is room, else prunes old and new; one block a target.
///
/// # Safety
/// The arguments are what [`MergeArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn merge<S: Space>(args: MergeArgs) {
    let group = thread::block_idx_x() as usize;
    let prune = &args.prune;
    let stride = prune.graph.links_stride;
    // SAFETY: the whole block comes to every step, or leaves here; reads and writes are in the places of this target.
    unsafe {
        let [begin, end] = [group, group + 1].map(|group| global::load_readonly(args.begins.at(group)));
        let target = (global::load_readonly(args.keys.at(begin as usize)) >> 32) as u32;
        if thread::thread_idx_x() == 0 {
            global::store(args.vertices.at(group), target);
        }
        if target == NO_ROW {
            return;
        }
        let memory = Memory::carve(prune, merge_capacity(prune.max_candidates, prune.max_degree));
        let ids = args.ids.add(group * stride as usize);
        let degree = old_row(prune, target, &memory);
        let edges = (end - begin).min(prune.max_candidates + prune.max_degree);
        let fresh = new_edges(&args, begin as usize, edges, degree, &memory);
        let mut kept = degree + fresh;
        if kept <= prune.max_degree {
            sort_padded(memory.keys, edges);
            for_my_places(stride, |place| {
                let id = match place {
                    _ if place < degree => memory.old.add(place).load(),
                    _ if place < kept => neighbor::id(memory.keys.add(place - degree).load()),
                    _ => NO_ROW,
                };
                global::store(ids.at(place as usize), id);
            });
            return;
        }
        let space = S::new(&prune.graph, prune.form);
        let old = memory.keys.add(edges);
        score(
            &space,
            target,
            degree,
            |place| memory.old.add(place).load(),
            |place, id, distance| old.add(place).store(neighbor::key(distance, id)),
        );
        if thread::thread_idx_x() == 0 {
            atomic::add(prune.counters.at(PRUNE_DISTANCES), u64::from(degree));
        }
        let deferred = mark_already_pruned(prune, degree, old, &memory);
        let count = kept.min(prune.max_candidates);
        let all_pairs = AllPairs::of(prune, &memory, edges + degree, old, &deferred);
        sort_padded(memory.keys, edges + degree);
        let take = |place: u32, key: u64| global::store(ids.at(place as usize), neighbor::id(key));
        kept = match all_pairs {
            Some(all_pairs) => all_pairs.robust_prune(&space, prune, count, take),
            None => {
                let take = |place, key| {
                    if thread::thread_idx_x() == 0 {
                        take(place, key);
                    }
                };
                robust_prune(&space, prune, &memory, (prune.max_degree, count), &deferred, take).all
            }
        };
        for_my_places(stride, |place| {
            if place >= kept {
                global::store(ids.at(place as usize), NO_ROW);
            }
        });
    }
}

/// Brings the row of `target` to shared memory; returns its length. Whole block; a barrier.
///
/// # Safety
/// As for [`merge`].
#[inline(always)]
unsafe fn old_row(args: &PruneArgs, target: u32, memory: &Memory) -> u32 {
    let stride = args.graph.links_stride;
    let row = args.graph.links.add(target as usize * stride as usize);
    let (mut degree, mut first) = (0, 0);
    // SAFETY: places are below the stride; the whole block comes to every barrier.
    unsafe {
        if thread::thread_idx_x() == 0 {
            memory.fresh.store(0);
        }
        while first < stride {
            let place = first + thread::thread_idx_x();
            let id = if place < stride { global::load_readonly(row.at(place as usize)) } else { NO_ROW };
            if id != NO_ROW {
                memory.old.add(place).store(id);
            }
            degree += thread::sync_threads_count(id != NO_ROW);
            first += thread::block_dim_x();
        }
        if thread::thread_idx_x() == 0 {
            memory.pruned_ends.iter().for_each(|end| end.store(degree));
        }
    }
    degree
}

/// Brings the edges from `begin` on to shared memory as candidates, but for those that the old row has; returns how many
/// that leaves. Whole block; a barrier.
///
/// # Safety
/// As for [`merge`].
#[inline(always)]
unsafe fn new_edges(args: &MergeArgs, begin: usize, edges: u32, degree: u32, memory: &Memory) -> u32 {
    let (mut edge, mut fresh) = (warp_number(), 0);
    // SAFETY: a warp takes an edge, which is the same in all its lanes; the old row is behind a barrier.
    unsafe {
        while edge < edges {
            let source = global::load_streaming(args.sources.at(begin + edge as usize));
            let (mut known, mut first) = (false, 0);
            while first < degree {
                let place = first + warp::lane_id();
                let here = place < degree && memory.old.add(place).load() == source;
                known |= warp::warp_vote_any(warp::FULL_MASK, here);
                first += warp::WARP_SIZE;
            }
            if warp::lane_id() == 0 {
                let orderable = global::load_streaming(args.keys.at(begin + edge as usize)) as u32;
                let key = if known { NO_CANDIDATE } else { neighbor::edge(orderable, source) };
                memory.keys.add(edge).store(key);
            }
            fresh += u32::from(!known);
            edge += warps();
        }
        if warp::lane_id() == 0 && fresh > 0 {
            memory.fresh.atomic_add(fresh);
        }
        thread::sync_threads();
        memory.fresh.load()
    }
}
