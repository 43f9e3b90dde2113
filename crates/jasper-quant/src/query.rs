//! A query in the form that estimates distances from codes.
//!
//! The rotated query becomes int8 with one scale; products with codes are then integers, exact in any order. One int8 a
//! coordinate adds nothing that shows to codes of up to 5 bits; where codes are finer than that it would, and a second
//! int8 holds the next 8 bits.
//!
//! ```text
//! product  = sum over limbs of scale * (<levels of the row, levels of the limb> + offset)
//! add_row  = add of the row, or, with four factors, add + add_low / 2048
//! estimate = (add_row * add_unit + add) + rescale of the row * product
//! bound    = error of the row * error
//! ```
//!
//! in f32, in this order, without fused multiply-adds: every processor gives the same bits. `offset` moves the levels
//! 0 to 2^m - 1 of a row to their places around zero; it is a sum over the *quantized* query, so that nothing but the
//! rounding of the query itself is lost.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_core::VectorId;
use jasper_core::distance::Level;

use crate::factors::Units;
use crate::score::{self, Lanes};
use crate::wide::{Work, whole, widest};
use crate::{Codes, Layout};

/// int8 numbers a coordinate that a query has at most.
pub const MAX_LIMBS: usize = 2;

/// A query, coded. Made by [`Quantizer::query`](crate::Quantizer::query).
#[derive(Clone, Debug)]
pub struct QueryCode {
    layout: Arc<Layout>,
    /// `[limbs][layout.dimensions()]`, most significant limb first.
    levels: Vec<i8>,
    terms: QueryTerms,
    lanes: Lanes,
}

/// What a kernel needs of a query beside its levels; see the head of the module for what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct QueryTerms {
    /// Added to every estimate.
    pub add: f32,
    /// Unit of a row's `add`.
    pub add_unit: f32,
    /// Half-width of the bound of the error, for a row whose `error` is 1.
    pub error: f32,
    /// int8 numbers a coordinate.
    pub limbs: u32,
    /// Scale of each limb, with the unit of a row's `rescale`; 0 where there is none.
    pub scale: [f32; MAX_LIMBS],
    /// Offset of each limb.
    pub offset: [f32; MAX_LIMBS],
}

/// What a quantizer knows of a query.
pub(crate) struct QueryParts {
    /// The part of the distance that needs no code.
    pub(crate) add: f32,
    /// Distance from the centre.
    pub(crate) norm: f32,
    /// int8 numbers a coordinate.
    pub(crate) limbs: usize,
}

impl QueryCode {
    /// `rotated` holds `layout.dimensions()` coordinates, weighted as the levels of a row are.
    pub(crate) fn new(layout: &Arc<Layout>, units: &Units, rotated: &[f32], parts: &QueryParts) -> Self {
        assert_eq!(rotated.len(), layout.dimensions());
        // The largest numbers of one limb, and of two: 127 * 256 + 127.
        let largest = if parts.limbs == 1 { 127.0 } else { 32639.0 };
        let peak = widest(Peak(rotated));
        let (scale, inverse) = if peak > 0.0 { (peak / largest, largest / peak) } else { (0.0, 0.0) };
        let mut levels = vec![0_i8; parts.limbs * rotated.len()];
        let (high, low) = levels.split_at_mut(rotated.len());
        widest(Rounding { rotated, inverse, largest, high, low });
        let mut terms = QueryTerms {
            add: parts.add,
            add_unit: units.0.add,
            error: parts.norm * units.0.error,
            limbs: parts.limbs as u32,
            scale: [0.0; MAX_LIMBS],
            offset: [0.0; MAX_LIMBS],
        };
        for (limb, levels) in levels.chunks_exact(rotated.len()).enumerate() {
            let weight = if limb + 1 == parts.limbs { 1.0 } else { 256.0 };
            terms.scale[limb] = scale * weight * units.0.rescale;
            terms.offset[limb] = offset(layout, levels);
        }
        let lanes = Lanes::new(layout, &levels);
        Self { layout: Arc::clone(layout), levels, terms, lanes }
    }

    /// The shape of the rows that it is compared with.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// int8 levels in natural order, `[limbs][layout.dimensions()]`, most significant limb first.
    pub fn levels(&self) -> &[i8] {
        &self.levels
    }

    /// The numbers beside the levels.
    pub fn terms(&self) -> &QueryTerms {
        &self.terms
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Estimates the distances to the rows `ids` of `codes`, into `out` of the same length. Rows may lie anywhere: each
    /// is asked for while the ones before it are scored.
    ///
    /// # Panics
    /// If an id is no row, the lengths differ, or the codes have another layout.
    pub fn estimate(&self, codes: &Codes, ids: &[VectorId], out: &mut [f32]) {
        self.estimate_at(Level::detect(), codes, ids, out);
    }

    /// [`Self::estimate`] with the widest instructions up to `level`: for tests and benches.
    pub fn estimate_at(&self, level: Level, codes: &Codes, ids: &[VectorId], out: &mut [f32]) {
        self.check(codes);
        assert_eq!(ids.len(), out.len());
        score::estimates(level, self, |i| codes.row(ids[i].index()), out);
    }

    /// Estimates the distances to as many rows as `out` has places: the words of number `i` are `row(i)`. For rows that are
    /// not in [`Codes`].
    ///
    /// # Panics
    /// If a row has not as many words as the layout.
    pub fn estimate_rows<'a>(&self, row: impl Fn(usize) -> &'a [u32], out: &mut [f32]) {
        score::estimates(Level::detect(), self, row, out);
    }

    /// Estimates the distances to the rows `range` of `codes`, into `out` of the same length.
    ///
    /// # Panics
    /// As [`Self::estimate`].
    pub fn estimate_range(&self, codes: &Codes, range: Range<usize>, out: &mut [f32]) {
        self.check(codes);
        assert_eq!(range.len(), out.len());
        score::estimates(Level::detect(), self, |i| codes.row(range.start + i), out);
    }

    /// Half-width of the bound of the error of one row's estimate: as many standard deviations as the quantizer was
    /// told; infinite where codes carry no bound.
    pub fn bound(&self, row: &[u32]) -> f32 {
        if self.layout.halves() < 4 {
            return f32::INFINITY;
        }
        Units::ONE.load(&self.layout, row).error * self.terms.error
    }

    fn check(&self, codes: &Codes) {
        assert!(
            Arc::ptr_eq(&self.layout, codes.layout()) || self.layout == *codes.layout(),
            "the query and the codes come from quantizers of different layouts"
        );
    }
}

/// The largest magnitude.
struct Peak<'a>(&'a [f32]);

/// Maxima that do not wait for each other.
const MAXIMA: usize = 64;

impl Work for Peak<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self, _: Level) -> f32 {
        let mut peaks = [0.0_f32; MAXIMA];
        for values in self.0.chunks(MAXIMA) {
            for (peak, y) in peaks.iter_mut().zip(values) {
                *peak = if y.abs() > *peak { y.abs() } else { *peak };
            }
        }
        peaks.into_iter().fold(0.0, f32::max)
    }
}

/// `rotated * inverse`, rounded to even: in `high`, or, where there is room for a second int8, in both.
struct Rounding<'a> {
    rotated: &'a [f32],
    inverse: f32,
    /// No level is farther from zero.
    largest: f32,
    high: &'a mut [i8],
    /// Empty, or as long.
    low: &'a mut [i8],
}

impl Rounding<'_> {
    #[inline(always)]
    fn level(y: f32, inverse: f32, largest: f32) -> i16 {
        // `largest / peak` overflows where the peak is a subnormal: what is infinite then is a level like any other that
        // is too large, and zero times it, which is no number, becomes zero.
        let level = y * inverse;
        let level = if level.is_nan() { 0.0 } else { level };
        let level = if level > largest { largest } else { level };
        whole(if level < -largest { -largest } else { level })
    }
}

impl Work for Rounding<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        let Self { rotated, inverse, largest, high, low } = self;
        if low.is_empty() {
            for (high, y) in high.iter_mut().zip(rotated) {
                *high = Self::level(*y, inverse, largest) as i8;
            }
        } else {
            for ((high, low), y) in high.iter_mut().zip(low).zip(rotated) {
                let level = Self::level(*y, inverse, largest);
                *high = ((level + 128) >> 8) as i8;
                *low = level as i8;
            }
        }
    }
}

/// The sum over dimensions of a query's level times the shift from a row's levels to their places around zero.
fn offset(layout: &Layout, levels: &[i8]) -> f32 {
    let twice: i64 = layout
        .planes()
        .iter()
        .map(|plane| {
            let sum: i64 = levels[plane.first_dimension..][..plane.dimensions]
                .iter()
                .map(|level| i64::from(*level))
                .sum();
            // Planes of one dimension add up: (2^a - 1) 2^b + (2^b - 1) = 2^(a + b) - 1.
            -(((1 << plane.width) - 1) << plane.shift) * sum
        })
        .sum();
    twice as f32 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::at;

    /// Every level of instructions rounds as the language does.
    #[test]
    fn levels_are_rounded_to_even_and_saturate() {
        let usual: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
        let ties: Vec<f32> = (-254..=254).map(|i| i as f32 / 2.0).collect();
        let tiny: Vec<f32> =
            (0..70).map(|i| f32::from_bits(i % 7) * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        for (rotated, largest) in [&usual, &ties, &tiny].into_iter().flat_map(|x| [(x, 127.0), (x, 32639.0)])
        {
            let peak = rotated.iter().fold(0.0_f32, |peak, y| peak.max(y.abs()));
            let inverse = largest / peak;
            let limbs = if largest > 127.0 { 2 } else { 1 };
            for level in Level::available() {
                assert_eq!(at(level, Peak(rotated)), peak);
                let mut levels = vec![0; limbs * rotated.len()];
                let (high, low) = levels.split_at_mut(rotated.len());
                at(level, Rounding { rotated, inverse, largest, high, low });
                for (i, y) in rotated.iter().enumerate() {
                    let expected =
                        ((y * inverse).round_ties_even() as i32).clamp(-(largest as i32), largest as i32);
                    let found = i32::from(high[i]);
                    let found = if limbs == 2 { found * 256 + i32::from(low[i]) } else { found };
                    assert_eq!(found, expected, "{y} by {inverse}, {level:?}");
                }
            }
        }
    }
}
