//! Recall: the share of true neighbors that were found.

pub use jasper_core::recall::{Truth, recall_at};
use jasper_core::{Key, NO_KEY};

/// Mean recall@k of a batch: `keys` are those of [`Matches`](crate::Matches), `k` per query, and `truth` returns the
/// true neighbors of a query; see [`recall_at`].
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
