//! What a search looks for: all keys within a radius, in batches too, and the next hits of a search.

use jasper::attributes::{Frame, column};
use jasper::{
    Device, ErrorKind, Filter, Index, Key, KeyFilter, Metric, NewKeys, Pages, SearchLimits, SearchParams,
    Target,
};
use jasper_core::synthetic::Clusters;

use super::common::{everything, keys, small, view};

const DIMENSION: usize = 16;

/// The same vectors in one graph, on the device of the tests, and in shards.
fn indexes(set: &[f32]) -> [Index; 3] {
    let years = Frame::new(set.len() / DIMENSION).column("year", 0..(set.len() / DIMENSION) as i64).unwrap();
    let build = |shards| {
        let builder = small(Metric::L2).attributes(&years).shards(shards);
        builder.device(Device::CPU).build(view(set, DIMENSION)).unwrap()
    };
    [build(1), build(1).to_device(Device::AUTO).unwrap(), build(3)]
}

#[test]
fn a_batch_within_a_radius_finds_what_each_query_finds() {
    let clusters = Clusters::new(DIMENSION, 17);
    let (set, queries): (Vec<f32>, Vec<f32>) = (clusters.rows(900, 0), clusters.rows(30, 1));
    let params = SearchParams::new(2).beam_width(900);
    for index in indexes(&set) {
        // From 2 hits, which one search finds, to several hundred.
        let farthest = everything(&index, &queries[..DIMENSION]);
        for radius in [0.0, farthest[1].distance, farthest[500].distance] {
            let found =
                index.search_batch(Target::within(view(&queries, DIMENSION), radius), params).unwrap();
            assert_eq!(found.queries(), 30);
            let mut most = 1;
            for (query, hits) in queries.chunks(DIMENSION).zip(found.iter()) {
                let mut expected = everything(&index, query);
                expected.retain(|hit| hit.distance <= radius);
                most = most.max(expected.len());
                assert_eq!(hits.collect::<Vec<_>>(), expected);
            }
            assert_eq!(found.k(), most);
        }
        // Each query has its own filter, also where some are searched for again.
        let thirds = [0, 1, 2].map(|third| KeyFilter::from_iter((0..900).filter(|key| key % 3 == third)));
        let filters: Vec<Filter<'_>> = (0..30).map(|query| Filter::from(&thirds[query % 3])).collect();
        let target = Target::within(view(&queries, DIMENSION), farthest[500].distance);
        let found = index.search_batch(target, params.filter(&filters[..])).unwrap();
        let all = index.search_batch(target, params).unwrap();
        for (query, hits) in found.iter().enumerate() {
            let expected = all.hits(query).filter(|hit| hit.key % 3 == query as Key % 3);
            assert!(hits.eq(expected));
        }
        let error = index.search_batch(target, params.filter(&filters[1..])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(index.search_batch(Target::key(5), SearchParams::new(3)).unwrap().iter().count(), 1);
    }
}

#[test]
fn pages_have_every_key_once_in_the_order_of_one_search() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 5).rows(700, 0);
    let query = &set[..DIMENSION];
    for index in indexes(&set) {
        let all = everything(&index, query);
        let wide = SearchParams::new(150).beam_width(700);
        let read = |pages: Pages<'_>| pages.map(Result::unwrap).collect::<Vec<_>>();
        let pages = read(Pages::new(&index, query, wide));
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [150, 150, 150, 150, 100]);
        assert_eq!(pages.concat(), all);
        let radius = all[330].distance;
        let within = read(Pages::new(&index, Target::within(query, radius), wide)).concat();
        assert_eq!(within, all[..=330]);
        assert_eq!(read(Pages::new(&index, Target::key(0), wide)).concat(), all[1..]);
        let old = column("year").lt(90);
        let mut pages = Pages::new(&index, query, wide.k(40).filter(&old)).after(keys(&all[..200]));
        let expected: Vec<_> = all[200..].iter().filter(|hit| hit.key < 90).copied().collect();
        assert_eq!(pages.by_ref().map(Result::unwrap).collect::<Vec<_>>().concat(), expected);
        assert!(pages.next().is_none());
    }
}

#[test]
fn pages_follow_changes_and_never_repeat_a_key() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 6).rows(400, 0);
    let query = &set[..DIMENSION];
    let [index, ..] = indexes(&set);
    let wide = SearchParams::new(100).beam_width(400);
    let all = keys(&everything(&index, query));
    let mut pages = Pages::new(&index, query, wide);
    let mut next = || keys(&pages.next().unwrap().unwrap());
    assert_eq!(next(), all[..100]);
    // One that was returned goes, one that was not goes, and one comes that is nearer than all.
    index.delete(&[all[50], all[150]]).unwrap();
    index.insert(query, NewKeys::from(&[1000])).unwrap();
    let expected: Vec<Key> =
        [1000].into_iter().chain(all[100..].iter().copied().filter(|&key| key != all[150])).collect();
    assert_eq!(next(), expected[..100]);
    index.set_limits(SearchLimits::new().max_k(250));
    let error = pages.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    assert!(pages.next().is_none(), "an error is the end");
    let mut pages = Pages::new(&index, query, SearchParams::new(0)).after([1]);
    assert_eq!(pages.next().unwrap().unwrap_err().kind(), ErrorKind::InvalidParameter);
    let none = Target::within(view(&set[..0], DIMENSION), 1.0);
    assert!(index.search_batch(none, SearchParams::new(0)).is_err());
}

#[test]
fn a_device_pages_and_finds_within_a_radius_as_many_as_its_widest_beam() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 8).rows(1100, 0);
    let query = &set[..DIMENSION];
    for index in indexes(&set) {
        let most = index.device_info().max_beam_width;
        let pages: Vec<_> = Pages::new(&index, query, SearchParams::new(300).beam_width(1000)).collect();
        let lens: Vec<_> = pages.iter().map(|page| page.as_ref().map_or(0, Vec::len)).collect();
        let target = Target::within(view(query, DIMENSION), f32::MAX);
        let within = index.search_batch(target, SearchParams::new(10));
        if most >= 1100 {
            assert_eq!((lens, within.unwrap().hits(0).count()), (vec![300, 300, 300, 200], 1100));
            continue;
        }
        assert_eq!(lens, [300, 300, 300, most - 900, 0]);
        for error in [pages.into_iter().last().unwrap().unwrap_err(), within.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidParameter);
            assert!(error.to_string().contains("a query has more than the 1024 hits"), "{error}");
        }
    }
}
