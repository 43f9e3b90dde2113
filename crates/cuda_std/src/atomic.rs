//! Atomic updates of global memory: each gives what was there, and orders nothing else (relaxed).
//!
//! Of integers (u32, u64), as unsigned numbers; [`add`] of f32 too.

use crate::primitive::Update;
use crate::{Word, imp};

/// What can be updated in every way.
pub trait Integer: Number {}
impl Integer for u32 {}
impl Integer for u64 {}

/// What can be added to.
pub trait Number: Word {
    #[doc(hidden)]
    fn addition(value: Self) -> Update<Self>;
}

macro_rules! numbers {
    ($($T:ty: $addition:ident),*) => { $(
        impl Number for $T {
            #[inline(always)]
            fn addition(value: Self) -> Update<Self> {
                Update::$addition(value)
            }
        }
    )* };
}
numbers!(u32: Add, u64: Add, f32: AddFloat);

/// Adds: integers wrap, f32 below the normal range count as zero (`atom.global.add.u32`, `.u64`, `.f32`).
///
/// # Safety
/// `p` leads to a `T` in global memory, aligned to its size, which other threads touch by atomic updates,
/// [`load_relaxed`](crate::global::load_relaxed) and [`load_acquire`](crate::global::load_acquire) only.
#[inline(always)]
#[track_caller]
pub unsafe fn add<T: Number>(p: *mut T, value: T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::update(p, T::addition(value)) }
}

macro_rules! updates {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`add`].
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Integer>(p: *mut T, value: T) -> T {
            // SAFETY: the caller's promise is the back end's.
            unsafe { imp::update(p, Update::$op(value)) }
        }
    )* };
}
updates! {
    /// Leaves the lesser (`atom.global.min.u32`, `.u64`).
    min, Min;
    /// Leaves the greater (`atom.global.max.u32`, `.u64`).
    max, Max;
    /// Leaves the bits of either (`atom.global.or.b32`, `.b64`).
    or, Or;
    /// Leaves the bits of both (`atom.global.and.b32`, `.b64`).
    and, And;
    /// Leaves `value` (`atom.global.exch.b32`, `.b64`).
    exchange, Exchange;
}

/// Leaves `new` if `expected` is there (`atom.global.cas.b32`, `.b64`).
///
/// # Safety
/// As [`add`].
#[inline(always)]
#[track_caller]
pub unsafe fn cas<T: Integer>(p: *mut T, expected: T, new: T) -> T {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::update(p, Update::CompareExchange { expected, new }) }
}
