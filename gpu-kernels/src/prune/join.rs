//! The nearest of its own batch, which the graph does not lead to yet.

use cuda_std::prelude::*;

use super::keep::Memory;
use super::layout::join_capacity;
use super::score::score;
use super::sort::{NO_CANDIDATE, for_my_places, sort_padded};
use super::space::Space;
use super::update::sampled;
use super::{DISTANCES, JoinArgs};
use crate::graph::NO_ROW;
use crate::neighbor;

/// Compares one vertex with the others of its group; one block a vertex.
///
/// # Safety
/// The arguments are what [`JoinArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn join<S: Space>(args: JoinArgs) {
    let list = thread::block_idx_x();
    let most = args.prune.max_degree;
    let memory = Memory::carve(&args.prune, join_capacity(args.at_once, most, args.candidates_stride));
    // SAFETY: the whole block comes to every step; there is room for what is found and what joins.
    unsafe {
        let vertex = global::load_readonly(args.batch.at(list as usize));
        let bound = bound(&args, list, vertex, memory.keys);
        if thread::thread_idx_x() == 0 {
            memory.fresh.store(0);
        }
        thread::sync_threads();
        let first = list / args.group * args.group;
        let len = args.group.min(args.lists - first);
        let mut near = Near { vertex, bound, most, kept: 0, keys: memory.keys, count: memory.fresh };
        let space = S::new(&args.prune.graph, args.prune.form);
        // One of each so many, then the others.
        let (every, samples) = (args.every, len.div_ceil(args.every));
        let of_sample = |number: u32| sampled(number) % every.min(len - number * every);
        let mut compared = samples;
        near.compare(&space, &args, samples, |number| first + number * every + of_sample(number));
        if near.kept > 0 {
            compared = len;
            near.compare(&space, &args, len - samples, |i| {
                let (number, other) = (i / (every - 1), i % (every - 1));
                first + number * every + other + u32::from(other >= of_sample(number))
            });
        }
        near.keep(&args, list);
        if thread::thread_idx_x() == 0 {
            let number = (list - first) / every;
            let itself = compared == len || (list - first) % every == of_sample(number);
            atomic::add(args.prune.counters.at(DISTANCES), u64::from(compared - u32::from(itself)));
        }
    }
}

/// The nearest so far to a vertex, of those nearer than `bound`.
struct Near {
    vertex: u32,
    bound: u64,
    most: u32,
    kept: u32,
    keys: Shared<u64>,
    count: Shared<u32>,
}

impl Near {
    /// Takes in `len` vertices, whose places in the batch `place` gives. Whole block; a barrier.
    ///
    /// # Safety
    /// There are such places; a barrier has passed since the count was written.
    #[inline(always)]
    unsafe fn compare<S: Space>(&mut self, space: &S, args: &JoinArgs, len: u32, place: impl Fn(u32) -> u32) {
        let mut first = 0;
        while first < len {
            let at = |i: u32| place(first + i) as usize;
            let (bound, keys, count) = (self.bound, self.keys, self.count);
            // SAFETY: the caller's promise; before this, at most `most` are kept, so that there is room for as many more
            // as are compared.
            unsafe {
                let id = |i: u32| global::load_readonly(args.batch.at(at(i)));
                let is_linked = |i: u32| global::load_readonly(args.identical.at(at(i))) == NO_ROW;
                score(space, self.vertex, args.at_once.min(len - first), id, |i, id, distance| {
                    let key = neighbor::key(distance, id);
                    if id != self.vertex && key < bound && is_linked(i) {
                        keys.add(count.atomic_add(1)).store(key);
                    }
                });
                let found = count.load();
                self.kept = found.min(self.most);
                if found > self.most {
                    sort_padded(keys, found);
                    self.bound = keys.add(self.most - 1).load();
                    if thread::thread_idx_x() == 0 {
                        count.store(self.kept);
                    }
                }
                thread::sync_threads();
            }
            first += args.at_once;
        }
    }

    /// Writes them down, rising. Whole block.
    ///
    /// # Safety
    /// There is such a list; a barrier has passed since the last was taken in.
    #[inline(always)]
    unsafe fn keep(&self, args: &JoinArgs, list: u32) {
        let joined = args.joined.from(list as usize * self.most as usize);
        // SAFETY: the caller's promise; at most `most` are kept.
        unsafe {
            sort_padded(self.keys, self.kept);
            for_my_places(self.most, |place| {
                let key = if place < self.kept { self.keys.add(place).load() } else { NO_CANDIDATE };
                global::store(joined.at(place as usize), key);
            });
        }
    }
}

/// The candidate behind which nothing joins: where a row would be full of what the search found. Whole block; all have read
/// it at the next barrier.
///
/// # Safety
/// As for [`join`]; there is room for the candidates.
#[inline(always)]
unsafe fn bound(args: &JoinArgs, list: u32, vertex: u32, keys: Shared<u64>) -> u64 {
    // SAFETY: the whole block comes here; the candidates are those of this list.
    unsafe {
        let found = global::load_readonly(args.work.at(2 * list as usize));
        let most = args.prune.max_degree;
        if found < most {
            return NO_CANDIDATE;
        }
        let candidates = args.candidates.from(list as usize * args.candidates_stride as usize);
        for_my_places(found, |place| {
            let key = global::load_readonly(candidates.at(place as usize)) | neighbor::UNVISITED;
            keys.add(place).store(if neighbor::id(key) == vertex { NO_CANDIDATE } else { key });
        });
        sort_padded(keys, found);
        keys.add(most - 1).load()
    }
}
