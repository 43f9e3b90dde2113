//! The row of a live vertex around its deleted neighbours: FreshDiskANN's Algorithm 4, changed as on the CPU. Those that
//! live stay, and are already_pruned; those that the hidden ones lead to, their *replacements*, join nearest first, until the row is as long
//! as it was, or half full.

use cuda_std::prelude::*;

use super::already_pruned::pruned_ends;
use super::layout::{repair_capacity, replacements_capacity};
use super::remaining::Deferred;
use super::robust_prune::{Kept, Memory, robust_prune, warp_number, warps};
use super::score::score;
use super::sort::{distinct, for_my_places, sort_padded};
use super::space::Space;
use super::{PRUNE_DISTANCES, RepairArgs};
use crate::bits::contains;
use crate::graph::NO_ROW;
use crate::neighbor;

/// Works out one row; one block a vertex.
///
/// # Safety
/// The arguments are what [`RepairArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn repair<S: Space>(args: RepairArgs) {
    let (row, prune) = (thread::block_idx_x() as usize, &args.prune);
    let memory = Memory::carve(prune, repair_capacity(prune));
    let space = S::new(&prune.graph, prune.form);
    // SAFETY: the whole block comes to every step; candidates are within the memory, and writes in the places of this row.
    unsafe {
        let vertex = global::load_readonly(args.vertices.at(row));
        let Split { live, hidden } = split_row(&args, vertex, &memory);
        let stay = memory.keys;
        score(
            &space,
            vertex,
            live,
            |place| memory.old.add(place).load(),
            |place, id, distance| stay.add(place).store(neighbor::key(distance, id) & !neighbor::UNVISITED),
        );
        let ends = pruned_ends(prune, live, stay, &memory);
        let replacements = nearest_replacements(&space, &args, vertex, &Split { live, hidden }, &memory);
        let count = (live + replacements).min(prune.max_candidates);
        // Behind all candidates that count.
        let kept_keys = memory.keys.add(prune.max_candidates);
        let take = |place: u32, key: u64| {
            if thread::thread_idx_x() == 0 {
                kept_keys.add(place).store(key);
            }
        };
        let most = (live + hidden).max(prune.max_degree / 2);
        let kept = robust_prune(&space, prune, &memory, (most, count), &Deferred::none(memory.old), take);
        thread::sync_threads();
        let stride = prune.graph.links_stride;
        let ids = args.ids.add(row * stride as usize);
        for_my_places(stride, |place| {
            if place < kept.all {
                let key = kept_keys.add(place);
                let to = place_in_row(kept_keys, place, live, ends, kept);
                global::store(ids.at(to as usize), neighbor::id(key.load()));
            } else {
                global::store(ids.at(place as usize), NO_ROW);
            }
        });
    }
}

/// Where the kept number `index` comes to lie in the row: replacements join the part of the row whose round they were kept in, so
/// that later prunes find it as they would find their own. Before them are the `live`, in the order of the old row, of
/// which earlier rounds kept those before the `ends`.
///
/// # Safety
/// A barrier has passed since the keys were written; there is such a number.
#[inline(always)]
unsafe fn place_in_row(
    keys: Shared<u64>,
    index: u32,
    live: u32,
    [first_end, second_end]: [u32; 2],
    Kept { first, all }: Kept,
) -> u32 {
    let second_begin = first_end + first - live;
    // Where the part begins, and the two runs of it that rise: the one with the index, and the other.
    let (begin, own, [from, to]) = match index {
        _ if index < first_end => (0, 0, [live, first]),
        _ if index < second_end => (second_begin, first_end, [first, all]),
        _ if index < live => return all - live + index,
        _ if index < first => (0, live, [0, first_end]),
        _ => (second_begin, first, [first_end, second_end]),
    };
    let mut before = index - own;
    // SAFETY: all of these are below the number of keys.
    unsafe {
        let key = keys.add(index).load();
        for other in from..to {
            before += u32::from(keys.add(other).load() < key);
        }
    }
    begin + before
}

/// How many neighbours there are of both kinds: those that stay are in front of the old row, the hidden ones at its end,
/// the last first.
struct Split {
    live: u32,
    hidden: u32,
}

/// Brings the row of `vertex` to shared memory, split. Whole block; a barrier.
///
/// # Safety
/// As for [`repair`].
#[inline(always)]
unsafe fn split_row(args: &RepairArgs, vertex: u32, memory: &Memory) -> Split {
    let stride = args.prune.graph.links_stride;
    let row = args.prune.graph.links.add(vertex as usize * stride as usize);
    let (mut live, mut hidden, mut place) = (0, 0, warp::lane_id());
    let below = (1 << warp::lane_id()) - 1;
    // SAFETY: the stride is one of whole warps; every warp counts, and the first alone writes.
    unsafe {
        while place < stride {
            let id = global::load_readonly(row.at(place as usize));
            let is_live = id != NO_ROW && contains(args.live, id);
            let [stay, hide] = [is_live, id != NO_ROW && !is_live]
                .map(|predicate| warp::warp_vote_ballot(warp::FULL_MASK, predicate));
            if warp_number() == 0 && id != NO_ROW {
                let to = if is_live {
                    live + (stay & below).count_ones()
                } else {
                    stride - 1 - (hidden + (hide & below).count_ones())
                };
                memory.old.add(to).store(id);
            }
            live += stay.count_ones();
            hidden += hide.count_ones();
            place += warp::WARP_SIZE;
        }
        if thread::thread_idx_x() == 0 {
            memory.fresh.store(0);
            memory.pruned_ends.iter().for_each(|end| end.store(live));
        }
        thread::sync_threads();
    }
    Split { live, hidden }
}

/// Brings the nearest distinct replacements behind those that stay, sorted, as many as count; returns how many. Whole block; a
/// barrier, if there is a hidden neighbour.
///
/// Of more rows than there is room for, the nearest replacements of some are held against those of the next: the nearest of all
/// are among these.
///
/// # Safety
/// As for [`repair`]; the row is split.
#[inline(always)]
unsafe fn nearest_replacements<S: Space>(
    space: &S,
    args: &RepairArgs,
    vertex: u32,
    split: &Split,
    memory: &Memory,
) -> u32 {
    let prune = &args.prune;
    let replacements = memory.keys.add(split.live);
    let most = prune.max_candidates.saturating_sub(split.live);
    let (mut nearest, mut met, mut first) = (0, 0, 0);
    // SAFETY: the whole block comes to every step; the replacements that are kept leave room for those of one row and more.
    unsafe {
        while first < split.hidden {
            let rows =
                ((replacements_capacity(prune) - nearest) / prune.max_degree).min(split.hidden - first);
            let new = replacements.add(nearest);
            gather(args, vertex, split.live, first..first + rows, memory, |place, id| {
                new.add(place - met).store(u64::from(id));
            });
            thread::sync_threads();
            let len = memory.fresh.load() - met;
            let id = |place: u32| new.add(place).load() as u32;
            score(space, vertex, len, id, |place, id, distance| {
                new.add(place).store(neighbor::key(distance, id));
            });
            sort_padded(replacements, nearest + len);
            nearest = distinct(replacements, nearest + len, memory.pruned_ends[0]).min(most);
            met += len;
            first += rows;
        }
        if thread::thread_idx_x() == 0 {
            atomic::add(prune.counters.at(PRUNE_DISTANCES), u64::from(split.live + met));
        }
    }
    nearest
}

/// Hands to `take` the replacements of some hidden neighbours, in no order and some of them more than once, each with a number:
/// they are counted in `memory.fresh`.
///
/// # Safety
/// As for [`repair`]; the row is split. Whole block.
#[inline(always)]
unsafe fn gather(
    args: &RepairArgs,
    vertex: u32,
    live: u32,
    hidden: core::ops::Range<u32>,
    memory: &Memory,
    take: impl Fn(u32, u32),
) {
    let graph = &args.prune.graph;
    let mut number = hidden.start + warp_number();
    // SAFETY: a warp takes a hidden neighbour, whose row nobody writes; links lead to slots.
    unsafe {
        while number < hidden.end {
            let id = memory.old.add(graph.links_stride - 1 - number).load();
            let row = graph.links.add(id as usize * graph.links_stride as usize);
            let mut place = warp::lane_id();
            while place < graph.links_stride {
                let replacement = global::load_readonly(row.at(place as usize));
                let mut joins =
                    replacement != NO_ROW && replacement != vertex && contains(args.live, replacement);
                for known in 0..live {
                    joins &= memory.old.add(known).load() != replacement;
                }
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, joins);
                let mut begin = 0;
                if warp::lane_id() == 0 && lanes != 0 {
                    begin = memory.fresh.atomic_add(lanes.count_ones());
                }
                let (begin, _) = warp::warp_shuffle_idx(warp::FULL_MASK, begin, 0, warp::WARP_SIZE);
                if joins {
                    take(begin + (lanes & ((1 << warp::lane_id()) - 1)).count_ones(), replacement);
                }
                place += warp::WARP_SIZE;
            }
            number += warps();
        }
    }
}
