//! Random rows. The coordinates of a row depend on the set and on the number of the row alone.

use jasper_core::synthetic::rng;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// The rows of a set, or its queries.
#[derive(Clone, Copy)]
pub struct Part {
    pub dimension: usize,
    pub rows: usize,
    pub is_query: bool,
}

/// The random numbers of a row.
pub struct Draw {
    random: ChaCha8Rng,
    /// The number of the row among the rows, or among the queries.
    pub number: usize,
    /// Whether the row is a query.
    pub is_query: bool,
}

impl Part {
    /// All rows, each filled by `row`.
    pub fn rows(self, row: impl Fn(&mut Draw, &mut [f32]) + Sync) -> Vec<f32> {
        let mut rows = vec![0.0; self.rows * self.dimension];
        rows.par_chunks_mut(self.dimension)
            .enumerate()
            .for_each(|(number, out)| row(&mut self.draw(number), out));
        rows
    }

    /// The random numbers of the row of a number.
    pub fn draw(self, number: usize) -> Draw {
        let seed = (2 * number + usize::from(self.is_query)) as u64;
        Draw { random: rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)), number, is_query: self.is_query }
    }
}

impl Draw {
    /// Adds independent normal numbers to a row.
    pub fn add_noise(&mut self, scale: f32, row: &mut [f32]) {
        row.iter_mut().for_each(|x| *x += scale * self.normal());
    }

    /// Adds a normal number times each of the directions, which are rows of `directions`.
    pub fn add_combination(&mut self, directions: &[f32], row: &mut [f32]) {
        for direction in directions.chunks_exact(row.len()) {
            let weight = self.normal();
            row.iter_mut().zip(direction).for_each(|(x, d)| *x += weight * d);
        }
    }

    pub fn normal(&mut self) -> f32 {
        StandardNormal.sample(&mut self.random)
    }

    /// Between 0 and 1.
    pub fn uniform(&mut self) -> f32 {
        self.random.random()
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }
}

/// Normal numbers that belong to a set, such as its centers and directions.
pub fn normals(count: usize, scale: f32) -> Vec<f32> {
    let mut random = rng(0x5E75);
    let normal = |_| {
        let x: f32 = StandardNormal.sample(&mut random);
        scale * x
    };
    (0..count).map(normal).collect()
}

/// Multiplies a row.
pub fn multiply(row: &mut [f32], factor: f32) {
    row.iter_mut().for_each(|x| *x *= factor);
}

pub fn norm(row: &[f32]) -> f32 {
    row.iter().map(|x| x * x).sum::<f32>().sqrt()
}
