//! Loops that the compiler turns into SIMD, compiled once for each level of instructions.
//!
//! Such a loop is plain Rust with sums in a fixed number of lanes and no fused multiply-add: every level gives the same
//! bits, so codes do not depend on the machine that made them.

use jasper_core::distance::Level;

/// Lanes of a float sum: what one register of the widest level holds.
pub(crate) const LANES: usize = 16;

/// A piece of work that is inlined whole (`#[inline(always)]` on `run` and on what it calls).
pub(crate) trait Work {
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs `work` with the widest instructions of this processor.
#[inline]
pub(crate) fn widest<W: Work>(work: W) -> W::Output {
    at(Level::detect(), work)
}

/// Runs `work` with the widest instructions of this processor up to `level`.
#[inline]
pub(crate) fn at<W: Work>(level: Level, work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    match level.min(Level::detect()) {
        // SAFETY: the level was detected on this processor.
        Level::Avx512 => return unsafe { avx512(work) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { avx2(work) },
        _ => {}
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    work.run()
}

/// # Safety
/// The processor has what [`Level::Avx512`] asks for.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn avx512<W: Work>(work: W) -> W::Output {
    work.run()
}

/// # Safety
/// The processor has what [`Level::Avx2`] asks for.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

/// The sum of `lanes`, by halves.
#[inline(always)]
pub(crate) fn sum(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[half + i];
        }
        half /= 2;
    }
    lanes[0]
}

/// The lesser one, as one instruction; `f32::min` also has to think of NaN.
#[inline(always)]
pub(crate) fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [f32]);

    impl Work for Sum<'_> {
        type Output = f32;

        #[inline(always)]
        fn run(self) -> f32 {
            let mut lanes = [0.0; LANES];
            for chunk in self.0.chunks_exact(LANES) {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    *lane += x * 1.1;
                }
            }
            sum(lanes)
        }
    }

    #[test]
    fn levels_give_the_same_bits() {
        let values: Vec<f32> = (0..1024).map(|i| (i as f32).sin()).collect();
        assert_eq!(widest(Sum(&values)).to_bits(), Sum(&values).run().to_bits());
    }
}
