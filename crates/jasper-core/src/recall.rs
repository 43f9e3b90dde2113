//! Recall@k, counting ties.
//!
//! As in big-ann-benchmarks: the fraction of the `k` results that are among the true `k` nearest *or tie with the k-th
//! of them*. A repeated id counts once. Ground truth should therefore hold more than `k` neighbors.

use crate::{Key, NO_KEY};

/// The true neighbors of one query, nearest first. `I` is u32 as in ground-truth files, or [`Key`].
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a, I = u32> {
    /// Ids of the true neighbors.
    pub ids: &'a [I],
    /// The distances of the neighbors. Without distances, ties are not counted.
    pub distances: Option<&'a [f32]>,
}

impl<I> Truth<'_, I> {
    /// The number of leading entries that count as correct at `k`: the first `k`, and those that tie with the k-th.
    fn accepted(&self, k: usize) -> usize {
        let Some(distances) = self.distances else { return k.min(self.ids.len()) };
        let Some(&last) = k.checked_sub(1).and_then(|i| distances.get(i)) else { return self.ids.len() };
        k + distances[k..].iter().take_while(|&&d| d == last).count()
    }
}

/// Computes recall@k of one query, from 0 to 1.
///
/// Only the first `k` of `found` count. With fewer than `k` true neighbors, recall is relative to their number; with
/// none it is 1.
///
/// ```
/// use jasper_core::recall::{Truth, recall_at};
/// let truth = Truth { ids: &[4_u32, 9, 2], distances: Some(&[0.5, 1.0, 1.0]) };
/// assert_eq!(recall_at(2, &[4, 2], truth), 1.0); // 2 ties with 9
/// assert_eq!(recall_at(2, &[4, 4], truth), 0.5); // a repeated id counts once
/// ```
pub fn recall_at<I: Copy + Into<u64>>(k: usize, found: &[u64], truth: Truth<'_, I>) -> f64 {
    let expected = k.min(truth.ids.len());
    if expected == 0 {
        return 1.0;
    }
    let right = &truth.ids[..truth.accepted(k)];
    let found = &found[..k.min(found.len())];
    let hits = right.iter().filter(|&&id| found.contains(&id.into())).count();
    hits.min(expected) as f64 / expected as f64
}

/// Mean recall@k of a batch, from 0 to 1: `keys` are those found, `k` per query, of which [`NO_KEY`] ends a query's,
/// and `truth` returns the true neighbors of the query of a number. See [`recall_at`].
///
/// ```
/// use jasper_core::NO_KEY;
/// use jasper_core::recall::{Truth, mean_recall};
/// let truths = [[7_u32, 8], [4, 9]];
/// let truth = |query: usize| Truth { ids: &truths[query], distances: None };
/// assert_eq!(mean_recall(&[7, 8, 9, NO_KEY], 2, truth), 0.75);
/// ```
///
/// # Panics
/// Panics if `k` is 0.
pub fn mean_recall<'a, I: Copy + Into<u64> + 'a>(
    keys: &[Key],
    k: usize,
    truth: impl Fn(usize) -> Truth<'a, I>,
) -> f64 {
    let recalls = keys.chunks_exact(k).enumerate().map(|(query, keys)| {
        let found = keys.iter().position(|&key| key == NO_KEY).map_or(keys, |end| &keys[..end]);
        recall_at(k, found, truth(query))
    });
    recalls.sum::<f64>() / (keys.len() / k) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_right() {
        let truth = Truth { ids: &[1_u32, 2, 3, 4], distances: Some(&[1.0, 2.0, 2.0, 3.0]) };
        assert_eq!(recall_at(2, &[1, 3], truth), 1.0);
        assert_eq!(recall_at(2, &[3, 2], truth), 1.0);
        assert_eq!(recall_at(2, &[4, 9], truth), 0.0);
        assert_eq!(recall_at(3, &[1, 2], truth), 2.0 / 3.0);
        assert_eq!(recall_at(9, &[4, 3, 2, 1], truth), 1.0);
        assert_eq!(recall_at(2, &[], truth), 0.0);
        let bare = Truth { distances: None, ..truth };
        assert_eq!(recall_at(2, &[1, 3], bare), 0.5);
        assert_eq!(recall_at(0, &[], bare), 1.0);
        let keys = Truth { ids: &[u64::MAX - 1, 5], distances: None };
        assert_eq!(recall_at(2, &[5, u64::MAX], keys), 0.5);
    }
}
