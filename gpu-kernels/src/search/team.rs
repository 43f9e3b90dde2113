//! Several warps a query, for batches that leave most of the device idle.
//!
//! The first warp *leads*: it alone has the frontier, and visits vertices in the order of a single warp, so that a search
//! finds the same, whatever its team. It never scores. The neighbours of a vertex are gathered and scored by *workers*,
//! in a *place*: a few places, each with the same number of workers, of whom each takes its part of the neighbours. So
//! the next few vertices in line are scored ahead of their turn, and one that nobody saw coming is scored by several
//! warps at once.
//!
//! ```text
//! leader    nearest is in no place: request ─┐   look ahead: requests     wait     take its keys in
//! workers                  links ─ filter ─ rows ─ keys below the bound ─ done ─┘   (next request)
//! ```
//!
//! Nobody waits for a barrier: words in shared memory say what is requested and what is done, and who waits looks at one
//! of them again and again. A hop that was foreseen costs the leader's work alone, and one that was not two trips to
//! memory more.

mod leader;
mod places;
mod worker;

use cuda_std::prelude::*;

use super::SearchArgs;
use super::filter::Filter;
use super::frontier::WARP;
use super::layout::{Layout, Needs};
use super::score::Scorer;
use leader::Leader;
use places::Places;
use worker::Worker;

/// One search, by the block that this thread is of.
///
/// # Safety
/// The arguments are what [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<S: Scorer>(args: SearchArgs, of: S::Args, needs: Needs) {
    let query = thread::block_idx_x();
    let layout = Layout::new(&args, needs);
    let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the plan gave the block the memory of its layout; whole warps take either way.
    unsafe {
        let scorer = S::new(&args, &of, query, part(layout.query), thread, threads);
        let filter = Filter::new(part(layout.filter).cast(), args.filter_slots, thread, threads);
        let places = Places::new(&args, &layout, threads / WARP - 1);
        places.clear(thread);
        thread::sync_threads();
        if thread < WARP {
            Leader::new(&args, &layout, places).search(&args, query);
        } else {
            Worker::new(&layout, places, filter, thread / WARP - 1).serve(&args, query, &scorer);
        }
    }
}
