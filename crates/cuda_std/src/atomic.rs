//! Atomic updates of global memory. Each returns the old value, and is relaxed.
//!
//! The values are unsigned integers: u32 or u64.

use crate::primitive::Update;
use crate::{Word, imp};

/// A word that can be updated atomically.
pub trait Integer: Word {}
impl Integer for u32 {}
impl Integer for u64 {}

macro_rules! updates {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// `p` points to a `T` in global memory, aligned to its size, which other threads access by atomic updates and
        /// [`load_relaxed`](crate::global::load_relaxed) only.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Integer>(p: *mut T, value: T) -> T {
            // SAFETY: the caller upholds the contract of the back end.
            unsafe { imp::update(p, Update::$op(value)) }
        }
    )* };
}
updates! {
    /// Adds, wrapping (`atom.global.add.u32`, `.u64`).
    add, Add;
    /// The minimum (`atom.global.min.u32`, `.u64`).
    min, Min;
    /// Bitwise or (`atom.global.or.b32`, `.b64`).
    or, Or;
    /// Bitwise and (`atom.global.and.b32`, `.b64`).
    and, And;
    /// Replaces the value (`atom.global.exch.b32`, `.b64`).
    exchange, Exchange;
}
