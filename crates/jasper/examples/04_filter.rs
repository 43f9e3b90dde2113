//! Searches among some keys only: by a predicate, and by a set.

use std::error::Error;

use jasper::{Filter, IndexBuilder, KeyFilter, MatrixView, Metric, SearchParams, bench::synthetic::Clusters};

#[doc(hidden)]
pub fn main() -> Result<(), Box<dyn Error>> {
    let rows: Vec<i8> = Clusters::new(24, 4).rows(4_000, 0);
    let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&rows, 24)?)?;
    let query = &rows[..24];

    // Whatever can be asked of a key.
    let even = |key| key % 2 == 0;
    let hits = index.search(query, SearchParams::new(10).filter(Filter::Predicate(&even)))?;
    assert!(hits.len() == 10 && hits.iter().all(|hit| hit.key % 2 == 0));

    // A set of keys, prepared once. So few pass that the search scans them all: the answer is exact.
    let few: KeyFilter = (0..4_000).step_by(100).collect();
    let params = SearchParams::new(5).filter(Filter::Keys(&few));
    let hits = index.search(query, params)?;
    println!("nearest of {}: {:?}", few.len(), hits.iter().map(|hit| hit.key).collect::<Vec<_>>());
    let distance = |key: &usize| {
        let differences = rows[key * 24..].iter().zip(query).map(|(&a, &b)| i32::from(a) - i32::from(b));
        differences.map(|x| x * x).sum::<i32>()
    };
    let mut exact: Vec<usize> = (0..4_000).step_by(100).collect();
    exact.sort_by_key(|key| (distance(key), *key));
    assert!(hits.iter().zip(&exact).all(|(hit, &key)| hit.key == key as u64));

    // A filter that all pass changes nothing.
    let all = |_| true;
    let filtered = index.search(query, SearchParams::new(10).filter(Filter::Predicate(&all)))?;
    assert_eq!(filtered, index.search(query, SearchParams::new(10))?);
    Ok(())
}
