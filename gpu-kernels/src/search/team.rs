//! Several warps a query, for batches that leave most of the device idle.
//!
//! The first warp leads: it alone has the frontier. Each warp has a *place* for the neighbours of a vertex that is
//! scored *ahead* of its turn: one of the nearest that are not visited. It gathers them, all warps score them, and it
//! sorts what is near enough, so that little is left for the leader, for which the others wait. So a step costs two
//! trips to memory for several hops. The leader then visits vertices in the order of a single warp, as long as the next
//! one's neighbours are scored: what a search finds is the same, whatever its team.

mod ahead;
mod leader;

use cuda_std::prelude::*;

use super::SearchArgs;
use super::answers::{self, Work};
use super::filter::Filter;
use super::frontier::{Frontier, NO_KEY, WARP, lanes_below};
use super::layout::{Layout, Needs};
use super::score::Scorer;
use ahead::Ahead;
use leader::Leader;

/// One search, by the block that this thread is of.
///
/// # Safety
/// The arguments are what [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<F: Frontier, S: Scorer>(args: SearchArgs, of: S::Args, needs: Needs) {
    let query = thread::block_idx_x();
    let layout = Layout::new(&args, needs);
    let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the plan gave the block the memory of its layout; what decides about barriers is the same in all threads.
    unsafe {
        let scorer = S::new(&args, &of, query, part(layout.query), thread, threads);
        let filter = Filter::new(part(layout.filter).cast(), args.filter_slots, thread, threads);
        let ahead = Ahead {
            places: args.expansions.min(threads / WARP),
            stride: args.graph.links_stride,
            ids: part(layout.ids).cast(),
            keys: part(layout.keys).cast(),
            wanted: part(layout.wanted).cast(),
            control: part(layout.control).cast(),
            filter,
            warp: thread / WARP,
            warps: threads / WARP,
        };
        let mut leader = Leader::new(F::new(args.beam_width, part(layout.list).cast()));
        let mut work = Work { hops: 0, distances: 0 };
        let mut started = 0;
        if thread == 0 {
            ahead.bound().store(NO_KEY);
        }
        loop {
            let is_start = started < args.graph.starts_len;
            if is_start {
                started = ahead.meet_starts(&args, query, started);
            } else {
                if ahead.warp == 0 {
                    leader.choose(&ahead, work.hops < args.most_hops);
                }
                thread::sync_threads();
                if ahead.chosen() == NOTHING_LEFT {
                    break;
                }
                ahead.gather(&args);
            }
            thread::sync_threads();
            ahead.score(&scorer);
            thread::sync_threads();
            ahead.sort(&args);
            thread::sync_threads();
            if ahead.warp == 0 {
                leader.take(&ahead, is_start, (&args, query), &mut work);
            }
            if is_start {
                // The places are filled again by all.
                thread::sync_threads();
            }
        }
        if ahead.warp == 0 {
            answers::write(&args, query, leader.frontier(), work);
        }
    }
}

/// The chosen places when the search is over.
const NOTHING_LEFT: u32 = 0;

/// Writes the values of the lanes that keep theirs, one behind the other; gives how many.
///
/// # Safety
/// Whole warp. There is room for them, which nobody else uses.
#[inline(always)]
unsafe fn append<T: cuda_std::Value>(to: Shared<T>, value: T, is_kept: bool) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_kept);
        if is_kept {
            to.add((lanes & lanes_below()).count_ones()).store(value);
        }
        lanes.count_ones()
    }
}

/// Key `at` of `len`; [`NO_KEY`] behind the last.
///
/// # Safety
/// There are as many, and all that wrote them are waited for.
#[inline(always)]
unsafe fn key_at(keys: Shared<u64>, at: u32, len: u32) -> u64 {
    // SAFETY: at < len.
    if at < len { unsafe { keys.add(at).load() } } else { NO_KEY }
}
