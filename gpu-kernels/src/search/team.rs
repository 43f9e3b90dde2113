//! Beam search by a team of warps per query, for batches too small to fill the device.
//!
//! The first warp, the *leader*, owns the frontier and visits vertices in the order of a search by one warp. The other
//! warps are *workers*. A team has a few *work slots*, each served by the same number of workers: a slot takes one vertex
//! at a time, and each of its workers gathers and scores a part of the vertex's neighbors.
//!
//! ```text
//! leader:                                             workers of a slot:
//!     while the frontier has an unvisited vertex:         loop:
//!         slot = the one with the nearest vertex,             wait for a request
//!                or a free one, requested now                 load the links of its vertex
//!         request the next unvisited vertices                 drop what the visited cache knows
//!             for idle slots                 (look_ahead)     score the rest
//!         mark the vertex visited                             keep keys below the frontier's bound
//!         wait until the slot is done                         mark the part as done
//!         if a new key is the next vertex: request it
//!         insert the new keys into the frontier
//!     dismiss the workers
//! ```
//!
//! What differs from the search by one warp, for latency, and why the results are the same:
//!
//! 1. *Vertices are scored before their turn.* Only the leader inserts keys, and only when it visits the vertex they belong
//!    to, so the frontier goes through the same states. Work on a vertex that is never visited is lost, and counted nowhere.
//! 2. *Workers drop keys that are not below the bound* of a frontier that is older than the leader's. The bound only
//!    falls, so such a key could not enter later either.
//! 3. *Ids enter the visited cache when their vertex is visited,* not when they are seen: another slot may need them
//!    first. Two slots may score one id; the frontier drops the copy.
//! 4. *The nearest new key is requested before the frontier has it,* if it is nearer than every unvisited entry. If the
//!    frontier holds it as visited, the request was in vain.
//! 5. *There are no barriers.* A word per slot holds the request, another counts the parts done; whoever waits polls one
//!    word. A fence of the block stands between each of these words and the data it announces.
//!
//! A vertex that was foreseen costs the time of the leader's own steps, another one two trips to memory.

mod leader;
mod slots;
mod worker;

use cuda_std::prelude::*;

use super::SearchArgs;
use super::frontier::WARP;
use super::score::Scorer;
use super::shared_layout::{Layout, Needs};
use super::visited::VisitedCache;
use leader::Leader;
use slots::WorkSlots;
use worker::Worker;

/// The search for one query, by the block of this thread.
///
/// # Safety
/// The arguments are as [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<S: Scorer>(args: SearchArgs, scorer_args: S::Args, needs: Needs) {
    let query = thread::block_idx_x();
    let layout = Layout::new(&args, needs);
    let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the plan gave the block the memory of its layout; whole warps take either branch.
    unsafe {
        let scorer = S::new(&args, &scorer_args, query, part(layout.query), thread, threads);
        let visited = VisitedCache::new(part(layout.visited).cast(), args.visited_slots, thread, threads);
        let slots = WorkSlots::new(&args, &layout, threads / WARP - 1);
        slots.clear(thread);
        thread::sync_threads();
        if thread < WARP {
            Leader::new(&args, &layout, slots).search(&args, query);
        } else {
            Worker::new(&layout, slots, visited, thread / WARP - 1).serve(&args, query, &scorer);
        }
    }
}
