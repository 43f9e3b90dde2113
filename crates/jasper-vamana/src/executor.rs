//! The steps of the batch pipeline, which every processor does in its own way and to the same result.

use std::error::Error;

use jasper_core::{Element, Neighbor, VectorId};

use crate::connectivity::Reached;
use crate::{MutableGraph, SearchCost};

/// Links batches of vertices into a graph. Only the two `publish` steps change it.
///
/// Results depend on the graph and the batch only, never on threads or their timing.
pub trait Linker<T: Element> {
    /// The graph it works on: on the host, or a copy in the memory of a device.
    type Graph;
    /// Errors of the device; [`Infallible`](std::convert::Infallible) on the CPU.
    type Error: Error + Send + Sync + 'static;
    /// Candidate neighbors of each vertex of a batch, with distances.
    type Candidates;
    /// The pruned neighbors of each vertex of a batch, with distances.
    type Links: Links;
    /// Reversed edges of a batch that are not merged yet.
    type BackEdges;
    /// New rows of edges, and edges appended to rows.
    type Updates;

    /// Vertices searched for at once, before they are pruned: candidates take a kilobyte or more per vertex, links a third
    /// of that. Batches whose vertices are candidates of each other are smaller.
    const SEARCHED_AT_ONCE: usize;

    /// The candidates of every vertex of `batch`, which is ascending: the vertices that a search for its vector expands in the
    /// current graph.
    ///
    /// # Errors
    /// Errors of the device.
    fn search(&self, graph: &Self::Graph, batch: &[VectorId]) -> Result<Self::Candidates, Self::Error>;

    /// Prunes the candidates of each vertex to its links. A [duplicate](Executor::find_duplicates) gets none.
    ///
    /// # Errors
    /// Errors of the device.
    fn prune(&self, graph: &Self::Graph, candidates: Self::Candidates) -> Result<Self::Links, Self::Error>;

    /// Writes the rows of a batch. No edge leads to them yet.
    ///
    /// # Errors
    /// Errors of the device.
    fn publish_links(&self, graph: &mut Self::Graph, links: &Self::Links) -> Result<(), Self::Error>;

    /// The reversed edges of `links`, sorted by (target, distance, source). Frees the links before sorting, which takes as
    /// much memory again as the edges.
    ///
    /// # Errors
    /// Errors of the device.
    fn reverse_edges(&self, links: Self::Links) -> Result<Self::BackEdges, Self::Error>;

    /// Computes the new rows of the next targets: new edges are appended if there is room, else old and new ones are pruned.
    /// Removes as many targets from the back edges as are computed at once; returns `None` when none are left. The links and
    /// all earlier updates have been published.
    ///
    /// A batch of 2% of the vertices may link to all of them, so all new rows at once would need as much memory as the graph.
    ///
    /// # Errors
    /// Errors of the device.
    fn merge(
        &self,
        graph: &Self::Graph,
        back_edges: &mut Self::BackEdges,
    ) -> Result<Option<Self::Updates>, Self::Error>;

    /// Writes rows; returns what it cost to compute them.
    ///
    /// # Errors
    /// Errors of the device.
    fn publish(&self, graph: &mut Self::Graph, updates: Self::Updates) -> Result<SearchCost, Self::Error>;
}

/// Which vertices of a batch are compared with each other before they are linked.
///
/// A vertex is compared with its group in rounds: first with one of every `every` consecutive peers, at irregular offsets, so
/// that interleaved sources are all sampled; if one of these becomes a candidate, with `more` of every `every`; and if two have
/// by then, with all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSampling {
    /// Number of consecutive vertices compared with each other. At least 1; for batches larger than an executor searches for at
    /// once, a divisor of that number.
    pub group: usize,
    /// One of this many peers is compared in the first round. At least 1, with which the first round compares all.
    pub every: usize,
    /// Additional peers of every `every` in the second round.
    pub more: usize,
}

impl PeerSampling {
    /// Rounds of a comparison.
    pub const ROUNDS: usize = 3;

    /// Peers that must have become candidates before a `round`, for rows of `max_degree`.
    pub fn wanted(round: usize, max_degree: usize) -> usize {
        round.min(max_degree)
    }

    /// The positions, in a group of `len`, of the peers that a `round` compares a vertex with.
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

/// Pseudo-random offset of run `number`; the same on devices.
fn sampled(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1) >> 16
}

/// A [`Linker`] that also updates graphs in use: inserts in any order, and removal of deleted vertices.
pub trait Executor<T: Element>: Linker<T> {
    /// A graph in use, whose edges are a [`Linker::Graph`].
    type Live: MutableGraph<Element = T, Links = Self::Graph, Error = Self::Error>;

    /// Runs `work` with the executor's host threads for its parallel parts.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R;

    /// Finds the vertices whose vector equals that of a candidate, for [`Links::identical`]. Bulk builds do not need it: they
    /// deduplicate vectors while reading them.
    ///
    /// # Errors
    /// Errors of the device.
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
    /// Errors of the device.
    fn batch_candidates(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        peers: PeerSampling,
    ) -> Result<Self::Candidates, Self::Error>;

    /// The live vertices with hidden neighbors, rising. Cost: every row is read once.
    ///
    /// # Errors
    /// Errors of the device.
    fn rows_to_repair(&self, graph: &Self::Graph) -> Result<Vec<VectorId>, Self::Error>;

    /// For every one of `vertices`, out of [`Self::rows_to_repair`], its row without hidden neighbors: the deleted are bypassed
    /// by their own live neighbors. Reads rows of hidden vertices and of `vertices` only.
    ///
    /// # Errors
    /// Errors of the device.
    fn repair_rows(&self, graph: &Self::Graph, vertices: &[VectorId]) -> Result<Self::Updates, Self::Error>;

    /// All slots that paths from `start` lead to, itself included. Cost: each of their rows is read once.
    ///
    /// # Errors
    /// Errors of the device.
    fn reachable(&self, graph: &Self::Graph, start: VectorId) -> Result<Reached, Self::Error>;

    /// For each vertex that has candidates, the nearest of these that is in `reached` and whose row has a free place, with
    /// their distance; vertices without such a candidate are left out.
    ///
    /// # Errors
    /// Errors of the device.
    fn nearest_with_room(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        reached: &Reached,
    ) -> Result<Vec<(VectorId, Neighbor)>, Self::Error>;

    /// The out-edges of some vertices, as copies.
    ///
    /// # Errors
    /// Errors of the device.
    fn neighbors(
        &self,
        graph: &Self::Graph,
        vertices: &[VectorId],
    ) -> Result<Vec<Vec<VectorId>>, Self::Error>;

    /// Sets the out-edges of some vertices, which are distinct.
    ///
    /// # Errors
    /// Errors of the device.
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
