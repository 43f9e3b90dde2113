//! Work for the threads of an executor, unless there is so little that one thread is faster.

use rayon::prelude::*;

use jasper_core::Element;

use crate::Executor;

/// For as few items as this, handing work to other threads takes longer than the work, and much longer on a busy CPU.
const FEW: usize = 64;

/// As many items are sorted in less time than it takes to wake a thread.
const FEW_TO_SORT: usize = 4096;

/// Whether the threads of an executor are worthwhile for a simple step with this many items.
pub(crate) fn are_many(items: usize) -> bool {
    items > FEW
}

/// Calls `work` for each of `len` items; returns the results in order.
pub(crate) fn map_items<T: Element, E: Executor<T>, I, Item, R: Send>(
    executor: &E,
    len: usize,
    items: I,
    work: impl Fn(Item) -> R + Send + Sync,
) -> Vec<R>
where
    I: IntoIterator<Item = Item> + IntoParallelIterator<Item = Item> + Send,
    Item: Send,
{
    if !are_many(len) {
        return items.into_iter().map(work).collect();
    }
    executor.on_host_threads(|| items.into_par_iter().map(work).collect())
}

/// Sorts items in place. The order of equal items is unspecified.
pub(crate) fn sort<T: Element, E: Executor<T>>(executor: &E, items: &mut [impl Ord + Send]) {
    if items.len() > FEW_TO_SORT {
        executor.on_host_threads(|| items.par_sort_unstable());
    } else {
        items.sort_unstable();
    }
}
