//! The steps of the batch pipeline. The CPU and CUDA devices implement them with the same results, except that sums of
//! floats round differently on a device.

use jasper_core::{BitSet, BuildParams, DeviceError, Neighbor, Slot};
use jasper_data::ThreadPool;

use crate::connectivity::Vertices;
use crate::pipeline::Duplicates;
use crate::{GraphAccess, MutableGraph, OperationCounts};

/// Executes the steps of builds, inserts and consolidations: [`CpuExecutor`](crate::CpuExecutor) with a pool of
/// threads, and `DeviceExecutor` of jasper-cuda in a stream of a CUDA device.
///
/// | for | steps |
/// | --- | --- |
/// | links | [`find_candidates`](Self::find_candidates) to [`publish_rows`](Self::publish_rows), in this order |
/// | repairs of rows | [`rows_to_repair`](Self::rows_to_repair) and [`repair_rows`](Self::repair_rows) |
/// | links to overlooked vertices | [`incoming_edges`](Self::incoming_edges), then those of links |
/// | reachability | [`reachable`](Self::reachable) to [`new_rows`](Self::new_rows) |
///
/// Only the two `publish` steps change edges; [`Self::sync_host_edges`] updates the host's copy of them.
/// [`Self::find_candidates`] searches for vertices of the graph. Queries are executed from a
/// [`SearchPlan`](crate::SearchPlan), not through this trait.
///
/// Results depend on the graph and the arguments only, never on threads or their timing.
pub trait Executor {
    /// The type of graph that this executor works on: on the host, or on a device.
    type Graph: MutableGraph<Error = Self::Error>;
    /// Errors of the device; [`Infallible`](std::convert::Infallible) on the CPU.
    type Error: Into<DeviceError>;
    /// Candidate neighbors of each vertex of a chunk, with distances.
    type Candidates;
    /// The pruned neighbors of each vertex of a chunk, with distances.
    type Edges;
    /// Reversed edges of a batch that are not merged yet.
    type BackEdges;
    /// New rows, and edges appended to rows.
    type NewRows;

    /// Number of vertices searched for before they are pruned. Candidates take a kilobyte or more per vertex, and edges
    /// a third of that. A batch of an insert, whose vertices are candidates of each other, is at most as large, so it
    /// is one chunk.
    const SEARCH_CHUNK: usize;

    /// The host threads of the executor.
    fn host_pool(&self) -> &ThreadPool;

    /// Where many distances follow, quantizes all vectors to a byte per coordinate (SQ8) until the transaction ends;
    /// does nothing on the CPU. The steps below then compute distances from the bytes; searches may use 4 bits per
    /// coordinate (SQ4).
    ///
    /// Called in a [transaction](crate::transaction), before the steps below, which will compute about `distances`
    /// distances. The vectors of its `new` vertices are stored.
    ///
    /// # Errors
    /// Returns the device's error.
    fn quantize_for_linking(
        &self,
        _graph: &mut dyn GraphAccess<Self::Graph>,
        _new: &[Slot],
        _distances: u64,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The candidates of every vertex of `chunk`, which is ascending: the vertices that a search for its vector expands
    /// in the current graph.
    ///
    /// # Errors
    /// Returns the device's error.
    fn find_candidates(
        &self,
        graph: &Self::Graph,
        chunk: &[Slot],
        search: CandidateSearch,
    ) -> Result<Self::Candidates, Self::Error>;

    /// Each vertex with its `k` nearest candidates, in any order; fewer if there are no more.
    ///
    /// # Errors
    /// Returns the device's error.
    fn nearest_candidates(
        &self,
        candidates: Self::Candidates,
        k: usize,
    ) -> Result<Vec<(Slot, Vec<Slot>)>, Self::Error>;

    /// Finds the vertices whose vector equals that of a candidate, for [`ChunkEdges::duplicates`]. Bulk builds do not
    /// need it: they deduplicate vectors while reading them.
    ///
    /// # Errors
    /// Returns the device's error.
    fn find_duplicates(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
    ) -> Result<Self::Candidates, Self::Error>;

    /// Adds to the candidates of each vertex the nearest of its [peers](PeerSampling), other vertices of the batch, to
    /// which no edge leads yet. This is needed when vectors arrive in the caller's order, and pointless after a
    /// shuffle. Adds at most `max_degree` peers, and only those nearer than the `max_degree`-th candidate.
    ///
    /// # Errors
    /// Returns the device's error.
    fn add_peers(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        sampling: PeerSampling,
    ) -> Result<Self::Candidates, Self::Error>;

    /// Prunes the candidates of each vertex to its edges. A [duplicate](Self::find_duplicates) gets none. If
    /// `with_rows`, the edges that vertices have are candidates too; without [peers](Self::add_peers).
    ///
    /// # Errors
    /// Returns the device's error.
    fn prune(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        with_rows: bool,
    ) -> Result<ChunkEdges<Self::Edges>, Self::Error>;

    /// Writes the rows of a batch, given in chunks, in place of those that the vertices have.
    ///
    /// # Errors
    /// Returns the device's error.
    fn publish_edges(&self, graph: &mut Self::Graph, chunks: &[Self::Edges]) -> Result<(), Self::Error>;

    /// The reversed edges of a batch, sorted by (target, distance, source). A device frees the edges before it sorts,
    /// which takes as much memory again.
    ///
    /// # Errors
    /// Returns the device's error.
    fn reverse_edges(&self, chunks: Vec<Self::Edges>) -> Result<Self::BackEdges, Self::Error>;

    /// Computes the new rows of the next targets: appends back edges if they fit, else prunes old and new edges
    /// together to at most `max_kept`. If that is `None`, no edge of a row is removed: it gets the nearest that fit.
    /// Removes these targets from the back edges; returns `None` when none are left. The edges of the batch and all
    /// earlier new rows have been published.
    ///
    /// A batch may link to every vertex of a small graph, so all new rows at once would need as much memory as the
    /// graph.
    ///
    /// # Errors
    /// Returns the device's error.
    fn merge(
        &self,
        graph: &Self::Graph,
        back_edges: &mut Self::BackEdges,
        max_kept: Option<usize>,
    ) -> Result<Option<Self::NewRows>, Self::Error>;

    /// Writes new rows.
    ///
    /// # Errors
    /// Returns the device's error.
    fn publish_rows(
        &self,
        graph: &mut Self::Graph,
        new_rows: Self::NewRows,
    ) -> Result<Published, Self::Error>;

    /// The number of edges that lead from live vertices to each slot. Every row is read once.
    ///
    /// # Errors
    /// Returns the device's error.
    fn incoming_edges(&self, graph: &Self::Graph) -> Result<Vec<u32>, Self::Error>;

    /// The live vertices with a tombstone among their neighbors, ascending. Every row is read once.
    ///
    /// # Errors
    /// Returns the device's error.
    fn rows_to_repair(&self, graph: &Self::Graph) -> Result<Vec<Slot>, Self::Error>;

    /// The rows of some [rows to repair](Self::rows_to_repair), in which live neighbors of tombstones replace the
    /// tombstones. Reads only rows of tombstones and of `vertices`.
    ///
    /// # Errors
    /// Returns the device's error.
    fn repair_rows(&self, graph: &Self::Graph, vertices: &[Slot]) -> Result<Self::NewRows, Self::Error>;

    /// The slots that are reachable from `start`, including it, by paths through these `vertices` only. Empty if
    /// `start` is not one of them. Each of their rows is read once.
    ///
    /// # Errors
    /// Returns the device's error.
    fn reachable(&self, graph: &Self::Graph, start: Slot, vertices: Vertices) -> Result<BitSet, Self::Error>;

    /// The parents of a spanning tree of these slots, for [`SpanningTree::new`](jasper_graph::SpanningTree::new).
    /// Threads may choose different trees; results do not depend on the choice.
    ///
    /// # Errors
    /// Returns the device's error.
    fn spanning_tree(&self, graph: &Self::Graph, start: Slot) -> Result<Vec<u32>, Self::Error>;

    /// For each vertex, the nearest candidate in `reached` whose row is not full, with its distance. Vertices without
    /// such a candidate are left out.
    ///
    /// # Errors
    /// Returns the device's error.
    fn nearest_with_room(
        &self,
        graph: &Self::Graph,
        candidates: Self::Candidates,
        reached: &BitSet,
    ) -> Result<Vec<(Slot, Neighbor)>, Self::Error>;

    /// Copies of the rows of some vertices.
    ///
    /// # Errors
    /// Returns the device's error.
    fn edge_rows(&self, graph: &Self::Graph, vertices: &[Slot]) -> Result<Vec<Vec<Slot>>, Self::Error>;

    /// New rows of some distinct vertices, from the host.
    ///
    /// # Errors
    /// Returns the device's error.
    fn new_rows(
        &self,
        graph: &Self::Graph,
        vertices: &[Slot],
        rows: &[Vec<Slot>],
    ) -> Result<Self::NewRows, Self::Error>;

    /// Copies edges that changed on a device to the [host's graph](MutableGraph::host); does nothing on the CPU.
    ///
    /// # Errors
    /// Returns the device's error.
    fn sync_host_edges(&self, graph: &mut Self::Graph) -> Result<(), Self::Error>;
}

/// The searches of [`Executor::find_candidates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateSearch {
    /// The beam width.
    pub beam_width: usize,
    /// The most vertices that a search expands.
    pub max_hops: usize,
    /// Whether the search for a vertex begins at the vertex itself, and not at the start points of the graph.
    pub from_vertex: bool,
}

impl CandidateSearch {
    /// How much wider a beam is that finds what another misses.
    pub(crate) const WIDER: usize = 4;
    /// The widest beam of a device.
    const MAX_BEAM: usize = 1024;

    /// Searches from the start points of the graph.
    pub fn new(beam_width: usize) -> Self {
        Self { beam_width, max_hops: BuildParams::max_hops(beam_width), from_vertex: false }
    }

    /// Searches from the start points with a beam that finds what one of `beam_width` misses.
    pub(crate) fn wider_than(beam_width: usize) -> Self {
        Self::new((Self::WIDER * beam_width).min(Self::MAX_BEAM).max(beam_width))
    }

    /// Searches for linked vertices, each from the vertex itself.
    pub fn from_vertices(beam_width: usize) -> Self {
        Self { from_vertex: true, ..Self::new(beam_width) }
    }

    /// No search: no vertex gets a candidate, at no cost.
    pub fn none() -> Self {
        Self { max_hops: 0, ..Self::from_vertices(1) }
    }
}

/// The result of [`Executor::prune`].
#[derive(Debug)]
pub struct ChunkEdges<E> {
    /// The edges of the vertices of a chunk.
    pub edges: E,
    /// Vertices without edges, because another has the same vector.
    pub duplicates: Duplicates,
    /// The cost of searching for the vertices and pruning their candidates.
    pub cost: OperationCounts,
}

/// The result of [`Executor::publish_rows`].
#[derive(Debug, Default)]
pub struct Published {
    /// The cost of computing the rows.
    pub cost: OperationCounts,
    /// Vertices to which [merged](Executor::merge) rows have no edge any more from their parent in the graph's
    /// [spanning tree](jasper_graph::SpanningTree), in any order. Empty if there is no tree.
    pub detached: Vec<Slot>,
}

/// Which vertices of a batch are compared with each other before they are linked. The batch is one
/// [chunk](Executor::SEARCH_CHUNK).
///
/// A vertex is compared with its *peers*, the other vertices of the batch, in rounds: first with one of every run of
/// `stride` consecutive peers, at irregular offsets, so that interleaved sources are all sampled. If one of these
/// becomes a candidate, it is compared with `second_round` more of every run; and if two are candidates by then, with
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSampling {
    /// One of this many peers is compared in the first round. At least 1; with 1, the first round compares all.
    pub stride: usize,
    /// Additional peers of every `stride` in the second round.
    pub second_round: usize,
}

impl PeerSampling {
    /// Rounds of a comparison.
    pub const ROUNDS: usize = 3;

    /// Peers that must have become candidates before a `round` begins, for rows of `max_degree`.
    pub fn required(round: usize, max_degree: usize) -> usize {
        round.min(max_degree)
    }

    /// The positions, in a batch of `len`, of the peers that a `round` compares a vertex with.
    pub fn positions(&self, round: usize, len: usize) -> impl Iterator<Item = usize> + use<> {
        let stride = self.stride;
        let ends = [0, 1, (1 + self.second_round).min(stride), stride];
        let (from, to) = (ends[round], ends[round + 1]);
        (0..len).step_by(stride).enumerate().flat_map(move |(run, first)| {
            let run_len = stride.min(len - first);
            // Each run has a pseudo-random offset, which is the same on devices.
            let offset = ((run as u32).wrapping_mul(0x9E37_79B1) >> 16) as usize;
            (from.min(run_len)..to.min(run_len)).map(move |i| first + (offset + i) % run_len)
        })
    }
}
