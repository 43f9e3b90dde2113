//! Dot products and squared L2 distances: scalar, AVX2, AVX-512 and NEON, chosen at run time.
//!
//! All implementations return the same bits, so that the same data give the same graph on every machine. Integer sums
//! are exact. Float sums have one fixed order, whatever the register width:
//!
//! ```text
//! for i in 0..len: sums[i % 64] = fma(a[i], b[i], sums[i % 64])
//! lanes[0..16] = (sums[0..16] + sums[16..32]) + (sums[32..48] + sums[48..64])
//! result = lanes added by halves: 8 + 8, 4 + 4, 2 + 2, 1 + 1
//! ```
//!
//! `scalar.rs` is that definition in plain Rust. 64 partial sums are sixteen registers of NEON, eight of AVX2 or four
//! of AVX-512, enough to hide the latency of a fused multiply-add.
//!
//! ```
//! use jasper_core::Element;
//! let fns = u8::distance_fns();
//! assert_eq!((fns.squared_l2)(&[0, 255, 3], &[255, 0, 1]), (255 * 255 * 2 + 4) as f32);
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod registers;
mod scalar;
pub(crate) mod select;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use select::SimdLevel;

/// A function of two vectors of equal length.
pub type PairFn<T> = fn(&[T], &[T]) -> f32;

/// A function of a query and many rows of its length; writes one result per row to `out`.
///
/// The rows may lie anywhere in memory: each is prefetched while the ones before it are read. Panics if `rows` and
/// `out`, or the query and a row, differ in length.
pub type ManyFn<T> = fn(query: &[T], rows: &[&[T]], out: &mut [f32]);

/// The distance functions of one element type at one SIMD level.
///
/// Zero padding does not change results. Integer sums are exact and rounded to f32 once, so they are exact up to 2^24.
#[derive(Clone, Copy, Debug)]
pub struct DistanceFns<T: 'static> {
    /// The instruction set.
    pub level: SimdLevel,
    /// Sum of products.
    pub dot: PairFn<T>,
    /// Sum of squared differences.
    pub squared_l2: PairFn<T>,
    /// Sums of products of a query and many rows.
    pub dot_many: ManyFn<T>,
    /// Sums of squared differences of a query and many rows.
    pub squared_l2_many: ManyFn<T>,
    /// Multiplies each element in f64, and rounds the product to f32 and then to `T`.
    pub scale: fn(&mut [T], f64),
}

/// Prefetches every cache line of `row` into the L1 cache: for rows that are read next.
#[inline(always)]
pub fn prefetch<T>(row: &[T]) {
    prefetch_lines::<false, T>(row.as_ptr(), row.len());
}

/// Prefetches every cache line of `row` into the L2 cache: for rows that are read later. More lines can be on their way
/// to L2 than to L1 at a time, so fewer prefetches wait (docs/notebook/experiments.md#cpu-prefetches-into-l2).
#[inline(always)]
pub fn prefetch_l2<T>(row: &[T]) {
    prefetch_l2_at(row.as_ptr(), row.len());
}

/// [`prefetch_l2`] of `len` items from `first` on, which others may be changing. Any address is allowed.
#[inline(always)]
pub fn prefetch_l2_at<T>(first: *const T, len: usize) {
    prefetch_lines::<true, T>(first, len);
}

#[inline(always)]
fn prefetch_lines<const L2: bool, T>(first: *const T, len: usize) {
    const LINE: usize = 64;
    let (first, len) = (first.cast::<i8>(), len * size_of::<T>());
    for at in (0..len).step_by(LINE) {
        prefetch_line::<L2>(first.wrapping_add(at));
    }
    // An unaligned row may end in one more line. Whether it does cannot be predicted where rows are 48 bytes, so there
    // is no branch.
    prefetch_line::<L2>(first.wrapping_add(len).wrapping_sub(1));
}

/// Prefetches one cache line, where the architecture has an instruction for it.
#[inline(always)]
fn prefetch_line<const L2: bool>(line: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch is a hint that never faults, whatever the address.
        unsafe { if L2 { _mm_prefetch::<_MM_HINT_T1>(line) } else { _mm_prefetch::<_MM_HINT_T0>(line) } };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above. The standard library's function is not stable.
    unsafe {
        if L2 {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        } else {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

#[cfg(test)]
mod tests;
