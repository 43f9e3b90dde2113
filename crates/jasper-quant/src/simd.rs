//! Loops that the compiler vectorizes, compiled once per SIMD level and dispatched at run time.
//!
//! The loops are plain Rust, compute each element independently, and use no fused multiply-adds; sums go through
//! [`jasper_core::distance`]. Every SIMD level therefore gives the same bits, and codes do not depend on the CPU.

use jasper_core::distance::SimdLevel;

/// Defines a function whose loops are compiled for each SIMD level. It runs at the widest one of this CPU up to that of
/// its first argument. The function body gets the SIMD level at which it runs.
///
/// All that the body calls must be `#[inline(always)]`, and loops must not be in closures: a closure that is not
/// inlined is compiled for the baseline instructions. Float-to-integer casts do not vectorize; use [`to_u8`] and
/// [`to_i16`].
macro_rules! simd_fn {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $([$($generics:tt)*])?(
            $simd:pat_param => SimdLevel $(, $argument:ident: $type:ty)* $(,)?
        ) $(-> $output:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name $(<$($generics)*>)? (simd: SimdLevel $(, $argument: $type)*) $(-> $output)? {
            #[inline(always)]
            fn run $(<$($generics)*>)? ($simd: SimdLevel $(, $argument: $type)*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
            fn avx512 $(<$($generics)*>)? ($($argument: $type),*) $(-> $output)? {
                run(SimdLevel::Avx512 $(, $argument)*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2 $(<$($generics)*>)? ($($argument: $type),*) $(-> $output)? {
                run(SimdLevel::Avx2 $(, $argument)*)
            }

            match simd.min(SimdLevel::detect()) {
                // SAFETY: this CPU supports the instructions.
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx2 => unsafe { avx2($($argument),*) },
                simd => run(simd $(, $argument)*),
            }
        }
    };
}
pub(crate) use simd_fn;

/// Converts an integral float from 0 to 255. Adding 2^23 moves the integer to the lowest bits of the float; a cast
/// would also have to saturate, and does not vectorize.
#[inline(always)]
pub(crate) fn to_u8(whole: f32) -> u8 {
    const ROOM: f32 = 8_388_608.0;
    (whole + ROOM).to_bits() as u8
}

/// Rounds a float from -2^15 to 2^15 - 1 to the nearest integer, ties to even, by adding 1.5 * 2^23.
#[inline(always)]
pub(crate) fn to_i16(number: f32) -> i16 {
    const ROOM: f32 = 12_582_912.0;
    (number + ROOM).to_bits() as i16
}

/// The minimum in one instruction; `f32::min` also has to handle NaN.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

simd_fn! {
    /// `out = |values| factor`.
    pub(crate) fn magnitudes(_ => SimdLevel, values: &[f32], factor: f32, out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(values) {
            *out = x.abs() * factor;
        }
    }
}

/// Reused memory for the magnitudes and the grid point of a row.
#[derive(Debug, Default)]
pub(crate) struct Buffers([Vec<f32>; 2]);

impl Buffers {
    /// Two slices of `len` unspecified values.
    pub(crate) fn resized(&mut self, len: usize) -> [&mut [f32]; 2] {
        self.0.each_mut().map(|values| {
            values.resize(len, 0.0);
            values.as_mut_slice()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simd_levels_give_the_same_bits() {
        let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        let outs = SimdLevel::available().map(|simd| {
            let mut out = vec![0.0; values.len()];
            magnitudes(simd, &values, 1.1, &mut out);
            out
        });
        for out in outs {
            for (out, x) in out.iter().zip(&values) {
                assert_eq!(out.to_bits(), (x.abs() * 1.1).to_bits());
            }
        }
    }
}
