//! Rotations are orthonormal in every dimension, and are the documented matrices.

use jasper_core::Element;

use super::*;

/// The matrix of `rotation`, one row per input coordinate.
fn matrix(rotation: &Rotation) -> Vec<Vec<f32>> {
    let (from, to) = (rotation.dimension(), rotation.rotated_dimension());
    (0..from)
        .map(|i| {
            let (mut unit, mut out) = (vec![0.0; from], vec![0.0; to]);
            unit[i] = 1.0;
            rotation.rotate(&unit, &mut out, to);
            out
        })
        .collect()
}

/// The largest deviation from orthonormality: the products of every `stride`-th row with all `rows`.
fn worst_product(rows: &[Vec<f32>], stride: usize) -> f32 {
    let dot = f32::distance_fns().dot;
    let mut worst = 0.0_f32;
    for i in (0..rows.len()).step_by(stride) {
        for j in 0..rows.len() {
            let expected = if i == j { 1.0 } else { 0.0 };
            worst = worst.max((dot(&rows[i], &rows[j]) - expected).abs());
        }
    }
    worst
}

#[test]
fn hadamard_is_orthonormal_in_every_dimension() {
    for dimension in (2..130).chain([191, 192, 200, 384, 768, 960, 1000, 1536, 2049, 3072, 4095, 4096]) {
        let rotation = Rotation::new(dimension, dimension as u64);
        let worst = worst_product(&matrix(&rotation), dimension.div_ceil(64));
        assert!(worst < 1e-5, "dimension {dimension}: {worst:e}");
    }
}

/// The entry of a Hadamard matrix is (-1)^(number of common bits of row and column).
fn entry(i: usize, j: usize) -> f32 {
    if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

#[test]
fn the_rounds_are_those_of_the_definition() {
    for dimension in [64, 100, 128, 200] {
        let rotation = Rotation::new(dimension, 5);
        let signs = &rotation.signs;
        let rotated = rotation.rotated_dimension();
        let row: Vec<f32> = (0..dimension).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        let mut fast = vec![9.0; rotated + 64];
        rotation.rotate(&row, &mut fast, rotated + 64);
        assert!(fast[rotated..].iter().all(|x| *x == 0.0));

        let mut naive = row;
        naive.resize(rotated, 0.0);
        let window = 1 << rotated.ilog2();
        for round in 0..4 {
            for (i, x) in naive.iter_mut().enumerate() {
                let bit = round * rotated + i;
                if signs[bit / 64] >> (bit % 64) & 1 == 1 {
                    *x = -*x;
                }
            }
            let first = if round % 2 == 0 { 0 } else { rotated - window };
            let before = naive[first..first + window].to_vec();
            for i in 0..window {
                let sum: f32 = before.iter().enumerate().map(|(j, x)| entry(i, j) * x).sum();
                naive[first + i] = sum / (window as f32).sqrt();
            }
            if window < rotated {
                let half = rotated / 2;
                for i in 0..half {
                    let (a, b) = (naive[i], naive[half + i]);
                    naive[i] = (a + b) / 2.0_f32.sqrt();
                    naive[half + i] = (a - b) / 2.0_f32.sqrt();
                }
            }
        }
        for (fast, naive) in fast.iter().zip(&naive) {
            assert!((fast - naive).abs() < 1e-5, "{fast} {naive}");
        }
    }
}

#[test]
fn the_seed_decides() {
    assert_eq!(Rotation::new(70, 3), Rotation::new(70, 3));
    assert_ne!(Rotation::new(70, 3), Rotation::new(70, 4));
}
