//! An encoded query, and the distances it estimates from codes.
//!
//! The rotated query is quantized to int8 with one scale, so that products with codes are exact integers. For codes of
//! up to 5 bits, one int8 per coordinate adds no visible error. For finer codes a second int8, the low byte, holds the
//! next 8 bits.
//!
//! ```text
//! product  = sum over bytes of scale[byte] * (<levels of the row, that byte of the levels> + offset[byte])
//! row_add  = add of the row, or, with four factors, add + add_low / 2048
//! estimate = (row_add * add_unit + add) + rescale of the row * product
//! bound    = error of the row * error
//! ```
//!
//! The arithmetic is f32, in this order, without fused multiply-adds, so that every CPU and GPU gives the same bits.
//! `offset` centers the levels 0 to 2^m - 1 of a row around zero. It is summed over the *quantized* query: the estimate
//! loses only the rounding of the query itself.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_core::Slot;
use jasper_core::distance::SimdLevel;

use crate::estimate::{self, QueryGroups};
use crate::factors::Units;
use crate::simd::{simd_fn, to_i16};
use crate::{CodeTable, Layout};

/// Maximum int8 per coordinate of a query.
pub const MAX_LEVEL_BYTES: usize = 2;

/// An encoded query. Created by [`Quantizer::query`](crate::Quantizer::query).
#[derive(Clone, Debug)]
pub struct QueryCode {
    layout: Arc<Layout>,
    /// `[level_bytes][layout.dimensions()]`, most significant byte first.
    levels: Vec<i8>,
    factors: QueryFactors,
    groups: QueryGroups,
}

/// The factors of an encoded query; the [module docs](self) have the formula.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct QueryFactors {
    /// Added to every estimate.
    pub add: f32,
    /// Unit of a row's `add`.
    pub add_unit: f32,
    /// Half-width of the error bound, for a row whose `error` is 1.
    pub error: f32,
    /// Bytes of a level: 1 or 2.
    pub level_bytes: u32,
    /// Scale of each byte of the levels, times the unit of a row's `rescale`; 0 for an absent byte.
    pub scale: [f32; MAX_LEVEL_BYTES],
    /// Offset of each byte of the levels.
    pub offset: [f32; MAX_LEVEL_BYTES],
}

impl QueryCode {
    /// Quantizes `rotated`, of `layout.dimensions()` coordinates multiplied by the steps of the levels, to
    /// `level_bytes` int8 per coordinate. `add` is the query's term of every distance, and `norm` its distance from the
    /// center.
    pub(crate) fn new(
        layout: &Arc<Layout>,
        units: &Units,
        rotated: &[f32],
        level_bytes: usize,
        add: f32,
        norm: f32,
    ) -> Self {
        assert_eq!(rotated.len(), layout.dimensions());
        // The maximum of one byte, and of two: 127 * 256 + 127.
        let largest = if level_bytes == 1 { 127.0 } else { 32639.0 };
        let peak = peak(SimdLevel::detect(), rotated);
        let (scale, inverse) = if peak > 0.0 { (peak / largest, largest / peak) } else { (0.0, 0.0) };
        let mut levels = vec![0_i8; level_bytes * rotated.len()];
        let (high, low) = levels.split_at_mut(rotated.len());
        round(SimdLevel::detect(), rotated, inverse, largest, high, low);
        let mut factors = QueryFactors {
            add,
            add_unit: units.0.add,
            error: norm * units.0.error,
            level_bytes: level_bytes as u32,
            scale: [0.0; MAX_LEVEL_BYTES],
            offset: [0.0; MAX_LEVEL_BYTES],
        };
        for (byte, levels) in levels.chunks_exact(rotated.len()).enumerate() {
            let weight = if byte + 1 == level_bytes { 1.0 } else { 256.0 };
            factors.scale[byte] = scale * weight * units.0.rescale;
            factors.offset[byte] = offset(layout, levels);
        }
        let groups = QueryGroups::new(layout, &levels);
        Self { layout: Arc::clone(layout), levels, factors, groups }
    }

    /// The layout of the codes that this query is compared with.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The int8 levels, `[level_bytes][layout.dimensions()]`, most significant byte first.
    pub fn levels(&self) -> &[i8] {
        &self.levels
    }

    /// The factors.
    pub fn factors(&self) -> &QueryFactors {
        &self.factors
    }

    pub(crate) fn groups(&self) -> &QueryGroups {
        &self.groups
    }

    /// Estimates the distances to rows `slots` of `codes`, one per element of `out`. Rows are prefetched ahead.
    ///
    /// # Panics
    /// Panics if a slot is not a row, the lengths differ, or the codes have another layout.
    pub fn estimate(&self, codes: &CodeTable, slots: &[Slot], out: &mut [f32]) {
        self.estimate_at(SimdLevel::detect(), codes, slots, out);
    }

    /// Estimates as [`Self::estimate`] does, at the widest SIMD level up to `simd`. For tests and benches.
    pub fn estimate_at(&self, simd: SimdLevel, codes: &CodeTable, slots: &[Slot], out: &mut [f32]) {
        self.check(codes);
        assert_eq!(slots.len(), out.len());
        estimate::estimates(simd, self, |i| codes.row(slots[i].index()), out);
    }

    /// Estimates the distances to code rows anywhere in memory: `out[i]` is that of the words `row(i)`.
    ///
    /// # Panics
    /// Panics if the length of a row is not the layout's.
    pub fn estimate_rows<'a>(&self, row: impl Fn(usize) -> &'a [u32], out: &mut [f32]) {
        estimate::estimates(SimdLevel::detect(), self, row, out);
    }

    /// Half-width of the error bound of a row's estimate: [`bound_sigmas`](crate::RabitqParams::bound_sigmas) standard
    /// deviations, or infinity if the codes store no bound.
    pub fn bound(&self, row: &[u32]) -> f32 {
        if self.layout.factors() < 4 {
            return f32::INFINITY;
        }
        Units::ONE.load(&self.layout, row).error * self.factors.error
    }

    fn check(&self, codes: &CodeTable) {
        assert!(
            Arc::ptr_eq(&self.layout, codes.layout()) || self.layout == *codes.layout(),
            "the query and the codes have different layouts"
        );
    }
}

/// Independent maxima, to hide latency.
const MAXIMA: usize = 64;

simd_fn! {
    /// The largest magnitude.
    fn peak(_ => SimdLevel, rotated: &[f32]) -> f32 {
        let mut peaks = [0.0_f32; MAXIMA];
        for values in rotated.chunks(MAXIMA) {
            for (peak, y) in peaks.iter_mut().zip(values) {
                *peak = if y.abs() > *peak { y.abs() } else { *peak };
            }
        }
        peaks.into_iter().fold(0.0, f32::max)
    }
}

simd_fn! {
    /// Rounds `rotated * inverse` to the nearest integers, ties to even, up to the magnitude `largest`, and splits them
    /// into one or two bytes. `low` is empty if there is one byte per level.
    fn round(
        _ => SimdLevel,
        rotated: &[f32],
        inverse: f32,
        largest: f32,
        high: &mut [i8],
        low: &mut [i8],
    ) {
        if low.is_empty() {
            for (high, y) in high.iter_mut().zip(rotated) {
                *high = level_of(*y, inverse, largest) as i8;
            }
        } else {
            for ((high, low), y) in high.iter_mut().zip(low).zip(rotated) {
                let level = level_of(*y, inverse, largest);
                *high = ((level + 128) >> 8) as i8;
                *low = level as i8;
            }
        }
    }
}

/// The level of a coordinate, which saturates at the magnitude `largest`.
#[inline(always)]
fn level_of(y: f32, inverse: f32, largest: f32) -> i16 {
    // `largest / peak` is infinite if the peak is subnormal. Infinite levels saturate below, and 0 * infinity, a NaN,
    // becomes 0.
    let level = y * inverse;
    let level = if level.is_nan() { 0.0 } else { level };
    let level = if level > largest { largest } else { level };
    to_i16(if level < -largest { -largest } else { level })
}

/// The sum over dimensions of the query's level times the offset that centers a row's levels around zero.
fn offset(layout: &Layout, levels: &[i8]) -> f32 {
    let twice: i64 = layout
        .planes()
        .iter()
        .map(|plane| {
            let sum: i64 = levels[plane.first_dimension..][..plane.dimensions]
                .iter()
                .map(|level| i64::from(*level))
                .sum();
            // Twice the offset is -(2^m - 1), the sum over the planes of a dimension: (2^a - 1) 2^b + (2^b - 1) = 2^(a
            // + b) - 1.
            -(((1 << plane.width) - 1) << plane.shift) * sum
        })
        .sum();
    twice as f32 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every SIMD level rounds as the language does.
    #[test]
    fn levels_are_rounded_to_even_and_saturate() {
        let usual: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
        let ties: Vec<f32> = (-254..=254).map(|i| i as f32 / 2.0).collect();
        let tiny: Vec<f32> =
            (0..70).map(|i| f32::from_bits(i % 7) * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        for (rotated, largest) in [&usual, &ties, &tiny].into_iter().flat_map(|x| [(x, 127.0), (x, 32639.0)])
        {
            let expected_peak = rotated.iter().fold(0.0_f32, |peak, y| peak.max(y.abs()));
            let inverse = largest / expected_peak;
            let level_bytes = if largest > 127.0 { 2 } else { 1 };
            for simd in SimdLevel::available() {
                assert_eq!(peak(simd, rotated), expected_peak);
                let mut levels = vec![0; level_bytes * rotated.len()];
                let (high, low) = levels.split_at_mut(rotated.len());
                round(simd, rotated, inverse, largest, high, low);
                for (i, y) in rotated.iter().enumerate() {
                    let expected =
                        ((y * inverse).round_ties_even() as i32).clamp(-(largest as i32), largest as i32);
                    let found = i32::from(high[i]);
                    let found = if level_bytes == 2 { found * 256 + i32::from(low[i]) } else { found };
                    assert_eq!(found, expected, "{y} by {inverse}, {simd:?}");
                }
            }
        }
    }
}
