//! The dynamic shared memory of a block, by 32-bit address.
//!
//! Dynamic shared memory is one array of the size given at launch, which a kernel divides:
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! # #[allow(dead_code)]
//! unsafe fn parts() -> (Shared<u64>, Shared<u32>) {
//!     let keys = shared::dynamic_shared_mem::<u64>();
//!     (keys, keys.add(256).cast())
//! }
//! ```

use core::marker::PhantomData;

use crate::primitive::Update;
use crate::{Value, Word, imp};

/// The start of the block's dynamic shared memory, aligned to 16 bytes and uninitialized.
#[inline(always)]
#[track_caller]
pub fn dynamic_shared_mem<T>() -> Shared<T> {
    Shared { address: imp::shared_base(), of: PhantomData }
}

/// A pointer to values of type `T` in shared memory: 4 bytes wide.
pub struct Shared<T> {
    address: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

impl<T> Shared<T> {
    /// The pointer `count` values further.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "the name that pointers have")]
    pub fn add(self, count: u32) -> Self {
        self.byte_add(count.wrapping_mul(size_of::<T>() as u32))
    }

    /// The pointer `bytes` bytes further.
    #[inline(always)]
    #[must_use]
    pub fn byte_add(self, bytes: u32) -> Self {
        Self { address: self.address.wrapping_add(bytes), of: PhantomData }
    }

    /// The same address, with another type.
    #[inline(always)]
    #[must_use]
    pub fn cast<U>(self) -> Shared<U> {
        Shared { address: self.address, of: PhantomData }
    }

    /// The address in the shared state space.
    #[inline(always)]
    #[must_use]
    pub fn address(self) -> u32 {
        self.address
    }
}

impl<T: Value> Shared<T> {
    /// Reads (`ld.shared`).
    ///
    /// # Safety
    /// The address is within the shared memory of the launch and aligned to the size of `T`; the value was written, and
    /// no write of another thread races with this.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load(self) -> T {
        // SAFETY: the caller upholds the contract of the back end.
        unsafe { imp::load_shared(self.address) }
    }

    /// Writes (`st.shared`).
    ///
    /// # Safety
    /// The address is within the shared memory of the launch and aligned to the size of `T`; no access of another
    /// thread races with this.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, value: T) {
        // SAFETY: the caller upholds the contract of the back end.
        unsafe { imp::store_shared(self.address, value) }
    }
}

impl<T: Word> Shared<T> {
    /// Reads what other threads of the block may write concurrently (`ld.relaxed.cta.shared`). Followed by a
    /// [`block_fence`](crate::thread::block_fence), it acquires what the writer released.
    ///
    /// # Safety
    /// The same as for [`load`](Self::load), but other threads may write the place by
    /// [`store_relaxed`](Self::store_relaxed) or update it atomically at the same time.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_relaxed(self) -> T {
        // SAFETY: the caller upholds the contract of the back end.
        unsafe { imp::load_shared_relaxed(self.address) }
    }

    /// Writes what other threads of the block may read concurrently (`st.relaxed.cta.shared`). After a
    /// [`block_fence`](crate::thread::block_fence), it releases what this thread did before the fence.
    ///
    /// # Safety
    /// The same as for [`store`](Self::store), to a place that was written before; other threads may read it by
    /// [`load_relaxed`](Self::load_relaxed), write it by this function or update it atomically at the same time.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_relaxed(self, value: T) {
        // SAFETY: the caller upholds the contract of the back end.
        unsafe { imp::store_shared_relaxed(self.address, value) }
    }
}

macro_rules! updates {
    ($T:ty: $($(#[$doc:meta])* $name:ident, $op:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The same as for [`load`](Self::load), but other threads may update the place atomically at the same time.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(self, value: $T) -> $T {
            // SAFETY: the caller upholds the contract of the back end.
            unsafe { imp::update_shared(self.address, Update::$op(value)) }
        }
    )* };
}

macro_rules! atomics {
    ($($T:ty),*) => { $( impl Shared<$T> {
        updates! { $T:
            /// Adds, wrapping, and returns the old value (`atom.shared.add`).
            atomic_add, Add;
            /// Stores the minimum and returns the old value (`atom.shared.min`).
            atomic_min, Min;
            /// Stores the bitwise or and returns the old value (`atom.shared.or.b32`, `.b64`).
            atomic_or, Or;
            /// Stores `value` and returns the old value (`atom.shared.exch.b32`, `.b64`).
            atomic_exchange, Exchange;
        }
    } )* };
}
atomics!(u32, u64);
