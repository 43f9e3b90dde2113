//! How many of the true neighbours were found.

use jasper_core::Key;
pub use jasper_core::recall::{Truth, recall_at};
use jasper_vamana::Hit;

/// Mean recall@k of `hits`, which lie `k` a query as a batch of searches leaves them. `truth` is what is true of each
/// query; see [`recall_at`].
///
/// # Panics
/// If `k` is 0.
pub fn mean_recall<'a, I: Copy + Into<u64> + 'a>(
    hits: &[Hit],
    k: usize,
    truth: impl Fn(usize) -> Truth<'a, I>,
) -> f64 {
    let recalls = hits.chunks_exact(k).enumerate().map(|(query, hits)| {
        let answers: Vec<Key> = hits.iter().filter(|hit| **hit != Hit::NONE).map(|hit| hit.key).collect();
        recall_at(k, &answers, truth(query))
    });
    recalls.sum::<f64>() / (hits.len() / k) as f64
}
