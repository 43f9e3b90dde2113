//! The candidates of a query: the slots of the best rows of all segments.

use cuda_std::prelude::*;

use super::list::QueryLists;
use super::{ListCandidatesArgs, RANK_THREADS};
use crate::collectives::strided;
use crate::graph::NO_SLOT;
use crate::neighbor::NO_CANDIDATE;

/// Writes the candidates of one query, the best first; one block per query.
///
/// # Safety
/// The arguments are as [`ListCandidatesArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[kernel(max_threads = 128)]
pub unsafe fn knn_candidates(args: ListCandidatesArgs) {
    let ListCandidatesArgs { lists, slots, candidates, queries_len, segments, wanted } = args;
    let (query, best) = (thread::block_idx_x(), shared::dynamic_shared_mem::<u64>());
    // SAFETY: upheld by the caller; the whole block comes here, and i < wanted.
    unsafe {
        QueryLists::new(lists, query, queries_len, segments, wanted).merge_into(best);
        thread::sync_threads();
        strided(thread::thread_idx_x(), wanted, RANK_THREADS, |i| {
            let slot = match best.add(i).load() {
                NO_CANDIDATE => NO_SLOT,
                entry => global::load_readonly(slots.at(entry as u32 as usize)),
            };
            global::store(candidates.at(query as usize * wanted as usize + i as usize), slot);
        });
    }
}
