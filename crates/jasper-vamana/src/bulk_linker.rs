//! The loop of a bulk build over the batches of its vertices, with progress and checkpoints.
//!
//! ```text
//! first pass:   link each vertex, whose search begins at the start points, into the graph so far
//! raise the beam width if the graph misses neighbors                                            (effort)
//! second pass:  link each vertex again; its search begins at the vertex, and its edges are candidates too
//! for a graph that missed many: add reversed edges that rows lost in the second pass
//! reconnect what is unreachable
//! ```
//!
//! Vertices that are linked early have candidates from a small part of the graph, and searches from afar miss some that
//! are near. The second search begins among the neighbors, so that half the beam width finds more in each pass than the
//! whole in one (docs/notebook/experiments.md#two-passes). A vertex that is linked again loses edges from vertices before
//! it that its prune does not keep. Where neighbors are hard to find, these are missed.

use jasper_core::{BuildParams, Element, Progress, ProgressFn, Slot, Stage};
use jasper_graph::Graph;

use crate::checkpoint::CheckpointWriter;
use crate::effort::Effort;
use crate::pipeline::{LinkMode, link_batch};
use crate::reconnect::reconnect;
use crate::{
    CheckpointError, Checkpoints, Executor, Linked, MutableGraph, OperationCounts, ScalarQuantizer,
    UpdateError, Vertices, start,
};

/// Links the vertices of `order` that are not linked yet.
#[derive(Debug)]
pub struct BulkLinker<'a> {
    order: &'a [Slot],
    /// How often a vertex was linked, in both passes.
    linked: usize,
    cost: OperationCounts,
    writer: Option<CheckpointWriter<'a>>,
    effort: Effort,
}

/// How often a vertex is linked.
const PASSES: usize = 2;

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
    /// The linker of the vertices of `order`: of all of them or, if there is a checkpoint, of those left in it, whose
    /// edges are restored in `graph`. The `quantizer` is that of SQ8 linking, if any; `effort` decides about the beam
    /// width. Uses the threads of the current pool.
    ///
    /// With checkpoints, this reads the vectors and the checkpoint once.
    ///
    /// # Errors
    /// Returns [`CheckpointError`] if the checkpoint is damaged, or of another build.
    pub fn new<T: Element>(
        graph: &mut Graph<T>,
        order: &'a [Slot],
        quantizer: Option<&ScalarQuantizer>,
        effort: Effort,
        checkpoints: Option<Checkpoints<'a>>,
    ) -> Result<Self, CheckpointError> {
        let Some(checkpoints) = checkpoints else {
            return Ok(Self { order, linked: 0, cost: OperationCounts::default(), writer: None, effort });
        };
        let (writer, linked, cost) =
            CheckpointWriter::resume(checkpoints, graph, quantizer, PASSES * order.len(), effort)?;
        Ok(Self { order, linked, cost, writer: Some(writer), effort })
    }

    /// Links the vertices that are left into `graph`, with any executor. Between batches it reports progress, and
    /// writes a checkpoint if one is due or the report cancels the build.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the device fails, a checkpoint cannot be written, or the build is cancelled.
    pub fn run<T: Element, E: Executor<T>>(
        mut self,
        executor: &E,
        mut graph: E::Graph,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        let (order, total) = (self.order, PASSES * self.order.len());
        loop {
            let state = Progress { stage: Stage::Linking, done: self.linked, total };
            let reported = state.report(progress);
            if let Some(writer) = &mut self.writer
                && writer.is_due(self.linked, reported.is_err())
            {
                executor.sync_host_edges(&mut graph).map_err(UpdateError::device)?;
                writer.write(graph.host(), self.linked, self.cost)?;
            }
            reported?;
            if self.linked == total {
                break;
            }
            let (linked, left) = order.split_at(self.linked.min(order.len()));
            let (left, mode) = if left.is_empty() {
                (&order[self.linked - order.len()..], LinkMode::Refine)
            } else {
                // Searches of the build need them too: from the medoid alone, some do not find their cluster.
                graph
                    .change_host(|host| start::set_start_points(host, linked))
                    .map_err(UpdateError::device)?;
                (left, LinkMode::Bulk)
            };
            // The medoid is not in the order and counts as linked.
            let batch = largest_batch(1 + linked.len(), graph.host().params()).min(left.len());
            self.cost +=
                link_batch(executor, &mut graph, &left[..batch], mode).map_err(UpdateError::device)?.cost;
            self.linked += batch;
            if self.linked == order.len() {
                graph
                    .change_host(|host| start::set_start_points(host, order))
                    .map_err(UpdateError::device)?;
                self.effort.adapt(executor, &mut graph, order)?;
            }
        }
        if graph.host().params().is_wide() {
            let batch = largest_batch(order.len(), graph.host().params()).max(1);
            for batch in order.chunks(batch) {
                Progress { stage: Stage::Linking, done: total, total }.report(progress)?;
                self.cost += link_batch(executor, &mut graph, batch, LinkMode::Reverse)
                    .map_err(UpdateError::device)?
                    .cost;
            }
        }
        let reconnected = reconnect(executor, &mut graph, Vertices::All, progress)?;
        executor.sync_host_edges(&mut graph).map_err(UpdateError::device)?;
        Ok(Linked { graph: graph.into_host(), reconnected, cost: self.cost, effort: self.effort })
    }
}
