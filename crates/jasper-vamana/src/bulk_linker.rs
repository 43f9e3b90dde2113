//! The loop of a bulk build over the batches of its vertices, with progress and checkpoints.

use jasper_core::{BuildParams, Element, Progress, ProgressFn, Slot, Stage};
use jasper_graph::Graph;

use crate::checkpoint::CheckpointWriter;
use crate::effort::{Effort, is_due};
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
    linked: usize,
    cost: OperationCounts,
    writer: Option<CheckpointWriter<'a>>,
    effort: Effort,
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
            CheckpointWriter::resume(checkpoints, graph, quantizer, order.len(), effort)?;
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
        loop {
            let state = Progress { stage: Stage::Linking, done: self.linked, total: self.order.len() };
            let reported = state.report(progress);
            if let Some(writer) = &mut self.writer
                && writer.is_due(self.linked, reported.is_err())
            {
                executor.sync_host_edges(&mut graph).map_err(UpdateError::device)?;
                writer.write(graph.host(), self.linked, self.cost)?;
            }
            reported?;
            let (linked, left) = self.order.split_at(self.linked);
            // Searches of the build need them too: from the medoid alone, some do not find their cluster.
            graph.change_host(|host| start::set_start_points(host, linked)).map_err(UpdateError::device)?;
            // The medoid is not in the order and counts as linked.
            let batch = largest_batch(1 + self.linked, graph.host().params()).min(left.len());
            if batch == 0 {
                break;
            }
            let linked = link_batch(executor, &mut graph, &left[..batch], LinkMode::Bulk)
                .map_err(UpdateError::device)?;
            let before = self.linked;
            self.linked += batch;
            self.cost += linked.cost;
            if is_due(before, self.linked) {
                let next = &self.order[self.linked..];
                self.effort.adapt(executor, &mut graph, self.linked, next)?;
            }
        }
        let reconnected = reconnect(executor, &mut graph, Vertices::All, progress)?;
        executor.sync_host_edges(&mut graph).map_err(UpdateError::device)?;
        Ok(Linked { graph: graph.into_host(), reconnected, cost: self.cost, effort: self.effort })
    }
}
