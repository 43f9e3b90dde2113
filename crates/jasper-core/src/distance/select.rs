//! Run-time selection of the SIMD level, and safe functions over its kernels.

#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::{DistanceFns, prefetch, scalar::Scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512};

/// A SIMD instruction set of this architecture, in ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SimdLevel {
    /// Plain Rust.
    Scalar,
    /// AVX2, FMA, F16C and POPCNT (2013 on).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, VL and VNNI (2019 on).
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON, which every AArch64 CPU has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// NEON with dot products of bytes: Armv8.4, or 8.2 with that option (2018 on).
    #[cfg(target_arch = "aarch64")]
    NeonDot,
}

impl SimdLevel {
    /// The fastest level that this CPU supports.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("popcnt");
            if avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512vnni") {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        #[cfg(target_arch = "aarch64")]
        return if std::arch::is_aarch64_feature_detected!("dotprod") { Self::NeonDot } else { Self::Neon };
        #[cfg(not(target_arch = "aarch64"))]
        Self::Scalar
    }
}

/// The kernels of one level for one element type.
pub(crate) trait Simd<T> {
    const LEVEL: SimdLevel;

    /// The squared L2 distance if `SQUARED`, else the dot product.
    ///
    /// # Safety
    /// - The CPU supports `LEVEL`.
    /// - `a` and `b` are readable for `len` elements.
    unsafe fn sum<const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32;

    /// Multiplies each element in f64, and rounds the product to f32 and then to `T`.
    ///
    /// # Safety
    /// The CPU supports `LEVEL`.
    unsafe fn scale(values: &mut [T], factor: f64);
}

/// Defines what needs the list of this architecture's levels and their implementations.
macro_rules! levels {
    ($($level:ident: $simd:ty),*) => {
        impl SimdLevel {
            /// The levels that this CPU supports, for tests and benches.
            pub fn available() -> impl Iterator<Item = Self> {
                [Self::Scalar $(, Self::$level)*].into_iter().filter(|level| *level <= Self::detect())
            }
        }

        /// The functions of the fastest level up to `level`.
        pub(crate) fn distance_fns<T: 'static>(level: SimdLevel) -> DistanceFns<T>
        where
            Scalar: Simd<T>,
            $($simd: Simd<T>,)*
        {
            match level.min(SimdLevel::detect()) {
                SimdLevel::Scalar => table::<Scalar, T>(),
                $(SimdLevel::$level => table::<$simd, T>(),)*
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
levels!(Avx2: Avx2, Avx512: Avx512);
#[cfg(target_arch = "aarch64")]
levels!(Neon: Neon<false>, NeonDot: Neon<true>);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
levels!();

/// The table of functions of one level. Only [`distance_fns`] may call this, with a supported level.
fn table<S: Simd<T>, T: 'static>() -> DistanceFns<T> {
    DistanceFns {
        level: S::LEVEL,
        dot: |a, b| pair(a, b, S::sum::<false>),
        squared_l2: |a, b| pair(a, b, S::sum::<true>),
        dot_many: |query, rows, out| many(query, rows, out, |a, b| pair(a, b, S::sum::<false>)),
        squared_l2_many: |query, rows, out| many(query, rows, out, |a, b| pair(a, b, S::sum::<true>)),
        // SAFETY: `distance_fns` hands out only levels that were detected.
        scale: |values, factor| unsafe { S::scale(values, factor) },
    }
}

#[inline(always)]
fn pair<T>(a: &[T], b: &[T], kernel: unsafe fn(*const T, *const T, usize) -> f32) -> f32 {
    assert_eq!(a.len(), b.len());
    // SAFETY: `distance_fns` hands out only levels that were detected; the slices are `len` long, checked above.
    unsafe { kernel(a.as_ptr(), b.as_ptr(), a.len()) }
}

/// Bytes prefetched ahead of the row being read: enough to hide a memory access at the rate at which one core reads
/// (about 100 ns at 20 to 40 bytes per nanosecond), and few enough to stay in a 32 KB L1.
const PREFETCH_BYTES: usize = 4096;

#[inline(always)]
fn many<T>(query: &[T], rows: &[&[T]], out: &mut [f32], pair: impl Fn(&[T], &[T]) -> f32) {
    assert_eq!(rows.len(), out.len());
    let ahead = (PREFETCH_BYTES / size_of_val(query).max(1)).clamp(2, 32);
    for row in rows.iter().take(ahead) {
        prefetch(row);
    }
    for (i, (row, out)) in rows.iter().zip(out).enumerate() {
        if let Some(next) = rows.get(i + ahead) {
            prefetch(next);
        }
        *out = pair(query, row);
    }
}
