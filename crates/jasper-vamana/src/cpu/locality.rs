//! The order in which the queries of a batch are searched for: near ones after each other.
//!
//! A search reads hundreds of vectors, and near queries share many of them. In the given order, these have left the
//! cache when they are read again; in an order of nearness, they have not. Results do not depend on the order.

use jasper_core::Element;
use jasper_data::{ThreadPool, parallel};

/// Groups of at most this many rows are not split.
const LEAF: usize = 8;
/// Vectors sampled to find two that are far apart.
const SAMPLE: usize = 16;
/// Vectors sampled for a mean.
const MEAN_SAMPLE: usize = 64;
/// Rounds of two-means. Of the vectors read by 256 consecutive queries, the share that only one of these reads falls
/// from 0.59 without to 0.44 with two rounds, on vectors of dictionary entries
/// (docs/notebook/experiments.md#cpu-order-by-locality).
const REFINEMENTS: usize = 2;

/// The indices of `rows` in an order where neighbors are near each other.
///
/// Halves the rows into two clusters of equal size (two-means, from two far rows), and the halves again. This takes
/// nine passes over the rows for each of the log2(n / 8) levels, on the threads of the pool.
pub(crate) fn order_by_nearness<T: Element>(pool: &ThreadPool, rows: &[&[T]]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    halve(pool, rows, &mut order, &mut vec![(0.0, 0); rows.len()]);
    order
}

/// Halves larger than this are tasks of the thread pool.
const TASK_LEN: usize = 512;

fn halve<T: Element>(pool: &ThreadPool, rows: &[&[T]], items: &mut [u32], differences: &mut [(f32, u32)]) {
    if items.len() <= LEAF {
        return;
    }
    let middle = items.len() / 2;
    let (mut one, mut other) = far_pair(rows, items);
    for round in 0..=REFINEMENTS {
        if round > 0 {
            one = mean(rows, &items[..middle]);
            other = mean(rows, &items[middle..]);
        }
        let distance = T::distance_fns().squared_l2;
        for (difference, &item) in differences.iter_mut().zip(&*items) {
            let row = rows[item as usize];
            *difference = (distance(&one, row) - distance(&other, row), item);
        }
        differences.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        items.iter_mut().zip(&*differences).for_each(|(item, difference)| *item = difference.1);
    }
    let ((left, right), (left_differences, right_differences)) =
        (items.split_at_mut(middle), differences.split_at_mut(middle));
    let halves = [(left, left_differences), (right, right_differences)];
    let halve = |(items, differences): (&mut [u32], &mut [_])| halve(pool, rows, items, differences);
    if middle > TASK_LEN {
        parallel::map_on(Some(pool), halves, halve);
    } else {
        halves.into_iter().for_each(halve);
    }
}

/// Two vectors of a sample that are far apart.
fn far_pair<T: Element>(rows: &[&[T]], items: &[u32]) -> (Vec<T>, Vec<T>) {
    let distance = T::distance_fns().squared_l2;
    let farthest = |from: &[T]| {
        let sample = items.iter().step_by(items.len().div_ceil(SAMPLE)).map(|&item| rows[item as usize]);
        sample.max_by(|a, b| distance(from, a).total_cmp(&distance(from, b))).unwrap_or(from).to_vec()
    };
    let one = farthest(rows[items[0] as usize]);
    let other = farthest(&one);
    (one, other)
}

/// The mean of a sample. The mean of all rows would cost more than the distances to it.
fn mean<T: Element>(rows: &[&[T]], items: &[u32]) -> Vec<T> {
    let sample = items.iter().step_by(items.len().div_ceil(MEAN_SAMPLE));
    let count = sample.len() as f32;
    let mut sums = vec![0.0_f32; rows[0].len()];
    for &item in sample {
        sums.iter_mut().zip(rows[item as usize]).for_each(|(sum, x)| *sum += x.to_f32());
    }
    sums.iter().map(|sum| T::from_f32(sum / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::synthetic::Clusters;

    #[test]
    fn neighbors_in_the_order_are_near() {
        let data: Vec<f32> = Clusters::new(16, 3).rows(1000, 0);
        let rows: Vec<&[f32]> = data.chunks_exact(16).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let order = order_by_nearness(&pool, &rows);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>(), "a permutation");
        let step = |order: &[u32]| -> f64 {
            order
                .windows(2)
                .map(|w| {
                    f64::from((f32::distance_fns().squared_l2)(rows[w[0] as usize], rows[w[1] as usize]))
                })
                .sum()
        };
        assert!(step(&order) * 3.0 < step(&(0..1000).collect::<Vec<_>>()));
    }

    #[test]
    fn equal_and_few_rows_are_fine() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for n in [0, 1, 5, 100] {
            assert_eq!(order_by_nearness(&pool, &vec![&[7_u8; 16][..]; n]).len(), n);
        }
    }
}
