//! The steps of the batch pipeline, which every processor does in its own way and to the same result.

use std::error::Error;

use jasper_core::{Element, Neighbor, VectorId};

use crate::connectivity::Reached;
use crate::{MutableGraph, SearchCost};

/// Links batches of vertices into a graph. Only the two `publish` steps change it.
///
/// Results are a function of graph and batch: threads, blocks and their timing never show.
pub trait Linker<T: Element> {
    /// The graph it works on: on the host, or a copy in the memory of a device.
    type Graph;
    /// What can go wrong on the way: on the host, nothing.
    type Error: Error + Send + Sync + 'static;
    /// A list of neighbours, with distances, for each vertex of a batch: what may become its links.
    type Candidates;
    /// A list of neighbours, with distances, for each vertex of a batch: its links.
    type Links: Links;
    /// The edges of a batch turned around: what is left of them to merge.
    type BackEdges;
    /// New rows of vertices, and additions to rows.
    type Updates;

    /// Vertices that are searched for before they are pruned: candidates take a kilobyte or more a vertex, links a third
    /// of that. Batches whose vertices are candidates of each other are smaller.
    const SEARCHED_AT_ONCE: usize;

    /// The candidates of every vertex of `batch`, whose numbers rise: what a search for its row expands on the graph as it
    /// is.
    ///
    /// # Errors
    /// Of the processor.
    fn search(&self, graph: &Self::Graph, batch: &[VectorId]) -> Result<Self::Candidates, Self::Error>;

    /// The links of every vertex that has candidates: those, pruned. A vertex that was [identified](Executor::find_duplicates)
    /// gets none.
    ///
    /// # Errors
    /// Of the processor.
    fn prune(&self, graph: &Self::Graph, candidates: Self::Candidates) -> Result<Self::Links, Self::Error>;

    /// Writes the rows of a batch. No edge leads to them yet.
    ///
    /// # Errors
    /// Of the processor.
    fn publish_links(&self, graph: &mut Self::Graph, links: &Self::Links) -> Result<(), Self::Error>;

    /// The edges of `links` turned around, sorted by (target, distance, source). The links go before the sort, which takes
    /// as much memory again as the edges.
    ///
    /// # Errors
    /// Of the processor.
    fn reverse_edges(&self, links: Self::Links) -> Result<Self::BackEdges, Self::Error>;

    /// What the rows of the next targets become: the new edges beside the old while there is room, else a prune of both.
    /// Takes as many targets off the back edges as are worked out at once; none when none are left. The links are
    /// published, and so is what was merged before.
    ///
    /// A batch of 2% of the vertices may lead to all of them: their new rows together would be the graph once more.
    ///
    /// # Errors
    /// Of the processor.
    fn merge(
        &self,
        graph: &Self::Graph,
        back_edges: &mut Self::BackEdges,
    ) -> Result<Option<Self::Updates>, Self::Error>;

    /// Writes rows; gives what it cost to work them out.
    ///
    /// # Errors
    /// Of the processor.
    fn publish(&self, graph: &mut Self::Graph, updates: Self::Updates) -> Result<SearchCost, Self::Error>;
}

/// Which vertices of a batch are compared with each other before they are linked.
///
/// A vertex is compared with its group in rounds: with one of each `every` that arrive together, in no rhythm, because rows may
/// come from several sources in turn; if one of these joins its candidates, with `more` of each; and if two have joined by then,
/// with the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSampling {
    /// The first so many of what is searched for at once, in the order of their ids, and so on. At least 1; batches that are
    /// larger than an executor searches for at once want a divisor of that.
    pub group: usize,
    /// At least 1, with which the first round is all there are.
    pub every: usize,
    /// How many of each `every` the second round adds to the one of the first.
    pub more: usize,
}

impl PeerSampling {
    /// Rounds of a comparison.
    pub const ROUNDS: usize = 3;

    /// How many must have joined before a `round`, in rows of `max_degree`.
    pub fn wanted(round: usize, max_degree: usize) -> usize {
        round.min(max_degree)
    }

    /// The places, in a group of `len`, of those that a `round` compares a vertex with.
    pub fn places(&self, round: usize, len: usize) -> impl Iterator<Item = usize> + use<> {
        let every = self.every;
        let ends = [0, 1, (1 + self.more).min(every), every];
        let (from, to) = (ends[round], ends[round + 1]);
        (0..len).step_by(every).enumerate().flat_map(move |(number, first)| {
            let there = every.min(len - first);
            let start = sampled(number as u32) as usize;
            (from.min(there)..to.min(there)).map(move |turn| first + (start + turn) % there)
        })
    }
}

/// A number for the `number`-th of those that arrive together, of which the remainder tells whose turn is first: the same on
/// devices.
fn sampled(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1) >> 16
}

/// A linker of graphs that are in use: vertices come in any order, and are taken out again.
pub trait Executor<T: Element>: Linker<T> {
    /// The graphs, of which [`Linker::Graph`] is what leads from vertex to vertex.
    type Live: MutableGraph<Element = T, Links = Self::Graph, Error = Self::Error>;

    /// Runs `work` where its parallel parts have the executor's threads of the host.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R;

    /// Names the vertices whose row a candidate has already, for [`Links::identical`]. Bulk builds need it not: they bring
    /// identical rows together before.
    ///
    /// # Errors
    /// Of the processor.
    fn find_duplicates(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
    ) -> Result<Self::Candidates, Self::Error>;

    /// Adds to the candidates of each vertex the nearest of its [`PeerSampling`], which the graph does not lead to yet: needed when
    /// rows arrive in an order of their own, pointless after a shuffle. As many as a row holds, and only those that are nearer
    /// than what would fill a row already.
    ///
    /// # Errors
    /// Of the processor.
    fn batch_candidates(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        peers: PeerSampling,
    ) -> Result<Self::Candidates, Self::Error>;

    /// The live vertices with hidden neighbours, rising. Cost: every row is read once.
    ///
    /// # Errors
    /// Of the processor.
    fn rows_to_repair(&self, graph: &Self::Graph) -> Result<Vec<VectorId>, Self::Error>;

    /// For every one of `vertices`, out of [`Self::rows_to_repair`], its row without hidden neighbours: the deleted are bypassed
    /// by their own live neighbours. Reads rows of hidden vertices and of `vertices` only.
    ///
    /// # Errors
    /// Of the processor.
    fn repair_rows(&self, graph: &Self::Graph, vertices: &[VectorId]) -> Result<Self::Updates, Self::Error>;

    /// All slots that paths from `start` lead to, itself included. Cost: each of their rows is read once.
    ///
    /// # Errors
    /// Of the processor.
    fn reachable(&self, graph: &Self::Graph, start: VectorId) -> Result<Reached, Self::Error>;

    /// For each vertex that has candidates, the nearest of these that is in `reached` and whose row has a free place, with
    /// their distance; vertices without such a candidate are left out.
    ///
    /// # Errors
    /// Of the processor.
    fn nearest_with_room(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        reached: &Reached,
    ) -> Result<Vec<(VectorId, Neighbor)>, Self::Error>;

    /// The out-edges of some vertices, as copies.
    ///
    /// # Errors
    /// Of the processor.
    fn neighbors(
        &self,
        graph: &Self::Graph,
        vertices: &[VectorId],
    ) -> Result<Vec<Vec<VectorId>>, Self::Error>;

    /// Sets the out-edges of some vertices, which are distinct.
    ///
    /// # Errors
    /// Of the processor.
    fn set_neighbors(
        &self,
        graph: &mut Self::Graph,
        vertices: &[VectorId],
        neighbors: &[Vec<VectorId>],
    ) -> Result<(), Self::Error>;
}

/// What the pipeline asks of the links of a batch.
pub trait Links: Sized {
    /// The links of a batch, from those of its parts in order.
    fn join(parts: Vec<Self>) -> Self;
    /// Vertices that were not linked because their row is that of another: (the vertex, the other).
    fn identical(&self) -> &[(VectorId, VectorId)];
    /// What it cost to find them.
    fn cost(&self) -> SearchCost;
}
