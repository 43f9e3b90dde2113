//! The number of threads of a pool.

use std::{env, thread};

use rayon::ThreadPoolBuilder;

/// A builder of a pool of this many threads, but at most one per CPU: more are not faster, and thousands take minutes
/// to agree on anything. `None` means one per CPU, or fewer if the environment has `RAYON_NUM_THREADS`.
///
/// ```
/// let cpus = std::thread::available_parallelism().map_or(1, usize::from);
/// let pool = jasper_data::pool_builder(Some(1_000_000)).build()?;
/// assert_eq!(pool.current_num_threads(), cpus);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pool_builder(threads: Option<usize>) -> ThreadPoolBuilder {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let of_environment =
        || env::var("RAYON_NUM_THREADS").ok()?.parse().ok().filter(|&threads: &usize| threads > 0);
    let threads = threads.or_else(of_environment).unwrap_or(cpus);
    ThreadPoolBuilder::new().num_threads(threads.clamp(1, cpus))
}
