//! Dot products and squared distances, picked for this processor when first used.
//!
//! Every implementation gives the same bits. Integers are exact. Floats add up in one fixed order, whatever the
//! width of the registers: coordinate `i` goes to partial sum `i % 64` by a fused multiply-add, and the 64 partial
//! sums are added as a fixed tree (`scalar.rs` is that order written down). So the same data give the same graph on
//! every machine.
//!
//! ```
//! use jasper_core::Element;
//! let kernels = u8::kernels();
//! assert_eq!((kernels.squared_l2)(&[0, 255, 3], &[255, 0, 1]), (255 * 255 * 2 + 4) as f32);
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;
pub(crate) mod select;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use select::Level;

/// A function of two vectors of equal length.
pub type PairFn<T> = fn(&[T], &[T]) -> f32;

/// A function of one vector and many of its length; one result each, in `out`.
///
/// The rows may lie anywhere: each is prefetched while the ones before it are read. Panics if `rows` and `out`, or
/// a row and the query, differ in length.
pub type ManyFn<T> = fn(query: &[T], rows: &[&[T]], out: &mut [f32]);

/// The distance functions of one element type on one kind of processor.
///
/// Lengths are in elements; padding of zeros changes nothing. Integer results are exact before the one rounding to
/// f32, so they are exact up to 2^24.
#[derive(Clone, Copy, Debug)]
pub struct Kernels<T: 'static> {
    /// Which instructions are used.
    pub level: Level,
    /// Sum of products.
    pub dot: PairFn<T>,
    /// Sum of squared differences.
    pub squared_l2: PairFn<T>,
    /// [`Self::dot`] of a query with many rows.
    pub dot_many: ManyFn<T>,
    /// [`Self::squared_l2`] of a query and many rows.
    pub squared_l2_many: ManyFn<T>,
}

/// Asks the memory system for every cache line that `row` touches; changes nothing else.
#[inline(always)]
pub fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        // From the start of the first line: a row of 128 bytes may lie on three.
        let before = row.as_ptr().addr() % LINE;
        let first = row.as_ptr().cast::<i8>().wrapping_sub(before);
        for line in (0..before + size_of_val(row)).step_by(LINE) {
            // SAFETY: a prefetch is a hint that never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[cfg(test)]
mod tests;
