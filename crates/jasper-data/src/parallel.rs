//! Loops on the threads of a pool, which are compiled once.
//!
//! Rayon compiles some thousand instructions for each closure that it is given, and the crates above give it closures of
//! each element type. Here a closure is called through a pointer, once per item: an item is work for microseconds.

use std::sync::Mutex;

use jasper_core::sync::lock;
use rayon::ThreadPool;
use rayon::prelude::*;

/// Parts of a slice that [`fill`] writes.
const PARTS: usize = 64;

/// Calls `work` with each item, in the current pool; returns the results in order.
///
/// ```
/// let sums = jasper_data::parallel::map([1, 2, 3, 4].chunks(2), |pair| pair[0] + pair[1]);
/// assert_eq!(sums, [3, 7]);
/// ```
pub fn map<I: Send, R: Send>(items: impl IntoIterator<Item = I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    map_all(items.into_iter().collect(), &work, &for_each_task)
}

/// Calls `work` with each item, on the threads of `pool`, or on this one; returns the results in order.
pub fn map_on<I: Send, R: Send>(
    pool: Option<&ThreadPool>,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> R + Sync,
) -> Vec<R> {
    let run = |tasks: usize, task: &Task<'_>| match pool {
        Some(pool) => run_on(pool, &mut || for_each_task(tasks, task)),
        None => (0..tasks).for_each(task),
    };
    map_all(items.into_iter().collect(), &work, &run)
}

/// Calls `work` with each item, in the current pool.
pub fn for_each<I: Send>(items: impl IntoIterator<Item = I>, work: impl Fn(I) + Sync) {
    map(items, work);
}

/// Sets each entry to the `value` for its index, in the current pool.
pub fn fill<R: Send>(out: &mut [R], value: impl Fn(usize) -> R + Sync) {
    let part_len = out.len().div_ceil(PARTS).max(1);
    for_each(out.chunks_mut(part_len).enumerate(), |(part, out)| {
        (part * part_len..).zip(out).for_each(|(index, out)| *out = value(index));
    });
}

/// Runs `work` in a pool, as [`ThreadPool::install`] does.
pub fn install<R: Send>(pool: &ThreadPool, work: impl FnOnce() -> R + Send) -> R {
    let (mut work, mut result) = (Some(work), None);
    run_on(pool, &mut || result = work.take().map(|work| work()));
    result.expect("the pool runs the work")
}

type Task<'a> = dyn Fn(usize) + Sync + 'a;

/// Calls `work` with each item; `run` calls a task with each number below a count.
fn map_all<I: Send, R: Send>(
    items: Vec<I>,
    work: &(dyn Fn(I) -> R + Sync),
    run: &dyn Fn(usize, &Task<'_>),
) -> Vec<R> {
    let cells: Vec<Mutex<(Option<I>, Option<R>)>> =
        items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    run(cells.len(), &|index| {
        let (item, result) = &mut *lock(&cells[index]);
        *result = item.take().map(work);
    });
    let result = |cell: Mutex<(Option<I>, Option<R>)>| lock(&cell).1.take().expect("each task was called");
    cells.into_iter().map(result).collect()
}

fn for_each_task(tasks: usize, task: &Task<'_>) {
    (0..tasks).into_par_iter().for_each(task);
}

fn run_on(pool: &ThreadPool, work: &mut (dyn FnMut() + Send)) {
    pool.install(work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_builder;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let pool = pool_builder(Some(2)).build().unwrap();
        let square = |i: usize| i * i;
        let expected: Vec<_> = (0..1000).map(square).collect();
        assert_eq!(map_on(Some(&pool), 0..1000, square), expected);
        assert_eq!(map_on(None, 0..1000, square), expected);
        for len in [0, 1, 1000] {
            let mut filled = vec![0; len];
            install(&pool, || fill(&mut filled, square));
            assert_eq!(filled, expected[..len]);
        }
    }

    #[test]
    fn a_panic_of_a_task_is_a_panic_of_the_call() {
        let pool = pool_builder(Some(2)).build().unwrap();
        let fails = || map_on(Some(&pool), 0..8, |i| assert_ne!(i, 5));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
    }
}
