//! The host back end: each function checks its arguments, then does its work.
//!
//! Everything is `#[track_caller]`, so that faults name the line of the kernel.

use std::panic::Location;

use super::access::By;
use super::barrier::deadlock;
use super::block::{Block, Wait, check, wait, with};
use super::fault::AccessKind;
use super::memory;
use crate::primitive::{Barrier, Collective, Load, Mma, Special, Update};
use crate::{Value, Word};

/// Polls after which a thread yields: another thread may have to run for the poll to succeed.
const POLLS: u32 = 64;

#[track_caller]
pub fn special(special: Special) -> u32 {
    with(|block, thread| match special {
        Special::ThreadIdxX => thread,
        Special::BlockIdxX => block.index().0,
        Special::BlockIdxY => block.index().1,
        Special::BlockDimX => block.launch.threads,
        Special::GridDimX => block.launch.grid.0,
        Special::GridDimY => block.launch.grid.1,
        Special::Lane => thread % 32,
    })
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn barrier(barrier: Barrier) -> u32 {
    let site = Location::caller();
    if barrier == Barrier::All && with(|block, _| block.notes_and_skips(site)) {
        return 0;
    }
    wait(Wait::Barrier(barrier), |_| ());
    with(|block, thread| block.lanes[thread as usize].value as u32)
}

#[track_caller]
pub fn fence() {
    with(|block, thread| block.fence(thread));
}

#[track_caller]
pub fn nanosleep(_: u32) {
    pause();
}

/// Yields to other threads.
#[track_caller]
pub fn pause() {
    check(|block, thread| {
        let max_polls = block.launch.max_polls;
        let lane = &mut block.lanes[thread as usize];
        lane.yields += 1;
        if lane.yields <= max_polls {
            return Ok(());
        }
        (lane.wait, lane.site) = (Wait::Poll, Some(Location::caller()));
        Err(deadlock(block))
    });
    wait(Wait::Poll, |_| ());
}

/// Counts a relaxed or atomic access: a loop of them may be waiting for another thread.
#[track_caller]
fn poll() {
    let polls = with(|block, thread| {
        let lane = &mut block.lanes[thread as usize];
        lane.polls += 1;
        lane.polls
    });
    if polls.is_multiple_of(POLLS) {
        pause();
    }
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn collective<T: Word>(op: Collective, value: T, argument: u32) -> (T, bool) {
    let site = Location::caller();
    if let Collective::Shuffle(width) | Collective::SumU32(width) | Collective::SumF32(width) = op
        && !matches!(width, 1 | 2 | 4 | 8 | 16 | 32)
    {
        let wrong = format!("width ({width}) must be 1, 2, 4, 8, 16 or 32");
        check(|block, thread| Err(block.misuse(thread, Some(site), wrong)))
    }
    if op == Collective::Sync && with(|block, _| block.notes_and_skips(site)) {
        return (value, false);
    }
    wait(Wait::Collective(op), |lane| (lane.value, lane.argument) = (value.bits(), argument));
    with(|block, thread| {
        let lane = &block.lanes[thread as usize];
        (T::from_bits(lane.value), lane.flag)
    })
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn mma(op: Mma, a: [u32; 4], b: [u32; 2], c: [u32; 4]) -> [u32; 4] {
    with(|block, thread| {
        let fragments = &mut block.extras[thread as usize].fragments;
        fragments[..4].copy_from_slice(&a);
        fragments[4..6].copy_from_slice(&b);
        fragments[6..].copy_from_slice(&c);
    });
    wait(Wait::Mma(op), |_| ());
    with(|block, thread| {
        let [.., d0, d1, d2, d3] = block.extras[thread as usize].fragments;
        [d0, d1, d2, d3]
    })
}

/// Checks an access of global memory, then makes it.
#[track_caller]
fn access_global<T, R>(p: *const T, kind: AccessKind, access: impl FnOnce() -> R) -> R {
    let site = Location::caller();
    check(|block, thread| {
        block.check_global(By { thread, site }, kind, p as usize, size_of::<T>())?;
        Ok(access())
    })
}

/// Checks an access of shared memory, then makes it: `access` gets the thread, and the offset and address of the value.
#[track_caller]
fn access_shared<T, R>(
    address: u32,
    kind: AccessKind,
    access: impl FnOnce(&mut Block, u32, usize, *mut T) -> R,
) -> R {
    let site = Location::caller();
    check(|block, thread| {
        let start = block.check_shared(By { thread, site }, kind, address, size_of::<T>())?;
        let value = block.shared[start..].as_mut_ptr().cast();
        Ok(access(block, thread, start, value))
    })
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn load<T: Value>(how: Load, p: *const T) -> T {
    // SAFETY: called after the check.
    let read = || unsafe { memory::read(p) };
    match how {
        Load::Weak => access_global(p, AccessKind::Load, read),
        Load::Relaxed => {
            let value = access_global(p, AccessKind::AtomicLoad, read);
            poll();
            value
        }
        Load::ReadOnly | Load::Streaming => {
            let site = Location::caller();
            check(|block, thread| block.check_read_only(By { thread, site }, p as usize, size_of::<T>()));
            read()
        }
    }
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store<T: Value>(p: *mut T, value: T) {
    // SAFETY: called after the check.
    access_global(p, AccessKind::Store, || unsafe { memory::write(p, value) });
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store_relaxed<T: Value>(p: *mut T, value: T) {
    let site = Location::caller();
    check(|block, thread| {
        block.check_relaxed_store(By { thread, site }, p as usize, size_of::<T>())?;
        // SAFETY: the store was checked.
        unsafe { memory::write(p, value) };
        Ok(())
    });
}

/// # Safety
/// None needed: a prefetch has no effect in the emulator.
pub unsafe fn prefetch(_: *const u8) {}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn update<T: Word>(p: *mut T, update: Update<T>) -> T {
    // SAFETY: called after the check.
    let change = || unsafe { memory::update(p, |old| update.apply(old)) };
    let old = access_global(p, AccessKind::AtomicStore, change);
    poll();
    old
}

/// The address of shared memory: addresses are offsets.
pub fn shared_base() -> u32 {
    0
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn load_shared<T: Value>(address: u32) -> T {
    // SAFETY: the bytes are there, and any bits are a `T`.
    access_shared(address, AccessKind::Load, |_, _, _, value: *mut T| unsafe { value.read_unaligned() })
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store_shared<T: Value>(address: u32, value: T) {
    // SAFETY: the bytes are there.
    access_shared(address, AccessKind::Store, |_, _, _, to: *mut T| unsafe { to.write_unaligned(value) });
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn load_shared_relaxed<T: Word>(address: u32) -> T {
    let value = access_shared(address, AccessKind::AtomicLoad, |block, thread, start, value: *mut T| {
        block.acquire_at_fence(thread, start);
        // SAFETY: the bytes are there, and any bits are a `T`.
        unsafe { value.read_unaligned() }
    });
    poll();
    value
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store_shared_relaxed<T: Word>(address: u32, value: T) {
    access_shared(address, AccessKind::AtomicStore, |block, thread, start, to: *mut T| {
        // A store replaces what earlier ones released; an update adds to it.
        block.released.remove(&start);
        block.release_fenced(thread, start);
        // SAFETY: the bytes are there.
        unsafe { to.write_unaligned(value) };
    });
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn update_shared<T: Word>(address: u32, update: Update<T>) -> T {
    let old = access_shared(address, AccessKind::AtomicStore, |block, thread, start, word: *mut T| {
        block.acquire_at_fence(thread, start);
        block.release_fenced(thread, start);
        // SAFETY: the bytes are there, and any bits are a `T`.
        unsafe {
            let old = word.read_unaligned();
            word.write_unaligned(update.apply(old));
            old
        }
    });
    poll();
    old
}
