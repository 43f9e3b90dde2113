//! The steps of the batch pipeline, which every processor does in its own way and to the same result.

use jasper_core::{Element, VectorId};
use jasper_graph::Graph;

use crate::Work;

/// Does the steps of a batch on a graph. Only the two `publish` steps change the graph, and they cannot fail.
///
/// Results are a function of graph and batch: threads, blocks and their timing never show.
pub trait Executor<T: Element> {
    /// A list of neighbours, with distances, for each vertex of a batch: candidates, then links.
    type Lists: Lists;
    /// The edges of a batch turned around: what is left of them to merge.
    type BackEdges;
    /// New rows of vertices, and additions to rows.
    type Updates;

    /// The candidates of every vertex of `batch`: what a search for its row expands on the graph as it is. A vertex
    /// whose row a candidate has already gets no list, and is named in [`Lists::identical`].
    fn search(&self, graph: &Graph<T>, batch: &[VectorId]) -> Self::Lists;

    /// The links of every vertex that has candidates: those, pruned.
    ///
    /// `within_batch` adds the nearest of the batch to the candidates, which the graph does not lead to yet: needed
    /// when rows arrive in an order of their own, pointless after a shuffle.
    fn prune(&self, graph: &Graph<T>, candidates: Self::Lists, within_batch: bool) -> Self::Lists;

    /// Writes the rows of a batch. No edge leads to them yet.
    fn publish_links(&self, graph: &mut Graph<T>, links: &Self::Lists);

    /// The edges of `links` turned around, sorted by (target, distance, source).
    fn turn_around(&self, links: &Self::Lists) -> Self::BackEdges;

    /// What the rows of the next targets become: the new edges beside the old while there is room, else a prune of both.
    /// Takes as many targets off the back edges as are worked out at once; none when none are left. The links are
    /// published, and so is what was merged before.
    ///
    /// A batch of 2% of the vertices may lead to all of them: their new rows together would be the graph once more.
    fn merge(&self, graph: &Graph<T>, back_edges: &mut Self::BackEdges) -> Option<Self::Updates>;

    /// For every live vertex among `vertices` with hidden neighbours, its row without them: the deleted are bypassed
    /// by their own live neighbours. Reads rows of hidden vertices and of `vertices` only.
    fn bypass_hidden(&self, graph: &Graph<T>, vertices: &[VectorId]) -> Self::Updates;

    /// Writes rows; gives what it cost to work them out.
    fn publish(&self, graph: &mut Graph<T>, updates: Self::Updates) -> Work;
}

/// What the pipeline asks of the lists of a batch.
pub trait Lists: Sized {
    /// The lists of a batch, from those of its parts in order.
    fn join(parts: Vec<Self>) -> Self;
    /// Vertices that were not linked because their row is that of another: (the vertex, the other).
    fn identical(&self) -> &[(VectorId, VectorId)];
    /// What it cost to find the lists.
    fn work(&self) -> Work;
}
