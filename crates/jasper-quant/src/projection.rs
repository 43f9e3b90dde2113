//! Products of rows with a matrix: Haar rotations, and projections onto principal components.

use jasper_core::distance::SimdLevel;

use crate::parameters::MatrixParameters;
use crate::simd::simd_fn;

/// Rows per block for encoding: a block reads the matrix of a projection once.
pub const ENCODE_ROWS: usize = 32;
/// Directions per panel: two AVX-512 registers, half of the tile of a GPU block.
pub const PANEL: usize = 32;

/// A `directions x dimension` matrix.
///
/// Products are summed in coordinate order, by fused multiply-adds. In this order the sums of many directions and rows
/// advance side by side without any reduction across lanes, on a CPU as on a GPU, and all give the same bits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Projection {
    /// The panels, as in [`MatrixParameters`].
    panels: Vec<f32>,
    directions: usize,
    dimension: usize,
}

impl Projection {
    /// Creates the projection from `values`, `directions x dimension`, row-major.
    pub(crate) fn new(values: &[f32], dimension: usize) -> Self {
        assert!(values.len().is_multiple_of(dimension));
        let directions = values.len() / dimension;
        let mut panels = vec![0.0; directions.div_ceil(PANEL) * dimension * PANEL];
        for (direction, values) in values.chunks_exact(dimension).enumerate() {
            let panel = &mut panels[direction / PANEL * dimension * PANEL..];
            panel.iter_mut().skip(direction % PANEL).step_by(PANEL).zip(values).for_each(|(to, x)| *to = *x);
        }
        Self { panels, directions, dimension }
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(crate) fn directions(&self) -> usize {
        self.directions
    }

    /// The matrix, `directions x dimension`, row-major.
    pub(crate) fn values(&self) -> Vec<f32> {
        let direction = |i: usize| {
            let panel = self.panels[i / PANEL * self.dimension * PANEL..].iter();
            panel.skip(i % PANEL).step_by(PANEL).take(self.dimension).copied()
        };
        (0..self.directions).flat_map(direction).collect()
    }

    /// The panels, for kernels.
    pub(crate) fn parameters(&self) -> MatrixParameters<'_> {
        MatrixParameters { panels: &self.panels, directions: self.directions }
    }

    /// Projects `rows` (`n x dimension`) onto the directions, into `out` (`n x stride`, zero-padded).
    pub(crate) fn project(&self, rows: &[f32], out: &mut [f32], stride: usize) {
        product(SimdLevel::detect(), self, rows, out, stride);
    }
}

simd_fn! {
    /// The product of rows with all panels, blocked so that sums stay in registers.
    fn product(simd => SimdLevel, of: &Projection, rows: &[f32], out: &mut [f32], stride: usize) {
        let dimension = of.dimension;
        // As many rows as have registers for their sums.
        let block_rows = match simd {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => WIDE_ROWS,
            _ => NARROW_ROWS,
        };
        let blocks = rows.chunks(block_rows * dimension).zip(out.chunks_mut(block_rows * stride));
        for (rows, out) in blocks {
            for (i, panel) in of.panels.chunks_exact(dimension * PANEL).enumerate() {
                let columns = (i * PANEL, PANEL.min(of.directions - i * PANEL));
                match rows.len() / dimension {
                    WIDE_ROWS => panel_of::<WIDE_ROWS>(simd, panel, rows, out, stride, columns),
                    NARROW_ROWS => panel_of::<NARROW_ROWS>(simd, panel, rows, out, stride, columns),
                    _ => {
                        let rows = rows.chunks_exact(dimension).zip(out.chunks_exact_mut(stride));
                        for (row, out) in rows {
                            panel_of::<1>(simd, panel, row, out, stride, columns);
                        }
                    }
                }
            }
            for out in out.chunks_exact_mut(stride) {
                out[of.directions..].fill(0.0);
            }
        }
    }
}

/// Rows per block with 32 registers of 16 floats.
const WIDE_ROWS: usize = 8;
/// Rows per block with 16 registers of 8 floats, or 32 of 4.
const NARROW_ROWS: usize = 2;

/// Writes the products of `ROWS` rows with the first `len` directions of a panel to `out[row][first..first + len]`.
#[inline(always)]
fn panel_of<const ROWS: usize>(
    simd: SimdLevel,
    panel: &[f32],
    rows: &[f32],
    out: &mut [f32],
    stride: usize,
    (first, len): (usize, usize),
) {
    let (panel, _) = panel.as_chunks::<PANEL>();
    let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &rows[row * panel.len()..][..panel.len()]);
    let sums = sums(simd, panel, rows);
    for (row, sums) in sums.iter().enumerate() {
        out[row * stride + first..][..len].copy_from_slice(&sums[..len]);
    }
}

/// The products of `ROWS` rows with all directions of a panel.
#[inline(always)]
fn sums<const ROWS: usize>(
    simd: SimdLevel,
    panel: &[[f32; PANEL]],
    rows: [&[f32]; ROWS],
) -> [[f32; PANEL]; ROWS] {
    match simd {
        // SAFETY: `simd_fn` passes a supported SIMD level.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => return unsafe { sums_avx512(panel, rows) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => return unsafe { sums_avx2(panel, rows) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon | SimdLevel::NeonDot => return unsafe { sums_neon(panel, rows) },
        _ => {}
    }
    let mut sums = [[0.0_f32; PANEL]; ROWS];
    for (k, directions) in panel.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(&rows) {
            sums.iter_mut().zip(directions).for_each(|(sum, y)| *sum = row[k].mul_add(*y, *sum));
        }
    }
    sums
}

/// Defines [`sums`] with intrinsics; the compiler would keep the sums in memory.
macro_rules! sums {
    ($name:ident $arch:ident $features:literal: $lanes:literal $load:ident $all:ident $store:ident $fma:expr) => {
        /// # Safety
        /// The CPU has the features.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $name<const ROWS: usize>(
            panel: &[[f32; PANEL]],
            rows: [&[f32]; ROWS],
        ) -> [[f32; PANEL]; ROWS] {
            use std::arch::$arch::*;
            let mut sums = [[$all(0.0); PANEL / $lanes]; ROWS];
            for (k, directions) in panel.iter().enumerate() {
                let y: [_; PANEL / $lanes] = std::array::from_fn(|i| {
                    // SAFETY: a panel row has `PANEL` floats.
                    unsafe { $load(directions.as_ptr().add(i * $lanes)) }
                });
                for (sums, row) in sums.iter_mut().zip(&rows) {
                    let x = $all(row[k]);
                    for (sum, y) in sums.iter_mut().zip(y) {
                        *sum = $fma(x, y, *sum);
                    }
                }
            }
            let mut out = [[0.0; PANEL]; ROWS];
            for (out, sums) in out.iter_mut().zip(sums) {
                for (i, sum) in sums.into_iter().enumerate() {
                    // SAFETY: `out` has `PANEL` floats per row.
                    unsafe { $store(out.as_mut_ptr().add(i * $lanes), sum) };
                }
            }
            out
        }
    };
}
#[cfg(target_arch = "x86_64")]
sums!(sums_avx512 x86_64 "avx512f": 16 _mm512_loadu_ps _mm512_set1_ps _mm512_storeu_ps _mm512_fmadd_ps);
#[cfg(target_arch = "x86_64")]
sums!(sums_avx2 x86_64 "avx2,fma": 8 _mm256_loadu_ps _mm256_set1_ps _mm256_storeu_ps _mm256_fmadd_ps);
#[cfg(target_arch = "aarch64")]
sums!(sums_neon aarch64 "neon": 4 vld1q_f32 vdupq_n_f32 vst1q_f32 |x, y, sum| vfmaq_f32(sum, x, y));

#[cfg(test)]
mod tests {
    use jasper_core::distance::SimdLevel;

    use super::*;

    /// Compares products of any number of rows and directions, at every SIMD level, with the definition.
    #[test]
    fn products_are_summed_in_the_order_of_the_coordinates() {
        let value = |i: usize| ((i * i) as f32 * 0.37).sin();
        for (dimension, directions, rows) in [(1, 1, 1), (7, 33, 3), (40, 64, 17), (101, 95, 10)] {
            let matrix: Vec<f32> = (0..directions * dimension).map(value).collect();
            let rows: Vec<f32> = (0..rows * dimension).map(|i| value(i + 5)).collect();
            let projection = Projection::new(&matrix, dimension);
            assert_eq!(projection.values(), matrix);
            let stride = directions + 3;
            for simd in SimdLevel::available() {
                let mut out = vec![9.0; rows.len() / dimension * stride];
                product(simd, &projection, &rows, &mut out, stride);
                for (row, out) in rows.chunks_exact(dimension).zip(out.chunks_exact(stride)) {
                    for (direction, out) in matrix.chunks_exact(dimension).zip(out) {
                        let sum = row.iter().zip(direction).fold(0.0_f32, |sum, (x, y)| x.mul_add(*y, sum));
                        assert_eq!(sum.to_bits(), out.to_bits(), "{simd:?}");
                    }
                    assert_eq!(out[directions..], [0.0; 3]);
                }
            }
        }
    }
}
