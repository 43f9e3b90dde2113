//! Recall after changes, beside that of an index built from the remaining vectors.

use std::time::Instant;

use anyhow::Result;
use jasper::{Index, Key, OpenOptions};
use jasper_core::synthetic::{permutation, rng};
use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};
use serde_json::{Value, json};

use crate::measure::rounded;
use crate::set::{Bench, Set, round};

/// Beam widths at which recall is compared.
const WIDTHS: [usize; 3] = [32, 64, 128];
/// Parts in which an index grows.
const GROWTH_PARTS: usize = 10;
/// Parts of the rows that are replaced one after another while the mean drifts, and the distance that it goes, in
/// standard deviations of a coordinate.
const DRIFT_PARTS: usize = 8;
const DRIFT: f32 = 4.0;

/// Makes each change on an index like `built`, consolidates, and calls `report` with a line.
pub fn measure(
    bench: &Bench,
    set: &Set,
    built: &Index,
    report: &mut dyn FnMut(Value) -> Result<()>,
) -> Result<()> {
    let file = built.to_bytes()?;
    for (change, deleted) in deletes(set) {
        let left =
            set.part(set.keys.iter().copied().filter(|key| deleted.binary_search(key).is_err()).collect());
        let options = OpenOptions::new().device(bench.device);
        let begun = Instant::now();
        let index = options.open_bytes(&file)?;
        index.delete(&deleted)?;
        index.consolidate()?;
        report(compare(bench, change, begun, &index, &left)?)?;
    }
    let begun = Instant::now();
    let index = grow(bench, set)?;
    report(compare(bench, "grow from a tenth", begun, &index, set)?)?;
    let begun = Instant::now();
    let (index, left) = drift(bench, set)?;
    report(compare(bench, "drift of the mean", begun, &index, &left)?)
}

/// Names of deletes, and the keys that they delete, ascending.
fn deletes(set: &Set) -> [(&'static str, Vec<Key>); 4] {
    let (mean, _) = moments(set);
    let mut random = rng(7);
    let direction: Vec<f32> = mean.iter().map(|_| StandardNormal.sample(&mut random)).collect();
    let share = |percent: usize, value: &dyn Fn(f32, usize) -> f32| {
        let place = |&key: &Key| set.row(key).iter().enumerate().map(|(i, x)| value(*x, i)).sum::<f32>();
        let mut places: Vec<(f32, Key)> = set.keys.iter().map(|key| (place(key), *key)).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut keys: Vec<Key> = places[..places.len() * percent / 100].iter().map(|place| place.1).collect();
        keys.sort_unstable();
        keys
    };
    let mut half: Vec<Key> = permutation(set.keys.len(), 7).into_iter().map(Key::from).collect();
    half.truncate(half.len() / 2);
    half.sort_unstable();
    [
        ("delete the longest 30%", share(30, &|x, _| -x * x)),
        ("delete the inner 30%", share(30, &|x, i| (x - mean[i]) * (x - mean[i]))),
        ("delete a half space", share(50, &|x, i| (x - mean[i]) * direction[i])),
        ("delete 50% at random", half),
    ]
}

/// Builds on the first tenth, and inserts the others part by part.
fn grow(bench: &Bench, set: &Set) -> Result<Index> {
    let len = set.keys.len().div_ceil(GROWTH_PARTS);
    let mut parts = set.keys.chunks(len);
    let (index, _) = set.part(parts.next().unwrap_or_default().to_vec()).build(bench.device)?;
    for keys in parts {
        insert(&index, set, keys)?;
    }
    index.consolidate()?;
    Ok(index)
}

/// Builds on the first half, and replaces it part by part by the second, which moves away. Returns the index and what is
/// left in it, with queries of all places.
fn drift(bench: &Bench, set: &Set) -> Result<(Index, Set)> {
    let (_, deviation) = moments(set);
    let mut random = rng(9);
    let direction: Vec<f32> =
        (0..set.dimension).map(|_| if random.random() { deviation } else { -deviation }).collect();
    let (old, new) = set.keys.split_at(set.keys.len() / 2);
    let new = &new[..old.len()];
    let mut moved = set.part(new.to_vec());
    let len = new.len().div_ceil(DRIFT_PARTS);
    let distance = |part: usize| DRIFT * (part + 1) as f32 / DRIFT_PARTS as f32;
    for (part, rows) in moved.rows.chunks_mut(len * set.dimension).enumerate() {
        shift(rows, &direction, distance(part));
    }
    for (number, query) in moved.queries.chunks_mut(set.dimension).enumerate() {
        shift(query, &direction, distance(number % DRIFT_PARTS));
    }
    round(set.element, &mut moved.rows);
    round(set.element, &mut moved.queries);
    let (index, _) = set.part(old.to_vec()).build(bench.device)?;
    for (old, new) in old.chunks(len).zip(new.chunks(len)) {
        insert(&index, &moved, new)?;
        index.delete(old)?;
        index.consolidate()?;
    }
    Ok((index, moved))
}

/// Inserts rows of the set.
fn insert(index: &Index, set: &Set, keys: &[Key]) -> Result<()> {
    index.insert(set.part(keys.to_vec()).rows(), keys)?;
    Ok(())
}

fn shift(rows: &mut [f32], direction: &[f32], distance: f32) {
    for row in rows.chunks_exact_mut(direction.len()) {
        row.iter_mut().zip(direction).for_each(|(x, d)| *x += distance * d);
    }
}

/// A line with recalls of the index after a change, and of one built from the remaining vectors.
fn compare(bench: &Bench, change: &str, begun: Instant, index: &Index, left: &Set) -> Result<Value> {
    let change_seconds = begun.elapsed().as_secs_f64();
    let truth = bench.truth(left)?;
    let (rebuilt, rebuild_seconds) = left.build(bench.device)?;
    let points = WIDTHS.map(|width| -> Result<Value> {
        let [after, fresh] = [index, &rebuilt].map(|index| left.recall(index, &truth, width));
        Ok(json!([width, rounded(after?), rounded(fresh?)]))
    });
    Ok(json!({
        "what": "change", "set": left.name, "change": change, "device": bench.device.to_string(),
        "rows": left.keys.len(), "seconds": rounded(change_seconds), "rebuild_seconds": rounded(rebuild_seconds),
        "mean_degree": rounded(index.check()?.mean_degree), "points": points.into_iter().collect::<Result<Vec<_>>>()?,
    }))
}

/// The mean of the rows, and the standard deviation of a coordinate from it.
fn moments(set: &Set) -> (Vec<f32>, f32) {
    let mut sums = vec![0.0_f64; set.dimension];
    for row in set.rows().rows() {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let mean: Vec<f32> = sums.iter().map(|sum| (sum / set.keys.len() as f64) as f32).collect();
    let squares = set.rows.iter().zip(mean.iter().cycle()).map(|(x, mean)| f64::from(x - mean).powi(2));
    let variance = squares.sum::<f64>() / set.rows.len() as f64;
    (mean, variance.sqrt() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::SETS;
    use jasper::Device;

    #[test]
    fn every_change_is_beside_a_new_index() {
        let bench = Bench::new(Device::CPU, 201).unwrap();
        let set = bench.make(&SETS[0]);
        let (index, _) = set.build(bench.device).unwrap();
        let mut rows = Vec::new();
        measure(&bench, &set, &index, &mut |line| {
            assert!(line["points"][0][1].as_f64() > Some(0.9), "{line}");
            rows.push(line["rows"].as_u64().unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!(rows, [141, 141, 101, 101, 201, 100]);
    }
}
