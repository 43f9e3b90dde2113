//! Which grid point stands for a row: the search of the scale.
//!
//! With o the magnitudes of a rotated residual of length 1, a scale t takes each coordinate to level
//! `k = min(floor(t o), K)`, K = 2^(m - 1) - 1, that is to the grid point k + 1/2. The best scale makes the cosine of
//! the grid point with the residual largest. That cosine jumps wherever some t o crosses an integer, and Extended
//! RaBitQ (Gao et al. 2024) visits all crossings in order, K D log D steps. Here a few scales are tried, each one pass
//! over D coordinates, around the scale that is best on the average (few bits), or around the largest that clips
//! nothing (many bits, where the best scale varies from row to row with the largest coordinate).

use jasper_core::distance::Level;

use crate::space::{Products, dot};
use crate::wide::{Buffers, Magnitudes, Work, byte, lesser, widest};

/// Scales to try for codes of some bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// What multiples are of.
    base: Base,
    /// Least and largest multiple.
    range: (f32, f32),
    /// How many, spread evenly.
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Base {
    /// The mean of the best scales of many random rows, over sqrt(D), for large D.
    Mean(f32),
    /// The largest scale that clips nothing.
    Unclipped,
}

impl Grid {
    pub(super) const fn mean(mean: f32, range: (f32, f32), count: usize) -> Self {
        Self { base: Base::Mean(mean), range, count }
    }

    pub(super) const fn unclipped(range: (f32, f32), count: usize) -> Self {
        Self { base: Base::Unclipped, range, count }
    }

    /// The scales to try for codes of `bits` bits of `dimension` coordinates that are no padding.
    pub(super) fn scales(&self, bits: u32, dimension: usize) -> Scales {
        let (base, over_peak) = match self.base {
            Base::Mean(mean) => (mean * (dimension as f32).sqrt(), 0.0),
            Base::Unclipped => (0.0, largest_level(bits) + 0.999),
        };
        let (low, high) = self.range;
        Scales {
            base,
            over_peak,
            low,
            step: (high - low) / (self.count - 1) as f32,
            count: self.count as u32,
        }
    }
}

/// The scales that are tried for a row: multiples, evenly spread, of a base that all rows share or of one that the row
/// has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales {
    /// What multiples are of, if all rows share it.
    pub base: f32,
    /// If not, 0 elsewhere: what over the largest magnitude of a row they are of.
    pub over_peak: f32,
    /// Least multiple.
    pub low: f32,
    /// From multiple to multiple.
    pub step: f32,
    /// Multiples; none where the sign says all.
    pub count: u32,
}

impl Scales {
    /// Nothing to try.
    pub(super) const NONE: Self = Self { base: 0.0, over_peak: 0.0, low: 0.0, step: 0.0, count: 0 };

    /// The scales for these magnitudes.
    fn of(self, magnitudes: &[f32]) -> impl Iterator<Item = f32> {
        let base = if self.over_peak > 0.0 {
            // Numbers that are not negative are ordered as their bits are.
            let peak = magnitudes.iter().map(|o| o.to_bits()).max().unwrap_or(0);
            self.over_peak / f32::from_bits(peak)
        } else {
            self.base
        };
        (0..self.count).map(move |i| base * (self.low + self.step * i as f32))
    }
}

/// The largest level of a magnitude at `bits`, K.
pub(super) fn largest_level(bits: u32) -> f32 {
    ((1_u32 << (bits - 1)) - 1) as f32
}

/// How a grid point x and its residual r lie.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fit {
    /// `‖r‖`.
    pub(super) norm: f32,
    /// `‖r‖² / <r, x>`, by which products with x become products with r.
    pub(super) scale: f32,
    /// Square of the tangent of the angle between them.
    pub(super) squared_tangent: f32,
}

/// Finds the grid point of a rotated residual by `scales`, and writes its levels, as many as there are coordinates.
/// Those from `dimension` on are padding, and zero.
pub(super) fn quantize(
    rotated: &[f32],
    dimension: usize,
    bits: u32,
    scales: Scales,
    buffers: &mut Buffers,
    levels: &mut [u8],
) -> Fit {
    let half = 1_u8 << (bits - 1);
    let norm = dot(rotated, rotated).sqrt();
    if norm == 0.0 {
        levels.fill(half);
        return Fit::default();
    }
    let [magnitudes, points] = buffers.of(rotated.len());
    widest(Magnitudes { values: rotated, factor: norm.recip(), out: magnitudes });

    let largest = largest_level(bits);
    // Padding lies at level 0 whatever the scale: not a part of the grid point.
    let padding = 0.25 * (rotated.len() - dimension) as f32;
    let (mut scale, mut best) = (0.0, Products::NOTHING);
    for tried in scales.of(magnitudes) {
        widest(Points { magnitudes, scale: tried, largest, out: points });
        let found = Products { product: dot(magnitudes, points), square: dot(points, points) - padding };
        if found.is_nearer(best) {
            (scale, best) = (tried, found);
        }
    }
    widest(Points { magnitudes, scale, largest, out: points });
    widest(Levels { rotated, points, half: f32::from(half), out: levels });
    let (product, square) = (dot(magnitudes, points), dot(points, points) - padding);
    // The part of the residual that no multiple of the grid point reaches, coordinate by coordinate: 1 - cos² would
    // lose all digits where codes are fine.
    let along = product / square;
    widest(Missed { magnitudes, along, points });
    let missed = dot(points, points) - padding * along * along;
    Fit { norm, scale: norm / product, squared_tangent: (missed / (product * along)).max(0.0) }
}

/// The grid point of magnitudes at a scale.
struct Points<'a> {
    magnitudes: &'a [f32],
    scale: f32,
    largest: f32,
    out: &'a mut [f32],
}

impl Work for Points<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        let limit = self.largest + 0.5;
        for (out, magnitude) in self.out.iter_mut().zip(self.magnitudes) {
            *out = lesser(self.scale * magnitude, limit).floor() + 0.5;
        }
    }
}

/// Levels of grid points with the signs of a row; `half` is the lowest level of a positive coordinate.
struct Levels<'a> {
    rotated: &'a [f32],
    points: &'a [f32],
    half: f32,
    out: &'a mut [u8],
}

impl Work for Levels<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        for ((out, x), point) in self.out.iter_mut().zip(self.rotated).zip(self.points) {
            let signed = if *x >= 0.0 { *point } else { -*point };
            *out = byte(self.half + signed - 0.5);
        }
    }
}

/// `points = magnitudes - along points`.
struct Missed<'a> {
    magnitudes: &'a [f32],
    along: f32,
    points: &'a mut [f32],
}

impl Work for Missed<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        for (point, magnitude) in self.points.iter_mut().zip(self.magnitudes) {
            *point = magnitude - self.along * *point;
        }
    }
}
