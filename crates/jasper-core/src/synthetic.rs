//! Seeded random data for tests, examples and benches, and the seeded choices of builds and training.

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use rand_distr::{Distribution, StandardNormal};

use crate::Element;

/// The random generator of all seeded choices in Jasper. It is the same on every platform and in every release.
pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A random permutation of `0..n`. As [`Permutation::new`], panics if `n` is above `u32::MAX`.
pub fn permutation(n: usize, seed: u64) -> Vec<u32> {
    let permutation = Permutation::new(n, seed);
    (0..n as u32).map(|position| permutation.at(position)).collect()
}

/// A random permutation whose numbers are computed one by one, in any order and by any thread. A shuffle of a billion
/// numbers by one thread would take a minute.
///
/// It is a Feistel network over the least even number of bits, at least two, that hold all numbers. Its output is fed back
/// until it is one of them, which takes at most four passes on average.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    /// Bits of half a number.
    half: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The permutation of `0..n` for a seed.
    ///
    /// # Panics
    /// Panics if `n` is above `u32::MAX`.
    pub fn new(n: usize, seed: u64) -> Self {
        let n = u64::from(u32::try_from(n).expect("positions have 32 bits"));
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut keys = rng(seed);
        Self { n, half: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| keys.random()) }
    }

    /// The number at a position.
    ///
    /// # Panics
    /// Panics if `position` is not below `n`.
    pub fn at(&self, position: u32) -> u32 {
        let mut number = u64::from(position);
        assert!(number < self.n, "position {number} of {}", self.n);
        loop {
            let (mut left, mut right) = (number >> self.half, number & ((1 << self.half) - 1));
            for key in self.keys {
                let mixed = (right ^ key).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
                let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
                (left, right) = (right, left ^ (mixed >> (u64::BITS - self.half)));
            }
            number = left << self.half | right;
            if number < self.n {
                return number as u32;
            }
        }
    }
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

    #[test]
    fn permutations_hold_each_number_once_and_in_no_order() {
        for n in (0..70).chain([255, 256, 257, 4096, 4097, 100_000]) {
            let order = permutation(n, n as u64);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n as u32), "{n}");
            if n > 4000 {
                // The mean distance of two random numbers is a third of the range; successive numbers ascend half of
                // the time.
                let mean = |distances: &mut dyn Iterator<Item = u32>| {
                    distances.map(f64::from).sum::<f64>() / n as f64 / n as f64
                };
                let moved =
                    mean(&mut order.iter().zip(0..).map(|(&number, position)| number.abs_diff(position)));
                let steps = mean(&mut order.windows(2).map(|pair| pair[0].abs_diff(pair[1])));
                let ascending = order.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64 / n as f64;
                for (share, expected) in [(moved, 1.0 / 3.0), (steps, 1.0 / 3.0), (ascending, 0.5)] {
                    assert!((share - expected).abs() < 0.03, "{n}: {share} of {expected}");
                }
            }
        }
    }
}
