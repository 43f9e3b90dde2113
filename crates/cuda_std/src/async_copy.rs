//! Copies from global to shared memory that run beside the code, in groups: [`copy16`] as often as wanted, [`commit`],
//! later [`wait`].
//!
//! A thread waits for its own copies only. For what other threads copied there has to be a barrier after the wait.

use crate::imp;
use crate::shared::Shared;

/// Starts a copy of 16 bytes past the first-level cache (`cp.async.cg.shared.global ..., 16`).
///
/// # Safety
/// Both places are aligned to 16 bytes, `to` inside of the block's shared memory and `from` in global memory. Until the
/// [`wait`] nobody reads or writes `to`, and nobody writes `from`.
#[inline(always)]
#[track_caller]
pub unsafe fn copy16(to: Shared<[u32; 4]>, from: *const [u32; 4]) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::copy_async(to.address(), from.cast()) }
}

/// Makes a group of the copies that this thread started since the last group (`cp.async.commit_group`).
#[inline(always)]
#[track_caller]
pub fn commit() {
    imp::commit_group();
}

/// Waits until at most the newest `N` groups of this thread are under way (`cp.async.wait_group N`).
#[inline(always)]
#[track_caller]
pub fn wait<const N: u32>() {
    imp::wait_group::<N>();
}
