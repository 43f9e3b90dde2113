//! The nearest of its own batch, which the graph does not lead to yet.

use cuda_std::prelude::*;

use super::layout::batch_capacity;
use super::robust_prune::Memory;
use super::score::score;
use super::sort::{NO_CANDIDATE, for_my_places, sort_padded};
use super::space::Space;
use super::update::sampled;
use super::{BatchCandidatesArgs, DISTANCES};
use crate::graph::NO_ROW;
use crate::neighbor;

/// Compares one vertex with the others of its group; one block a vertex.
///
/// # Safety
/// The arguments are what [`BatchCandidatesArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn batch_candidates<S: Space>(args: BatchCandidatesArgs) {
    let list = thread::block_idx_x();
    let most = args.prune.max_degree;
    let memory = Memory::carve(&args.prune, batch_capacity(args.at_once, most, args.candidates_stride));
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
        let rounds = Rounds { every: args.every, second: args.every.min(1 + args.more), len };
        let (mut round, mut compared) = (0, 0);
        while round < Rounds::COUNT && near.kept >= round.min(most) {
            let turns = rounds.turns(round);
            let others = rounds.peers(turns);
            near.compare(&space, &args, others, |i| first + rounds.place(turns, i));
            compared += others;
            round += 1;
        }
        near.keep(&args, list);
        if thread::thread_idx_x() == 0 {
            let itself = rounds.turn(list - first) < rounds.turns(round - 1).1;
            atomic::add(args.prune.counters.at(DISTANCES), u64::from(compared - u32::from(itself)));
        }
    }
}

/// Who of a group of `len` is compared when. In each run of `every` that arrive together, a first one has turn 0, the one
/// behind it turn 1, and so on around: the first round takes turn 0, the second all up to turn `second`.
#[derive(Clone, Copy)]
struct Rounds {
    every: u32,
    second: u32,
    len: u32,
}

impl Rounds {
    const COUNT: u32 = 3;

    /// The first turn of a round, and the one behind its last.
    #[inline(always)]
    fn turns(self, round: u32) -> (u32, u32) {
        match round {
            0 => (0, 1),
            1 => (1, self.second),
            _ => (self.second, self.every),
        }
    }

    /// Vertices of the group that have these turns.
    #[inline(always)]
    fn peers(self, (from, to): (u32, u32)) -> u32 {
        let rest = self.len % self.every;
        self.len / self.every * (to - from) + rest.min(to) - rest.min(from)
    }

    /// The place of the `i`-th of them in the group.
    #[inline(always)]
    fn place(self, (from, to): (u32, u32), i: u32) -> u32 {
        let (run, turn) = (i / (to - from), from + i % (to - from));
        let (first, there, start) = self.run(run);
        first + (start + turn) % there
    }

    /// Whose turn a place is.
    #[inline(always)]
    fn turn(self, place: u32) -> u32 {
        let (first, there, start) = self.run(place / self.every);
        (place - first + there - start) % there
    }

    /// Where a run begins, how many are in it, and which of them has turn 0.
    #[inline(always)]
    fn run(self, number: u32) -> (u32, u32, u32) {
        let first = number * self.every;
        let there = self.every.min(self.len - first);
        (first, there, sampled(number) % there)
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
    unsafe fn compare<S: Space>(
        &mut self,
        space: &S,
        args: &BatchCandidatesArgs,
        len: u32,
        place: impl Fn(u32) -> u32,
    ) {
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
    unsafe fn keep(&self, args: &BatchCandidatesArgs, list: u32) {
        let batch_candidates = args.batch_candidates.add(list as usize * self.most as usize);
        // SAFETY: the caller's promise; at most `most` are kept.
        unsafe {
            sort_padded(self.keys, self.kept);
            for_my_places(self.most, |place| {
                let key = if place < self.kept { self.keys.add(place).load() } else { NO_CANDIDATE };
                global::store(batch_candidates.at(place as usize), key);
            });
        }
    }
}

/// The candidate behind which nothing joins: where a row would be full of what the search found. Whole block; all have read
/// it at the next barrier.
///
/// # Safety
/// As for [`batch_candidates`]; there is room for the candidates.
#[inline(always)]
unsafe fn bound(args: &BatchCandidatesArgs, list: u32, vertex: u32, keys: Shared<u64>) -> u64 {
    // SAFETY: the whole block comes here; the candidates are those of this list.
    unsafe {
        let found = global::load_readonly(args.work.at(2 * list as usize));
        let most = args.prune.max_degree;
        if found < most {
            return NO_CANDIDATE;
        }
        let candidates = args.candidates.add(list as usize * args.candidates_stride as usize);
        for_my_places(found, |place| {
            let key = global::load_readonly(candidates.at(place as usize)) | neighbor::UNVISITED;
            keys.add(place).store(if neighbor::id(key) == vertex { NO_CANDIDATE } else { key });
        });
        sort_padded(keys, found);
        keys.add(most - 1).load()
    }
}
