//! Loads and stores of global memory, with what is cached and what is ordered.
//!
//! | load | when |
//! | --- | --- |
//! | [`load`] | data that this launch also writes |
//! | [`load_readonly`] | data that nobody writes during the launch; the compiler may move and merge these loads |
//! | [`load_streaming`] | the same, read once: leaves the first-level cache to others |
//! | [`load_relaxed`] | words that other threads update atomically meanwhile |
//!
//! A value of 16 bytes ([`[u32; 4]`](crate::Value)) is one load or store of 16 bytes.

use crate::primitive::Load;
use crate::{Value, Word, imp};

/// Reads (`ld.global`).
///
/// # Safety
/// `p` leads to a `T` in global memory, aligned to its size; no other thread writes it without a barrier or fence between.
#[inline(always)]
#[track_caller]
pub unsafe fn load<T: Value>(p: *const T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::load(Load::Weak, p) }
}

/// Reads data that is constant during the launch (`ld.global.nc`).
///
/// # Safety
/// `p` leads to a `T` in global memory, aligned to its size; nobody writes it during the launch.
#[inline(always)]
#[track_caller]
pub unsafe fn load_readonly<T: Value>(p: *const T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::load(Load::ReadOnly, p) }
}

/// Reads data that is constant during the launch and will not be read again soon (`ld.global.nc.L1::no_allocate`).
///
/// # Safety
/// As [`load_readonly`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_streaming<T: Value>(p: *const T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::load(Load::Streaming, p) }
}

/// Reads a word that another thread may be writing: one of its values, ordering nothing else (`ld.relaxed.gpu.global`).
///
/// # Safety
/// `p` leads to a `T` in global memory, aligned to its size; other threads write it by [`atomic`](crate::atomic)
/// updates only.
#[inline(always)]
#[track_caller]
pub unsafe fn load_relaxed<T: Word>(p: *const T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::load(Load::Relaxed, p) }
}

/// Writes (`st.global`).
///
/// # Safety
/// `p` leads to room for a `T` in global memory, aligned to its size; no other thread reads or writes it without a
/// barrier or fence between.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Value>(p: *mut T, value: T) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::store(p, value) }
}

/// Asks for the line around `p` to be brought to the second-level cache (`prefetch.global.L2`).
///
/// # Safety
/// `p` is in global memory.
#[inline(always)]
#[track_caller]
pub unsafe fn prefetch_l2<T>(p: *const T) {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::prefetch(p.cast()) }
}
