//! Rows times a fixed matrix: Haar rotations, and the leading principal components.

use jasper_core::Element;

/// Rows taken through the matrix together, so that it is read once for all of them.
pub(crate) const BLOCK_ROWS: usize = 32;

/// `directions x dimension` floats, row-major; the coordinates of a row along each direction are dot products.
///
/// These are summed in the one order of [`jasper_core::distance`], so they are the same bits on every machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Projection {
    values: Vec<f32>,
    dimension: usize,
}

impl Projection {
    /// `values` are whole rows of `dimension`.
    pub(crate) fn new(values: Vec<f32>, dimension: usize) -> Self {
        assert!(values.len().is_multiple_of(dimension));
        Self { values, dimension }
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(crate) fn directions(&self) -> usize {
        self.values.len() / self.dimension
    }

    /// The matrix, row-major.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// Coordinates of `rows` (`n x dimension`) along every direction, into `out` (`n x stride`); zeros behind them.
    pub(crate) fn project(&self, rows: &[f32], out: &mut [f32], stride: usize) {
        let directions = self.directions();
        let dot_many = f32::kernels().dot_many;
        let blocks = rows.chunks(BLOCK_ROWS * self.dimension).zip(out.chunks_mut(BLOCK_ROWS * stride));
        for (rows, out) in blocks {
            let mut pointers: [&[f32]; BLOCK_ROWS] = [&[]; BLOCK_ROWS];
            let mut products = [0.0; BLOCK_ROWS];
            let count = rows.len() / self.dimension;
            for (pointer, row) in pointers.iter_mut().zip(rows.chunks_exact(self.dimension)) {
                *pointer = row;
            }
            for (i, direction) in self.values.chunks_exact(self.dimension).enumerate() {
                dot_many(direction, &pointers[..count], &mut products[..count]);
                for (out, product) in out.chunks_exact_mut(stride).zip(products) {
                    out[i] = product;
                }
            }
            for out in out.chunks_exact_mut(stride) {
                out[directions..].fill(0.0);
            }
        }
    }
}
