//! Searches among some of the keys, given by a predicate or by a set.

use std::error::Error;

use jasper::{IndexBuilder, Key, KeyFilter, MatrixView, Metric, SearchParams};
use jasper_core::synthetic::Clusters;

fn main() -> Result<(), Box<dyn Error>> {
    let rows: Vec<i8> = Clusters::new(24, 4).rows(4_000, 0);
    let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&rows, 24)?)?;
    let query = &rows[..24];

    // A predicate on keys.
    let even = |key: Key| key.is_multiple_of(2);
    let hits = index.search(query, SearchParams::new(10).filter(&even))?;
    assert!(hits.len() == 10 && hits.iter().all(|hit| even(hit.key)));

    // A set of keys, prepared once and used often. So few keys pass here that the search scans all of them, and is
    // exact.
    let few: KeyFilter = (0..4_000).step_by(100).collect();
    let params = SearchParams::new(5).filter(&few);
    let hits = index.search(query, params)?;
    println!("nearest of {}: {:?}", few.len(), hits.iter().map(|hit| hit.key).collect::<Vec<_>>());
    let distance = |key: &usize| {
        let differences = rows[key * 24..].iter().zip(query).map(|(&a, &b)| i32::from(a) - i32::from(b));
        differences.map(|x| x * x).sum::<i32>()
    };
    let mut exact: Vec<usize> = (0..4_000).step_by(100).collect();
    exact.sort_by_key(|key| (distance(key), *key));
    assert!(hits.iter().zip(&exact).all(|(hit, &key)| hit.key == key as u64));

    // A large set of keys of any size, such as 63-bit hashes.
    let hash = |id: u64| id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
    let keys: Vec<u64> = (0..4_000).map(hash).collect();
    let hashed = IndexBuilder::new(Metric::L2).keys(&keys).build(MatrixView::new(&rows, 24)?)?;
    let allowed: KeyFilter = (2_000..102_000).map(hash).collect();
    let hits = hashed.search(query, SearchParams::new(10).filter(&allowed))?;
    assert_eq!((allowed.len(), hits.len()), (100_000, 10));
    assert!(hits.iter().all(|hit| keys[2_000..].contains(&hit.key)));

    // A filter that all keys pass changes nothing.
    let all = |_| true;
    let filtered = index.search(query, SearchParams::new(10).filter(&all))?;
    assert_eq!(filtered, index.search(query, SearchParams::new(10))?);
    Ok(())
}
