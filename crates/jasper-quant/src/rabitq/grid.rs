//! Which grid point stands for a row: the search of the scale.
//!
//! With o the magnitudes of a rotated residual of length 1, a scale t takes each coordinate to level
//! `k = min(floor(t o), K)`, K = 2^(m - 1) - 1, that is to the grid point k + 1/2. The best scale makes the cosine of
//! the grid point with the residual largest. That cosine jumps wherever some t o crosses an integer, and Extended RaBitQ
//! (Gao et al. 2024) visits all crossings in order, K D log D steps. Here a few scales are tried, each one pass over D
//! coordinates, around the scale that is best on the average (few bits), or around the largest that clips nothing (many
//! bits, where the best scale varies from row to row with the largest coordinate).

use crate::wide::{LANES, Work, lesser, sum};

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
}

/// The largest level of a magnitude at `bits`, K.
pub(super) fn largest_level(bits: u32) -> f32 {
    ((1_u32 << (bits - 1)) - 1) as f32
}

/// The grid point of one row, with its levels.
pub(super) struct Quantize<'a> {
    /// The rotated residual; zeros behind `dimension`.
    pub(super) rotated: &'a [f32],
    /// Coordinates that are no padding.
    pub(super) dimension: usize,
    pub(super) bits: u32,
    /// The scales to try: none for 1 bit.
    pub(super) grid: Option<Grid>,
    /// Memory for magnitudes, as many as `rotated`.
    pub(super) magnitudes: &'a mut [f32],
    /// Where levels go, as many as `rotated`.
    pub(super) levels: &'a mut [u8],
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

impl Work for Quantize<'_> {
    type Output = Fit;

    #[inline(always)]
    fn run(self) -> Fit {
        let Self { rotated, dimension, bits, grid, magnitudes, levels } = self;
        let (rows, _) = rotated.as_chunks::<LANES>();
        let mut squares = [0.0; LANES];
        for row in rows {
            for (square, x) in squares.iter_mut().zip(row) {
                *square += x * x;
            }
        }
        let norm = sum(squares).sqrt();
        let half = 1_u8 << (bits - 1);
        if norm == 0.0 {
            levels.fill(half);
            return Fit::default();
        }
        let inverse = norm.recip();
        let mut peaks = [0.0; LANES];
        let (chunks, _) = magnitudes.as_chunks_mut::<LANES>();
        for (out, row) in chunks.iter_mut().zip(rows) {
            for ((out, peak), x) in out.iter_mut().zip(&mut peaks).zip(row) {
                *out = x.abs() * inverse;
                *peak = if *out > *peak { *out } else { *peak };
            }
        }
        let largest = largest_level(bits);
        // Padding lies at level 0 whatever the scale: not a part of the grid point.
        let padding = 0.25 * (rotated.len() - dimension) as f32;
        let peak = peaks.into_iter().fold(0.0, |a, b| if a > b { a } else { b });
        let scale = grid.map_or(0.0, |grid| {
            let base = match grid.base {
                Base::Mean(mean) => mean * (dimension as f32).sqrt(),
                Base::Unclipped => (largest + 0.999) / peak,
            };
            best_scale(chunks, largest, &grid, base, padding)
        });

        let mut products = [0.0; LANES];
        let mut squares = [0.0; LANES];
        let (out, _) = levels.as_chunks_mut::<LANES>();
        for ((out, magnitudes), row) in out.iter_mut().zip(&*chunks).zip(rows) {
            for i in 0..LANES {
                let level = lesser(scale * magnitudes[i], largest + 0.5).floor();
                let point = level + 0.5;
                products[i] += magnitudes[i] * point;
                squares[i] += point * point;
                let level = level as u8;
                out[i] = if row[i] >= 0.0 { half + level } else { half - 1 - level };
            }
        }
        let (product, square) = (sum(products), sum(squares) - padding);
        // The part of the residual that no multiple of the grid point reaches, coordinate by coordinate: 1 - cos² would
        // lose all digits where codes are fine.
        let along = product / square;
        let mut missed = [0.0; LANES];
        for (out, magnitudes) in out.iter().zip(&*chunks) {
            for i in 0..LANES {
                let level = if out[i] >= half { out[i] - half } else { half - 1 - out[i] };
                let difference = magnitudes[i] - along * (f32::from(level) + 0.5);
                missed[i] += difference * difference;
            }
        }
        let missed = sum(missed) - padding * along * along;
        let squared_cosine = product * along;
        Fit { norm, scale: norm / product, squared_tangent: (missed / squared_cosine).max(0.0) }
    }
}

/// The best of the scales to try, multiples of `base`.
#[inline(always)]
fn best_scale(magnitudes: &[[f32; LANES]], largest: f32, grid: &Grid, base: f32, padding: f32) -> f32 {
    let step = (grid.range.1 - grid.range.0) / (grid.count - 1) as f32;
    let (mut best, mut best_cosine) = (0.0, 0.0);
    for i in 0..grid.count {
        let scale = base * (grid.range.0 + step * i as f32);
        let (product, square) = point_at(magnitudes, scale, largest);
        let cosine = product / (square - padding).sqrt();
        if cosine > best_cosine {
            (best, best_cosine) = (scale, cosine);
        }
    }
    best
}

/// The product of the grid point at `scale` with the magnitudes, and its square.
#[inline(always)]
fn point_at(magnitudes: &[[f32; LANES]], scale: f32, largest: f32) -> (f32, f32) {
    let mut products = [0.0; LANES];
    let mut squares = [0.0; LANES];
    for magnitudes in magnitudes {
        for i in 0..LANES {
            let point = lesser(scale * magnitudes[i], largest + 0.5).floor() + 0.5;
            products[i] += magnitudes[i] * point;
            squares[i] += point * point;
        }
    }
    (sum(products), sum(squares))
}
