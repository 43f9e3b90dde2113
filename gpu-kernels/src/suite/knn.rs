//! Exact k-NN, against its reference.

use jasper_core::{Element, Metric, f16, padded_len, synthetic};

use super::{reference, vectors};
use crate::Stream;
use crate::graph::NO_SLOT;
use crate::knn::{MAX_K, exact_knn};

/// A search: what is random in it is drawn from the seed.
struct Case {
    dimension: usize,
    rows: usize,
    queries: usize,
    k: usize,
    /// Of values: above 1 many distances are equal, and the smaller row must win.
    grain: f32,
}

/// Rows and queries fewer and more than a tile, lengths with a tail, fewer rows than k, the largest k, several
/// segments, and rows that lie equally far.
const CASES: [Case; 5] = [
    Case { dimension: 3, rows: 1, queries: 1, k: 1, grain: 1.0 },
    Case { dimension: 37, rows: 140, queries: 130, k: 10, grain: 1.0 },
    Case { dimension: 9, rows: 100, queries: 3, k: MAX_K, grain: 64.0 },
    Case { dimension: 70, rows: 260, queries: 7, k: MAX_K, grain: 1.0 },
    Case { dimension: 8, rows: 2100, queries: 2, k: 33, grain: 32.0 },
];

/// All elements over a few shapes, the large ones with one metric each and the small ones with all: the same rows, in
/// the same order, at the same distances.
///
/// # Panics
/// Panics if an answer and the reference's differ, or the stream fails.
pub fn exact_knn_agrees_with_the_reference(stream: &impl Stream, seed: u64) {
    for (number, case) in CASES.iter().enumerate() {
        for (i, metric) in Metric::ALL.into_iter().enumerate() {
            let is_large = case.rows * case.queries > 1000;
            let runs =
                |element: usize| !is_large || (number + element + seed as usize) % Metric::ALL.len() == i;
            if runs(0) {
                agrees::<f32>(stream, metric, case, seed);
            }
            if runs(1) {
                agrees::<f16>(stream, metric, case, seed);
            }
            if runs(2) {
                agrees::<u8>(stream, metric, case, seed);
            }
            if runs(3) {
                agrees::<i8>(stream, metric, case, seed);
            }
        }
    }
}

fn agrees<T: Element>(stream: &impl Stream, metric: Metric, case: &Case, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let (rows, queries) =
        (nonzero::<T>(&mut rng, case.rows, case), nonzero::<T>(&mut rng, case.queries, case));
    let on_device = (stream.upload(&rows).unwrap(), stream.upload(&queries).unwrap());
    let found =
        exact_knn(stream, metric, case.dimension, case.k, &on_device.0, case.rows, &on_device.1).unwrap();
    let stride = padded_len::<T>(case.dimension);
    let rows: Vec<&[T]> = rows.chunks(stride).map(|row| &row[..case.dimension]).collect();
    for (i, query) in queries.chunks(stride).enumerate() {
        let mut expected = reference::nearest(metric, &rows, &query[..case.dimension], case.k);
        expected.resize(case.k, (f64::INFINITY, NO_SLOT));
        let answer = i * case.k..(i + 1) * case.k;
        let found: Vec<(f64, u32)> = found.distances()[answer.clone()]
            .iter()
            .copied()
            .zip(found.ids()[answer].iter().copied())
            .collect();
        assert_eq!(found, expected, "{} {metric}, dimension {}, query {i}", T::KIND, case.dimension);
    }
}

/// Random vectors of which none is zero, so that each has an angle.
fn nonzero<T: Element>(rng: &mut impl rand::Rng, n: usize, case: &Case) -> Vec<T> {
    let mut all = vectors::<T>(rng, n, case.dimension, case.grain);
    for row in all.chunks_mut(padded_len::<T>(case.dimension)) {
        if row.iter().all(|value| *value == T::default()) {
            row[0] = T::from_f32(1.0);
        }
    }
    all
}

/// Rows searched in two parts give the answer of all at once.
///
/// # Panics
/// Panics if they do not, or the stream fails.
pub fn exact_knn_searches_in_parts(stream: &impl Stream, seed: u64) {
    let case = Case { dimension: 24, rows: 201, queries: 4, k: 20, grain: 16.0 };
    let mut rng = synthetic::rng(seed);
    let rows = vectors::<u8>(&mut rng, case.rows, case.dimension, case.grain);
    let queries = stream.upload(&vectors::<u8>(&mut rng, case.queries, case.dimension, case.grain)).unwrap();
    let search = |first: usize, len: usize| {
        let stride = padded_len::<u8>(case.dimension);
        let part = stream.upload(&rows[first * stride..]).unwrap();
        exact_knn(stream, Metric::L2, case.dimension, case.k, &part, len, &queries).unwrap()
    };
    let mut found = search(0, 130);
    found.merge(&search(130, case.rows - 130), 130);
    assert_eq!(found, search(0, case.rows));
}
