//! Product quantization: the classic that other codes are measured against. No index uses it.
//!
//! Jégou, Douze and Schmid (2011). A row is cut into subspaces, and each part is coded as the nearest of 16 or 256
//! centroids. A query is not coded: its table holds its distance to every centroid, and an estimate adds up one entry
//! for each subspace. So bytes are few and training knows the data, but the table has `4 * 256` bytes a subspace, and
//! each estimate looks up as many of its places as there are subspaces, one by one.
//!
//! ```
//! use jasper_core::{MatrixView, Metric, VectorId, synthetic::Clusters};
//! use jasper_quant::pq::{Pq, PqParams};
//!
//! let rows: Vec<f32> = Clusters::new(96, 1).rows(1000, 0);
//! let rows = MatrixView::new(&rows, 96)?;
//! let pool = rayon::ThreadPoolBuilder::new().build()?;
//! // 12 subspaces of 8 bits: 12 bytes a row.
//! let params = PqParams { metric: Metric::L2, subspaces: 12, bits: 8, seed: 1 };
//! let pq = Pq::train(rows, &params, &pool)?;
//! let codes = pq.encode(rows, &pool);
//! assert_eq!(codes.row(7).len(), 12);
//!
//! let mut estimates = [0.0; 2];
//! pq.query(rows.row(7)).estimate(&codes, &[VectorId::new(7), VectorId::new(3)], &mut estimates);
//! assert!(estimates[0] < estimates[1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod codebook;
mod estimate;
mod kmeans;

use jasper_core::synthetic::permutation;
use jasper_core::{Element, MatrixView, Metric};
use rayon::prelude::*;

use crate::projection::ENCODE_ROWS;
use crate::space::{Space, widen};
use crate::{TrainError, error};
use codebook::{Codebook, Score};
pub use estimate::{PqCodes, PqQuery};

/// Rows that centroids are learnt from: 64 for each of 256.
const SAMPLE_ROWS: usize = 16_384;

/// How to train a [`Pq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PqParams {
    /// The metric whose distances are estimated.
    pub metric: Metric,
    /// Parts that a row is cut into, 1 to its dimension: as equal as can be, the later ones longer where it does not
    /// divide.
    pub subspaces: usize,
    /// Bits of a part: 8 (256 centroids) or 4 (16).
    pub bits: u32,
    /// Seed of the sample, and of the rows that centroids begin as.
    pub seed: u64,
}

/// A trained product quantizer; see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Pq {
    /// Its centre is the origin: centroids know where the data lie.
    space: Space,
    bits: u32,
    codebooks: Vec<Codebook>,
}

impl Pq {
    /// Learns centroids from a sample of `rows` (at most 16,384), on the threads of `pool`; the same on any number of
    /// threads. Takes seconds: `centroids * dimension` operations for each row of the sample, times the rounds of
    /// k-means, at most 20.
    ///
    /// # Errors
    /// [`TrainError`] on no rows, a number of subspaces or bits out of range, and values that are not finite.
    pub fn train<T: Element>(
        rows: MatrixView<'_, T>,
        params: &PqParams,
        pool: &rayon::ThreadPool,
    ) -> Result<Self, TrainError> {
        let dimension = rows.dimension();
        error::check_dimension(dimension)?;
        if rows.is_empty() {
            return Err(TrainError::TooFewRows { rows: 0, least: 1 });
        }
        if !(1..=dimension).contains(&params.subspaces) {
            return Err(TrainError::Subspaces { subspaces: params.subspaces, dimension });
        }
        if ![4, 8].contains(&params.bits) {
            return Err(TrainError::PqBits(params.bits));
        }
        rows.check_finite()?;
        let space = Space { metric: params.metric, centre: vec![0.0; dimension] };
        let order = permutation(rows.len(), params.seed);
        let sample = space.residuals(rows, order.iter().take(SAMPLE_ROWS).map(|i| *i as usize));
        let first = |subspace: usize| subspace * dimension / params.subspaces;
        let codebooks = pool.install(|| {
            (0..params.subspaces)
                .into_par_iter()
                .map(|subspace| {
                    let range = first(subspace)..first(subspace + 1);
                    let parts = sample.chunks_exact(dimension).flat_map(|row| &row[range.clone()]).copied();
                    kmeans::train(&parts.collect::<Vec<_>>(), range.len(), params.bits)
                })
                .collect()
        });
        Ok(Self { space, bits: params.bits, codebooks })
    }

    /// The metric whose distances are estimated.
    pub fn metric(&self) -> Metric {
        self.space.metric
    }

    /// Coordinates of a row.
    pub fn dimension(&self) -> usize {
        self.space.dimension()
    }

    /// Parts that a row is cut into.
    pub fn subspaces(&self) -> usize {
        self.codebooks.len()
    }

    /// Bytes of a code.
    pub fn bytes(&self) -> usize {
        (self.subspaces() * self.bits as usize).div_ceil(8)
    }

    /// Codes `rows`, on the threads of `pool`: `centroids * dimension` operations a row.
    ///
    /// # Panics
    /// If they have another dimension than those that centroids were learnt from.
    pub fn encode<T: Element>(&self, rows: MatrixView<'_, T>, pool: &rayon::ThreadPool) -> PqCodes {
        assert_eq!(rows.dimension(), self.dimension());
        let mut codes = PqCodes::zeros(rows.len(), self.bytes());
        pool.install(|| {
            codes.blocks_mut(ENCODE_ROWS).enumerate().for_each_init(
                || vec![0.0; self.dimension()],
                |row, (block, out)| {
                    for (i, out) in out.chunks_exact_mut(self.bytes()).enumerate() {
                        widen(rows.row(block * ENCODE_ROWS + i), row);
                        self.space.to_residual(row);
                        self.encode_row(row, out);
                    }
                },
            );
        });
        codes
    }

    /// Codes a row into zeros.
    fn encode_row(&self, row: &[f32], out: &mut [u8]) {
        let mut rest = row;
        for (subspace, codebook) in self.codebooks.iter().enumerate() {
            let part = rest.split_off(..codebook.dimension()).expect("codebooks are as long as a row");
            let (nearest, _) = codebook.nearest(part);
            let bit = subspace * self.bits as usize;
            out[bit / 8] |= nearest << (bit % 8);
        }
    }

    /// The table of a query (`dimension` finite values): its distance to every centroid of every subspace.
    ///
    /// # Panics
    /// If the query has another dimension.
    pub fn query(&self, query: &[f32]) -> PqQuery {
        assert_eq!(query.len(), self.dimension());
        let mut query = query.to_vec();
        self.space.to_residual(&mut query);
        // Cosine distance is 1 less the product with a row of length 1, which the centroids make only nearly so.
        let (score, add) = match self.metric() {
            Metric::L2 => (Score::SquaredL2, 0.0),
            Metric::InnerProduct => (Score::NegatedDot, 0.0),
            Metric::Cosine => (Score::NegatedDot, 1.0),
        };
        let mut rest = &query[..];
        let tables = self.codebooks.iter().map(|codebook| {
            let part = rest.split_off(..codebook.dimension()).expect("codebooks are as long as a row");
            codebook.scores(score, part)
        });
        PqQuery::new(self.bits, tables.collect(), add)
    }
}

#[cfg(test)]
mod tests;
