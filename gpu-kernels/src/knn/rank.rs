//! The ranking: the best of the lists of one query, in exact order.

use cuda_std::prelude::*;

use super::exact::{LANES, distance, from_ordered_bits, ordered_bits};
use super::list::QueryLists;
use super::score::Score;
use super::{RANK_THREADS, RankArgs, list_len};
use crate::DevicePtr;
use crate::collectives::strided;
use crate::graph::NO_SLOT;
use crate::neighbor::NO_CANDIDATE;

/// The query of this block.
struct QueryRanking {
    args: RankArgs,
    query: u32,
    /// `[list_len]`: the best entries of all lists.
    candidates: Shared<u64>,
    /// `[list_len]`: their distances, ordered_bits.
    distances: Shared<u64>,
}

impl QueryRanking {
    /// The row of an entry.
    #[inline(always)]
    fn row(&self, entry: u64) -> DevicePtr<u8> {
        self.args.rows.add(entry as u32 as usize * self.args.row_bytes as usize)
    }

    /// Computes the distance of each candidate, with eight lanes per candidate. Called by the whole block, with a
    /// barrier before and after.
    ///
    /// # Safety
    /// The arguments are as [`RankArgs`] says.
    #[inline(always)]
    unsafe fn measure<S: Score>(&self) {
        let query = self.args.queries.add(self.query as usize * self.args.row_bytes as usize);
        strided(thread::thread_idx_x() / LANES, list_len(self.args.wanted), RANK_THREADS / LANES, |i| {
            // SAFETY: i < list_len, a multiple of the candidates that a block measures at once: whole warps take part,
            // those without a candidate with row 0 in its place.
            unsafe {
                let entry = self.candidates.add(i).load();
                let row = self.row(if entry == NO_CANDIDATE { 0 } else { entry });
                let distance = distance::<S>(query, row, self.args.dimension);
                if thread::thread_idx_x().is_multiple_of(LANES) {
                    self.distances.add(i).store(if entry == NO_CANDIDATE {
                        NO_CANDIDATE
                    } else {
                        ordered_bits(distance)
                    });
                }
            }
        });
    }

    /// Writes the best k: the place of each candidate is the number of candidates before it. Called by the whole
    /// block, after a barrier.
    ///
    /// # Safety
    /// The arguments are as [`RankArgs`] says.
    #[inline(always)]
    unsafe fn write(&self) {
        let RankArgs { wanted, k, ids, distances, .. } = self.args;
        let list_len = list_len(wanted);
        let first = self.query as usize * k as usize;
        strided(thread::thread_idx_x(), list_len, RANK_THREADS, |i| {
            // SAFETY: places below k are those of this query; each is the place of one candidate.
            unsafe {
                let key = (self.distances.add(i).load(), self.candidates.add(i).load() as u32);
                let mut place = 0;
                for other in 0..list_len {
                    let before =
                        (self.distances.add(other).load(), self.candidates.add(other).load() as u32) < key;
                    place += u32::from(before);
                }
                // Candidates that are none stay where they are: after all others.
                let (place, id, distance) = if key.0 == NO_CANDIDATE {
                    (i, NO_SLOT, f64::INFINITY.to_bits())
                } else {
                    (place, key.1, from_ordered_bits(key.0).to_bits())
                };
                if place < k {
                    global::store(ids.at(first + place as usize), id);
                    global::store(distances.at(first + place as usize), distance);
                }
            }
        });
    }
}

/// Ranks the candidates of one query.
///
/// # Safety
/// The arguments are as [`RankArgs`] says, and the launch is that of the kernel's `launch_config` for them: one block
/// per query.
#[inline(always)]
pub(super) unsafe fn rank<S: Score>(args: RankArgs) {
    let candidates = shared::dynamic_shared_mem::<u64>();
    let distances = candidates.add(list_len(args.wanted));
    let ranking = QueryRanking { args, query: thread::block_idx_x(), candidates, distances };
    // SAFETY: upheld by the caller; the whole block comes here.
    unsafe {
        QueryLists::new(args.lists, ranking.query, args.queries_len, args.segments, args.wanted)
            .merge_into(candidates);
        thread::sync_threads();
        ranking.measure::<S>();
        thread::sync_threads();
        ranking.write();
    }
}
