//! The state of a running block: its threads, what they wait for, shared memory and shadow memory.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{Location, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use corosensei::Yielder;
use rustc_hash::FxBuildHasher;

use super::clock::{Clocks, VectorClock};
use super::fault::{Access, AccessKind, Address, Fault, Place, Site};
use super::launch::Launch;
use super::memory::POISON;
use super::random::Random;
use super::shadow::{PAGE_BYTES, Page};
use super::trace::TracePage;
use crate::primitive::{Barrier, Collective, Mma};

/// The result of a check. Boxed, because every access returns one.
pub type Checked<T> = Result<T, Box<Fault>>;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Wait {
    /// The thread waits to be scheduled.
    #[default]
    Turn,
    /// The thread polls, and waits for the next round of the block.
    Poll,
    Collective(Collective),
    Mma(Mma),
    Barrier(Barrier),
    /// The thread has returned.
    Done,
}

/// The state of a thread that every switch needs, in one cache line.
#[derive(Default)]
#[repr(align(64))]
pub struct Lane {
    pub wait: Wait,
    /// The call that the thread waits in.
    pub site: Option<Site>,
    /// The thread's input of a collective, then its result.
    pub value: u64,
    pub argument: u32,
    pub flag: bool,
    /// The handle for yielding, set when the thread starts.
    pub yielder: Option<NonNull<Yielder<(), ()>>>,
    /// How often the thread yielded because it may be spinning.
    pub yields: u32,
    /// Number of relaxed and atomic accesses.
    pub polls: u32,
}

/// The state of a thread that few switches need.
#[derive(Default)]
pub struct ThreadExtra {
    /// The fragments of a matrix product: a, b and c; then d in place of c.
    pub fragments: [u32; 10],
    /// What the thread knew at its last fence. Its atomic stores release that.
    pub fenced: Option<VectorClock>,
    /// What was released at the places of its atomic loads. Its next fence acquires that.
    pub found: Option<VectorClock>,
}

/// The states of the lanes of a warp.
#[derive(Clone, Copy, Default)]
pub struct Warp {
    pub ready: u32,
    pub polling: u32,
    /// Lanes that wait at a warp collective.
    pub at_collective: u32,
    /// Lanes that wait at a block barrier.
    pub at_barrier: u32,
    /// Lanes that have returned or do not exist.
    pub done: u32,
}

/// Shadow memory, reused from block to block.
#[derive(Default)]
pub struct Shadows {
    pub shared: Vec<Page>,
    pub global: Vec<Page>,
    /// Greater than all tags in the pages.
    pub tag: u32,
}

/// Counts for the [`Report`](super::Report).
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub turns: u64,
    pub collectives: u64,
    pub barriers: u64,
}

/// The state of a running block.
pub struct Block {
    pub launch: Arc<Launch>,
    /// The number of the block in the grid.
    pub number: u32,
    pub lanes: Vec<Lane>,
    pub extras: Vec<ThreadExtra>,
    pub warps: Vec<Warp>,
    pub clocks: Clocks,
    pub random: Random,
    pub shared: Vec<u8>,
    /// Which bytes of shared memory were written.
    pub written: Vec<bool>,
    /// What was released at each offset of shared memory.
    pub released: HashMap<usize, VectorClock, FxBuildHasher>,
    pub shadows: Shadows,
    /// For each accessed page of global memory, its index in `trace` and in the shadow memory.
    pub pages: HashMap<usize, usize, FxBuildHasher>,
    pub trace: Vec<(usize, TracePage)>,
    /// Where the last search for a buffer ended.
    pub near: usize,
    /// The call sites of synchronizations.
    pub sites: Vec<Site>,
    pub counts: Counts,
    pub fault: Option<Box<Fault>>,
    /// Whether threads are being unwound, and their panics are ignored.
    pub abandoned: bool,
}

impl Block {
    pub fn new(launch: &Arc<Launch>, number: u32, seed: u64, mut shadows: Shadows) -> Self {
        let threads = launch.threads;
        let bytes = launch.shared_bytes as usize;
        shadows.tag += 1;
        let pages = bytes.div_ceil(PAGE_BYTES).max(shadows.shared.len());
        shadows.shared.resize_with(pages, Page::default);
        let warp = |first: u32| {
            let ready = 1_u32.checked_shl(threads - first).map_or(u32::MAX, |end| end.wrapping_sub(1));
            Warp { ready, done: !ready, ..Warp::default() }
        };
        Self {
            launch: launch.clone(),
            number,
            lanes: (0..threads).map(|_| Lane::default()).collect(),
            extras: (0..threads).map(|_| ThreadExtra::default()).collect(),
            warps: (0..threads).step_by(32).map(warp).collect(),
            clocks: Clocks::new(threads),
            random: Random::new(seed, u64::from(number)),
            shared: vec![POISON; bytes],
            written: vec![false; bytes],
            released: HashMap::default(),
            shadows,
            pages: HashMap::default(),
            trace: Vec::new(),
            near: 0,
            sites: Vec::new(),
            counts: Counts::default(),
            fault: None,
            abandoned: false,
        }
    }

    /// The block in x and y.
    pub fn index(&self) -> (u32, u32) {
        self.launch.index(self.number)
    }

    /// The tag of this block and epoch in shadow memory.
    pub fn tag(&self) -> u32 {
        self.shadows.tag + self.clocks.epoch()
    }

    /// The place of `thread` at `site`, for a fault.
    pub fn place(&self, thread: u32, site: Option<Site>) -> Place {
        Place { kernel: self.launch.kernel.clone(), block: self.index(), thread, site }
    }

    /// Describes an access of shared memory.
    pub fn shared_access(&self, kind: AccessKind, offset: u32, bytes: usize) -> Access {
        let address = Address::Shared { offset, bytes: self.launch.shared_bytes };
        Access { kind, bytes: bytes as u32, address }
    }

    /// Describes an access of global memory.
    pub fn global_access(&self, kind: AccessKind, address: usize, bytes: usize) -> Access {
        Access { kind, bytes: bytes as u32, address: self.launch.regions.describe(address) }
    }

    /// The fault of an invalid call.
    pub fn misuse(&self, thread: u32, site: Option<Site>, what: impl Into<String>) -> Box<Fault> {
        Box::new(Fault::Misuse { at: self.place(thread, site), what: what.into() })
    }

    /// Records the call site of a synchronization; returns whether it is to be skipped.
    pub fn notes_and_skips(&mut self, site: Site) -> bool {
        if !self.sites.iter().any(|known| std::ptr::eq(*known, site)) {
            self.sites.push(site);
        }
        self.launch.without.as_ref() == Some(site)
    }
}

thread_local! {
    /// The block and thread that run now on this OS thread.
    static CURRENT: Cell<(*mut Block, u32)> = const { Cell::new((std::ptr::null_mut(), 0)) };
}

/// The panic payload of a thread whose fault is recorded.
pub struct Halted;

/// Makes `thread` the current thread.
pub fn set_current(block: *mut Block, thread: u32) {
    CURRENT.set((block, thread));
}

/// Calls `call` with the current block and thread.
///
/// # Panics
/// Panics if no kernel is running on this OS thread.
#[inline]
#[track_caller]
pub fn with<R>(call: impl FnOnce(&mut Block, u32) -> R) -> R {
    let (block, thread) = CURRENT.get();
    assert!(
        !block.is_null(),
        "functions of cuda_std run in kernels only: launch this one with `Emulator::launch`"
    );
    // SAFETY: the runner of the block set the pointer, keeps the block, and does not use it during a turn; `call`
    // cannot get here again, nor switch to another thread.
    call(unsafe { &mut *block }, thread)
}

/// Calls a function that may fail, as [`with`] does. A fault ends the thread.
#[inline]
#[track_caller]
pub fn check<R>(call: impl FnOnce(&mut Block, u32) -> Checked<R>) -> R {
    with(call).unwrap_or_else(|fault| halt(fault))
}

#[cold]
fn halt(fault: Box<Fault>) -> ! {
    with(|block, _| block.fault = Some(fault));
    resume_unwind(Box::new(Halted))
}

/// Yields until the wait is over. `set_input` stores the thread's input of a collective.
#[track_caller]
pub fn wait(wait: Wait, set_input: impl FnOnce(&mut Lane)) {
    let site = Location::caller();
    let yielder = with(|block, thread| {
        let lane = &mut block.lanes[thread as usize];
        lane.wait = wait;
        lane.site = Some(site);
        set_input(lane);
        let warp = &mut block.warps[thread as usize / 32];
        let place = match wait {
            Wait::Turn => &mut warp.ready,
            Wait::Poll => &mut warp.polling,
            Wait::Collective(_) | Wait::Mma(_) => &mut warp.at_collective,
            Wait::Barrier(_) => &mut warp.at_barrier,
            Wait::Done => &mut warp.done,
        };
        *place |= 1 << (thread % 32);
        block.lanes[thread as usize].yielder.expect("a thread that runs has set it")
    });
    // SAFETY: the thread set it at its start, and lives on the stack that holds it.
    unsafe { yielder.as_ref() }.suspend(());
}
