//! The kernels: one thread per query.

use cuda_std::prelude::*;

use super::{CELLS, OrderArgs, cell_of};
use crate::prefix_sum::block::{block_sums, warp_inclusive_sum};

/// The query of this thread, which may be past the last.
fn query_of_thread() -> usize {
    (thread::block_idx_x() * CELLS + thread::thread_idx_x()) as usize
}

/// The cell of a query.
///
/// # Safety
/// The arguments are as the docs of their fields say, and `query` is below `len`.
unsafe fn cell(args: &OrderArgs, query: usize) -> u32 {
    // SAFETY: the caller's promise.
    cell_of(unsafe { global::load_readonly(args.nearest.at(query)) })
}

/// Counts the queries of each cell.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn count_cells(args: OrderArgs) {
    let query = query_of_thread();
    if query < args.len as usize {
        // SAFETY: the query is below `len`, and the cell below the number of counts.
        unsafe {
            let place = atomic::add(args.counts.at(cell(&args, query) as usize), 1);
            global::store(args.places.at(query), place);
        }
    }
}

/// Writes each query to its place in the order. Every block sums the counts for itself.
///
/// # Safety
/// The arguments are as the docs of their fields say, and the counts those of the first launch.
#[kernel(max_threads = 256)]
pub unsafe fn place_queries(args: OrderArgs) {
    let begins = shared::dynamic_shared_mem::<u32>();
    let (thread, query) = (thread::thread_idx_x(), query_of_thread());
    // SAFETY: a thread per cell, all of which reach the barriers; the places of a cell are below its count, so that no
    // two queries have the same place in the order.
    unsafe {
        let count = global::load(args.counts.at(thread as usize));
        let sum = warp_inclusive_sum(count);
        let (before, _) = block_sums::<{ CELLS / warp::WARP_SIZE }>(sum, begins.add(CELLS));
        begins.add(thread).store(before + sum - count);
        thread::sync_threads();
        if query < args.len as usize {
            let begin = begins.add(cell(&args, query)).load();
            let place = global::load(args.places.at(query));
            global::store(args.order.at((begin + place) as usize), query as u32);
        }
    }
}
