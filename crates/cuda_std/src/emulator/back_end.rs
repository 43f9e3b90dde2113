//! The host back end: each function checks its arguments, then does its work.
//!
//! Everything is `#[track_caller]`, so that faults name the line of the kernel.

use std::panic::Location;

use super::access::By;
use super::barrier::stuck;
use super::block::{Wait, check, wait, with};
use super::fault::AccessKind;
use super::memory;
use crate::primitive::{Barrier, Collective, Load, Mma, Special, Update};
use crate::{Value, Word};

/// Where shared memory begins.
const SHARED_BASE: u32 = 0;

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
    if barrier == Barrier::All && with(|block, _| block.leaves_out(site)) {
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
    yield_now();
}

#[track_caller]
pub fn pause() {
    yield_now();
}

/// Yields to others.
#[track_caller]
fn yield_now() {
    check(|block, thread| {
        let patience = block.launch.patience;
        let lane = &mut block.lanes[thread as usize];
        lane.yields += 1;
        if lane.yields <= patience {
            return Ok(());
        }
        (lane.wait, lane.site) = (Wait::Poll, Some(Location::caller()));
        Err(stuck(block))
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
        yield_now();
    }
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn collective<T: Word>(
    op: Collective,
    mask: u32,
    value: T,
    argument: u32,
    width: u32,
) -> (T, bool) {
    let site = Location::caller();
    check(|block, thread| {
        let wrong = if mask >> (thread % 32) & 1 == 0 {
            format!("lane {} is not in the mask {mask:#010x} that it gives", thread % 32)
        } else if !width.is_power_of_two() || width > 32 {
            format!("width ({width}) must be 1, 2, 4, 8, 16 or 32")
        } else {
            return Ok(());
        };
        Err(block.misuse(thread, Some(site), wrong))
    });
    if op == Collective::Sync && with(|block, _| block.leaves_out(site)) {
        return (value, false);
    }
    wait(Wait::Collective { op, mask, width }, |lane| (lane.value, lane.argument) = (value.bits(), argument));
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

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn load<T: Value>(how: Load, p: *const T) -> T {
    let site = Location::caller();
    let (address, bytes) = (p as usize, size_of::<T>());
    let value = check(|block, thread| {
        let by = By { thread, site };
        let touch = match how {
            Load::Weak => AccessKind::Load,
            Load::ReadOnly | Load::Streaming => {
                block.check_read_only(by, address, bytes)?;
                // SAFETY: just checked.
                return Ok(unsafe { memory::read(p) });
            }
            Load::Relaxed => AccessKind::AtomicLoad,
        };
        block.check_global(by, touch, address, bytes)?;
        // SAFETY: just checked.
        Ok(unsafe { memory::read(p) })
    });
    if how == Load::Relaxed {
        poll();
    }
    value
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store<T: Value>(p: *mut T, value: T) {
    let site = Location::caller();
    check(|block, thread| {
        block.check_global(By { thread, site }, AccessKind::Store, p as usize, size_of::<T>())?;
        // SAFETY: just checked.
        unsafe { memory::write(p, value) };
        Ok(())
    });
}

/// # Safety
/// None needed: nothing happens, as on a device that has better things to do.
pub unsafe fn prefetch(_: *const u8) {}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn update<T: Word>(p: *mut T, update: Update<T>) -> T {
    let site = Location::caller();
    let old = check(|block, thread| {
        block.check_global(By { thread, site }, AccessKind::AtomicStore, p as usize, size_of::<T>())?;
        // SAFETY: just checked.
        Ok(unsafe { memory::update(p, |old| update.apply(old)) })
    });
    poll();
    old
}

#[track_caller]
pub fn shared_base() -> u32 {
    SHARED_BASE
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn load_shared<T: Value>(address: u32) -> T {
    let site = Location::caller();
    check(|block, thread| {
        let offset = address.wrapping_sub(SHARED_BASE);
        let start = block.check_shared(By { thread, site }, AccessKind::Load, offset, size_of::<T>())?;
        // SAFETY: the bytes are there, and any bits are a `T`.
        Ok(unsafe { block.shared.as_ptr().add(start).cast::<T>().read_unaligned() })
    })
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store_shared<T: Value>(address: u32, value: T) {
    let site = Location::caller();
    check(|block, thread| {
        let offset = address.wrapping_sub(SHARED_BASE);
        let start = block.check_shared(By { thread, site }, AccessKind::Store, offset, size_of::<T>())?;
        // SAFETY: the bytes are there.
        unsafe { block.shared.as_mut_ptr().add(start).cast::<T>().write_unaligned(value) };
        Ok(())
    });
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn load_shared_relaxed<T: Word>(address: u32) -> T {
    let site = Location::caller();
    let value = check(|block, thread| {
        let offset = address.wrapping_sub(SHARED_BASE);
        let start =
            block.check_shared(By { thread, site }, AccessKind::AtomicLoad, offset, size_of::<T>())?;
        let word = block.shared[start..].as_ptr().cast::<T>();
        block.acquire_at_fence(thread, start);
        // SAFETY: the bytes are there.
        Ok(unsafe { word.read_unaligned() })
    });
    poll();
    value
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn store_shared_relaxed<T: Word>(address: u32, value: T) {
    let site = Location::caller();
    check(|block, thread| {
        let offset = address.wrapping_sub(SHARED_BASE);
        let start =
            block.check_shared(By { thread, site }, AccessKind::AtomicStore, offset, size_of::<T>())?;
        // A store replaces what earlier ones released; an update adds to it.
        block.released.remove(&start);
        block.release_fenced(thread, start);
        let word = block.shared[start..].as_mut_ptr().cast::<T>();
        // SAFETY: the bytes are there.
        unsafe { word.write_unaligned(value) };
        Ok(())
    });
}

/// # Safety
/// None needed: the emulator checks.
#[track_caller]
pub unsafe fn update_shared<T: Word>(address: u32, update: Update<T>) -> T {
    let site = Location::caller();
    let old = check(|block, thread| {
        let offset = address.wrapping_sub(SHARED_BASE);
        let start =
            block.check_shared(By { thread, site }, AccessKind::AtomicStore, offset, size_of::<T>())?;
        block.acquire_at_fence(thread, start);
        block.release_fenced(thread, start);
        let word = block.shared[start..].as_mut_ptr().cast::<T>();
        // SAFETY: the bytes are there, and any bits are a `T`.
        unsafe {
            let old = word.read_unaligned();
            word.write_unaligned(update.apply(old));
            Ok(old)
        }
    });
    poll();
    old
}
