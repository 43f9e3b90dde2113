//! Degenerate sets, and invalid input.

use std::path::Path;
use std::time::Duration;

use jasper::{
    Device, Element, ElementKind, Index, IndexBuilder, Key, KeyFilter, MatrixView, Metric, NO_KEY, NewKeys,
    Quantization, QuantizeMode, SearchParams, f16,
};
use jasper_core::MatrixError;
use jasper_core::synthetic::Clusters;
use jasper_graph::{Graph, KeyError, VectorError};
use jasper_vamana::{SearchError, UpdateError};

use crate::common::{SearchHits, assert_exact, bytes_of, everything, for_each_element, keys, small, view};

fn check_all<T: Element>(index: &Index, rows: &[T], dimension: usize) {
    assert!(index.check().unwrap().is_sound(), "{:?}", index.check().unwrap());
    assert_eq!(index.len(), rows.len() / dimension);
    for query in rows.chunks_exact(dimension).take(8) {
        let hits = everything(index, query);
        assert_eq!(hits.len(), index.len());
        assert_exact(index.stats().metric, query, &hits, (0..).zip(rows.chunks_exact(dimension)));
    }
}

fn few_rows<T: Element>() {
    for metric in Metric::ALL {
        for n in [0, 1, 2, 3, 16, 17] {
            let rows: Vec<T> = Clusters::new(5, 1).rows(n, 0);
            let index = small(metric).build(view(&rows, 5)).unwrap();
            check_all(&index, &rows, 5);
            let grown = small(metric).empty(T::KIND, 5).unwrap();
            for (key, row) in rows.chunks_exact(5).enumerate() {
                let report = grown.insert(view(row, 5), &[key as Key]).unwrap();
                assert_eq!((report.keys, report.duplicates), (1, 0));
            }
            check_all(&grown, &rows, 5);
        }
    }
}

#[test]
fn an_empty_index_refuses_options_that_need_vectors() {
    let builder = IndexBuilder::new(Metric::L2);
    let path = Path::new("empty.checkpoint");
    for (builder, option) in [
        (builder.clone().keys(&[1]), "keys"),
        (builder.clone().checkpoint(path, Duration::MAX), "checkpoint"),
        (builder.clone().quantize(Quantization::Rabitq { bits: 1 }), "quantize"),
        (builder.clone().quantize(QuantizeMode::Auto(Device::AUTO)), "quantize"),
    ] {
        let error = builder.empty(ElementKind::F32, 3).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{option} needs vectors")), "{error}");
    }
    // It holds for later inserts.
    builder.exact_linking(true).empty(ElementKind::F32, 3).unwrap();
}

/// A few expansions find fewer than `k` vertices of a graph of low degree.
#[test]
fn a_beam_narrower_than_k_leaves_no_result_out() {
    let rows: Vec<f32> = Clusters::new(8, 3).rows(400, 0);
    let index = small(Metric::L2).build(view(&rows, 8)).unwrap();
    for beam_width in [1, 3] {
        let params = SearchParams::new(100).beam_width(beam_width);
        for query in rows.chunks_exact(8).take(20) {
            assert_eq!(index.search(query, params).unwrap().len(), 100, "beam width {beam_width}");
        }
        let matches = index.search_batch(view(&rows[..160], 8), params).unwrap();
        assert!(matches.keys().iter().all(|&key| key != NO_KEY), "beam width {beam_width}");
    }
}

#[test]
fn no_threads_are_too_few() {
    let rows = view(&[0_u8; 8], 4);
    let error = IndexBuilder::new(Metric::L2).threads(0).build(rows).unwrap_err();
    assert_eq!(error.to_string(), "threads (0) must be at least 1; leave it out for one per CPU");
    assert_eq!(IndexBuilder::new(Metric::L2).threads(None).build(rows).unwrap().len(), 2);
}

#[test]
fn sets_of_few_rows_are_searched_whole() {
    for_each_element!(few_rows);
}

fn degrees<T: Element>() {
    for metric in Metric::ALL {
        for max_degree in [1, 2, 3, 1024] {
            let rows: Vec<T> = Clusters::new(6, 2).rows(300, 0);
            let builder = IndexBuilder::new(metric).max_degree(max_degree).build_beam_width(4).threads(2);
            let index = builder.build(view(&rows[..6 * 200], 6)).unwrap();
            check_all(&index, &rows[..6 * 200], 6);
            index.insert(view(&rows[6 * 200..], 6), NewKeys::NEXT).unwrap();
            check_all(&index, &rows, 6);
            index.delete(&(0..90).collect::<Vec<_>>()).unwrap();
            index.consolidate().unwrap();
            assert!(index.check().unwrap().is_sound(), "{max_degree}: {:?}", index.check().unwrap());
            assert_eq!(everything(&index, &rows[..6]).len(), 210);
        }
    }
}

#[test]
fn any_degree_leaves_every_vector_in_reach() {
    for_each_element!(degrees);
}

#[test]
fn one_dimension_and_the_most_there_are() {
    for metric in [Metric::L2, Metric::InnerProduct] {
        let line: Vec<i8> = (-100..100).collect();
        check_all(&small(metric).build(view(&line, 1)).unwrap(), &line, 1);
    }
    let most = 1 << 15;
    let bytes: Vec<u8> =
        (0..12 * most).map(|i| if i % most < most / 2 { 255 } else { (i / most * 20) as u8 }).collect();
    let floats: Vec<f32> = bytes.iter().map(|&x| f32::from(x) - 100.0).collect();
    for metric in Metric::ALL {
        check_all(&small(metric).build(view(&bytes, most)).unwrap(), &bytes, most);
        check_all(&small(metric).build(view(&floats, most)).unwrap(), &floats, most);
    }
    assert!(matches!(MatrixView::new(&[0_u8; (1 << 15) + 1], most + 1), Err(MatrixError::Dimension(_))));
    for dimension in [0, most + 1] {
        let error = small(Metric::L2).empty(ElementKind::U8, dimension).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(MatrixError::Dimension(_))), "{error}");
    }
}

fn equal_rows<T: Element>() {
    for metric in Metric::ALL {
        let rows: Vec<T> = [3.0, 1.0, 2.0].map(T::from_f32).repeat(500);
        let index = small(metric).build(view(&rows[..900], 3)).unwrap();
        assert_eq!((index.len(), index.stats().live_vertices), (300, 1));
        let report = index.insert(view(&rows[900..], 3), &(300..500).collect::<Vec<_>>()).unwrap();
        assert_eq!((report.keys, report.duplicates, index.stats().live_vertices), (200, 200, 1));
        check_all(&index, &rows, 3);
        // `k` is less than the number of copies.
        assert_eq!(keys(&index.search(&rows[..3], SearchParams::new(7)).unwrap()), [0, 1, 2, 3, 4, 5, 6]);
        index.delete(&(0..499).collect::<Vec<_>>()).unwrap();
        assert_eq!(keys(&everything(&index, &rows[..3])), [499]);
        assert_eq!(index.consolidate().unwrap().freed, 0, "the vertex has a key yet");
        // Keys that it had before are forgotten nevertheless.
        assert!(index.undelete(&[7]).is_err() && index.stats().deleted_keys == 0);
        index.insert(view(&rows[..3], 3), &[7]).unwrap();
        assert_eq!(keys(&everything(&index, &rows[..3])), [499, 7]);
        index.delete(&[7, 499]).unwrap();
        assert_eq!(index.consolidate().unwrap().freed, 1);
        assert!(everything(&index, &rows[..3]).is_empty() && index.check().unwrap().is_sound());
    }
}

#[test]
fn rows_that_are_all_equal_are_one_vertex() {
    for_each_element!(equal_rows);
}

/// As of the empty text in a set of embeddings: no record of a change may hold all keys of the vertex.
#[test]
fn a_hundred_thousand_copies_come_and_go() {
    const COPIES: usize = 100_000;
    let rows: Vec<u8> = Clusters::new(4, 5).rows(300, 0);
    let index = small(Metric::L2).build(view(&rows, 4)).unwrap();
    let one: KeyFilter = [7].into_iter().collect();
    let filtered = SearchParams::new(1).filter(&one);
    assert_eq!(keys(&index.search(&rows[..4], filtered).unwrap()), [7]);
    let copies = rows[..4].repeat(COPIES);
    let report = index.insert(view(&copies, 4), NewKeys::NEXT).unwrap();
    assert_eq!((report.duplicates, index.stats().live_vertices), (COPIES, 300));
    let nearest = index.search(&rows[..4], SearchParams::new(3)).unwrap();
    assert_eq!(keys(&nearest), [0, 300, 301]);
    let all: Vec<Key> = (300..300 + COPIES as Key).collect();
    // The filter looks up a slot that changed many times once.
    assert_eq!(keys(&index.search(&rows[..4], filtered).unwrap()), [7]);
    // The oldest first, then the newest.
    index.delete(&all[..COPIES / 2]).unwrap();
    let newest: Vec<Key> = all[COPIES / 2..].iter().rev().copied().collect();
    newest.chunks(10_000).for_each(|keys| assert_eq!(index.delete(keys).unwrap(), keys.len()));
    assert_eq!(keys(&index.search(&rows[..4], filtered).unwrap()), [7]);
    check_all(&index, &rows, 4);
}

#[test]
fn a_quarter_of_copies_hides_nobody() {
    let set = Clusters::new(8, 3);
    let mut rows: Vec<u8> = set.rows(3000, 0);
    for i in 0..720 {
        let (from, to) = (i % 6 * 8, (i * 4 + 40) * 8);
        rows.copy_within(from..from + 8, to);
    }
    let index = small(Metric::L2).max_degree(16).build(view(&rows[..8 * 2000], 8)).unwrap();
    index.insert(view(&rows[8 * 2000..], 8), NewKeys::NEXT).unwrap();
    assert!(index.stats().live_vertices <= 3000 - 720);
    check_all(&index, &rows, 8);
    // There are more copies than the frontier holds, and a few other rows.
    let copies = rows.chunks_exact(8).filter(|row| *row == &rows[..8]).count();
    let hits = index.search(&rows[..8], SearchParams::new(copies + 10)).unwrap();
    assert_eq!(hits.iter().filter(|hit| hit.distance == 0.0).count(), copies);
    assert_eq!(hits.len(), copies + 10);
}

fn zero_vectors<T: Element>() {
    let rows: Vec<T> = Clusters::new(4, 4).rows(50, 0);
    let mut with_zero = rows.clone();
    with_zero[80..84].fill(T::default());
    for metric in [Metric::L2, Metric::InnerProduct] {
        let index = small(metric).build(view(&with_zero, 4)).unwrap();
        check_all(&index, &with_zero, 4);
        assert_eq!(everything(&index, &[T::default(); 4]).len(), 50);
    }
    let error = small(Metric::Cosine).build(view(&with_zero, 4)).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(VectorError::ZeroVector { row: 20 })), "{error}");
    let index = small(Metric::Cosine).build(view(&rows, 4)).unwrap();
    let before = bytes_of(&index);
    let error = index.insert(view(&with_zero, 4), NewKeys::NEXT).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(VectorError::ZeroVector { row: 20 })), "{error}");
    let error = index.search(&[T::default(); 4], SearchParams::new(1)).unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(SearchError::Vector(VectorError::ZeroVector { .. }))),
        "{error}"
    );
    assert!(bytes_of(&index) == before);
}

#[test]
fn zero_vectors_have_a_length_and_no_direction() {
    for_each_element!(zero_vectors);
}

fn refuse_not_finite<T: Element>(bad: T) {
    for metric in Metric::ALL {
        let good: Vec<T> = Clusters::new(4, 5).rows(40, 0);
        let mut rows = good.clone();
        rows[4 * 7 + 2] = bad;
        let is_named = |error: &VectorError, row| matches!(error, VectorError::Matrix(MatrixError::NotFinite { row: at, column: 2, .. }) if *at == row);
        let error = small(metric).build(view(&rows, 4)).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(error) if is_named(error, 7)), "{error}");
        let index = small(metric).build(view(&good, 4)).unwrap();
        let before = bytes_of(&index);
        let fresh: Vec<Key> = (100..140).collect();
        for result in [index.insert(view(&rows, 4), &fresh), index.upsert(view(&rows, 4), &fresh)] {
            assert!(
                matches!(result.as_ref().unwrap_err().downcast_ref(), Some(error) if is_named(error, 7)),
                "{result:?}"
            );
        }
        let error = index.search_hits(view(&rows, 4), SearchParams::new(3)).unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(SearchError::Vector(vector)) if is_named(vector, 7)),
            "{error}"
        );
        assert!(bytes_of(&index) == before);
        check_all(&index, &good, 4);
    }
}

#[test]
fn values_that_are_not_finite_are_refused() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        refuse_not_finite(bad);
        refuse_not_finite(f16::from_f32(bad));
    }
    let long = [1e19_f32; 4];
    let error = small(Metric::L2).build(view(&long, 4)).unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(VectorError::TooLong { row: 0, .. })), "{error}");
}

#[test]
fn searches_refuse_what_cannot_be_answered() {
    let rows: Vec<f32> = Clusters::new(4, 6).rows(30, 0);
    let index = small(Metric::L2).build(view(&rows, 4)).unwrap();
    let query = &rows[..4];
    let refuse = |params| index.search(query, params).unwrap_err();
    assert!(matches!(refuse(SearchParams::new(0)).downcast_ref(), Some(SearchError::ZeroK)));
    let error = refuse(SearchParams::new(10).beam_width(0));
    assert_eq!(error.to_string(), "beam_width (0) must be at least 1");
    let error = index.search(&[] as &[f32], SearchParams::new(1)).unwrap_err();
    assert!(error.to_string().contains("dimension (0) must be"), "{error}");
    for wrong in [&rows[..3], &rows[..5]] {
        let error = index.search(wrong, SearchParams::new(1)).unwrap_err();
        assert!(
            matches!(
                error.downcast_ref(),
                Some(SearchError::Vector(VectorError::Dimension { expected: 4, .. }))
            ),
            "{error}"
        );
    }
    let error = index.search_hits(view(&rows, 5), SearchParams::new(1)).unwrap_err();
    assert!(
        matches!(
            error.downcast_ref(),
            Some(SearchError::Vector(VectorError::Dimension { given: 5, expected: 4, .. }))
        ),
        "{error}"
    );
    let mut hits = vec![jasper::Hit::NONE; 59];
    let error = index.search_hits_into(view(&rows, 4), SearchParams::new(2), &mut hits).unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(SearchError::Buffer { given: 59, queries: 30, k: 2 })),
        "{error}"
    );
}

#[test]
fn asking_for_more_than_there_is_gives_all() {
    let rows: Vec<f32> = Clusters::new(4, 6).rows(30, 0);
    let index = small(Metric::L2).build(view(&rows, 4)).unwrap();
    for k in [30, 31, 4096, 1 << 20] {
        assert_eq!(index.search(&rows[..4], SearchParams::new(k)).unwrap().len(), 30, "k = {k}");
    }
    // Numbers that a program may compute by mistake.
    for k in [usize::MAX / 16, usize::MAX] {
        let params = SearchParams::new(k).beam_width(usize::MAX);
        assert_eq!(index.search(&rows[..4], params).unwrap().len(), 30, "k = {k}");
        assert!(
            matches!(
                index.search_hits(view(&rows, 4), params).unwrap_err().downcast_ref(),
                Some(SearchError::Memory { queries: 30, .. })
            ),
            "k = {k}"
        );
    }
    let wide = index.search(&rows[..4], SearchParams::new(3).beam_width(4096)).unwrap();
    assert_eq!(wide, index.search(&rows[..4], SearchParams::new(3).beam_width(30)).unwrap());
    let hits = index.search_hits(view(&rows, 4), SearchParams::new(40)).unwrap();
    for hits in hits.chunks_exact(40) {
        assert!(
            hits[..30].iter().all(|hit| hit.key < 30)
                && hits[30..].iter().all(|hit| *hit == jasper::Hit::NONE)
        );
    }
    assert_eq!(index.search_hits(view::<f32>(&[], 4), SearchParams::new(3)).unwrap(), []);
}

#[test]
fn a_build_with_the_widest_frontier_is_a_build() {
    let rows: Vec<u8> = Clusters::new(4, 7).rows(400, 0);
    let index =
        IndexBuilder::new(Metric::L2).build_beam_width(4096).max_degree(20).build(view(&rows, 4)).unwrap();
    check_all(&index, &rows, 4);
}

#[test]
fn keys_that_cannot_be_are_refused() {
    let rows: Vec<f32> = Clusters::new(4, 8).rows(10, 0);
    let rows = view(&rows, 4);
    let build = |keys: &[Key]| small(Metric::L2).keys(keys).build(rows).unwrap_err();
    let with = |last: Key| [0, 1, 2, 3, 4, 5, 6, 7, 8, last];
    assert!(matches!(build(&with(3)).downcast_ref(), Some(UpdateError::RepeatedKey(3))));
    assert!(matches!(build(&with(NO_KEY)).downcast_ref(), Some(KeyError::Reserved)));
    assert!(matches!(build(&[1, 2]).downcast_ref(), Some(UpdateError::KeyCount { keys: 2, vectors: 10 })));

    let index = small(Metric::L2).build(rows).unwrap();
    let before = bytes_of(&index);
    let fresh = |last: Key| [20, 21, 22, 23, 24, 25, 26, 27, 28, last];
    for (keys, message) in [
        (&fresh(5)[..], "key 5 is in the index already; use upsert to replace its vector"),
        (&fresh(21), "key 21 is given twice"),
        (&fresh(NO_KEY), "is reserved for missing results; use any other"),
        (&[1, 2, 3], "3 keys for 10 vectors; give one key per vector"),
    ] {
        let error = index.insert(rows, keys).unwrap_err().to_string();
        assert!(error.ends_with(message), "{error}");
    }
    assert!(matches!(
        index.upsert(rows, &fresh(NO_KEY)).unwrap_err().downcast_ref(),
        Some(KeyError::Reserved)
    ));
    assert!(matches!(
        index.upsert(rows, &fresh(20)).unwrap_err().downcast_ref(),
        Some(UpdateError::RepeatedKey(20))
    ));
    let wrong = [0.0; 10 * 5];
    let error = index.insert(view(&wrong, 5), &fresh(29)).unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(VectorError::Dimension { given: 5, expected: 4, .. })),
        "{error}"
    );
    assert!(matches!(index.delete(&[1, 99]).unwrap_err().downcast_ref(), Some(KeyError::Unknown(99))));
    assert!(matches!(
        index.delete(&[1, 2, 1]).unwrap_err().downcast_ref(),
        Some(UpdateError::RepeatedKey(1))
    ));
    assert!(matches!(index.delete(&[NO_KEY]).unwrap_err().downcast_ref(), Some(KeyError::Unknown(NO_KEY))));
    assert!(matches!(index.undelete(&[1]).unwrap_err().downcast_ref(), Some(KeyError::Live(1))));
    assert!(matches!(index.undelete(&[99]).unwrap_err().downcast_ref(), Some(KeyError::Unknown(99))));
    assert!(bytes_of(&index) == before, "nothing that was refused has changed anything");

    index.delete(&[1]).unwrap();
    assert!(matches!(index.delete(&[1]).unwrap_err().downcast_ref(), Some(KeyError::Deleted(1))));
    assert!(matches!(index.delete(&[2, 1]).unwrap_err().downcast_ref(), Some(KeyError::Deleted(1))));
    assert!(index.contains(2) && !index.contains(1) && index.vector(1).is_none());
}

#[test]
fn the_largest_key_is_a_key() {
    let rows: Vec<f32> = Clusters::new(4, 8).rows(3, 0);
    let index = small(Metric::L2).keys(&[NO_KEY - 3, 7, 9]).build(view(&rows, 4)).unwrap();
    let more = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    assert_eq!(
        index.insert(view(&more, 4), NewKeys::NEXT).unwrap().first_key,
        Some(NO_KEY - 2),
        "two keys are left"
    );
    let before = bytes_of(&index);
    let error = index.insert(view(&[9.0; 4], 4), NewKeys::NEXT).unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(KeyError::NoneLeft { count: 1, last }) if *last == NO_KEY - 1)
    );
    assert!(bytes_of(&index) == before);
    assert!(index.contains(NO_KEY - 1));
    let nothing = index.insert(view::<f32>(&[], 4), NewKeys::NEXT).unwrap();
    assert_eq!(
        (nothing.keys, nothing.first_key, index.stats().next_key),
        (0, None, NO_KEY),
        "no rows need no key"
    );
}

fn empty_and_back<T: Element>() {
    for metric in Metric::ALL {
        let rows: Vec<T> = Clusters::new(4, 9).rows(120, 0);
        let index = small(metric).build(view(&rows[..400], 4)).unwrap();
        let all: Vec<Key> = (0..100).collect();
        index.delete(&all).unwrap();
        assert!(index.is_empty() && index.search(&rows[..4], SearchParams::new(5)).unwrap().is_empty());
        let filter = |_| true;
        let filtered = SearchParams::new(5).filter(&filter);
        assert!(index.search(&rows[..4], filtered).unwrap().is_empty());
        index.undelete(&all[..50]).unwrap();
        assert_eq!(everything(&index, &rows[..4]).len(), 50);
        index.delete(&all[..50]).unwrap();
        // Rows that are there, under keys that were: into a graph of nothing but the deleted.
        let report = index.insert(view(&rows[..40], 4), &all[..10]).unwrap();
        // A search by inner product for a short row leads past it.
        assert!(report.duplicates >= if metric == Metric::InnerProduct { 3 } else { 10 });
        assert_eq!(keys(&everything(&index, &rows[..4])).len(), 10);
        index.delete(&all[..10]).unwrap();
        assert_eq!(index.consolidate().unwrap().freed, 110 - report.duplicates);
        assert!(index.search(&rows[..4], SearchParams::new(5)).unwrap().is_empty());
        assert!(matches!(index.undelete(&[3]).unwrap_err().downcast_ref(), Some(KeyError::Unknown(3))));
        assert_eq!(index.consolidate().unwrap().freed, 0);
        let keys: Vec<Key> = (0..120).collect();
        index.insert(view(&rows, 4), &keys).unwrap();
        check_all(&index, &rows, 4);
        assert_eq!((index.stats().free_slots, index.stats().tombstones), (0, 0));
        index.delete(&keys).unwrap();
        index.consolidate().unwrap();
        index.compact().unwrap();
        assert_eq!((index.stats().free_slots, index.read_graph(Graph::slots).unwrap()), (0, 0));
        index.insert(view(&rows, 4), &keys).unwrap();
        check_all(&index, &rows, 4);
        assert_eq!(index.stats().next_key, 120, "a key is never given out again");
    }
}

#[test]
fn an_index_can_be_emptied_and_filled_again() {
    for_each_element!(empty_and_back);
}

#[test]
fn the_start_point_may_go() {
    let rows: Vec<u8> = Clusters::new(4, 10).rows(300, 0);
    let index = small(Metric::L2).build(view(&rows, 4)).unwrap();
    let mut live: Vec<Key> = (0..300).collect();
    while live.len() > 3 {
        let key = index
            .read_graph(|graph| graph.keys().keys_of(graph.adjacency().start_points()[0]).next().unwrap())
            .unwrap();
        // With what lies around it, so that no neighbor can take its place.
        let around =
            index.search(&rows[4 * key as usize..][..4], SearchParams::new(live.len() / 4 + 1)).unwrap();
        let gone = keys(&around);
        assert!(gone.contains(&key));
        index.delete(&gone).unwrap();
        live.retain(|key| !gone.contains(key));
        let mut found = keys(&everything(&index, &rows[..4]));
        found.sort_unstable();
        assert_eq!(found, live, "before the consolidation");
        index.consolidate().unwrap();
        assert!(index.check().unwrap().is_sound(), "{:?}", index.check().unwrap());
        let mut found = keys(&everything(&index, &rows[..4]));
        found.sort_unstable();
        assert_eq!(found, live, "after it");
    }
}

#[test]
fn deleted_keys_come_back_until_they_are_consolidated() {
    let rows: Vec<f32> = Clusters::new(4, 11).rows(60, 0);
    let row = |key: usize| &rows[4 * key..][..4];
    let index = small(Metric::L2).build(view(&rows, 4)).unwrap();
    index.delete(&[3, 4, 5, 6]).unwrap();
    index.undelete(&[3]).unwrap();
    assert_eq!(index.search(row(3), SearchParams::new(1)).unwrap()[0].key, 3);
    // A deleted key may get another vector. Its old one can then not be restored.
    index.insert(view(&[9.0; 4], 4), &[4]).unwrap();
    assert!(matches!(index.undelete(&[4]).unwrap_err().downcast_ref(), Some(KeyError::Live(4))));
    index.delete(&[4]).unwrap();
    index.undelete(&[4]).unwrap();
    assert_eq!(index.vector(4), Some(vec![9.0; 4]));
    // Or to the same vector again.
    index.insert(view(row(5), 4), &[5]).unwrap();
    assert_eq!(index.search(row(5), SearchParams::new(1)).unwrap()[0].key, 5);
    // The same vector over itself.
    index.upsert(view(row(5), 4), &[5]).unwrap();
    assert_eq!(index.vector(5), Some(row(5).to_vec()));
    assert_eq!(everything(&index, row(5)).iter().filter(|hit| hit.key == 5).count(), 1);
    assert!(index.check().unwrap().is_sound());
    index.consolidate().unwrap();
    assert!(matches!(index.undelete(&[6]).unwrap_err().downcast_ref(), Some(KeyError::Unknown(6))));
    assert_eq!(index.len(), 59);
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn calls_about_nothing_change_nothing() {
    let rows: Vec<f32> = Clusters::new(4, 12).rows(20, 0);
    let index = small(Metric::L2).build(view(&rows, 4)).unwrap();
    let before = bytes_of(&index);
    assert_eq!(index.insert(view::<f32>(&[], 4), &[]).unwrap().keys, 0);
    assert_eq!(index.upsert(view::<f32>(&[], 4), &[]).unwrap().keys, 0);
    assert_eq!(index.insert(view::<f32>(&[], 4), NewKeys::NEXT).unwrap().first_key, None);
    assert_eq!(index.stats().next_key, 20);
    index.delete(&[]).unwrap();
    index.undelete(&[]).unwrap();
    assert_eq!(index.consolidate().unwrap().freed, 0);
    assert_eq!(index.compact().unwrap().freed, 0);
    assert!(bytes_of(&index) == before);
}
