//! The distributions: those that benchmarks usually have, and those that indexes have failed on.

use jasper::ElementKind::{self, F16, F32, U8};
use jasper::Metric::{self, Cosine, InnerProduct as Ip, L2};
use jasper_core::synthetic::Clusters;

use crate::draw::{Draw, Part, multiply, norm, normals};

/// A distribution of rows, and of queries, which are never rows.
pub struct Distribution {
    pub name: &'static str,
    /// What it has in common with others, for plots.
    pub group: &'static str,
    pub dimension: usize,
    pub element: ElementKind,
    pub metric: Metric,
    pub draw: fn(Part) -> Vec<f32>,
}

const fn set(
    name: &'static str,
    group: &'static str,
    dimension: usize,
    element: ElementKind,
    metric: Metric,
    draw: fn(Part) -> Vec<f32>,
) -> Distribution {
    Distribution { name, group, dimension, element, metric, draw }
}

const USUAL: &str = "usual";
const SHAPE: &str = "shape and order";
const SCALE: &str = "scale and place";
const IP: &str = "inner products";

/// All distributions.
pub const SETS: [Distribution; 28] = [
    set("clusters", USUAL, 96, F32, L2, clusters),
    set("clusters-u8", USUAL, 128, U8, L2, clusters_u8),
    set("uniform", USUAL, 16, F32, L2, |part| part.rows(|draw, row| row.fill_with(|| draw.uniform()))),
    set("gaussian-10", USUAL, 10, F32, L2, gaussian),
    set("gaussian-128", USUAL, 128, F32, L2, gaussian),
    set("sphere", USUAL, 48, F32, Cosine, gaussian),
    set("surface", SHAPE, 256, F32, L2, surface),
    set("spectrum", SHAPE, 1024, F16, L2, spectrum),
    set("sorted", SHAPE, 200, F16, L2, sorted),
    set("interleaved", SHAPE, 64, F32, L2, interleaved),
    set("duplicates", SHAPE, 256, F32, L2, duplicates),
    set("binary", SHAPE, 256, U8, L2, binary),
    set("one-hot", SHAPE, 256, U8, L2, one_hot),
    set("other-queries", SHAPE, 200, F32, Cosine, other_queries),
    set("heavy-tails", SCALE, 160, F32, L2, heavy_tails),
    set("large-coordinates", SCALE, 768, F16, L2, |part| large_coordinates(part, 30.0)),
    set("offset", SCALE, 96, F32, L2, offset),
    set("far-clusters", SCALE, 64, F32, L2, far_clusters),
    set("scales", SCALE, 32, F32, L2, scales),
    set("tight-cluster", SCALE, 64, F32, L2, tight_cluster),
    set("ip-clusters-u8", IP, 128, U8, Ip, clusters_u8),
    set("ip-equal-norms", IP, 256, F16, Ip, equal_norms),
    set("ip-norms", IP, 96, F32, Ip, norms),
    set("ip-one-long", IP, 96, F32, Ip, one_long),
    set("ip-hubs", IP, 64, F32, Ip, hubs),
    set("ip-large-coordinates", IP, 96, F32, Ip, |part| large_coordinates(part, 5.0)),
    set("ip-negative", IP, 64, F32, Ip, negative),
    set("ip-other-queries", IP, 200, F32, Ip, other_queries),
];

/// Latent dimensions of most sets.
const LATENT: usize = 40;
/// Noise around these dimensions.
const NOISE: f32 = 0.1;

fn clusters(part: Part) -> Vec<f32> {
    Clusters::new(part.dimension, 1).rows(part.rows, u64::from(part.is_query))
}

/// Clusters around the middle of a byte's range.
fn clusters_u8(part: Part) -> Vec<f32> {
    clusters(part).into_iter().map(|x| x + 128.0).collect()
}

fn gaussian(part: Part) -> Vec<f32> {
    part.rows(|draw, row| draw.add_noise(1.0, row))
}

/// Rows of [`LATENT`] dimensions with noise, each changed by `change`.
fn latent(part: Part, change: impl Fn(&mut Draw, &mut [f32]) + Sync) -> Vec<f32> {
    let directions = normals(LATENT * part.dimension, (LATENT as f32).sqrt().recip());
    part.rows(|draw, row| {
        draw.add_combination(&directions, row);
        draw.add_noise(NOISE, row);
        change(draw, row);
    })
}

/// A smooth surface of three dimensions.
fn surface(part: Part) -> Vec<f32> {
    let waves = normals(4 * part.dimension, 2.0);
    part.rows(|draw, row| {
        let point = [draw.uniform(), draw.uniform(), draw.uniform(), 1.0];
        for (x, wave) in row.iter_mut().zip(waves.chunks_exact(4)) {
            *x = wave.iter().zip(point).map(|(w, p)| w * p).sum::<f32>().cos();
        }
    })
}

/// Variances that fall as 1, 1/2, 1/3, ..
fn spectrum(part: Part) -> Vec<f32> {
    part.rows(|draw, row| {
        (1..).zip(row).for_each(|(i, x)| *x = draw.normal() / (i as f32).sqrt());
    })
}

/// Norms of which a few are a hundred times the others.
fn heavy_tails(part: Part) -> Vec<f32> {
    latent(part, |draw, row| multiply(row, 1.0 / (draw.normal().abs() + 0.01)))
}

/// Three coordinates that are `factor` times the others.
fn large_coordinates(part: Part, factor: f32) -> Vec<f32> {
    latent(part, |_, row| row.iter_mut().step_by(part.dimension / 3 + 1).for_each(|x| *x *= factor))
}

/// Rows in the order of their place along a direction.
fn sorted(part: Part) -> Vec<f32> {
    let direction = normals(part.dimension, 1.0);
    latent(part, |draw, row| {
        let place = if part.is_query { draw.uniform() } else { draw.number as f32 / part.rows as f32 };
        row.iter_mut().zip(&direction).for_each(|(x, d)| *x += (4.0 * place - 2.0) * d);
    })
}

/// 40% copies of other rows.
fn duplicates(part: Part) -> Vec<f32> {
    let is_copy = |number| !part.is_query && part.draw(number).uniform() < 0.4;
    let directions = normals(LATENT * part.dimension, (LATENT as f32).sqrt().recip());
    part.rows(|draw, row| {
        let mut number = draw.number;
        while is_copy(number) {
            number = draw.below(part.rows);
        }
        let mut original = part.draw(number);
        original.add_combination(&directions, row);
        original.add_noise(NOISE, row);
    })
}

/// Rows 1,000 standard deviations from the origin.
fn offset(part: Part) -> Vec<f32> {
    latent(part, |_, row| row.iter_mut().for_each(|x| *x += 1000.0))
}

/// Two clusters 10,000 standard deviations apart.
fn far_clusters(part: Part) -> Vec<f32> {
    part.rows(|draw, row| {
        row.fill(1e4 * draw.below(2) as f32);
        draw.add_noise(1.0, row);
    })
}

/// 30 clusters of scales from 0.001 to 1.
fn scales(part: Part) -> Vec<f32> {
    let centers = normals(30 * part.dimension, 1.0);
    part.rows(|draw, row| {
        let cluster = draw.below(30);
        row.copy_from_slice(&centers[cluster * part.dimension..][..part.dimension]);
        draw.add_noise(10_f32.powf(-3.0 * cluster as f32 / 29.0), row);
    })
}

/// A tenth of the rows, and half of the queries, in a cluster a thousand times as tight.
fn tight_cluster(part: Part) -> Vec<f32> {
    let share = if part.is_query { 0.5 } else { 0.1 };
    two_kinds(part, 1e-3, |draw| draw.uniform() < share)
}

/// Rows of two kinds by turns: gaussian, and in a tight cluster.
fn interleaved(part: Part) -> Vec<f32> {
    two_kinds(part, 3e-3, |draw| draw.number % 2 == 1)
}

/// Gaussian rows, and rows in a cluster of a scale.
fn two_kinds(part: Part, scale: f32, is_tight: impl Fn(&mut Draw) -> bool + Sync) -> Vec<f32> {
    let center = normals(part.dimension, 1.0);
    part.rows(|draw, row| {
        let is_tight = is_tight(draw);
        if is_tight {
            row.copy_from_slice(&center);
        }
        draw.add_noise(if is_tight { scale } else { 1.0 }, row);
    })
}

/// Coordinates 0 and 1: one of 50 patterns, a tenth of it changed.
fn binary(part: Part) -> Vec<f32> {
    let patterns = normals(50 * part.dimension, 1.0);
    part.rows(|draw, row| {
        let pattern = &patterns[draw.below(50) * part.dimension..][..part.dimension];
        for (x, p) in row.iter_mut().zip(pattern) {
            let is_set = (*p > 0.5) != (draw.uniform() < 0.1);
            *x = f32::from(u8::from(is_set));
        }
    })
}

/// Sixteen categories of sixteen values, of which some are frequent: many equal distances.
fn one_hot(part: Part) -> Vec<f32> {
    part.rows(|draw, row| {
        for category in row.chunks_exact_mut(16) {
            let frequent = draw.below(16) + 1;
            category[draw.below(frequent)] = 1.0;
        }
    })
}

/// Queries of other directions than the rows, as of texts among images.
fn other_queries(part: Part) -> Vec<f32> {
    let shift = normals(2 * part.dimension, 0.7);
    latent(part, |draw, row| {
        let shift = &shift[usize::from(draw.is_query) * part.dimension..][..part.dimension];
        row.iter_mut().zip(shift).for_each(|(x, s)| *x += s);
        draw.add_noise(if draw.is_query { 0.5 } else { 0.0 }, row);
    })
}

/// One mean direction, along which a few rows are the nearest to all queries.
fn hubs(part: Part) -> Vec<f32> {
    let mean = normals(part.dimension, 2.0);
    part.rows(|draw, row| {
        row.copy_from_slice(&mean);
        draw.add_noise(1.0, row);
    })
}

/// Norms whose logarithm has a standard deviation of 0.7.
fn norms(part: Part) -> Vec<f32> {
    latent(part, |draw, row| {
        let length = (0.7 * draw.normal()).exp();
        multiply(row, length / norm(row));
    })
}

/// One row 300 times as long as the others.
fn one_long(part: Part) -> Vec<f32> {
    latent(part, |draw, row| multiply(row, if draw.number == 77 && !draw.is_query { 300.0 } else { 1.0 }))
}

/// Positive coordinates, negative ones in queries.
fn negative(part: Part) -> Vec<f32> {
    let sign = if part.is_query { -1.0 } else { 1.0 };
    part.rows(|draw, row| row.fill_with(|| sign * draw.normal().abs()))
}

fn equal_norms(part: Part) -> Vec<f32> {
    latent(part, |_, row| multiply(row, 1.0 / norm(row)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sets_are_seeded_and_queries_are_no_rows() {
        let mut names = HashSet::new();
        for Distribution { name, dimension, element, draw, .. } in SETS {
            assert!(names.insert(name), "{name} occurs twice");
            let part = |is_query| draw(Part { dimension, rows: 100, is_query });
            let (rows, queries) = (part(false), part(true));
            assert_eq!(rows, part(false), "{name}");
            assert_eq!((rows.len(), queries.len()), (100 * dimension, 100 * dimension), "{name}");
            let limit = if element == F16 { 6e4 } else { 1e9 };
            assert!(rows.iter().chain(&queries).all(|x| x.abs() < limit), "{name}");
            let is_row = |query: &[f32]| rows.chunks_exact(dimension).any(|row| row == query);
            assert!(!queries.chunks_exact(dimension).any(is_row), "{name}");
        }
    }

    #[test]
    fn four_in_ten_are_copies() {
        let rows = duplicates(Part { dimension: 8, rows: 1000, is_query: false });
        let different: HashSet<Vec<u32>> =
            rows.chunks_exact(8).map(|row| row.iter().map(|x| x.to_bits()).collect()).collect();
        assert!((560..640).contains(&different.len()), "{}", different.len());
    }
}
