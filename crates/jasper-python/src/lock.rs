//! The interpreter lock: released by calls, and taken again in turns.
//!
//! A thread that waits for the lock sleeps, and waking it takes longer than what threads that search for single queries
//! do with the lock. So a thread that comes back from a call first waits for its turn awake:
//!
//! 1. [`TURN`] says when a thread of these calls last took the lock, or that it has released it since.
//! 2. If no thread has the turn, one whose work is done takes it, and then the lock, which is usually free by then.
//! 3. It does not wait for a turn that began more than [`LONGEST_TURN`] ago: that thread does other work, with the lock
//!    or without. Nor does it wait if there are as many threads inside calls as CPUs: they may need this one.
//!
//! The turn is a hint; the lock alone excludes other threads.

use std::hint;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;

/// Several times what a thread does between two searches of single queries.
const LONGEST_TURN: Duration = Duration::from_micros(20);

/// The value of [`TURN`] when no thread has it.
const FREE: u64 = 0;

/// When the turn was taken, in nanoseconds since [`START`], or [`FREE`].
static TURN: AtomicU64 = AtomicU64::new(FREE);

/// Number of threads inside calls, without the lock.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether this interpreter has no lock.
static FREE_THREADED: AtomicBool = AtomicBool::new(false);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
static CPUS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Finds out whether there is a lock.
pub fn init(py: Python<'_>) -> PyResult<()> {
    if let Some(has_lock) = py.import("sys")?.getattr_opt(intern!(py, "_is_gil_enabled"))? {
        FREE_THREADED.store(!has_lock.call0()?.is_truthy()?, Ordering::Relaxed);
    }
    Ok(())
}

/// Whether threads run Python code at the same time.
pub fn is_free_threaded() -> bool {
    FREE_THREADED.load(Ordering::Relaxed)
}

/// Runs `work` without the interpreter lock.
pub fn released<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    py.detach(|| {
        let _call = (!is_free_threaded()).then(Call::begin);
        work()
    })
}

/// A call that has released the lock, and takes a turn when it ends.
struct Call;

impl Call {
    fn begin() -> Self {
        INSIDE.fetch_add(1, Ordering::Relaxed);
        TURN.store(FREE, Ordering::Release);
        Self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        loop {
            let now = START.elapsed().as_nanos() as u64;
            let turn = TURN.load(Ordering::Relaxed);
            if turn == FREE || now > turn + LONGEST_TURN.as_nanos() as u64 {
                let taken =
                    TURN.compare_exchange_weak(turn, now.max(1), Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    break;
                }
            } else if INSIDE.load(Ordering::Relaxed) >= *CPUS {
                break;
            }
            hint::spin_loop();
        }
        INSIDE.fetch_sub(1, Ordering::Relaxed);
    }
}
