//! Loads and stores of global memory.
//!
//! | load | when |
//! | --- | --- |
//! | [`load`] | data that this launch also writes |
//! | [`load_readonly`] | data that the launch does not write; the compiler may move and merge these loads |
//! | [`load_streaming`] | data that the launch does not write and reads once; does not allocate in the L1 cache |
//! | [`load_relaxed`] | words that other threads, of this launch or another, write by [`store_relaxed`] or atomically |
//!
//! A value of 16 bytes ([`[u32; 4]`](crate::Value)) is one load or store of 16 bytes.

use crate::primitive::Load;
use crate::{Value, Word, imp};

macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident<T: $Bound:ident>, $kind:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: $Bound>(p: *const T) -> T {
            // SAFETY: the caller upholds the contract of the back end.
            unsafe { imp::load(Load::$kind, p) }
        }
    )* };
}
loads! {
    /// Reads (`ld.global`).
    ///
    /// # Safety
    /// `p` points to a `T` in global memory, aligned to its size; no write of another thread races with this.
    load<T: Value>, Weak;
    /// Reads data that is constant during the launch (`ld.global.nc`).
    ///
    /// # Safety
    /// `p` points to a `T` in global memory, aligned to its size, that is not written during the launch.
    load_readonly<T: Value>, ReadOnly;
    /// Reads data that is constant during the launch, without allocating in L1 (`ld.global.nc.L1::no_allocate`).
    ///
    /// # Safety
    /// The same as for [`load_readonly`].
    load_streaming<T: Value>, Streaming;
    /// Reads a word that other threads may write concurrently; orders nothing else (`ld.relaxed.gpu.global`).
    ///
    /// # Safety
    /// `p` points to a `T` in global memory, aligned to its size; other threads write it by [`atomic`](crate::atomic)
    /// updates and by [`store_relaxed`] only.
    load_relaxed<T: Word>, Relaxed;
}

/// Writes (`st.global`).
///
/// # Safety
/// `p` points to room for a `T` in global memory, aligned to its size; no access of another thread races with this.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Value>(p: *mut T, value: T) {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::store(p, value) }
}

/// Writes a value that other threads may read concurrently by [`load_relaxed`] (`st.relaxed.gpu.global`). A value of 16
/// bytes is four words, and they may see some of these before others.
///
/// # Safety
/// `p` points to room for a `T` in global memory, aligned to its size; other threads access it by relaxed loads and
/// stores only.
#[inline(always)]
#[track_caller]
pub unsafe fn store_relaxed<T: Value>(p: *mut T, value: T) {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::store_relaxed(p, value) }
}

/// Prefetches the line of `p` to the L2 cache (`prefetch.global.L2`).
///
/// # Safety
/// `p` is in global memory.
#[inline(always)]
#[track_caller]
pub unsafe fn prefetch_l2<T>(p: *const T) {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::prefetch(p.cast()) }
}
