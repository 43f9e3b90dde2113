//! Vectors that are made by a rule: each is a function of its number, so that no set is ever stored.

use std::ops::Range;

use jasper::{Element, ElementKind, VectorSource};
use jasper_core::synthetic::rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// The number of the first query, beyond all vectors of a set.
const FIRST_QUERY: u64 = 1 << 40;
/// Clusters, with centers of their own, which share the shapes in turn.
const CLUSTERS: usize = 4096;
const SHAPES: usize = 64;
/// The intrinsic dimension of a cluster.
const LATENT: usize = 24;
/// The standard deviations of a coordinate: of the centers, and of the vectors of a cluster.
const BETWEEN: f32 = 16.0;
const WITHIN: f32 = 20.0;
/// Vectors that one task makes.
const TASK: usize = 4096;

/// Clusters of vectors around centers. A vector's cluster, place and noise are hashes of its number. Values lie around
/// zero; those of u8 are shifted up by 128.
pub struct Rule {
    dimension: usize,
    /// `[CLUSTERS][dimension]`
    centers: Vec<f32>,
    /// `[SHAPES][LATENT][dimension]`, of decreasing lengths.
    shapes: Vec<f32>,
}

impl Rule {
    /// The rule for vectors of this dimension.
    pub fn new(dimension: usize) -> Self {
        let mut random = rng(1);
        let mut normal = |scale: f32| {
            let x: f32 = StandardNormal.sample(&mut random);
            scale * x
        };
        let centers = (0..CLUSTERS * dimension).map(|_| normal(BETWEEN)).collect();
        let lengths: Vec<f32> = (1..=LATENT).map(|rank| (rank as f32).powf(-0.5)).collect();
        let total = lengths.iter().map(|length| length * length).sum::<f32>().sqrt();
        let directions = (0..SHAPES).flat_map(|_| &lengths);
        let shapes = directions
            .flat_map(|length| (0..dimension).map(|_| normal(WITHIN * length / total)).collect::<Vec<_>>())
            .collect();
        Self { dimension, centers, shapes }
    }

    /// The vectors of these numbers.
    pub fn vectors(&self, numbers: Range<usize>) -> Vectors<'_> {
        Vectors { rule: self, first: numbers.start as u64, len: numbers.len() }
    }

    /// Queries, which are vectors of no set.
    pub fn queries<T: Element>(&self, count: usize) -> Vec<T> {
        let queries = Vectors { rule: self, first: FIRST_QUERY, len: count };
        queries.collect(0..count)
    }

    fn write<T: Element>(&self, number: u64, vector: &mut [f32], out: &mut [T]) {
        // The numbers of a vector's own generator: SplitMix64.
        let mut state = mixed(number.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mixed(state)
        };
        let cluster = (next() % CLUSTERS as u64) as usize;
        vector.copy_from_slice(&self.centers[cluster * self.dimension..][..self.dimension]);
        let shape = cluster % SHAPES * LATENT * self.dimension;
        let shape = self.shapes[shape..][..LATENT * self.dimension].chunks_exact(self.dimension);
        for direction in shape {
            // Four bytes of a hash: their sum is nearly normal.
            let bytes = (next() as u32).to_le_bytes().map(f32::from);
            let weight = (bytes.iter().sum::<f32>() - 510.0) / 147.8;
            vector.iter_mut().zip(direction).for_each(|(x, d)| *x += weight * d);
        }
        let shift = if T::KIND == ElementKind::U8 { 128.0 } else { 0.0 };
        for (vector, out) in vector.chunks(8).zip(out.chunks_mut(8)) {
            let noise = next().to_le_bytes().map(|byte| (f32::from(byte) - 127.5) / 64.0 + shift);
            for ((x, noise), out) in vector.iter().zip(noise).zip(out) {
                *out = T::from_f32(x + noise);
            }
        }
    }
}

/// The finalizer of SplitMix64.
fn mixed(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// Vectors of successive numbers.
pub struct Vectors<'a> {
    rule: &'a Rule,
    first: u64,
    len: usize,
}

impl Vectors<'_> {
    /// Some of the vectors, row-major, made by all threads.
    pub fn collect<T: Element>(&self, range: Range<usize>) -> Vec<T> {
        let dimension = self.rule.dimension;
        let mut vectors = vec![T::zeroed(); range.len() * dimension];
        vectors.par_chunks_mut(TASK * dimension).enumerate().for_each(|(task, out)| {
            self.write(range.start + task * TASK.., out);
        });
        vectors
    }

    fn write<T: Element>(&self, rows: impl IntoIterator<Item = usize>, out: &mut [T]) {
        let mut vector = vec![0.0; self.rule.dimension];
        for (row, out) in rows.into_iter().zip(out.chunks_exact_mut(self.rule.dimension)) {
            self.rule.write(self.first + row as u64, &mut vector, out);
        }
    }
}

impl<T: Element> VectorSource<T> for Vectors<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn dimension(&self) -> usize {
        self.rule.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> std::io::Result<()> {
        self.write(range, out);
        Ok(())
    }

    fn gather(&self, rows: &[usize], out: &mut [T]) -> std::io::Result<()> {
        self.write(rows.iter().copied(), out);
        Ok(())
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}
