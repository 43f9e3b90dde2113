//! Exact nearest neighbors by brute force over all live vertices.

use jasper_core::{Element, Neighbor, Progress, ProgressFn, Slot, Stage, VectorView, with_element};
use jasper_data::parallel;
use jasper_graph::{DistanceComputer, Graph};

use crate::top_k::TopK;
use crate::{CpuExecutor, SearchError, check_elements};

/// Slots between two reports of progress.
const SLOTS_PER_REPORT: usize = 1 << 16;
/// Vectors that are compared with all queries of a task while they are in cache.
const VECTORS_PER_CHUNK: usize = 256;
/// Queries per task.
const QUERIES_PER_TASK: usize = 16;

impl CpuExecutor {
    /// The exact `k` nearest live vertices of every query, or as many as there are, sorted by (distance, vertex).
    /// Distances are those that searches of the graph return.
    ///
    /// Computes a distance for each query and live vertex, on all threads.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    ///
    /// # Panics
    /// Panics if `k` is 0.
    pub fn nearest(
        &self,
        graph: &Graph,
        queries: &[VectorView<'_>],
        k: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        assert!(k > 0, "k is at least 1");
        graph.require_vectors()?;
        check_elements(graph, queries)?;
        with_element!(graph.element(), T => self.nearest_of::<T>(graph, queries, k, progress))
    }

    /// [`Self::nearest`], for queries of the element type of the graph.
    fn nearest_of<T: Element>(
        &self,
        graph: &Graph,
        queries: &[VectorView<'_>],
        k: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let vectors = graph.vectors();
        let prepared = vectors.prepare_all::<T>(queries.iter().map(VectorView::of))?;
        let prepared = prepared.chunks_exact(vectors.padded_dimension());
        let mut lists: Vec<(DistanceComputer<'_, T>, TopK)> =
            prepared.map(|query| (vectors.distance_computer(query), TopK::new(k))).collect();
        let total = graph.slots();
        for first in (0..total).step_by(SLOTS_PER_REPORT) {
            Progress { stage: Stage::Scanning, done: first, total }.report(progress)?;
            let slots = (first..total.min(first + SLOTS_PER_REPORT)).map(Slot::from_index);
            let slots: Vec<Slot> = slots.filter(|&slot| graph.keys().is_live(slot)).collect();
            parallel::map_on(Some(self.pool()), lists.chunks_mut(QUERIES_PER_TASK), |lists| {
                let mut distances = [0.0; VECTORS_PER_CHUNK];
                for chunk in slots.chunks(VECTORS_PER_CHUNK) {
                    let distances = &mut distances[..chunk.len()];
                    for (computer, nearest) in &mut *lists {
                        computer.compute(chunk, distances);
                        let near = chunk.iter().zip(&*distances);
                        near.for_each(|(&slot, &distance)| nearest.add(Neighbor::new(distance, slot)));
                    }
                }
            });
        }
        Progress { stage: Stage::Scanning, done: total, total }.report(progress)?;
        Ok(lists.into_iter().map(|(_, nearest)| nearest.into_sorted()).collect())
    }
}
