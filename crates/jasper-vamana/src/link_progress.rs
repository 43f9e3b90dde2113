//! The state of a bulk build while its vertices are linked: batches, progress, checkpoints.

use jasper_core::{BuildParams, Cancelled, Element, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;

use crate::checkpoint::CheckpointWriter;
use crate::{CheckpointError, Checkpoints, SearchCost};

/// Vertices in the order they are linked in, and how many of them are linked.
///
/// The loop of a build is the same on every executor:
///
/// ```text
/// loop:
///     report progress; write a checkpoint if one is due, also when the report cancels the build
///     batch = next_batch()          each as large as a share of what is linked
///     if batch is empty: break
///     cost = link_batch(batch)
///     advance(batch.len(), cost)
/// ```
#[derive(Debug)]
pub struct LinkProgress<'a> {
    order: &'a [VectorId],
    linked: usize,
    cost: SearchCost,
    writer: Option<CheckpointWriter<'a>>,
}

/// Batches up to this size may be as large as all that is linked before them: while a graph is small, its vertices
/// meet most of each other whatever the batch.
const FREE_BATCH: usize = 256;

/// The largest batch of a build of `rows` vertices.
pub fn largest_batch(rows: usize, params: &BuildParams) -> usize {
    batch_after(rows, params).min(rows)
}

/// The size of the batch that follows `linked` vertices.
fn batch_after(linked: usize, params: &BuildParams) -> usize {
    ((linked as f32 * params.max_batch_share()) as usize).max(linked.min(FREE_BATCH))
}

impl<'a> LinkProgress<'a> {
    /// The state before the first of `order` is linked, without checkpoints.
    pub fn new(order: &'a [VectorId]) -> Self {
        Self { order, linked: 0, cost: SearchCost::default(), writer: None }
    }

    /// The state at the last checkpoint, if there are any, whose edges are restored in `graph`; else [`Self::new`]. Uses the
    /// threads of the current pool.
    ///
    /// Cost: nothing without checkpoints, else a pass over the vectors and over the checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError`]: the checkpoint is damaged, or of another build.
    pub fn resume<T: Element>(
        graph: &mut Graph<T>,
        order: &'a [VectorId],
        checkpoints: Option<Checkpoints<'a>>,
    ) -> Result<Self, CheckpointError> {
        let Some(checkpoints) = checkpoints else { return Ok(Self::new(order)) };
        let (writer, linked, cost) = CheckpointWriter::resume(checkpoints, graph, order.len())?;
        Ok(Self { order, linked, cost, writer: Some(writer) })
    }

    /// All vertices of the build, in the order they are linked in.
    pub fn order(&self) -> &'a [VectorId] {
        self.order
    }

    /// The vertices to link next; none at the end. The medoid, which is not in the order, counts as linked.
    pub fn next_batch(&self, params: &BuildParams) -> &'a [VectorId] {
        let rest = &self.order[self.linked..];
        &rest[..batch_after(1 + self.linked, params).max(1).min(rest.len())]
    }

    /// Counts the next `vertices` as linked, at this cost.
    pub fn advance(&mut self, vertices: usize, cost: SearchCost) {
        self.linked += vertices;
        self.cost += cost;
    }

    /// Operations performed for all that is linked, in earlier runs too.
    pub fn cost(&self) -> SearchCost {
        self.cost
    }

    /// Reports how many vertices are linked.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn report(&self, progress: &mut ProgressFn<'_>) -> Result<(), Cancelled> {
        Progress { stage: Stage::Linking, done: self.linked, total: self.order.len() }.report(progress)
    }

    /// Whether a checkpoint is to be written now, or before the build `ends` here.
    pub fn checkpoint_is_due(&self, ends: bool) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is_due(self.linked, ends))
    }

    /// Writes a checkpoint, if the build has any. `graph` has the edges of all that is linked.
    ///
    /// # Errors
    /// [`CheckpointError`]; the last checkpoint is still there.
    pub fn write_checkpoint<T: Element>(&mut self, graph: &Graph<T>) -> Result<(), CheckpointError> {
        match &mut self.writer {
            Some(writer) => writer.write(graph, self.linked, self.cost),
            None => Ok(()),
        }
    }
}
