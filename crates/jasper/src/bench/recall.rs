//! Recall: the share of true neighbors that were found.

pub use jasper_core::recall::{Truth, recall_at};
use jasper_core::{Key, NO_KEY};

/// Mean recall@k of a batch, from 0 to 1: `keys` are those of [`Matches`](crate::Matches), `k` per query, and `truth`
/// returns the true neighbors of the query of a number, such as [`GroundTruth::truth`](crate::data::GroundTruth::truth);
/// see [`recall_at`].
///
/// ```
/// use jasper::bench::recall::mean_recall;
/// use jasper::data::{ThreadPoolBuilder, exact_knn};
/// use jasper::{IndexBuilder, MatrixView, Metric, SearchParams, no_progress};
///
/// let vectors = MatrixView::new(&[0_u8, 0, 3, 4, 3, 5, 9, 9], 2)?;
/// let pool = ThreadPoolBuilder::new().build()?;
/// let truth = exact_knn(vectors, vectors, 2, Metric::L2, &pool, &mut no_progress)?;
/// let found = IndexBuilder::new(Metric::L2).build(&vectors)?.search_batch(vectors, SearchParams::new(2))?;
/// assert_eq!(mean_recall(found.keys(), 2, |query| truth.truth(query)), 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
