//! Work for the threads of a pool, unless there is so little that one thread is faster.

use std::ops::Range;

use jasper_data::{ThreadPool, parallel};
use rayon::prelude::*;

/// For as few items as this, handing work to other threads takes longer than the work, and much longer on a busy CPU.
const FEW: usize = 64;

/// Items of a task.
const TASK_LEN: usize = 1 << 14;

/// As many items are sorted in less time than it takes to wake a thread.
const FEW_TO_SORT: usize = 4096;

/// Calls `work` with each of `items`, which stand for `len` items of a simple step; returns the results in order.
pub(crate) fn map_items<I: Send, R: Send>(
    pool: &ThreadPool,
    len: usize,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> R + Sync,
) -> Vec<R> {
    parallel::map_on((len > FEW).then_some(pool), items, work)
}

/// The numbers below `len`, in ranges.
pub(crate) fn ranges(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(TASK_LEN).map(move |first| first..len.min(first + TASK_LEN))
}

/// Sorts items in place. The order of equal items is unspecified.
pub(crate) fn sort(pool: &ThreadPool, items: &mut [impl Ord + Send]) {
    if items.len() > FEW_TO_SORT {
        parallel::install(pool, || items.par_sort_unstable());
    } else {
        items.sort_unstable();
    }
}
