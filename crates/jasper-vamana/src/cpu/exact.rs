//! Exact nearest neighbors by brute force over all live vertices.

use jasper_core::{Element, MatrixView, Neighbor, Progress, ProgressFn, Slot, Stage, padded_len};
use jasper_graph::{Graph, Scorer};
use rayon::prelude::*;

use crate::{CpuExecutor, SearchError};

/// Slots between two reports of progress.
const PASS: usize = 1 << 16;
/// Vectors that are compared with all queries of a task while they are in cache.
const BLOCK: usize = 256;
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
    pub fn nearest<T: Element>(
        &self,
        graph: &Graph<T>,
        queries: MatrixView<'_, T>,
        k: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        assert!(k > 0, "k is at least 1");
        graph.require_vectors()?;
        let prepared = graph.vectors().prepare_all(queries)?;
        let mut lists: Vec<List<'_, T>> = prepared
            .chunks_exact(padded_len::<T>(graph.dimension()))
            .map(|row| List { scorer: graph.vectors().scorer(row), k, nearest: Vec::new() })
            .collect();
        let total = graph.slots();
        for first in (0..total).step_by(PASS) {
            Progress { stage: Stage::Scanning, done: first, total }.report(progress)?;
            let slots = (first..total.min(first + PASS)).map(Slot::from_index);
            let slots: Vec<Slot> = slots.filter(|&slot| graph.keys().is_live(slot)).collect();
            self.pool().install(|| {
                lists.par_chunks_mut(QUERIES_PER_TASK).for_each(|lists| {
                    let mut distances = [0.0; BLOCK];
                    for block in slots.chunks(BLOCK) {
                        lists.iter_mut().for_each(|list| list.offer(block, &mut distances[..block.len()]));
                    }
                });
            });
        }
        Progress { stage: Stage::Scanning, done: total, total }.report(progress)?;
        Ok(lists.into_iter().map(List::finish).collect())
    }
}

/// The nearest vertices to one query so far.
struct List<'a, T: Element> {
    scorer: Scorer<'a, T>,
    k: usize,
    nearest: Vec<Neighbor>,
}

impl<T: Element> List<'_, T> {
    fn offer(&mut self, slots: &[Slot], distances: &mut [f32]) {
        self.scorer.score(slots, distances);
        // A full list ends with its farthest vertex.
        let farthest = if self.nearest.len() < self.k { Neighbor::NONE } else { self.nearest[self.k - 1] };
        let near = slots.iter().zip(&*distances).map(|(&slot, &distance)| Neighbor::new(distance, slot));
        self.nearest.extend(near.filter(|&near| near < farthest));
        if self.nearest.len() >= self.k {
            self.nearest.select_nth_unstable(self.k - 1);
            self.nearest.truncate(self.k);
        }
    }

    fn finish(mut self) -> Vec<Neighbor> {
        self.nearest.sort_unstable();
        self.nearest
    }
}
