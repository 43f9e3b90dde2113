//! The links of a new vertex, from what its search expanded.

use cuda_std::prelude::*;

use super::keep::{Memory, keep};
use super::layout::link_capacity;
use super::sort::{NO_CANDIDATE, sort};
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
    let memory = Memory::carve(&args.prune, link_capacity(args.candidates_stride));
    let space = S::new(&args.prune.graph, args.prune.form);
    // SAFETY: the whole block comes to every step; reads and writes are in the places of this list.
    unsafe {
        let vertex = global::load_readonly(args.batch.at(list));
        let count = sorted_candidates(&args, list, vertex, memory.keys).min(args.prune.max_candidates);
        let identical = find_identical(&args, vertex, memory.keys, count);
        let (ids, distances) =
            (args.ids.from(list * stride as usize), args.distances.from(list * stride as usize));
        let take = |place: u32, key: u64| {
            if thread::thread_idx_x() == 0 {
                global::store(ids.at(place as usize), neighbor::id(key));
                global::store(distances.at(place as usize), neighbor::orderable(key));
            }
        };
        let count = if identical == NO_ROW { count } else { 0 };
        let kept = keep(&space, &args.prune, &memory, count, take);
        let mut place = kept + thread::thread_idx_x();
        while place < stride {
            global::store(ids.at(place as usize), NO_ROW);
            place += thread::block_dim_x();
        }
        if thread::thread_idx_x() == 0 {
            global::store(args.vertices.at(list), if identical == NO_ROW { vertex } else { NO_ROW });
            global::store(args.identical.at(list), identical);
            let counters = args.prune.counters;
            let work = args.work.from(2 * list);
            atomic::add(counters.at(HOPS), u64::from(global::load_readonly(work.at(0))));
            atomic::add(counters.at(DISTANCES), u64::from(global::load_readonly(work.at(1))));
            if identical != NO_ROW {
                atomic::add(counters.at(IDENTICAL), 1);
            }
        }
    }
}

/// Brings the candidates of a list to shared memory, sorted and without the vertex itself; returns how many there are.
///
/// # Safety
/// As for [`link`].
#[inline(always)]
unsafe fn sorted_candidates(args: &LinkArgs, list: usize, vertex: u32, keys: Shared<u64>) -> u32 {
    // SAFETY: the whole block comes here; places are below the stride, and the memory has room for the power of two above.
    unsafe {
        let found = global::load_readonly(args.work.at(2 * list));
        let candidates = args.candidates.from(list * args.candidates_stride as usize);
        let len = found.next_power_of_two();
        let mut place = thread::thread_idx_x();
        while place < len {
            let key = if place < found {
                global::load_streaming(candidates.at(place as usize)) | neighbor::UNVISITED
            } else {
                NO_CANDIDATE
            };
            keys.add(place).store(if neighbor::id(key) == vertex { NO_CANDIDATE } else { key });
            place += thread::block_dim_x();
        }
        thread::sync_threads();
        sort(keys, len);
        if found > 0 && keys.add(found - 1).load() == NO_CANDIDATE { found - 1 } else { found }
    }
}

/// The nearest candidate that has the very row of the vertex; [`NO_ROW`] if there is none. Whole block.
///
/// # Safety
/// As for [`link`]; there are `count` candidates, sorted.
#[inline(always)]
unsafe fn find_identical(args: &LinkArgs, vertex: u32, keys: Shared<u64>, count: u32) -> u32 {
    let graph = &args.prune.graph;
    let row = |id: u32| graph.rows.from(id as usize * graph.row_bytes as usize);
    let mut place = 0;
    // SAFETY: the whole block comes here, and goes by keys that are the same in all threads; chunks are within the rows.
    unsafe {
        while place < count {
            let key = keys.add(place).load();
            if neighbor::orderable(key) != neighbor::orderable(keys.load()) {
                break;
            }
            let (id, mut same) = (neighbor::id(key), true);
            let mut at = thread::thread_idx_x() as usize * 16;
            while at < graph.row_bytes as usize {
                let [one, other]: [[u32; 4]; 2] =
                    [vertex, id].map(|id| global::load_readonly(row(id).at(at).cast()));
                same &= one == other;
                at += thread::block_dim_x() as usize * 16;
            }
            if thread::sync_threads_and(same) {
                return id;
            }
            place += 1;
        }
    }
    NO_ROW
}
