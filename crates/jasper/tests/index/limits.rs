//! Limits of searches hold for every method, and on every backend that the index moves to.

use jasper::{Device, Error, Metric, SearchLimits, SearchParams, Target};
use jasper_core::synthetic::Clusters;
use jasper_vamana::SearchError;

use crate::common::{small, view};

const DIMENSION: usize = 8;

#[test]
fn every_search_is_limited() {
    let vectors: Vec<u8> = Clusters::new(DIMENSION, 3).rows(300, 0);
    let index = small(Metric::L2).build(view(&vectors, DIMENSION)).unwrap();
    index.set_limits(SearchLimits::new().max_k(10).max_beam_width(80).max_queries(3));
    let index = index.to_device(Device::CPU).unwrap();
    let (query, batch) =
        (&vectors[..DIMENSION], |queries: usize| view(&vectors[..queries * DIMENSION], DIMENSION));
    let most = SearchParams::new(10).beam_width(80);
    assert_eq!(index.search(query, most).unwrap().len(), 10);
    assert_eq!(index.search(Target::key(0), most).unwrap().len(), 10);
    assert_eq!(index.search_batch(batch(3), most).unwrap().keys().len(), 30);
    assert!(index.submit(query, most).is_ok());

    let exceeded = |error: Error| match error.downcast() {
        Ok(SearchError::Limit { name, value, max }) => (name, value, max),
        other => panic!("{other:?}"),
    };
    for (params, limit) in [
        (SearchParams::new(11), ("k", 11, 10)),
        (SearchParams::new(usize::MAX), ("k", usize::MAX, 10)),
        (SearchParams::new(10).beam_width(81), ("beam_width", 81, 80)),
    ] {
        assert_eq!(exceeded(index.search(query, params).unwrap_err()), limit);
        assert_eq!(exceeded(index.search(Target::key(0), params).unwrap_err()), limit);
        assert_eq!(exceeded(index.search(Target::within(query, 1.0), params).unwrap_err()), limit);
        assert_eq!(exceeded(index.search_batch(batch(1), params).unwrap_err()), limit);
        assert_eq!(exceeded(index.search_batch_into(batch(1), params, &mut [], &mut []).unwrap_err()), limit);
        assert_eq!(exceeded(index.submit(query, params).err().unwrap()), limit);
    }
    assert_eq!(exceeded(index.search_batch(batch(4), most).unwrap_err()), ("the number of queries", 4, 3));
    // All vectors are within the radius: more than may be found.
    assert_eq!(
        exceeded(index.search(Target::within(query, f32::MAX), SearchParams::new(10)).unwrap_err()),
        ("k", 20, 10)
    );
    index.set_limits(SearchLimits::new());
    assert_eq!(
        index.search(Target::within(query, f32::MAX), SearchParams::new(10)).unwrap().len(),
        index.len()
    );
}
