//! The centroids of one subspace.

use jasper_core::distance::Level;

use crate::wide::{Work, widest};

/// Most centroids there are.
pub(super) const MOST: usize = 256;

/// Something of each centroid; what lies behind their number means nothing.
pub(super) type OfEach = [f32; MOST];

/// What a part of a row or a query is compared by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Score {
    SquaredL2,
    NegatedDot,
}

/// Centroids, coordinate by coordinate: all are compared with a part at once, whatever its dimension.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Codebook {
    /// `[dimension][MOST]`, zeros behind the centroids.
    columns: Vec<OfEach>,
    centroids: usize,
}

impl Codebook {
    /// `centroids` of `dimension` coordinates, all zero.
    pub(super) fn zeros(dimension: usize, centroids: usize) -> Self {
        Self { columns: vec![[0.0; MOST]; dimension], centroids }
    }

    pub(super) fn dimension(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn centroids(&self) -> usize {
        self.centroids
    }

    pub(super) fn set(&mut self, centroid: usize, values: impl IntoIterator<Item = f32>) {
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column[centroid] = value);
    }

    /// `part` compared with every centroid.
    pub(super) fn scores(&self, score: Score, part: &[f32]) -> OfEach {
        let mut out = [0.0; MOST];
        widest(Scores { columns: &self.columns, centroids: self.centroids, score, part, out: &mut out });
        out
    }

    /// The centroid nearest to `part`, of equal ones the first, and its squared distance.
    pub(super) fn nearest(&self, part: &[f32]) -> (u8, f32) {
        let distances = self.scores(Score::SquaredL2, part);
        let distances = &distances[..self.centroids];
        let least = widest(Least { distances });
        let at = distances.iter().position(|distance| *distance == least);
        (at.expect("distances are finite") as u8, least)
    }
}

struct Scores<'a> {
    columns: &'a [OfEach],
    centroids: usize,
    score: Score,
    part: &'a [f32],
    out: &'a mut OfEach,
}

impl Work for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        let out = &mut self.out[..self.centroids];
        for (column, x) in self.columns.iter().zip(self.part) {
            match self.score {
                Score::SquaredL2 => {
                    for (out, y) in out.iter_mut().zip(column) {
                        *out += (x - y) * (x - y);
                    }
                }
                Score::NegatedDot => {
                    for (out, y) in out.iter_mut().zip(column) {
                        *out -= x * y;
                    }
                }
            }
        }
    }
}

/// The least of a multiple of 16 distances.
struct Least<'a> {
    distances: &'a [f32],
}

impl Work for Least<'_> {
    type Output = f32;

    #[inline(always)]
    fn run(self, _: Level) -> f32 {
        let mut least = [f32::INFINITY; 16];
        for distances in self.distances.as_chunks::<16>().0 {
            for (least, distance) in least.iter_mut().zip(distances) {
                *least = if *distance < *least { *distance } else { *least };
            }
        }
        least.iter().fold(f32::INFINITY, |least, distance| least.min(*distance))
    }
}
