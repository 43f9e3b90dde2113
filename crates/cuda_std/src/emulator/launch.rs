//! Launches: the blocks of a grid, a few at a time, on as many OS threads as wanted.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bytemuck::Pod;

use super::block::{Block, Checked, Counts, Shadows};
use super::fault::{Access, Fault, Other, Place, Site};
use super::memory::{Buffer, Memory, Regions};
use super::random::Random;
use super::runner::{Round, Runner};
use super::trace::{Conflict, Ledger, Mark, Trace};

/// Blocks that take turns on one OS thread, at most: more show nothing new.
const MOST_RESIDENT: u32 = 4;

/// What a multiprocessor holds: threads, and bytes of shared memory, of which each block costs it 1 KiB more.
const THREADS_HELD: u32 = 2048;
const SHARED_HELD: u32 = 228 << 10;

/// How often a thread may look whether another got on. More means that it waits for what will not come: a block that
/// has not begun, or a thread that waits itself.
const PATIENCE: u32 = 1 << 17;

/// What a GPU gives a block at most, in bytes of shared memory.
const MAX_SHARED: u32 = 227 << 10;

/// What all blocks of a launch have in common.
pub struct Launch {
    pub kernel: Arc<str>,
    pub grid: (u32, u32),
    /// Threads of a block.
    pub threads: u32,
    pub shared_bytes: u32,
    pub regions: Regions,
    /// The synchronisation that is left out.
    pub without: Option<Location<'static>>,
    pub patience: u32,
}

impl Launch {
    /// How many blocks take turns with one another, as several share a multiprocessor.
    fn resident(&self) -> usize {
        let by_memory = SHARED_HELD / (self.shared_bytes + (1 << 10));
        (THREADS_HELD / self.threads).min(by_memory).clamp(1, MOST_RESIDENT) as usize
    }

    /// Block `number` in x and y.
    pub fn index(&self, number: u32) -> (u32, u32) {
        (number % self.grid.0, number / self.grid.0)
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Blocks.
    pub blocks: u64,
    /// What warps did together: shuffles, votes, reductions, `sync_warp`, matrix products.
    pub warp_operations: u64,
    /// Barriers of blocks that opened.
    pub barriers: u64,
    /// Turns of threads.
    pub turns: u64,
}

/// A GPU of one's own making: launches kernels that are plain functions, in an order that a seed decides, and finds
/// what they do wrong.
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
    patience: u32,
    without: Option<Location<'static>>,
    memory: Arc<Memory>,
    /// Those of blocks that have ended.
    shadows: Mutex<Vec<Shadows>>,
    sites: Mutex<Vec<Site>>,
}

impl Emulator {
    /// An emulator on one OS thread; `seed` decides the order of lanes, warps and blocks.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            threads: 1,
            patience: PATIENCE,
            without: None,
            memory: Arc::default(),
            shadows: Mutex::default(),
            sites: Mutex::default(),
        }
    }

    /// Spreads blocks over `threads` OS threads. Results and faults stay those of the seed, unless they depend on the
    /// order of atomic operations of several blocks.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// Gives up on a thread that has looked `times` times whether another got on. Default: 131,072.
    #[must_use]
    pub fn patience(self, times: u32) -> Self {
        Self { patience: times, ..self }
    }

    /// Leaves out every call of `sync_warp` or `sync_threads` at `site`, as if the line were not there: a
    /// kernel that still passes its tests does not need it, or has too few tests.
    #[must_use]
    pub fn without(self, site: Site) -> Self {
        Self { without: Some(*site), ..self }
    }

    /// The calls of `sync_warp` and `sync_threads` that launches came through until now, in order.
    pub fn sites(&self) -> Vec<Site> {
        let mut sites = self.sites.lock().expect("no panic holds the sites").clone();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    fn shadows(&self) -> MutexGuard<'_, Vec<Shadows>> {
        self.shadows.lock().expect("no panic holds the shadows")
    }

    /// A buffer of `len` elements that hold nothing: reading one that no kernel wrote is a fault.
    pub fn allocate<T: Pod>(&self, name: &str, len: usize) -> Buffer<T> {
        Buffer::new(&self.memory, name, len)
    }

    /// Most bytes that all buffers had together until now.
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
    /// The first fault, in the order of the seed.
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
            patience: self.patience,
        });
        let mut order: Vec<u32> = (0..blocks).collect();
        Random::new(self.seed, u64::MAX).shuffle(&mut order);
        let (next, faulted, end) = <(AtomicUsize, AtomicBool, Mutex<End>)>::default();
        Work { emulator: self, launch, kernel: &kernel, order, next, faulted, end }.run()
    }
}

/// A launch under way.
struct Work<'a> {
    emulator: &'a Emulator,
    launch: Arc<Launch>,
    kernel: &'a (dyn Fn() + Sync),
    /// The blocks; those in one chunk of [`Launch::resident`] take turns with one another.
    order: Vec<u32>,
    /// The first chunk that nobody has taken.
    next: AtomicUsize,
    /// Some block has a fault.
    faulted: AtomicBool,
    end: Mutex<End>,
}

/// What has ended.
#[derive(Default)]
struct End {
    /// Chunks that ended before an earlier one did.
    waiting: BTreeMap<usize, (Vec<Trace>, Checked<()>)>,
    /// Chunks in `ledger`.
    added: usize,
    ledger: Ledger,
    report: Report,
    fault: Option<Box<Fault>>,
}

impl Work<'_> {
    fn run(self) -> Result<Report, Fault> {
        let chunks = self.order.len().div_ceil(self.launch.resident());
        let threads = self.emulator.threads.min(chunks);
        if threads <= 1 {
            self.worker();
        } else {
            thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| self.worker()))));
        }
        let End { report, fault, .. } = self.end.into_inner().expect("no panic holds the end");
        fault.map_or(Ok(report), |fault| Err(*fault))
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().expect("no panic holds the end")
    }

    /// Takes chunks of blocks until there are none, or a fault is certain.
    fn worker(&self) {
        loop {
            let number = self.next.fetch_add(1, SeqCst);
            let Some(blocks) = self.order.chunks(self.launch.resident()).nth(number) else { return };
            if self.end().fault.is_some() {
                return;
            }
            let (blocks, outcome) = self.run_chunk(number, blocks);
            let traces = blocks.into_iter().map(|block| self.take_apart(block)).collect();
            let end = &mut *self.end();
            end.waiting.insert(number, (traces, outcome));
            while let Some((traces, outcome)) = end.waiting.remove(&end.added) {
                end.added += 1;
                if end.fault.is_none() {
                    end.fault = self.add(&mut end.ledger, traces).and(outcome).err();
                }
            }
        }
    }

    /// Runs some blocks in turn; they come back in the order in which they ended.
    fn run_chunk(&self, number: usize, blocks: &[u32]) -> (Vec<Block>, Checked<()>) {
        let Self { emulator, launch, kernel, .. } = self;
        let mut random = Random::new(emulator.seed, (1 << 32) | number as u64);
        let start = |&block: &u32| {
            let shadows = emulator.shadows().pop().unwrap_or_default();
            Runner::new(launch, block, emulator.seed, *kernel, shadows)
        };
        let mut running: Vec<Runner<'_>> = blocks.iter().map(start).collect();
        let mut ended = Vec::new();
        let mut outcome = Ok(());
        let mut idle = 0;
        while outcome.is_ok() && !running.is_empty() {
            let chosen = random.below(running.len());
            match running[chosen].round() {
                Ok(Round::Moved) => idle = 0,
                // Whom these blocks wait for may have been ended by its fault.
                Ok(Round::Idle) if self.faulted.load(SeqCst) => break,
                Ok(Round::Idle) => idle += 1,
                Ok(Round::Done) => ended.push(running.remove(chosen).finish()),
                Err(fault) => {
                    outcome = Err(fault);
                    self.faulted.store(true, SeqCst);
                }
            }
            if emulator.threads > 1 && idle > 64 {
                // All wait for blocks on other OS threads, which may have to wait for a processor: the longer, the less
                // of their patience is spent on it.
                thread::sleep(Duration::from_micros(idle.min(1000)));
            }
        }
        ended.extend(running.into_iter().map(Runner::finish));
        (ended, outcome)
    }

    /// Keeps what of a block that has ended is still of use.
    fn take_apart(&self, block: Block) -> Trace {
        let Block { clocks, mut shadows, trace, sites, counts, .. } = block;
        shadows.tag += clocks.epoch();
        self.emulator.shadows().push(shadows);
        let Counts { turns, collectives, barriers } = counts;
        let report = &mut self.end().report;
        report.blocks += 1;
        report.warp_operations += collectives;
        report.barriers += barriers;
        report.turns += turns;
        self.emulator.sites.lock().expect("no panic holds the sites").extend(sites);
        // One block alone races with none.
        if self.order.len() > 1 { trace } else { Trace::new() }
    }

    /// Adds the traces of a chunk to the ledger.
    fn add(&self, ledger: &mut Ledger, traces: Vec<Trace>) -> Checked<()> {
        traces.into_iter().try_for_each(|trace| ledger.add(trace).map_err(|conflict| self.fault(*conflict)))
    }

    /// Two blocks touched the same.
    fn fault(&self, conflict: Conflict) -> Box<Fault> {
        let Conflict { address, bytes, read_only, later, earlier } = conflict;
        let Launch { kernel, regions, .. } = &*self.launch;
        let place = |mark: &Mark| (self.launch.index(mark.block), mark.thread, mark.site);
        let (block, thread, site) = place(&later);
        let at = Place { kernel: kernel.clone(), block, thread, site: Some(site) };
        let access = Access { touch: later.touch, bytes: bytes as u32, address: regions.describe(address) };
        let (block, thread, site) = place(&earlier);
        let other = Box::new(Other { touch: earlier.touch, block, thread, site });
        Box::new(if read_only {
            Fault::ReadOnly { at, access, other }
        } else {
            Fault::Race { at, access, other }
        })
    }
}
