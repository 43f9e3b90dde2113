//! Beam search by a team of warps per query, for batches too small to fill the device.
//!
//! The first warp, the *leader*, owns the frontier and expands vertices in the order of a search by one warp. The other
//! warps are *workers*. A team has a few *work slots*, each served by the same number of workers: a slot takes one
//! vertex at a time, and each of its workers gathers and scores a part of the vertex's neighbors.
//!
//! ```text
//! leader:                                             workers of a slot:
//!     while the frontier has an unexpanded vertex:        loop:
//!         slot = the one with the nearest vertex,             wait for a request
//!                or a free one, requested now                 load the edges of its vertex
//!         request the next unexpanded vertices                drop what the visited cache knows
//!             for idle slots                 (look_ahead)     score the others
//!         mark the vertex expanded                            keep entries below the frontier's bound
//!         wait until the slot is done                         mark the part as done
//!         if a new entry is the next vertex: request it
//!         insert the new entries into the frontier
//!     dismiss the workers
//! ```
//!
//! What differs from the search by one warp, for latency, and why the results are the same:
//!
//! 1. *Vertices are scored before their turn.* Only the leader inserts entries, and only when it expands the vertex
//!    they belong to, so the frontier goes through the same states. Work on a vertex that is never expanded is lost,
//!    and not counted.
//! 2. *Workers drop entries that are not below the bound* of a frontier that is older than the leader's. The bound only
//!    falls, so such an entry could not enter later either.
//! 3. *Neighbors enter the visited cache after the leader has merged them,* not when they are scored: another slot may
//!    need them first. The worker that scored them enters them at the next request of its slot. Two slots may score one
//!    id; the frontier drops the copy.
//! 4. *The nearest new entry is requested before the frontier has it,* if it is nearer than every unexpanded entry. If
//!    the frontier holds it as expanded, the request was in vain.
//! 5. *There are no barriers after the start.* A word per slot holds the request, another counts the parts done;
//!    whoever waits polls one word. A fence of the block stands between each of these words and the data it announces.
//!
//! A vertex that was foreseen costs the time of the leader's own steps, another one two trips to memory.

mod leader;
mod slots;
mod worker;

use cuda_std::prelude::*;

use super::score::Scorer;
use super::shared_layout::{Layout, LayoutParams};
use super::visited::VisitedCache;
use crate::WARP_SIZE;
use leader::Leader;
use slots::WorkSlots;
use worker::Worker;

/// The search for one query, by the block of this thread.
///
/// # Safety
/// The arguments are as [`SearchArgs`](super::SearchArgs) says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<S: Scorer>(kernel_args: S::Args) {
    let (args, query) = (kernel_args.as_ref(), thread::block_idx_x());
    let query_bytes = S::query_bytes(&kernel_args);
    let layout = Layout::new(args, LayoutParams { query_bytes, has_list: true, is_team: true });
    let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the plan gave the block the memory of its layout; whole warps take either branch.
    unsafe {
        let scorer = S::new(&kernel_args, query, part(layout.query), thread, threads);
        let visited = VisitedCache::new(part(layout.visited).cast(), args.visited_slots, thread, threads);
        let slots = WorkSlots::new(args, &layout, threads / WARP_SIZE - 1);
        slots.clear(thread);
        thread::sync_threads();
        if thread < WARP_SIZE {
            Leader::new(args, &layout, slots).search(args, query);
        } else {
            Worker::new(&layout, slots, visited, thread / WARP_SIZE - 1).serve(args, query, &scorer);
        }
    }
}
