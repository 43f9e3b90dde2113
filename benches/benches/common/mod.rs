//! Ground truth, so that benches check the results that they time.

use jasper::{Element, Hit, Index, Key, MatrixView, SearchParams};
use jasper_core::no_progress;
use jasper_core::recall::recall_at;
use jasper_data::{GroundTruth, ThreadPoolBuilder, exact_knn};

/// Dimension of all sets.
pub const DIMENSION: usize = 128;
/// Results per query.
pub const K: usize = 10;

/// A view of rows of [`DIMENSION`] coordinates.
pub fn view<T: Element>(rows: &[T]) -> MatrixView<'_, T> {
    MatrixView::new(rows, DIMENSION).expect("whole rows")
}

/// The exact nearest neighbors of queries among the vectors of an index.
pub struct Exact {
    /// The keys of the rows of `truth`, ascending.
    keys: Vec<Key>,
    truth: GroundTruth,
}

impl Exact {
    /// Computes them by brute force.
    pub fn new<T: Element>(index: &Index, queries: MatrixView<'_, T>) -> Self {
        let mut keys: Vec<Key> = index.keys();
        keys.sort_unstable();
        let vectors = keys.iter().flat_map(|&key| index.vector(key).expect("a key of its own"));
        let rows: Vec<T> = vectors.map(T::from_f32).collect();
        let pool = ThreadPoolBuilder::new().build().expect("a process may start threads");
        let truth = exact_knn(view(&rows), queries, K, index.stats().metric, &pool, &mut no_progress)
            .expect("K rows and more");
        Self { keys, truth }
    }

    /// Mean recall of `hits`, [`K`] per query. Panics if a key is not in the index.
    pub fn recall(&self, hits: &[Hit]) -> f64 {
        let recalls = hits.chunks_exact(K).enumerate().map(|(query, hits)| {
            let row =
                |hit: &Hit| self.keys.binary_search(&hit.key).expect("hits have keys of the index") as u64;
            recall_at(K, &hits.iter().map(row).collect::<Vec<_>>(), self.truth.truth(query))
        });
        recalls.sum::<f64>() / self.truth.len() as f64
    }
}

/// Searches for [`K`] hits per query.
pub fn search<T: Element>(index: &Index, queries: MatrixView<'_, T>, beam_width: usize) -> Vec<Hit> {
    let matches = index.search_batch(queries, SearchParams::new(K).beam_width(beam_width));
    matches.expect("as many as the beam is wide").iter().flatten().collect()
}
