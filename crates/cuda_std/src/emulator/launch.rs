//! Launches: runs the blocks of a grid, a few at a time, on one or more OS threads.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bytemuck::Pod;

use super::block::{Block, Checked, Counts, Shadows};
use super::fault::{Access, EarlierAccess, Fault, Place, Site};
use super::memory::{Buffer, Memory, Regions};
use super::random::Random;
use super::runner::{Round, Runner};
use super::trace::{Conflict, Ledger, Mark, Trace};

/// Maximum number of blocks that are interleaved on one OS thread.
const MAX_RESIDENT_BLOCKS: u32 = 4;

/// The threads and bytes of shared memory of a multiprocessor. Each block costs 1 KiB more.
const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;

/// Number of times that a thread may poll. More means a deadlock: the thread waits for a block that has not started, or
/// for a thread that waits itself.
const MAX_POLLS: u32 = 1 << 17;

/// Maximum shared memory of a block, in bytes.
const MAX_SHARED: u32 = 227 << 10;

/// A launch, shared by its blocks.
pub struct Launch {
    pub kernel: Arc<str>,
    pub grid: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    pub shared_bytes: u32,
    pub regions: Regions,
    /// The synchronization that is skipped.
    pub without: Option<Location<'static>>,
    pub max_polls: u32,
}

impl Launch {
    /// The number of blocks that are interleaved, as on a multiprocessor.
    fn resident(&self) -> usize {
        let by_memory = SHARED_PER_MULTIPROCESSOR / (self.shared_bytes + (1 << 10));
        (THREADS_PER_MULTIPROCESSOR / self.threads).min(by_memory).clamp(1, MAX_RESIDENT_BLOCKS) as usize
    }

    /// Block `number` in x and y.
    pub fn index(&self, number: u32) -> (u32, u32) {
        (number % self.grid.0, number / self.grid.0)
    }

    /// The fault of an access that conflicts with an earlier one; `read_only` says whether one of them is a read-only
    /// load.
    pub fn conflict(&self, at: Place, access: Access, earlier: Mark, read_only: bool) -> Box<Fault> {
        let Mark { kind, site, block, thread } = earlier;
        let other = Box::new(EarlierAccess { kind, block: self.index(block), thread, site });
        Box::new(if read_only {
            Fault::ReadOnly { at, access, other }
        } else {
            Fault::Race { at, access, other }
        })
    }
}

/// Counts of what a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of blocks.
    pub blocks: u64,
    /// Warp collectives: shuffles, votes, reductions, `sync_warp`, matrix products.
    pub warp_operations: u64,
    /// Number of block barriers.
    pub barriers: u64,
    /// Context switches of threads.
    pub turns: u64,
}

/// An emulated GPU: launches kernels that are plain functions, in an order that follows from a seed, and detects
/// faults.
///
/// ```
/// use cuda_std::emulator::Emulator;
/// use cuda_std::prelude::*;
///
/// let emulator = Emulator::new(1);
/// let values = emulator.upload("values", &[1_u32, 2, 3, 4]);
/// let squares = emulator.allocate::<u32>("squares", 4);
/// emulator.launch("square", (1, 1), 4, 0, || {
///     let index = thread::index_1d() as usize;
///     // SAFETY: both buffers have an element for each thread.
///     unsafe {
///         let value = global::load(values.as_ptr().add(index));
///         global::store(squares.as_mut_ptr().add(index), value * value);
///     }
/// })?;
/// assert_eq!(squares.read()?, [1, 4, 9, 16]);
/// # Ok::<(), cuda_std::emulator::Fault>(())
/// ```
pub struct Emulator {
    seed: u64,
    threads: usize,
    max_polls: u32,
    without: Option<Location<'static>>,
    memory: Arc<Memory>,
    /// Shadow memory of blocks that have ended, for reuse.
    shadows: Mutex<Vec<Shadows>>,
    sites: Mutex<Vec<Site>>,
}

impl Emulator {
    /// An emulator on one OS thread. The order of lanes, warps and blocks follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            threads: 1,
            max_polls: MAX_POLLS,
            without: None,
            memory: Arc::default(),
            shadows: Mutex::default(),
            sites: Mutex::default(),
        }
    }

    /// Runs blocks on `threads` OS threads. Results and faults still follow from the seed, unless they depend on the
    /// order of atomic operations of several blocks.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// Reports a deadlock when a thread has polled `times` times. Default: 131,072.
    #[must_use]
    pub fn max_polls(self, times: u32) -> Self {
        Self { max_polls: times, ..self }
    }

    /// Skips every call of `sync_warp` or `sync_threads` at `site`: a kernel that still passes its tests does not need
    /// it, or has too few tests.
    #[must_use]
    pub fn without(self, site: Site) -> Self {
        Self { without: Some(*site), ..self }
    }

    /// The call sites of `sync_warp` and `sync_threads` that launches have reached, in order.
    pub fn sites(&self) -> Vec<Site> {
        let mut sites = self.sites.lock().expect("no panic holds the sites").clone();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    fn shadows(&self) -> MutexGuard<'_, Vec<Shadows>> {
        self.shadows.lock().expect("no panic holds the shadows")
    }

    /// An uninitialized buffer of `len` elements: reading one that was not written is a fault.
    pub fn allocate<T: Pod>(&self, name: &str, len: usize) -> Buffer<T> {
        Buffer::new(&self.memory, name, len)
    }

    /// The peak size of all buffers together, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.memory.peak_bytes()
    }

    /// A buffer with a copy of `values`.
    pub fn upload<T: Pod>(&self, name: &str, values: &[T]) -> Buffer<T> {
        let mut buffer = self.allocate(name, values.len());
        buffer.write(values);
        buffer
    }

    /// Runs `kernel` in each thread of a grid of `grid.0 * grid.1` blocks of `block` threads, each block with
    /// `shared_bytes` bytes of shared memory. A grid without blocks does nothing.
    ///
    /// # Errors
    /// Returns the first fault in the seeded order.
    pub fn launch(
        &self,
        name: &str,
        grid: (u32, u32),
        block: u32,
        shared_bytes: u32,
        kernel: impl Fn() + Sync,
    ) -> Result<Report, Fault> {
        let bad = |parameter, value: u32, bound| {
            Err(Fault::BadLaunch { kernel: name.into(), parameter, value: value.into(), bound })
        };
        if !(1..=1024).contains(&block) {
            return bad("threads of a block", block, "1 to 1024");
        }
        if shared_bytes > MAX_SHARED {
            return bad("bytes of shared memory", shared_bytes, "at most 232448");
        }
        if grid.0 > i32::MAX as u32 {
            return bad("blocks in x", grid.0, "at most 2147483647");
        }
        if grid.1 > u32::from(u16::MAX) {
            return bad("blocks in y", grid.1, "at most 65535");
        }
        let Some(blocks) = grid.0.checked_mul(grid.1) else {
            return bad("blocks in y", grid.1, "so few that all blocks are less than 4294967296");
        };
        let launch = Arc::new(Launch {
            kernel: name.into(),
            grid,
            threads: block,
            shared_bytes,
            regions: self.memory.regions().clone(),
            without: self.without,
            max_polls: self.max_polls,
        });
        let mut order: Vec<u32> = (0..blocks).collect();
        Random::new(self.seed, u64::MAX).shuffle(&mut order);
        let (next, faulted, outcome) = <(AtomicUsize, AtomicBool, Mutex<Outcome>)>::default();
        GridRun { emulator: self, launch, kernel: &kernel, order, next, faulted, outcome }.run()
    }
}

/// A running launch.
struct GridRun<'a> {
    emulator: &'a Emulator,
    launch: Arc<Launch>,
    kernel: &'a (dyn Fn() + Sync),
    /// The blocks; those in one chunk of [`Launch::resident`] are interleaved.
    order: Vec<u32>,
    /// The next chunk to run.
    next: AtomicUsize,
    /// Whether some block has a fault.
    faulted: AtomicBool,
    outcome: Mutex<Outcome>,
}

/// The results so far.
#[derive(Default)]
struct Outcome {
    /// Chunks that ended before an earlier one.
    pending: BTreeMap<usize, (Vec<Trace>, Checked<()>)>,
    /// Chunks in `ledger`.
    added: usize,
    ledger: Ledger,
    report: Report,
    fault: Option<Box<Fault>>,
}

impl GridRun<'_> {
    fn run(self) -> Result<Report, Fault> {
        let chunks = self.order.len().div_ceil(self.launch.resident());
        let threads = self.emulator.threads.min(chunks);
        if threads <= 1 {
            self.worker();
        } else {
            thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| self.worker()))));
        }
        let Outcome { report, fault, .. } = self.outcome.into_inner().expect("no panic holds the outcome");
        fault.map_or(Ok(report), |fault| Err(*fault))
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().expect("no panic holds the outcome")
    }

    /// Runs chunks until none is left or there is a fault.
    fn worker(&self) {
        loop {
            let number = self.next.fetch_add(1, SeqCst);
            let Some(blocks) = self.order.chunks(self.launch.resident()).nth(number) else { return };
            if self.outcome().fault.is_some() {
                return;
            }
            let (blocks, result) = self.run_chunk(number, blocks);
            let traces = blocks.into_iter().map(|block| self.take_trace(block)).collect();
            let outcome = &mut *self.outcome();
            outcome.pending.insert(number, (traces, result));
            while let Some((traces, result)) = outcome.pending.remove(&outcome.added) {
                outcome.added += 1;
                if outcome.fault.is_none() {
                    outcome.fault = self.add(&mut outcome.ledger, traces).and(result).err();
                }
            }
        }
    }

    /// Runs some blocks interleaved; returns them in the order in which they ended.
    fn run_chunk(&self, number: usize, blocks: &[u32]) -> (Vec<Block>, Checked<()>) {
        let Self { emulator, launch, kernel, .. } = self;
        let mut random = Random::new(emulator.seed, (1 << 32) | number as u64);
        let start = |&block: &u32| {
            let shadows = emulator.shadows().pop().unwrap_or_default();
            Runner::new(launch, block, emulator.seed, *kernel, shadows)
        };
        let mut running: Vec<Runner<'_>> = blocks.iter().map(start).collect();
        let mut ended = Vec::new();
        let mut result = Ok(());
        let mut idle = 0;
        while result.is_ok() && !running.is_empty() {
            let chosen = random.below(running.len());
            match running[chosen].round() {
                Ok(Round::Moved) => idle = 0,
                // A block that these wait for may have ended with a fault.
                Ok(Round::Idle) if self.faulted.load(SeqCst) => break,
                Ok(Round::Idle) => idle += 1,
                Ok(Round::Done) => ended.push(running.remove(chosen).finish()),
                Err(fault) => {
                    result = Err(fault);
                    self.faulted.store(true, SeqCst);
                }
            }
            if emulator.threads > 1 && idle > 64 {
                // All threads poll for blocks on other OS threads, which may not be scheduled, so back off.
                thread::sleep(Duration::from_micros(idle.min(1000)));
            }
        }
        ended.extend(running.into_iter().map(Runner::finish));
        (ended, result)
    }

    /// Takes the trace and the counts of a block that has ended.
    fn take_trace(&self, block: Block) -> Trace {
        let Block { clocks, mut shadows, trace, sites, counts, .. } = block;
        shadows.tag += clocks.epoch();
        self.emulator.shadows().push(shadows);
        let Counts { turns, collectives, barriers } = counts;
        let report = &mut self.outcome().report;
        report.blocks += 1;
        report.warp_operations += collectives;
        report.barriers += barriers;
        report.turns += turns;
        self.emulator.sites.lock().expect("no panic holds the sites").extend(sites);
        // A single block races with no other.
        if self.order.len() > 1 { trace } else { Trace::new() }
    }

    /// Adds the traces of a chunk to the ledger.
    fn add(&self, ledger: &mut Ledger, traces: Vec<Trace>) -> Checked<()> {
        traces.into_iter().try_for_each(|trace| ledger.add(trace).map_err(|conflict| self.fault(*conflict)))
    }

    /// The fault of two conflicting accesses.
    fn fault(&self, conflict: Conflict) -> Box<Fault> {
        let Conflict { address, bytes, read_only, later, earlier } = conflict;
        let Mark { kind, site, block, thread } = later;
        let Launch { kernel, regions, .. } = &*self.launch;
        let at = Place { kernel: kernel.clone(), block: self.launch.index(block), thread, site: Some(site) };
        let access = Access { kind, bytes: bytes as u32, address: regions.describe(address) };
        self.launch.conflict(at, access, earlier, read_only)
    }
}
