//! The loop of a bulk build over the batches of its vertices, with progress and checkpoints.
//!
//! ```text
//! link each vertex into the graph so far; its search begins at the start points           (LinkMode::Bulk)
//! raise the beam width if the graph misses neighbors                                      (effort)
//! choose the edges of each vertex again; its search begins at the vertex, and the edges
//!     that it has are candidates too                                                      (LinkMode::Refine)
//! prune each row again, and add the reverse of each remaining edge                        (LinkMode::Reverse)
//! link vertices to which few edges lead again, with a wide beam                           (LinkMode::Overlooked)
//! reconnect what is unreachable
//! ```
//!
//! The first search for a vertex sees a part of the graph, and from afar misses some vertices that are near. The second
//! begins among the neighbors, so that half the beam width finds more in two passes than the whole in one
//! (docs/notebook/experiments.md#two-passes). A vertex whose edges are chosen again loses those from vertices chosen
//! before, which the third pass adds again.

use jasper_core::{BuildParams, Metric, Progress, ProgressFn, Slot, Stage};
use jasper_graph::Graph;

use crate::checkpoint::CheckpointWriter;
use crate::effort::adapt_to_build;
use crate::overlooked::relink_overlooked;
use crate::pipeline::{LinkMode, find_edges_while, publish};
use crate::reconnect::reconnect;
use crate::{
    CheckpointError, Checkpoints, Executor, Linked, MutableGraph, OperationCounts, ScalarQuantizer,
    UpdateError, Vertices, start,
};

/// Links the vertices of `order`.
#[derive(Debug)]
pub struct BulkLinker<'a> {
    order: &'a [Slot],
    /// The vertices that the passes so far, and this one, have processed.
    done: usize,
    cost: OperationCounts,
    writer: Option<CheckpointWriter<'a>>,
    missed: Option<f64>,
}

/// What each pass over the vertices does. Under inner products, the nearest vertices of all others are often the same
/// few long ones: a second search finds no others, and the second choice loses edges that searches need.
fn passes(metric: Metric) -> &'static [LinkMode] {
    match metric {
        Metric::InnerProduct => &[LinkMode::Bulk],
        Metric::L2 | Metric::Cosine => &[LinkMode::Bulk, LinkMode::Refine, LinkMode::Reverse],
    }
}

/// Up to this size, a batch may be as large as the graph so far. While a graph is small, searches visit most of its
/// vertices, whatever the batch.
const BUILD_DOUBLING_BATCH: usize = 256;

/// The maximum number of vertices of a batch. It fills a device, and bounds the memory of a batch in large graphs.
const MAX_BATCH: usize = 200_000;

/// The largest batch of a build of `vertices`.
pub fn largest_batch(vertices: usize, params: &BuildParams) -> usize {
    batch_len(vertices, params.max_batch_share(), BUILD_DOUBLING_BATCH).min(MAX_BATCH)
}

/// The length of the batch that follows `linked` vertices: at most `share` of them or, up to `max_doubling`, as many
/// again.
pub(crate) fn batch_len(linked: usize, share: f32, max_doubling: usize) -> usize {
    linked.min(max_doubling.max((linked as f32 * share) as usize))
}

impl<'a> BulkLinker<'a> {
    /// The linker of the vertices of `order`. If there is a checkpoint, it goes on from there, with the edges restored
    /// in `graph`. The `quantizer` is that of SQ8 linking, if any. Uses the threads of the current pool.
    ///
    /// With checkpoints, this reads the vectors and the checkpoint once.
    ///
    /// # Errors
    /// Returns [`CheckpointError`] if the checkpoint is damaged, or of another build.
    pub fn new(
        graph: &mut Graph,
        order: &'a [Slot],
        quantizer: Option<&ScalarQuantizer>,
        checkpoints: Option<Checkpoints<'a>>,
    ) -> Result<Self, CheckpointError> {
        let Some(checkpoints) = checkpoints else {
            return Ok(Self { order, done: 0, cost: OperationCounts::default(), writer: None, missed: None });
        };
        let total = passes(graph.metric()).len() * order.len();
        let (writer, done, cost) = CheckpointWriter::resume(checkpoints, graph, quantizer, total)?;
        Ok(Self { order, done, cost, writer: Some(writer), missed: None })
    }

    /// Runs the passes on `graph`, with any executor. It reports progress between batches and between the parts that
    /// are searched for together, and writes a checkpoint if one is due or the report cancels the build.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the device fails, a checkpoint cannot be written, or the build is cancelled.
    pub fn run<E: Executor>(
        mut self,
        executor: &E,
        mut graph: E::Graph,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Linked, UpdateError> {
        let (order, passes) = (self.order, passes(graph.host().metric()));
        // In vertices, as if all passes went over them together.
        let progress_of =
            |done: usize| Progress { stage: Stage::Linking, done: done / passes.len(), total: order.len() };
        let mut reported = progress_of(self.done).report(progress);
        loop {
            if let Some(writer) = &mut self.writer
                && writer.is_due(self.done, reported.is_err())
            {
                executor.sync_host_edges(&mut graph).map_err(UpdateError::device)?;
                writer.write(graph.host(), self.done, self.cost)?;
            }
            reported?;
            let linked = &order[..self.done.min(order.len())];
            // Searches of the build need them too: from the medoid alone, some do not find their cluster.
            graph.change_host(|host| start::set_start_points(host, linked)).map_err(UpdateError::device)?;
            if self.done == passes.len() * order.len() {
                break;
            }
            let (mode, left) = (passes[self.done / order.len()], &order[self.done % order.len()..]);
            // The medoid is not in the order and counts as linked.
            let batch = largest_batch(1 + linked.len(), graph.host().params()).min(left.len());
            let batch = &left[..batch];
            // A batch that is cancelled here has changed nothing.
            let goes_on = |found| {
                reported = progress_of(self.done + found).report(progress);
                reported.is_ok()
            };
            let edges = find_edges_while(executor, &graph, batch, mode, goes_on);
            let Some(edges) = edges.map_err(UpdateError::device)? else { continue };
            let linked = publish(executor, &mut graph, edges, mode).map_err(UpdateError::device)?;
            self.cost += linked.cost;
            let before = self.done;
            self.done += batch.len();
            if mode == LinkMode::Bulk {
                let missed = adapt_to_build(executor, &mut graph, order, before..self.done)?;
                self.missed = missed.or(self.missed);
            }
            reported = progress_of(self.done).report(progress);
        }
        self.cost += relink_overlooked(executor, &mut graph, || progress_of(self.done).report(progress))?;
        let reconnected = reconnect(executor, &mut graph, Vertices::All, progress)?;
        executor.sync_host_edges(&mut graph).map_err(UpdateError::device)?;
        Ok(Linked { graph: graph.into_host(), reconnected, cost: self.cost, missed: self.missed })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use jasper_core::{BuildParams, Cancelled, MatrixView, Metric, Progress, Stage, synthetic};
    use rand::RngExt;

    use crate::{CpuExecutor, UpdateError, bulk_build};

    #[test]
    fn a_build_is_cancelled_within_a_batch() {
        const ROWS: usize = 55_000;
        let mut rng = synthetic::rng(3);
        let rows: Vec<f32> = (0..2 * ROWS).map(|_| rng.random()).collect();
        let vectors = MatrixView::new(&rows, 2).unwrap();
        let params = BuildParams::builder().max_degree(8).build_beam_width(8).max_batch_share(1.0);
        // The last batch of the first pass begins behind 32,768 vertices. Passes count as thirds.
        let within = 32_768 / 3 + 1;
        let stop = &mut |news: Progress| match news.stage == Stage::Linking && news.done >= within {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let executor = CpuExecutor::new(2).unwrap();
        let stopped = bulk_build(&executor, vectors, None, Metric::L2, params.build().unwrap(), stop);
        match stopped.unwrap_err() {
            UpdateError::Cancelled(Cancelled { done, .. }) => {
                assert!((within..ROWS / 3).contains(&done), "{done}")
            }
            other => panic!("{other}"),
        }
    }
}
