//! Candidates from the same batch: the nearest of the vertices that are inserted together, which no search can find
//! yet.
//!
//! ```text
//! find_peers(p):
//!     bound <- the max_degree-th of the candidates that the search for p found
//!     nearest <- []
//!     for round in 0..3:
//!         stop if nearest has fewer than round entries
//!         nearest <- the nearest max_degree of nearest and this round's peers that are nearer than bound
//! ```
//!
//! The peers of a vertex are the other vertices of its batch. The first round samples a few of them, the second some
//! more, and the third takes the rest. Most vertices have no near peer, and cost only the sample.
//! `jasper_vamana::PeerSampling` makes the same choice on the CPU.

use cuda_std::prelude::*;

use super::layout::peers_capacity;
use super::pair_distances::PairDistances;
use super::robust_prune::PruneBlock;
use super::sort::sort_padded;
use super::update::run_hash;
use super::{DISTANCES, FindPeersArgs};
use crate::collectives::block_stride;
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_CANDIDATE};

/// Compares one vertex with its peers; one block per vertex.
///
/// # Safety
/// The arguments are what [`FindPeersArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[inline(always)]
pub(super) unsafe fn find_peers<S: PairDistances>(args: FindPeersArgs) {
    let batch_index = thread::block_idx_x();
    let limit = args.prune.max_degree;
    let capacity = peers_capacity(args.chunk_len, limit, args.candidates.stride);
    // SAFETY: all threads of the block reach every barrier; there is room for the candidates and the peers.
    unsafe {
        let vertex = global::load_readonly(args.candidates.new_vertices.at(batch_index as usize));
        let block = PruneBlock::<S>::new(&args.prune, vertex, capacity);
        let memory = &block.memory;
        let bound = bound(&args, batch_index, vertex, memory.entries);
        if thread::thread_idx_x() == 0 {
            memory.count.store(0);
        }
        thread::sync_threads();
        let mut nearest =
            Nearest { vertex, bound, limit, len: 0, entries: memory.entries, count: memory.count };
        let rounds = Rounds {
            stride: args.stride,
            second: args.stride.min(1 + args.second_round),
            len: args.candidates.vertices_len,
        };
        let (mut round, mut compared) = (0, 0);
        while round < Rounds::COUNT && nearest.len >= round.min(limit) {
            let turns = rounds.turns(round);
            let peers = rounds.peers(turns);
            nearest.insert(&block, &args, peers, |i| rounds.place(turns, i));
            compared += peers;
            round += 1;
        }
        nearest.store(&args, batch_index);
        if thread::thread_idx_x() == 0 {
            let itself = rounds.turn(batch_index) < rounds.turns(round - 1).1;
            atomic::add(args.prune.counters.at(DISTANCES), u64::from(compared - u32::from(itself)));
        }
    }
}

/// Which peers of a batch of `len` each round compares.
///
/// The batch is split into runs of `stride` consecutive vertices. Each vertex of a run has a turn below `stride`; which
/// vertex has turn 0 differs between runs. The first round takes turn 0, the second the turns below
/// `second`, and the third the rest. With `stride` = 32 and `second` = 4, these are 1, 3 and 28 vertices of each run.
#[derive(Clone, Copy)]
struct Rounds {
    stride: u32,
    second: u32,
    len: u32,
}

impl Rounds {
    const COUNT: u32 = 3;

    /// The turns of a round: the first, and one past the last.
    #[inline(always)]
    fn turns(self, round: u32) -> (u32, u32) {
        match round {
            0 => (0, 1),
            1 => (1, self.second),
            _ => (self.second, self.stride),
        }
    }

    /// The number of vertices of the batch that have these turns.
    #[inline(always)]
    fn peers(self, (from, to): (u32, u32)) -> u32 {
        let rest = self.len % self.stride;
        self.len / self.stride * (to - from) + rest.min(to) - rest.min(from)
    }

    /// The place of the `i`-th of them in the batch.
    #[inline(always)]
    fn place(self, (from, to): (u32, u32), i: u32) -> u32 {
        let (run, turn) = (i / (to - from), from + i % (to - from));
        let (first, len, start) = self.run(run);
        first + (start + turn) % len
    }

    /// The turn of a place.
    #[inline(always)]
    fn turn(self, place: u32) -> u32 {
        let (first, len, start) = self.run(place / self.stride);
        (place - first + len - start) % len
    }

    /// The first place of a run, its length, and which of its places has turn 0.
    #[inline(always)]
    fn run(self, index: u32) -> (u32, u32, u32) {
        let first = index * self.stride;
        let len = self.stride.min(self.len - first);
        (first, len, run_hash(index) % len)
    }
}

/// The nearest peers so far, at most `limit`, all nearer than `bound`.
struct Nearest {
    vertex: u32,
    bound: u64,
    limit: u32,
    len: u32,
    entries: Shared<u64>,
    count: Shared<u32>,
}

impl Nearest {
    /// Inserts `len` peers; `place` returns the index of each in the batch. Called by the whole block, with a barrier.
    ///
    /// # Safety
    /// The indices are within the batch; a barrier has passed since the count was written.
    #[inline(always)]
    unsafe fn insert<S: PairDistances>(
        &mut self,
        block: &PruneBlock<'_, S>,
        args: &FindPeersArgs,
        len: u32,
        place: impl Fn(u32) -> u32,
    ) {
        let mut first = 0;
        while first < len {
            let at = |i: u32| place(first + i) as usize;
            let (bound, entries, count) = (self.bound, self.entries, self.count);
            // SAFETY: upheld by the caller; at most `limit` entries are there, which leaves room for `chunk_len` more.
            unsafe {
                let slot = |i: u32| global::load_readonly(args.candidates.new_vertices.at(at(i)));
                let is_linked = |i: u32| global::load_readonly(args.duplicate_of.at(at(i))) == NO_SLOT;
                block.compute_distances(
                    self.vertex,
                    args.chunk_len.min(len - first),
                    slot,
                    |i, slot, distance| {
                        let entry = neighbor::entry(distance, slot);
                        if slot != self.vertex && entry < bound && is_linked(i) {
                            entries.add(count.atomic_add(1)).store(entry);
                        }
                    },
                );
                let found = count.load();
                self.len = found.min(self.limit);
                if found > self.limit {
                    sort_padded(entries, found);
                    self.bound = entries.add(self.limit - 1).load();
                    if thread::thread_idx_x() == 0 {
                        count.store(self.len);
                    }
                }
                thread::sync_threads();
            }
            first += args.chunk_len;
        }
    }

    /// Writes the nearest peers to global memory, ascending. Called by the whole block.
    ///
    /// # Safety
    /// The batch has the vertex; a barrier has passed since the last insertion.
    #[inline(always)]
    unsafe fn store(&self, args: &FindPeersArgs, batch_index: u32) {
        let peers = args.peers.add(batch_index as usize * self.limit as usize);
        // SAFETY: upheld by the caller; there are at most `limit`.
        unsafe {
            sort_padded(self.entries, self.len);
            block_stride(self.limit, |place| {
                let entry = if place < self.len { self.entries.add(place).load() } else { NO_CANDIDATE };
                global::store(peers.at(place as usize), entry);
            });
        }
    }
}

/// The `max_degree`-th candidate of the search; farther peers would not enter a row of the candidates before it. Called
/// by the whole block; shared memory may be reused after the next barrier.
///
/// # Safety
/// The same as for [`find_peers`]; there is room for the candidates.
#[inline(always)]
unsafe fn bound(args: &FindPeersArgs, batch_index: u32, vertex: u32, entries: Shared<u64>) -> u64 {
    // SAFETY: all threads of the block reach this; the candidates are those of this vertex.
    unsafe {
        let found = global::load_readonly(args.candidates.costs.at(2 * batch_index as usize));
        let limit = args.prune.max_degree;
        if found < limit {
            return NO_CANDIDATE;
        }
        let candidates = args.candidates.entries_of(batch_index as usize);
        block_stride(found, |place| {
            let entry = neighbor::new_candidate(global::load_readonly(candidates.at(place as usize)));
            entries.add(place).store(if neighbor::slot(entry) == vertex { NO_CANDIDATE } else { entry });
        });
        sort_padded(entries, found);
        entries.add(limit - 1).load()
    }
}
