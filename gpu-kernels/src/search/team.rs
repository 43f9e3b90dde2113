//! Beam search by a team of warps per query, for batches too small to fill the device.
//!
//! The first warp, the *leader*, owns the frontier and expands vertices in the order of a search by one warp. The other
//! warps are *workers*. A team has a few *mailboxes*, each served by the same number of workers: a mailbox takes one
//! vertex at a time, and each of its workers gathers a part of the vertex's neighbors and computes their distances. A
//! team of 8 warps with 3 mailboxes, for example, has 2 workers per mailbox, and one worker is left over. The *bound*
//! of the frontier is the last entry of a full frontier; larger entries cannot enter.
//!
//! ```text
//! leader:                                             workers of a mailbox:
//!     while the frontier has an unexpanded vertex:        loop:
//!         mailbox = the one with the nearest vertex,          wait for a request
//!                or a free one, requested now                 load the edges of its vertex
//!         request the next unexpanded vertices                drop what the visited cache knows
//!             for idle mailboxes             (look_ahead)     compute distances of the others
//!         mark the vertex expanded                            keep entries below the frontier's bound
//!         wait until the mailbox is done                      mark the part as done
//!         if a new entry is the next vertex: request it
//!         insert the new entries into the frontier
//!     shut the workers down
//! ```
//!
//! What differs from the search by one warp, for latency, and why the results are the same:
//!
//! 1. *Distances are computed before the vertex is expanded.* Only the leader inserts entries, and only when it expands
//!    the vertex, so the frontier goes through the same states. Work for a vertex that is never expanded is lost, and
//!    not counted.
//! 2. *Workers drop entries that are not below the bound of the frontier.* The bound that they read may be out of date.
//!    The bound only falls, so such an entry could not enter the current frontier either.
//! 3. *Neighbors enter the visited cache after the leader has merged them,* not when their distances are computed:
//!    another mailbox may have to report them for a vertex that is expanded earlier. Their worker inserts them at the
//!    next request of its mailbox. Two mailboxes may compute the same distance; the frontier drops the copy.
//! 4. *The nearest new entry is requested before it is inserted,* if it is nearer than every unexpanded entry. The
//!    request is wasted if the frontier holds that vertex as expanded.
//! 5. *There are no barriers after the start.* One word per mailbox holds the request, another counts the parts done,
//!    and a waiting warp polls one word. A block fence separates the accesses to each of these words from those to the
//!    data it announces.
//!
//! Expanding a vertex that was requested ahead costs only the leader's work; any other costs two memory round trips.

mod leader;
mod mailboxes;
mod worker;

use cuda_std::prelude::*;

use super::distances::DistanceComputer;
use super::shared_layout::{Layout, LayoutParams};
use super::visited::VisitedCache;
use crate::WARP_SIZE;
use leader::Leader;
use mailboxes::Mailboxes;
use worker::Worker;

/// The search for one query, by the block of this thread.
///
/// # Safety
/// The arguments are as [`SearchArgs`](super::SearchArgs) says, and the launch is that of the kernel's `launch_config`
/// for them.
#[inline(always)]
pub(super) unsafe fn search<S: DistanceComputer>(kernel_args: S::Args) {
    let (args, query) = (kernel_args.as_ref(), thread::block_idx_x());
    let query_bytes = S::query_bytes(&kernel_args);
    let layout = Layout::new(args, LayoutParams { query_bytes, has_list: true, is_team: true });
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the launch configuration gave the block the memory of its layout; each warp takes one of the branches as
    // a whole.
    unsafe {
        let computer = S::new(&kernel_args, query, Layout::memory_at(layout.query), thread, threads);
        let visited =
            VisitedCache::new(Layout::memory_at(layout.visited), args.beam.visited_buckets, thread, threads);
        let mailboxes = Mailboxes::new(args, &layout, threads / WARP_SIZE - 1);
        mailboxes.clear(thread);
        thread::sync_threads();
        if thread < WARP_SIZE {
            Leader::new(args, &layout, mailboxes).search(args, query);
        } else {
            Worker::new(&layout, mailboxes, visited, thread / WARP_SIZE - 1).serve(args, query, &computer);
        }
    }
}
