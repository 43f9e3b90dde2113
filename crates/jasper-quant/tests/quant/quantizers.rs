//! Properties of both quantizers: all metrics, elements and dimensions, identical points, flat spectra, serialization.

use crate::common::{distance, dot, estimates, gaussian, moments, pool};
use jasper_core::synthetic::Clusters;
use jasper_core::{Element, MatrixView, Metric, Slot, f16};
use jasper_quant::{
    CodeTable, DecodeError, Mixed, MixedParams, Quantization, Quantizer, Rabitq, RabitqParams, TrainError,
    open,
};

/// Quantizers of both kinds in many sizes.
fn quantizers<T: Element>(rows: &[T], dimension: usize, metric: Metric) -> Vec<Box<dyn Quantizer>> {
    let view = MatrixView::new(rows, dimension).unwrap();
    let mut all: Vec<Box<dyn Quantizer>> = Vec::new();
    for bits in [1, 2, 3, 4, 7, 8] {
        all.push(Box::new(Rabitq::train(view, &RabitqParams::new(metric, bits)).unwrap()));
    }
    for sectors in [1, 2, 5] {
        let params = MixedParams { metric, sectors, seed: 1 };
        all.push(Box::new(Mixed::train(view, &params, &pool()).unwrap()));
    }
    all
}

/// The correlation coefficient of two lists.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let ((mean_a, deviation_a), (mean_b, deviation_b)) =
        (moments(a.iter().copied()), moments(b.iter().copied()));
    let product: f64 = a.iter().zip(b).map(|(x, y)| (x - mean_a) * (y - mean_b)).sum();
    product / a.len() as f64 / (deviation_a * deviation_b)
}

#[test]
fn estimates_follow_distances_in_all_metrics_and_dimensions() {
    for metric in Metric::ALL {
        for dimension in [2, 3, 17, 64, 100, 200] {
            let set = Clusters::new(dimension, 5);
            let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(400, 0), set.rows(10, 1));
            for quantizer in quantizers(&rows, dimension, metric) {
                let estimated = estimates(&*quantizer, &rows, &queries);
                for (query, estimated) in queries.chunks_exact(dimension).zip(estimated) {
                    let exact: Vec<f64> =
                        rows.chunks_exact(dimension).map(|row| distance(metric, query, row)).collect();
                    let estimated: Vec<f64> = estimated.into_iter().map(f64::from).collect();
                    let correlation = correlation(&exact, &estimated);
                    assert!(correlation > 0.8, "{metric}, {dimension}, {quantizer:?}: {correlation}");
                }
            }
        }
    }
}

/// Estimates of unit vectors agree across metrics, which share one product.
#[test]
fn metrics_estimate_the_same_product() {
    let (rows, queries) = (gaussian(200, 128, 1), gaussian(20, 128, 2));
    let unit = |rows: &[f32]| -> Vec<f32> {
        rows.chunks_exact(128)
            .flat_map(|row| {
                let norm = dot(row, row).sqrt() as f32;
                row.iter().map(move |x| x / norm)
            })
            .collect()
    };
    let (rows, queries) = (unit(&rows), unit(&queries));
    let all = Metric::ALL.map(|metric| {
        let view = MatrixView::new(&rows, 128).unwrap();
        estimates(&Rabitq::train(view, &RabitqParams::new(metric, 4)).unwrap(), &rows, &queries)
    });
    for ((l2, product), cosine) in all[0].concat().iter().zip(all[1].concat()).zip(all[2].concat()) {
        assert!(
            (0.5 * l2 - cosine).abs() < 1e-3 && (1.0 + product - cosine).abs() < 1e-3,
            "{l2} {product} {cosine}"
        );
    }
}

#[test]
fn points_that_coincide_have_exact_estimates() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        let point = gaussian(1, 70, 3);
        let rows = point.repeat(20);
        let queries = gaussian(5, 70, 4);
        for quantizer in quantizers(&rows, 70, metric) {
            for (query, estimates) in queries.chunks_exact(70).zip(estimates(&*quantizer, &rows, &queries)) {
                let exact = distance(metric, query, &point);
                for estimate in estimates {
                    assert!((f64::from(estimate) - exact).abs() < 1e-4 * exact.abs(), "{estimate} {exact}");
                }
            }
        }
    }
}

/// A row and a query that equal the center.
#[test]
fn zero_residuals_are_exact_and_bounded_by_nothing() {
    let half = gaussian(50, 96, 5);
    let mut rows: Vec<f32> = half.iter().map(|x| -x).collect();
    rows.extend(&half);
    rows.extend([0.0; 96]);
    let queries = [gaussian(1, 96, 6), vec![0.0; 96]].concat();
    let view = MatrixView::new(&rows, 96).unwrap();
    for quantizer in quantizers(&rows, 96, Metric::L2) {
        let all = estimates(&*quantizer, &rows, &queries);
        assert!(all.concat().iter().all(|estimate| estimate.is_finite()));
        let exact = dot(&queries[..96], &queries[..96]);
        assert!((f64::from(all[0][100]) / exact - 1.0).abs() < 1e-4);
        assert!(all[1][100].abs() < 1e-3, "{}", all[1][100]);
        let codes = CodeTable::from_vectors(&*quantizer, view, &pool());
        let bound = quantizer.query(&queries[..96]).bound(codes.row(100));
        assert!(bound < 1e-3 || bound.is_infinite(), "{bound}");
    }
}

const KINDS: [&str; 6] = ["rabitq:1", "rabitq:4", "rabitq:8", "mixed:1", "mixed:2", "mixed:4"];

/// On a flat spectrum a mixed code is no worse than a uniform code of the same size.
#[test]
fn flat_spectra_cost_mixed_codes_nothing() {
    for (dimension, bits, sectors) in [(128, 1, 1), (384, 1, 2), (384, 3, 5)] {
        let (rows, queries) = (gaussian(3000, dimension, 1), gaussian(40, dimension, 2));
        let view = MatrixView::new(&rows, dimension).unwrap();
        for metric in Metric::ALL {
            let error = |quantizer: &dyn Quantizer| {
                let estimated = estimates(quantizer, &rows, &queries).concat();
                let pairs = queries
                    .chunks_exact(dimension)
                    .flat_map(|query| view.rows().map(move |row| distance(metric, query, row)));
                let squares = estimated.iter().zip(pairs).map(|(x, exact)| (f64::from(*x) - exact).powi(2));
                moments(squares).0.sqrt()
            };
            let uniform = Rabitq::train(view, &RabitqParams::new(metric, bits)).unwrap();
            let params = MixedParams { metric, sectors, seed: 1 };
            let mixed = Mixed::train(view, &params, &pool()).unwrap();
            assert_eq!(uniform.layout().bytes(), mixed.layout().bytes());
            let ratio = error(&mixed) / error(&uniform);
            assert!(ratio < 1.1, "{metric}, {dimension} dimensions, {bits} bits: {ratio}");
        }
    }
}

/// Zero vectors have no cosine distance, but their estimates are finite.
#[test]
fn zero_vectors_are_no_trouble_to_cosine() {
    let mut rows = gaussian(60, 33, 7);
    rows[..33].fill(0.0);
    let queries = [vec![0.0; 33], gaussian(1, 33, 8)].concat();
    for quantizer in quantizers(&rows, 33, Metric::Cosine) {
        assert!(estimates(&*quantizer, &rows, &queries).concat().iter().all(|estimate| estimate.is_finite()));
    }
}

/// Rows far from the origin and with large values, which the center and the units of factors handle.
#[test]
fn far_and_large_rows_lose_nothing() {
    let near = gaussian(300, 64, 9);
    let queries = gaussian(10, 64, 10);
    let moved = |rows: &[f32], scale: f32| -> Vec<f32> { rows.iter().map(|x| (x + 300.0) * scale).collect() };
    let errors = |rows: &[f32], queries: &[f32]| {
        let view = MatrixView::new(rows, 64).unwrap();
        let quantizer = Rabitq::train(view, &RabitqParams::new(Metric::L2, 4)).unwrap();
        let all = estimates(&quantizer, rows, queries);
        let relative = queries.chunks_exact(64).zip(&all).flat_map(|(query, estimates)| {
            rows.chunks_exact(64).zip(estimates).map(move |(row, estimate)| {
                let exact = distance(Metric::L2, query, row);
                (f64::from(*estimate) - exact) / exact
            })
        });
        moments(relative).1
    };
    let expected = errors(&near, &queries);
    for scale in [1e-6, 1.0, 1e6] {
        let got = errors(&moved(&near, scale), &moved(&queries, scale));
        assert!((got / expected - 1.0).abs() < 0.1, "{scale}: {got} {expected}");
    }
}

/// Training reaches neither the largest nor the smallest squares of f32, or refuses the values: what it returns can be read.
#[test]
fn values_of_any_size_are_trained_on_or_refused() {
    let normal = gaussian(300, 16, 11);
    let scaled = |scale: f32| normal.iter().map(|x| x * scale).collect::<Vec<f32>>();
    let mut mixture = scaled(1.0);
    mixture.iter_mut().step_by(37).for_each(|x| *x *= 1e18);
    let constant = |x: f32| vec![x; normal.len()];
    let sets = [1e-45, 1e-38, 1e-30, 1e-18, 1e15, 1e18, 1e20, 5e37].map(scaled).into_iter();
    for rows in sets.chain([mixture]).chain([0.0, 1e-40, 1.0, 1e18, 1e38].map(constant)) {
        let view = MatrixView::new(&rows, 16).unwrap();
        for (metric, name) in Metric::ALL.into_iter().flat_map(|metric| KINDS.map(|name| (metric, name))) {
            let quantization: Quantization = name.parse().unwrap();
            match quantization.train(metric, view, &pool()) {
                Ok(quantizer) => drop(open(&quantizer.to_bytes()).unwrap()),
                Err(error) => assert_eq!(error, TrainError::Range(quantization), "{metric}, {}", rows[0]),
            }
        }
    }
}

/// The principal components of long and of short vectors are those of others.
#[test]
fn components_do_not_depend_on_the_size_of_values() {
    let rows: Vec<f32> = Clusters::new(16, 4).rows(3000, 0);
    let levels = |scale: f32| {
        let rows: Vec<f32> = rows.iter().map(|x| x * scale).collect();
        let view = MatrixView::new(&rows, 16).unwrap();
        let params = MixedParams { metric: Metric::L2, sectors: 2, seed: 0 };
        let codes = CodeTable::from_vectors(&Mixed::train(view, &params, &pool()).unwrap(), view, &pool());
        let factors = codes.layout().factor_word();
        (0..3000).flat_map(|row| codes.row(row)[..factors].to_vec()).collect::<Vec<u32>>()
    };
    let expected = levels(1.0);
    for exponent in [-55, 50] {
        assert!(levels(2_f32.powi(exponent)) == expected, "2^{exponent}");
    }
}

fn codes_of<T: Element>(quantizer: &dyn Quantizer, rows: &[f32]) -> Vec<u32> {
    let rows: Vec<T> = rows.iter().map(|x| T::from_f32(*x)).collect();
    CodeTable::from_vectors(quantizer, MatrixView::new(&rows, quantizer.dimension()).unwrap(), &pool())
        .words()
        .to_vec()
}

#[test]
fn elements_of_equal_value_have_equal_codes() {
    let rows: Vec<f32> =
        Clusters::new(40, 1).rows::<i8>(100, 0).into_iter().map(|x| f32::from(x.max(0))).collect();
    for quantizer in quantizers(&rows, 40, Metric::L2) {
        let expected = codes_of::<f32>(&*quantizer, &rows);
        assert_eq!(codes_of::<f16>(&*quantizer, &rows), expected);
        assert_eq!(codes_of::<u8>(&*quantizer, &rows), expected);
        assert_eq!(codes_of::<i8>(&*quantizer, &rows), expected);
    }
}

#[test]
fn codes_depend_on_neither_threads_nor_blocks() {
    let rows: Vec<f32> = Clusters::new(100, 2).rows(300, 0);
    let view = MatrixView::new(&rows, 100).unwrap();
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for quantizer in quantizers(&rows, 100, Metric::L2) {
        let all = CodeTable::from_vectors(&*quantizer, view, &pool());
        assert_eq!(CodeTable::from_vectors(&*quantizer, view, &one).words(), all.words());
        for i in 0..300 {
            assert_eq!(CodeTable::from_vectors(&*quantizer, view.slice(i..i + 1), &one).words(), all.row(i));
        }
    }
}

#[test]
fn simd_levels_and_ways_to_estimate_agree() {
    let rows: Vec<f32> = Clusters::new(100, 2).rows(200, 0);
    let view = MatrixView::new(&rows, 100).unwrap();
    let ids: Vec<Slot> = (0..200).map(|i| Slot::new(i * 77 % 200)).collect();
    for quantizer in quantizers(&rows, 100, Metric::Cosine) {
        let codes = CodeTable::from_vectors(&*quantizer, view, &pool());
        let query = quantizer.query(&rows[300..400]);
        let mut range = vec![0.0; 200];
        query.estimate_rows(|i| codes.row(i), &mut range);
        for level in jasper_core::distance::SimdLevel::available() {
            let mut out = vec![0.0; 200];
            query.estimate_at(level, &codes, &ids, &mut out);
            for (id, estimate) in ids.iter().zip(out) {
                assert_eq!(estimate.to_bits(), range[id.index()].to_bits(), "{level:?}");
            }
        }
    }
}

#[test]
fn sections_read_back_what_was_trained() {
    let rows: Vec<f32> = Clusters::new(65, 3).rows(300, 0);
    let query: Vec<f32> = Clusters::new(65, 3).rows(1, 1);
    for metric in Metric::ALL {
        for quantizer in quantizers(&rows, 65, metric) {
            let bytes = quantizer.to_bytes();
            let again = open(&bytes).unwrap();
            assert_eq!(format!("{again:?}"), format!("{quantizer:?}"));
            assert_eq!(again.to_bytes(), bytes);
            let view = MatrixView::new(&rows, 65).unwrap();
            let codes = CodeTable::from_vectors(&*quantizer, view, &pool());
            let read = CodeTable::from_vectors(&*again, view, &pool());
            assert_eq!(read.words(), codes.words());
            let (mut ours, mut theirs) = ([0.0; 300], [0.0; 300]);
            quantizer.query(&query).estimate_rows(|i| read.row(i), &mut ours);
            again.query(&query).estimate_rows(|i| codes.row(i), &mut theirs);
            assert_eq!(ours, theirs);
        }
    }
}

/// Planned sizes hold the trained quantizer, and are not much larger if all directions are coded.
#[test]
fn quantizers_take_no_more_than_is_said() {
    for dimension in [3, 65, 200] {
        let rows: Vec<f32> = Clusters::new(dimension, 3).rows(300, 0);
        for quantizer in quantizers(&rows, dimension, Metric::L2) {
            let (said, bytes) =
                (quantizer.quantization().quantizer_bytes(dimension), quantizer.to_bytes().len());
            assert!(said + 64 > bytes, "{dimension}, {quantizer:?}: {said}, {bytes}");
        }
    }
    let (mixed, directions) = (Quantization::Mixed { sectors: 4 }.quantizer_bytes(384), 384 * 384 * 4);
    assert!((directions..directions * 11 / 10).contains(&mixed), "{mixed}");
}

#[test]
fn damaged_sections_are_refused() {
    let rows: Vec<f32> = Clusters::new(65, 3).rows(300, 0);
    for quantizer in quantizers(&rows, 65, Metric::L2) {
        let bytes = quantizer.to_bytes();
        for len in (0..bytes.len()).step_by(bytes.len().div_ceil(200)) {
            assert!(matches!(open(&bytes[..len]), Err(DecodeError::Short { .. })), "{len}");
        }
        let longer = [&bytes[..], &[0; 4]].concat();
        assert_eq!(open(&longer).unwrap_err(), DecodeError::Long(4));
        // Every word of the header at its maximum is an error or read as another number, never a panic.
        for at in (0..bytes.len().min(600)).step_by(4) {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].fill(0xff);
            let _: Result<_, DecodeError> = open(&damaged);
        }
    }
}

#[test]
fn training_says_what_is_wrong() {
    let rows = [1.0_f32, 2.0, 3.0, f32::NAN];
    let view = |rows| MatrixView::new(rows, 2).unwrap();
    let train = |rows, bits| Rabitq::train(view(rows), &RabitqParams::new(Metric::L2, bits)).unwrap_err();
    assert_eq!(train(&rows[..2], 9).to_string(), "bits (9) must be between 1 and 8");
    assert_eq!(train(&rows[..0], 1), TrainError::TooFewVectors { given: 0, min: 1 });
    assert!(matches!(train(&rows, 1), TrainError::Matrix(_)));
    let mixed = |rows, sectors| {
        Mixed::train(view(rows), &MixedParams { metric: Metric::L2, sectors, seed: 0 }, &pool()).unwrap_err()
    };
    assert_eq!(mixed(&rows[..2], 1), TrainError::TooFewVectors { given: 1, min: 2 });
    assert_eq!(mixed(&[1.0; 4], 17).to_string(), "sectors (17) must be between 1 and 16");
}
