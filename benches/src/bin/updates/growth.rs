//! An index that grows by inserts.

use std::error::Error;

use jasper::{Element, Key};

use crate::bench::Bench;
use jasper_benches::step;

/// The inverse of the share of vectors that is built, and of the share inserted per step.
const BUILT: usize = 20;
const INSERTED: usize = 50;
/// Number of clusters: each vector belongs to the nearest of as many sampled vectors.
const PIVOTS: usize = 256;

/// Builds the first vectors of `order`, and inserts the others.
pub fn grow<T: Element>(bench: &Bench<T>, order: &[Key]) -> Result<(), Box<dyn Error>> {
    let (built, rest) = order.split_at(order.len() / BUILT);
    let index = bench.fresh("build", built)?;
    for keys in rest.chunks((order.len() / INSERTED).max(1)) {
        let rows = bench.gather(keys);
        step("insert", keys.len(), || Ok(index.insert(bench.view(&rows), keys)?))?;
    }
    let mut all = order.to_vec();
    all.sort_unstable();
    bench.search("after growth", &index, &all)?;
    drop(index);
    drop(bench.fresh("fresh build", &all)?);
    Ok(())
}

/// All keys, sorted by cluster.
pub fn sorted<T: Element>(bench: &Bench<T>) -> Vec<Key> {
    let rows = bench.rows.view();
    let step = (rows.len() / PIVOTS).max(1);
    let squared_l2 = T::distance_fns().squared_l2;
    let nearest_pivot = |row: usize| {
        let pivots = (0..rows.len()).step_by(step);
        let distance = |pivot: usize| squared_l2(rows.row(row), rows.row(pivot));
        pivots.min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let pivots = bench.for_each_row(nearest_pivot);
    let mut order: Vec<Key> = (0..rows.len() as Key).collect();
    order.sort_by_key(|&key| pivots[key as usize]);
    order
}
