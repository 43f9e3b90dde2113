//! Loops that the compiler vectorizes, compiled once per SIMD level and dispatched at run time.
//!
//! The loops are plain Rust, compute each element independently, and use no fused multiply-adds; sums go through
//! [`jasper_core::distance`]. Every level therefore gives the same bits, and codes do not depend on the CPU.

use jasper_core::distance::Level;

/// A loop to compile for each level.
///
/// `run` and all it calls must be `#[inline(always)]`, and loops must not be in closures: a closure that is not inlined
/// is compiled for the baseline level. Float-to-integer casts do not vectorize; use [`to_u8`] and [`to_i16`].
pub(crate) trait SimdLoop {
    type Output;

    /// Runs the loop. `level` is supported by this CPU.
    fn run(self, level: Level) -> Self::Output;
}

/// Runs `work` at the widest level of this CPU.
#[inline]
pub(crate) fn dispatch<W: SimdLoop>(work: W) -> W::Output {
    at(Level::detect(), work)
}

/// Runs `work` at the widest level of this CPU up to `level`.
#[inline]
pub(crate) fn at<W: SimdLoop>(level: Level, work: W) -> W::Output {
    let level = level.min(Level::detect());
    #[cfg(target_arch = "x86_64")]
    match level {
        // SAFETY: this CPU supports the level.
        Level::Avx512 => return unsafe { avx512(work) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { avx2(work) },
        _ => {}
    }
    work.run(level)
}

/// # Safety
/// The CPU supports [`Level::Avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn avx512<W: SimdLoop>(work: W) -> W::Output {
    work.run(Level::Avx512)
}

/// # Safety
/// The CPU supports [`Level::Avx2`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<W: SimdLoop>(work: W) -> W::Output {
    work.run(Level::Avx2)
}

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

/// `out = |values| factor`.
pub(crate) struct Magnitudes<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) factor: f32,
    pub(crate) out: &'a mut [f32],
}

impl SimdLoop for Magnitudes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        for (out, x) in self.out.iter_mut().zip(self.values) {
            *out = x.abs() * self.factor;
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
    fn levels_give_the_same_bits() {
        let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        let outs = Level::available().map(|level| {
            let mut out = vec![0.0; values.len()];
            at(level, Magnitudes { values: &values, factor: 1.1, out: &mut out });
            out
        });
        for out in outs {
            for (out, x) in out.iter().zip(&values) {
                assert_eq!(out.to_bits(), (x.abs() * 1.1).to_bits());
            }
        }
    }
}
