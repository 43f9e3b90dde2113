//! The estimated distance that follows from a sum over a code and a query. The steps and their order are those of
//! `jasper_quant::query`, so CPU and GPU compute the same bits.
//!
//! *Factors* are the f16 numbers at the end of a code: `add` and `rescale`, and in some codes `error`, which is not
//! read here, and `add_low`. *Levels* of a query are its coordinates rounded to integers of 8 or 16 bits.

use cuda_std::math::{dp4a_u32_i32, half2_to_f32};
use cuda_std::prelude::*;

use crate::DevicePtr;
use crate::codes;

/// Factors of a code that has `add_low`, the rounding error of `add`.
const FACTORS_WITH_LOW: u32 = 4;
/// The unit of `add_low` in units of `add`.
const LOW_UNIT: f32 = 1.0 / 2048.0;

/// The factors of one row, with `add_low` in `add`.
#[derive(Clone, Copy)]
pub(super) struct RowFactors {
    add: f32,
    rescale: f32,
}

impl RowFactors {
    /// The factors in the last two words of a row: the last `factors_len` halves of these.
    #[inline(always)]
    pub(super) fn from_words(last: [u32; 2], factors_len: u32) -> Self {
        let (pair, low) =
            if factors_len == FACTORS_WITH_LOW { (last[0], half2_to_f32(last[1]).1) } else { (last[1], 0.0) };
        let (add, rescale) = half2_to_f32(pair);
        Self { add: add + low * LOW_UNIT, rescale }
    }
}

/// What an estimate reads of [`codes::QueryFactors`].
#[derive(Clone, Copy)]
pub(super) struct QueryFactors {
    add: f32,
    add_unit: f32,
    scale: [f32; 2],
    offset: [f32; 2],
}

impl QueryFactors {
    /// Reads the factors of row `row`.
    ///
    /// # Safety
    /// `query_factors` has the row, which is not written during the launch.
    #[inline(always)]
    pub(super) unsafe fn read(query_factors: DevicePtr<codes::QueryFactors>, row: usize) -> Self {
        let query_factors = query_factors.add(row).cast::<[f32; 2]>();
        // SAFETY: the words of the row's factors, two at a time.
        let pair = |i| unsafe { global::load_readonly(query_factors.at(i)) };
        let [add, add_unit] = pair(0);
        Self { add, add_unit, scale: pair(1), offset: pair(2) }
    }

    /// The contribution of the sum over one byte of the query's levels to the product.
    #[inline(always)]
    pub(super) fn product(&self, byte: u32, sum: i32) -> f32 {
        let (scale, offset) =
            if byte == 0 { (self.scale[0], self.offset[0]) } else { (self.scale[1], self.offset[1]) };
        scale * (sum as f32 + offset)
    }

    /// The estimate of a row.
    #[inline(always)]
    pub(super) fn estimate(&self, factors: RowFactors, product: f32) -> f32 {
        (factors.add * self.add_unit + self.add) + factors.rescale * product
    }
}

/// `sum` plus the products of four levels of a query with the four bytes of `word & mask`.
#[inline(always)]
pub(super) fn add(sum: i32, word: u32, mask: u32, levels: u32) -> i32 {
    dp4a_u32_i32(word & mask, levels, sum)
}

/// The lowest `bits` bits of every byte.
#[inline(always)]
pub(super) const fn mask(bits: u32) -> u32 {
    0x0101_0101 * ((1 << bits) - 1)
}
