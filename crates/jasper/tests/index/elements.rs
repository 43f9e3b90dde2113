//! Vectors and queries of another element type than the index.

use jasper::{Element, Index, IndexBuilder, Key, MatrixView, Metric, NewKeys, SearchParams, Vectors, f16};
use jasper_core::MatrixError;
use jasper_core::synthetic::Clusters;
use jasper_graph::VectorError;
use jasper_vamana::SearchError;

use crate::common::{bytes_of, floats, small, view};

const DIMENSION: usize = 8;

/// Rows that every element type holds exactly.
fn rows<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 23).rows(count, seed);
    rows.iter().map(|&x| T::from_f32(f32::from(x / 2))).collect()
}

/// An index of `T` that was changed by vectors of `F`.
fn changed<T: Element, F: Element>() -> Index {
    let index = small(Metric::L2).build(view(&rows::<T>(300, 0), DIMENSION)).unwrap();
    let more: Vec<F> = rows(200, 1);
    let keys: Vec<Key> = (1000..1100).collect();
    index.insert(view(&more[..100 * DIMENSION], DIMENSION), &keys).unwrap();
    index.insert(&more[100 * DIMENSION..101 * DIMENSION], &[5000]).unwrap();
    index.upsert(view(&more[101 * DIMENSION..103 * DIMENSION], DIMENSION), &[5000, 7]).unwrap();
    index.insert(view(&more[103 * DIMENSION..], DIMENSION), NewKeys::NEXT).unwrap();
    assert_eq!(index.vector(7), Some(floats(&more[102 * DIMENSION..103 * DIMENSION])));
    index
}

fn equals_its_own<T: Element, F: Element>() {
    let (index, own) = (changed::<T, F>(), changed::<T, T>());
    assert!(bytes_of(&index) == bytes_of(&own), "{} in {}", F::KIND, T::KIND);
    let (others, queries) = (rows::<F>(30, 2), rows::<T>(30, 2));
    let params = SearchParams::new(5);
    let found = index.search_batch(view(&others, DIMENSION), params).unwrap();
    assert_eq!(found, own.search_batch(view(&queries, DIMENSION), params).unwrap());
    let one = index.search(&others[..DIMENSION], params).unwrap();
    assert_eq!(one, own.search(&queries[..DIMENSION], params).unwrap());
}

#[test]
fn every_element_is_taken_by_every_index() {
    fn in_all<F: Element>() {
        equals_its_own::<f32, F>();
        equals_its_own::<f16, F>();
        equals_its_own::<u8, F>();
        equals_its_own::<i8, F>();
    }
    in_all::<f32>();
    in_all::<f16>();
    in_all::<u8>();
    in_all::<i8>();
}

#[test]
fn what_an_index_cannot_hold_is_refused_with_its_row() {
    let index = small(Metric::L2).build(view(&rows::<u8>(300, 0), DIMENSION)).unwrap();
    let before = bytes_of(&index);
    for count in [10, 3000] {
        let mut more: Vec<f32> = rows(count, 1);
        more[7 * DIMENSION + 3] = -20.0;
        let keys: Vec<Key> = (1000..1000 + count as Key).collect();
        let is_named = |error: &VectorError| {
            matches!(error, VectorError::Matrix(MatrixError::Value { row: 7, column: 3, value: -20.0, .. }))
        };
        let error = index.insert(view(&more, DIMENSION), &keys).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(error) if is_named(error)), "{error:?}");
        let error = index.search_batch(view(&more, DIMENSION), SearchParams::new(1)).unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(SearchError::Vector(error)) if is_named(error)),
            "{error:?}"
        );
    }
    // Unit vectors are nearly zero in bytes.
    let unit = [0.35_f32; DIMENSION];
    let error = index.search(&unit, SearchParams::new(1)).unwrap_err().to_string();
    assert!(error.contains("would change by 100% of its length when it is rounded to u8"), "{error}");
    assert!(bytes_of(&index) == before);
}

#[test]
fn a_build_takes_the_element_of_its_source() {
    let rows: Vec<f16> = rows(300, 0);
    let rows = MatrixView::new(&rows, DIMENSION).unwrap();
    let index = IndexBuilder::new(Metric::Cosine).build(Vectors::from_source(&rows)).unwrap();
    assert_eq!(index.stats().element, f16::KIND);
    assert_eq!(index.stats().element, f16::KIND);
}
