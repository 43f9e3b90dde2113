//! What product quantization must do: follow distances, the more subspaces the better, and be exact where it can.

use jasper_core::VectorId;
use jasper_core::synthetic::Clusters;

use super::*;

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn trained(rows: MatrixView<'_, f32>, metric: Metric, subspaces: usize, bits: u32) -> (Pq, PqCodes) {
    let pq = Pq::train(rows, &PqParams { metric, subspaces, bits, seed: 3 }, &pool(2)).unwrap();
    let codes = pq.encode(rows, &pool(2));
    (pq, codes)
}

/// Estimates of `query` to all rows.
fn estimates(pq: &Pq, codes: &PqCodes, query: &[f32]) -> Vec<f32> {
    let ids: Vec<VectorId> = (0..codes.len() as u32).map(VectorId::new).collect();
    let mut out = vec![0.0; ids.len()];
    pq.query(query).estimate(codes, &ids, &mut out);
    out
}

fn distance(metric: Metric, q: &[f32], v: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    match metric {
        Metric::L2 => q.iter().zip(v).map(|(x, y)| (x - y).powi(2)).sum(),
        Metric::InnerProduct => -dot(q, v),
        Metric::Cosine => 1.0 - dot(q, v) / (dot(q, q) * dot(v, v)).sqrt(),
    }
}

/// Root of the mean square of what estimates miss.
fn error(metric: Metric, subspaces: usize, bits: u32) -> f32 {
    let set = Clusters::new(50, 1);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(800, 0), set.rows(20, 1));
    let (pq, codes) = trained(MatrixView::new(&rows, 50).unwrap(), metric, subspaces, bits);
    let squares = queries.chunks_exact(50).flat_map(|query| {
        let estimates = estimates(&pq, &codes, query).into_iter().zip(rows.chunks_exact(50));
        estimates.map(move |(estimate, row)| (estimate - distance(metric, query, row)).powi(2))
    });
    (squares.sum::<f32>() / 16_000.0).sqrt()
}

#[test]
fn errors_fall_with_subspaces_and_bits() {
    for metric in Metric::ALL {
        // 7 and 20 do not divide 50; 7 halves leave one without a second.
        for bits in [4, 8] {
            let errors = [1, 7, 20, 50].map(|subspaces| error(metric, subspaces, bits));
            assert!(errors.is_sorted_by(|a, b| *b < 0.8 * a), "{metric}, {bits} bits: {errors:?}");
        }
        assert!(error(metric, 7, 8) < 0.8 * error(metric, 7, 4), "{metric}");
    }
}

#[test]
fn rows_that_are_the_centroids_are_exact() {
    let unit = |mut rows: Vec<f32>| {
        for row in rows.chunks_exact_mut(30) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            row.iter_mut().for_each(|x| *x /= norm);
        }
        rows
    };
    let set = Clusters::new(30, 2);
    for (bits, count) in [(4, 16), (8, 256)] {
        let query = unit(set.rows(1, 1));
        // Each of them many times, as parts of rows often are.
        let rows = unit(set.rows(count, 0)).repeat(4);
        for metric in Metric::ALL {
            let (pq, codes) = trained(MatrixView::new(&rows, 30).unwrap(), metric, 4, bits);
            for (estimate, row) in estimates(&pq, &codes, &query).iter().zip(rows.chunks_exact(30)) {
                let exact = distance(metric, &query, row);
                assert!((estimate - exact).abs() < 1e-5, "{metric}: {estimate} {exact}");
            }
        }
    }
}

#[test]
fn threads_and_seeds() {
    let rows: Vec<f32> = Clusters::new(40, 3).rows(700, 0);
    let view = MatrixView::new(&rows, 40).unwrap();
    let params = PqParams { metric: Metric::Cosine, subspaces: 9, bits: 4, seed: 1 };
    let (one, three) = (pool(1), pool(3));
    let pq = Pq::train(view, &params, &one).unwrap();
    assert_eq!(pq, Pq::train(view, &params, &three).unwrap());
    assert_eq!(pq.encode(view, &one), pq.encode(view, &three));
    assert_ne!(pq, Pq::train(view, &PqParams { seed: 2, ..params }, &one).unwrap());
    assert_eq!((pq.metric(), pq.dimension(), pq.subspaces(), pq.bytes()), (Metric::Cosine, 40, 9, 5));
}

#[test]
fn every_way_of_asking_gives_the_same() {
    let rows: Vec<f32> = Clusters::new(24, 4).rows(101, 0);
    let view = MatrixView::new(&rows, 24).unwrap();
    for bits in [4, 8] {
        let (pq, codes) = trained(view, Metric::L2, 5, bits);
        let query = pq.query(view.row(3));
        let together = estimates(&pq, &codes, view.row(3));
        for i in (0..101).rev() {
            let mut alone = [0.0];
            query.estimate(&codes, &[VectorId::new(i as u32)], &mut alone);
            assert_eq!(alone[0], together[i]);
        }
        assert!(pq.encode(view.slice(0..0), &pool(1)).is_empty());
    }
}

#[test]
fn training_says_what_is_wrong() {
    let rows = [1.0_f32, 2.0, 3.0, f32::NAN];
    let train = |rows: &[f32], subspaces, bits| {
        let params = PqParams { metric: Metric::L2, subspaces, bits, seed: 0 };
        Pq::train(MatrixView::new(rows, 2).unwrap(), &params, &pool(1)).unwrap_err()
    };
    assert_eq!(train(&rows[..0], 1, 8), TrainError::TooFewRows { rows: 0, least: 1 });
    assert_eq!(train(&rows[..2], 3, 8), TrainError::Subspaces { subspaces: 3, dimension: 2 });
    assert_eq!(
        train(&rows[..2], 0, 8).to_string(),
        "subspaces (0) must be between 1 and the 2 coordinates of a row"
    );
    assert_eq!(train(&rows[..2], 1, 5).to_string(), "bits (5) of a subspace must be 4 or 8");
    assert!(matches!(train(&rows, 1, 4), TrainError::Matrix(_)));
}
