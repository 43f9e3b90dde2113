//! The candidates of a query: the slots of the best rows of all segments.

use cuda_std::prelude::*;

use super::list::{NO_ENTRY, QueryLists};
use super::{ListCandidatesArgs, RANK_THREADS};
use crate::collectives::strided;
use crate::graph::NO_SLOT;

/// Writes the candidates of one query, the best first; one block per query.
///
/// # Safety
/// The arguments are as [`ListCandidatesArgs`] says, and the launch is the one planned for them.
#[kernel(max_threads = 128)]
pub unsafe fn knn_candidates(args: ListCandidatesArgs) {
    let ListCandidatesArgs { lists, slots, candidates, queries_len, segments, list_len } = args;
    let (query, best) = (thread::block_idx_x(), shared::dynamic_shared_mem::<u64>());
    // SAFETY: the caller's promise; the whole block comes here, and i < list_len.
    unsafe {
        QueryLists::new(lists, query, queries_len, segments, list_len).merge_into(best);
        thread::sync_threads();
        strided(thread::thread_idx_x(), list_len, RANK_THREADS, |i| {
            let slot = match best.add(i).load() {
                NO_ENTRY => NO_SLOT,
                entry => global::load_readonly(slots.at(entry as u32 as usize)),
            };
            global::store(candidates.at(query as usize * list_len as usize + i as usize), slot);
        });
    }
}
