//! An index that grows by inserts.

use std::error::Error;

use jasper::{Element, Key};

use crate::bench::Bench;
use jasper_benches::step;

/// Parts of the vectors: one of so many is built, and one of so many inserted at a time.
const BUILT: usize = 20;
const INSERTED: usize = 50;
/// Vectors by which near ones are told: each of the others is with the nearest of these.
const PIVOTS: usize = 256;

/// Builds the first vectors of `order`, and inserts the others.
pub fn grow<T: Element>(bench: &Bench<T>, order: &[Key]) -> Result<(), Box<dyn Error>> {
    let (built, rest) = order.split_at(order.len() / BUILT);
    let index = bench.fresh("build", built)?;
    for keys in rest.chunks((order.len() / INSERTED).max(1)) {
        let rows = bench.gather(keys);
        step("insert", keys.len(), || Ok(index.insert(&bench.view(&rows), keys)?))?;
    }
    let mut all = order.to_vec();
    all.sort_unstable();
    bench.search("after growth", &index, &all)?;
    drop(index);
    drop(bench.fresh("fresh build", &all)?);
    Ok(())
}

/// All keys, those of near vectors together.
pub fn sorted<T: Element>(bench: &Bench<T>) -> Vec<Key> {
    let rows = bench.rows.view();
    let step = (rows.len() / PIVOTS).max(1);
    let squared_l2 = T::kernels().squared_l2;
    let nearest_pivot = |row: usize| {
        let pivots = (0..rows.len()).step_by(step);
        let far = |pivot: usize| squared_l2(rows.row(row), rows.row(pivot));
        pivots.min_by(|&a, &b| far(a).total_cmp(&far(b))).unwrap_or(0)
    };
    let pivots = bench.for_each_row(nearest_pivot);
    let mut order: Vec<Key> = (0..rows.len() as Key).collect();
    order.sort_by_key(|&key| pivots[key as usize]);
    order
}
