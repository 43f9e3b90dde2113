//! Loops that the compiler turns into SIMD, compiled once for each level of instructions.
//!
//! Such a loop is plain Rust that computes each value on its own, without fused multiply-adds; sums are left to
//! [`jasper_core::distance`]. So every level gives the same bits, and codes do not depend on the machine that made
//! them.

use jasper_core::distance::Level;

/// A piece of work that is inlined whole: `#[inline(always)]` on `run` and on what it calls, and loops in no closure,
/// for a closure that is not inlined is compiled for the lowest level. Conversions to integers do not vectorise; see
/// [`byte`].
pub(crate) trait Work {
    type Output;

    /// Called with a level that was detected.
    fn run(self, level: Level) -> Self::Output;
}

/// Runs `work` with the widest instructions of this processor.
#[inline]
pub(crate) fn widest<W: Work>(work: W) -> W::Output {
    at(Level::detect(), work)
}

/// Runs `work` with the widest instructions of this processor up to `level`.
#[inline]
pub(crate) fn at<W: Work>(level: Level, work: W) -> W::Output {
    let level = level.min(Level::detect());
    #[cfg(target_arch = "x86_64")]
    match level {
        // SAFETY: the level was detected on this processor.
        Level::Avx512 => return unsafe { avx512(work) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { avx2(work) },
        _ => {}
    }
    work.run(level)
}

/// # Safety
/// The processor has what [`Level::Avx512`] asks for.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn avx512<W: Work>(work: W) -> W::Output {
    work.run(Level::Avx512)
}

/// # Safety
/// The processor has what [`Level::Avx2`] asks for.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<W: Work>(work: W) -> W::Output {
    work.run(Level::Avx2)
}

/// A whole number of 0 to 255 as a byte, in the lowest bits of a float that has no room for fractions: conversions of
/// the language also have to think of what fits no byte.
#[inline(always)]
pub(crate) fn byte(whole: f32) -> u8 {
    const ROOM: f32 = 8_388_608.0;
    (whole + ROOM).to_bits() as u8
}

/// A number of -2^15 to 2^15 - 1, rounded to even, in the lowest bits of a float that has no room for fractions.
#[inline(always)]
pub(crate) fn whole(number: f32) -> i16 {
    const ROOM: f32 = 12_582_912.0;
    (number + ROOM).to_bits() as i16
}

/// The lesser one, as one instruction; `f32::min` also has to think of NaN.
#[inline(always)]
pub(crate) fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// `out = |values| factor`.
pub(crate) struct Magnitudes<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) factor: f32,
    pub(crate) out: &'a mut [f32],
}

impl Work for Magnitudes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        for (out, x) in self.out.iter_mut().zip(self.values) {
            *out = x.abs() * self.factor;
        }
    }
}

/// Memory for the magnitudes and the points of a row.
#[derive(Debug, Default)]
pub(crate) struct Buffers([Vec<f32>; 2]);

impl Buffers {
    /// Two slices of `len`, of any values.
    pub(crate) fn of(&mut self, len: usize) -> [&mut [f32]; 2] {
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
