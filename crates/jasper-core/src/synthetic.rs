//! Seeded random data for tests, examples and benches.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use rand_distr::{Distribution, StandardNormal};

use crate::Element;

/// The random generator of all seeded choices in Jasper. It is the same on every platform and in every release.
pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A random permutation of `0..n`.
pub fn permutation(n: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.shuffle(&mut rng(seed));
    order
}

/// A distribution of clustered vectors.
///
/// Each cluster is Gaussian around a center, along `latent` random directions (its intrinsic dimension) plus unit
/// noise. Values lie around [-100, 100], so that every element type represents them; u8 is shifted up by 128.
#[derive(Clone, Copy, Debug)]
pub struct Clusters {
    /// Coordinates per vector.
    pub dimension: usize,
    /// Number of clusters.
    pub clusters: usize,
    /// Intrinsic dimension of a cluster, at most `dimension`.
    pub latent: usize,
    /// Seed of centers and directions.
    pub seed: u64,
}

impl Clusters {
    /// 20 clusters of intrinsic dimension 12, which resemble small image or text embeddings.
    pub const fn new(dimension: usize, seed: u64) -> Self {
        let latent = if dimension < 12 { dimension } else { 12 };
        Self { dimension, clusters: 20, latent, seed }
    }

    /// Draws `n` vectors, row-major, each from a random cluster. Different `stream`s give different vectors of the same
    /// distribution: queries are usually drawn from a stream of their own.
    pub fn rows<T: Element>(&self, n: usize, stream: u64) -> Vec<T> {
        let mut pick = rng(self.seed ^ (stream + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let labels: Vec<usize> = (0..n).map(|_| pick.random_range(0..self.clusters)).collect();
        self.rows_of(&labels, stream)
    }

    /// Draws one vector per label, from the cluster of that number, row-major. Sorted labels make a drifting stream.
    pub fn rows_of<T: Element>(&self, labels: &[usize], stream: u64) -> Vec<T> {
        let mut shape = rng(self.seed);
        let mut normal = |scale: f32| {
            let x: f32 = StandardNormal.sample(&mut shape);
            scale * x
        };
        let centers: Vec<f32> = (0..self.clusters * self.dimension).map(|_| normal(25.0)).collect();
        let bases: Vec<f32> = (0..self.clusters * self.latent * self.dimension)
            .map(|_| normal(20.0 / (self.latent as f32).sqrt()))
            .collect();
        let shift = if T::KIND == crate::ElementKind::U8 { 128.0 } else { 0.0 };
        let mut draw = rng(self.seed.rotate_left(17) ^ stream);
        let mut out = Vec::with_capacity(labels.len() * self.dimension);
        let mut row = vec![0.0_f32; self.dimension];
        for &label in labels {
            row.copy_from_slice(&centers[label * self.dimension..][..self.dimension]);
            for direction in bases[label * self.latent * self.dimension..][..self.latent * self.dimension]
                .chunks_exact(self.dimension)
            {
                let weight: f32 = StandardNormal.sample(&mut draw);
                row.iter_mut().zip(direction).for_each(|(x, d)| *x += weight * d);
            }
            for x in &row {
                let noise: f32 = StandardNormal.sample(&mut draw);
                out.push(T::from_f32(x + noise + shift));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_seeded() {
        let set = Clusters::new(10, 3);
        let a: Vec<f32> = set.rows(50, 0);
        assert_eq!(a, set.rows::<f32>(50, 0));
        assert_ne!(a, set.rows::<f32>(50, 1));
        assert_eq!(a.len(), 500);
        let mut order = permutation(100, 1);
        assert_ne!(order, permutation(100, 2));
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
