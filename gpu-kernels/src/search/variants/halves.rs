//! Squared differences worked out in halves, two at a time: half of the instructions, and eleven bits.

use cuda_std::prelude::*;

use crate::coordinates::{F16, Term};
use crate::tile::{Chunked, Read};

/// Sixteen bytes a unit, whose four pairs of squares are summed up before they become floats. Eight squares must stay
/// below 65,504.
pub(super) struct Halves;

impl Read<F16> for Halves {
    const BYTES: u32 = 16;
    type Unit = [u32; 4];
    const ZERO: [u32; 4] = [0; 4];

    #[inline(always)]
    unsafe fn row(p: *const u8) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { <Chunked as Read<F16>>::row(p) }
    }

    #[inline(always)]
    unsafe fn query(p: *const u8) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { <Chunked as Read<F16>>::query(p) }
    }

    #[inline(always)]
    unsafe fn shared(at: Shared<u8>) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { <Chunked as Read<F16>>::shared(at) }
    }

    /// Variants are of squared L2: the term is that.
    #[inline(always)]
    fn add<T: Term>(sum: f32, query: [u32; 4], row: [u32; 4]) -> f32 {
        let mut squares = 0;
        for word in 0..4 {
            let apart = math::half2_sub(query[word], row[word]);
            squares = math::half2_fma(apart, apart, squares);
        }
        let (low, high) = math::half2_to_f32(squares);
        sum + (low + high)
    }
}
