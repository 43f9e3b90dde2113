//! Exact neighbors against a naive implementation, for every element, metric and shape; and invalid input.

use std::ops::ControlFlow;

use jasper_core::synthetic::Clusters;
use jasper_core::{Element, MatrixError, MatrixView, Metric, f16, no_progress};
use jasper_data::{GroundTruth, KnnError, Side, exact_knn};
use proptest::prelude::*;

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// The definition, in f64, summed in order.
fn naive_distance<T: Element>(metric: Metric, a: &[T], b: &[T]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(x, y)| (f64::from(x.to_f32()), f64::from(y.to_f32())));
    let dot: f64 = pairs().map(|(x, y)| x * y).sum();
    let norm = |v: &[T]| v.iter().map(|x| f64::from(x.to_f32()).powi(2)).sum::<f64>();
    match metric {
        Metric::L2 => pairs().map(|(x, y)| (x - y).powi(2)).sum(),
        Metric::InnerProduct => -dot,
        Metric::Cosine => 1.0 - dot / (norm(a) * norm(b)).sqrt(),
    }
}

fn naive<T: Element>(base: MatrixView<'_, T>, query: &[T], k: usize, metric: Metric) -> Vec<(f64, u32)> {
    let mut all: Vec<_> = base.rows().map(|row| naive_distance(metric, query, row)).zip(0..).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all.truncate(k);
    all
}

/// With `exact`, sums do not round, so that ids must agree as well as distances.
fn check<T: Element>(base: &[T], queries: &[T], dimension: usize, k: usize, metric: Metric, exact: bool) {
    let base = MatrixView::new(base, dimension).unwrap();
    let queries = MatrixView::new(queries, dimension).unwrap();
    let found = exact_knn(base, queries, k, metric, &pool(1), &mut no_progress).unwrap();
    assert_eq!(found, exact_knn(base, queries, k, metric, &pool(3), &mut no_progress).unwrap());
    assert_eq!((found.k(), found.len()), (k, queries.len()));
    for (i, query) in queries.rows().enumerate() {
        let (expected, truth) = (naive(base, query, k, metric), found.truth(i));
        for (rank, &(distance, id)) in expected.iter().enumerate() {
            let ours = (truth.distances.unwrap()[rank], truth.ids[rank]);
            if exact && metric != Metric::Cosine {
                assert_eq!(ours, (distance as f32, id), "{metric} query {i} rank {rank}");
            }
            // If sums round, a rank may hold another row, but not a farther one.
            let true_distance = naive_distance(metric, query, base.row(ours.1 as usize));
            let scale =
                1e-12 * query.len() as f64 * (naive_distance(Metric::L2, query, base.row(id as usize)) + 1.0);
            assert!((true_distance - distance).abs() <= scale, "{metric} query {i} rank {rank}");
            assert!((f64::from(ours.0) - true_distance).abs() <= scale + 1e-7 * true_distance.abs());
        }
        let mut distinct = truth.ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), k);
    }
}

fn check_all<T: Element>(base: &[f32], queries: &[f32], dimension: usize, k: usize, exact: bool) {
    let convert = |values: &[f32]| values.iter().map(|&value| T::from_f32(value)).collect::<Vec<_>>();
    let (mut base, mut queries) = (convert(base), convert(queries));
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        if metric == Metric::Cosine {
            // Zero rows are invalid.
            [&mut base, &mut queries]
                .into_iter()
                .flatten()
                .step_by(dimension)
                .for_each(|x| *x = T::from_f32(3.0));
        }
        check(&base, &queries, dimension, k, metric, exact || T::EXACT_SUMS);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Small integers: many ties, and exact sums in every element.
    #[test]
    fn ties_go_to_the_smaller_id(
        dimension in 1..70_usize,
        values in proptest::collection::vec(0_i8..4, 1..3000),
        queries in 1..12_usize,
        k in any::<proptest::sample::Index>(),
    ) {
        let dimension = dimension.min(values.len());
        let values: Vec<f32> = values.into_iter().map(f32::from).collect();
        let rows = &values[..values.len() / dimension * dimension];
        let queries: Vec<f32> = rows.iter().copied().cycle().skip(1).take(queries * dimension).collect();
        let k = 1 + k.index(rows.len() / dimension);
        check_all::<f32>(rows, &queries, dimension, k, true);
        check_all::<f16>(rows, &queries, dimension, k, true);
        check_all::<u8>(rows, &queries, dimension, k, true);
        check_all::<i8>(rows, &queries, dimension, k, true);
    }

    /// Values of all magnitudes and both signs.
    #[test]
    fn any_values(
        dimension in 1..130_usize,
        values in proptest::collection::vec((-1.0_f32..1.0, 0..10_i32), 131..3000),
        k in any::<proptest::sample::Index>(),
    ) {
        let values: Vec<f32> = values.into_iter().map(|(value, power)| value * 2_f32.powi(power)).collect();
        let rows = &values[..values.len() / dimension * dimension];
        let (queries, rows) = rows.split_at(rows.len() / dimension / 5 * dimension);
        prop_assume!(!queries.is_empty());
        let k = 1 + k.index(rows.len() / dimension);
        check_all::<f32>(rows, queries, dimension, k, false);
        check_all::<f16>(rows, queries, dimension, k, false);
        check_all::<u8>(rows, queries, dimension, k, false);
        check_all::<i8>(rows, queries, dimension, k, false);
    }
}

/// Squared distances of long byte rows exceed 2^24, above which f32 does not distinguish neighbors.
#[test]
fn bytes_are_told_apart_beyond_what_a_float_holds() {
    let dimension = 1000;
    let mut base = vec![0_u8; 40 * dimension];
    for (i, row) in base.chunks_exact_mut(dimension).enumerate() {
        row.fill(250);
        row[0] = 250 - (i * 7 % 40) as u8;
        row[1] = 252;
    }
    check::<u8>(&base, &vec![0; dimension], dimension, 40, Metric::L2, true);
    check::<u8>(&base, &vec![255; dimension], dimension, 17, Metric::InnerProduct, true);
}

/// Rows so similar that f32 sums order them wrongly.
#[test]
fn floats_are_told_apart_beyond_what_a_float_sum_holds() {
    let dimension = 300;
    let query: Vec<f32> = (0..dimension).map(|i| ((i * 37 % 101) as f32).sin() * 100.0).collect();
    let mut base = Vec::new();
    for i in 0..500_u32 {
        base.extend(query.iter().map(|x| x + 50.0));
        let last = base.len() - 1 - (i as usize * 13 % dimension);
        base[last] = f32::from_bits(base[last].to_bits() + i * 7 % 50);
    }
    for metric in Metric::ALL {
        check::<f32>(&base, &query, dimension, 100, metric, false);
    }
}

/// A base of several passes and several blocks of queries, from clusters.
#[test]
fn many_rows() {
    let set = Clusters::new(8, 5);
    let (base, queries): (Vec<f32>, Vec<f32>) = (set.rows(300_000, 0), set.rows(3, 1));
    check(&base, &queries, 8, 50, Metric::L2, false);
    check(&base, &queries, 8, 1, Metric::Cosine, false);
}

/// Squares and products out of the range of f32.
#[test]
fn extreme_values_stay_exact() {
    for scale in [1e-40_f32, 1e-25, 1e25, 1e37] {
        let base: Vec<f32> = (0..200).map(|i| ((i * 31 % 17) as f32 - 8.0) * scale).collect();
        let view = MatrixView::new(&base, 5).unwrap();
        for metric in [Metric::L2, Metric::InnerProduct] {
            let found = exact_knn(view, view.slice(0..7), 9, metric, &pool(2), &mut no_progress).unwrap();
            for (i, query) in view.slice(0..7).rows().enumerate() {
                let expected: Vec<u32> = naive(view, query, 9, metric).iter().map(|&(_, id)| id).collect();
                assert_eq!(found.truth(i).ids, expected, "{metric} at {scale}");
            }
        }
    }
}

fn error<T: Element>(base: &[T], queries: &[T], dimension: usize, k: usize, metric: Metric) -> KnnError {
    let (base, queries) =
        (MatrixView::new(base, dimension).unwrap(), MatrixView::new(queries, dimension).unwrap());
    exact_knn(base, queries, k, metric, &pool(2), &mut no_progress).unwrap_err()
}

#[test]
fn bad_input_is_refused_by_name() {
    let (rows, l2) = ([1.0_f32; 8], Metric::L2);
    assert_eq!(error(&[], &rows, 2, 1, l2), KnnError::Empty(Side::Base));
    assert_eq!(error(&rows, &[], 2, 1, l2), KnnError::Empty(Side::Query));
    assert_eq!(
        error(&rows, &rows, 2, 0, l2).to_string(),
        "k (0) must be between 1 and the number of base rows (4)"
    );
    assert_eq!(error(&rows, &rows, 2, 5, l2), KnnError::K { k: 5, rows: 4 });
    let (two, four) = (MatrixView::new(&rows, 2).unwrap(), MatrixView::new(&rows, 4).unwrap());
    let differ = exact_knn(two, four, 1, l2, &pool(1), &mut no_progress).unwrap_err();
    assert_eq!(differ, KnnError::Dimension { base: 2, queries: 4 });

    // The first of two invalid rows, after more rows than one task checks.
    let mut bad = vec![1.0_f32; 6000];
    (bad[5001], bad[5900]) = (f32::NAN, f32::INFINITY);
    let KnnError::NotFinite { side: Side::Base, error: MatrixError::NotFinite { row: 2500, column: 1, .. } } =
        error(&bad, &rows, 2, 1, l2)
    else {
        panic!("{}", error(&bad, &rows, 2, 1, l2));
    };
    assert!(
        error(&rows, &bad, 2, 1, l2)
            .to_string()
            .starts_with("query row 2500 holds a value that is not finite")
    );

    let zero = [1_u8, 1, 0, 0];
    assert_eq!(
        error(&zero, &[1, 1], 2, 1, Metric::Cosine),
        KnnError::ZeroVector { side: Side::Base, row: 1 }
    );
    assert_eq!(
        error(&[1, 1], &zero, 2, 1, Metric::Cosine),
        KnnError::ZeroVector { side: Side::Query, row: 1 }
    );
}

#[test]
fn progress_rises_and_cancels() {
    let rows: Vec<f32> = Clusters::new(8, 1).rows(300_000, 0);
    let view = MatrixView::new(&rows, 8).unwrap();
    let search = |stop_at: usize| -> (Vec<usize>, Result<GroundTruth, KnnError>) {
        let mut seen = Vec::new();
        let result = exact_knn(view, view.slice(0..2), 3, Metric::L2, &pool(2), &mut |progress| {
            seen.push(progress.done);
            if progress.done >= stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (seen, result)
    };
    let (seen, found) = search(usize::MAX);
    assert!(found.is_ok() && seen.len() >= 3 && seen.is_sorted() && *seen.last().unwrap() == 300_000);
    let (seen, stopped) = search(1);
    assert_eq!(seen.len(), 2);
    assert!(matches!(stopped, Err(KnnError::Cancelled(cancelled)) if cancelled.done == seen[1]));
}
