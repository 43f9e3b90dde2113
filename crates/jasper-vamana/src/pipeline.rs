//! Linking a batch of vertices: search, prune, reverse the edges, merge them into their targets.

use jasper_core::{BuildParams, Metric, Slot};

use crate::{
    CandidateSearch, ChunkEdges, Executor, GraphAccess, MutableGraph, OperationCounts, PeerSampling,
    Published,
};

/// How a batch is linked, which depends on what is known of its vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkMode {
    /// Distinct vectors in random order, as in the first pass of a bulk build.
    Bulk,
    /// The same vertices in the second pass, once all are linked: each search begins at its vertex, and the edges that
    /// vertices have are candidates too.
    Refine,
    /// The same vertices in the third pass: the edges that a prune of their rows keeps are reversed, and the rows stay.
    Reverse,
    /// Vectors in the caller's order, some of which may be in the graph already. Duplicates are not linked, and the
    /// vertices of a batch are candidates of each other, as far as they are compared.
    Insert(PeerSampling),
    /// Vertices that are linked and lack good edges, in random order: those that they have are candidates too.
    Again,
    /// Vertices that are linked, and to which few edges lead, in random order: they are searched for with a beam of 4 L, and
    /// the edges that they have are candidates too.
    Overlooked,
    /// Linked vertices to which good edges may be missing: the edges that a prune of their candidates keeps are reversed,
    /// and added where rows have room. No edge is removed.
    Incoming,
}

impl LinkMode {
    /// How candidates are searched for.
    pub fn search(self, params: &BuildParams, metric: Metric) -> CandidateSearch {
        match self {
            Self::Bulk | Self::Incoming => CandidateSearch::new(params.bulk_beam_width(metric)),
            Self::Refine => CandidateSearch::from_vertices(params.bulk_beam_width(metric)),
            Self::Reverse => CandidateSearch::none(),
            Self::Insert(_) | Self::Again => CandidateSearch::new(params.build_beam_width()),
            Self::Overlooked => CandidateSearch::wider_than(params.build_beam_width()),
        }
    }

    /// Whether the edges that vertices have are candidates.
    pub fn has_rows(self) -> bool {
        !matches!(self, Self::Bulk | Self::Insert(_))
    }

    /// Whether the rows of the vertices stay.
    fn keeps_rows(self) -> bool {
        matches!(self, Self::Reverse | Self::Incoming)
    }
}

/// Vertices that were not linked because another has the same vector: (the vertex, the other).
pub type Duplicates = Vec<(Slot, Slot)>;

/// The result of [`link_batch`].
#[derive(Debug, Default)]
pub struct LinkedBatch {
    /// Vertices that were not linked.
    pub duplicates: Duplicates,
    /// Vertices that lost the edge from their parent in the spanning tree, in any order.
    pub detached: Vec<Slot>,
    /// Operations performed.
    pub cost: OperationCounts,
}

/// Computes new rows while searches read the graph, and publishes them; returns their cost.
pub(crate) fn update<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    compute: impl FnOnce(&E::Graph) -> Result<E::NewRows, E::Error>,
) -> Result<OperationCounts, E::Error> {
    let new_rows = graph.read(compute)?;
    Ok(graph.write(|graph| executor.publish_rows(graph, new_rows))?.cost)
}

/// Links one batch of vertices into the graph. docs/src/how-updates-work.md has the pseudo-code.
///
/// Deviations from DiskANN, which inserts vertices one by one under locks, and why each is right:
/// 1. **Searches run on a frozen graph**, so that the result does not depend on threads or their timing. The caller
///    makes batches small enough that few neighbors of a vertex are in its own batch.
/// 2. **Back edges are sorted** by (target, distance, source), so that each row is merged once, and in one order.
///
/// # Errors
/// Returns the executor's error; the graph may then have edges of the batch.
pub fn link_batch<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    batch: &[Slot],
    mode: LinkMode,
) -> Result<LinkedBatch, E::Error> {
    let edges = find_edges(executor, graph, batch, mode)?;
    publish(executor, graph, edges, mode)
}

/// The edges of a batch that is not linked yet, in chunks.
pub(crate) struct BatchEdges<E> {
    edges: Vec<E>,
    linked: LinkedBatch,
}

/// Searches for the vertices of a batch, and prunes their candidates: the part of [`link_batch`] that changes nothing.
///
/// # Errors
/// Returns the executor's error.
pub(crate) fn find_edges<E: Executor>(
    executor: &E,
    graph: &dyn GraphAccess<E::Graph>,
    batch: &[Slot],
    mode: LinkMode,
) -> Result<BatchEdges<E::Edges>, E::Error> {
    Ok(find_edges_while(executor, graph, batch, mode, |_| true)?.expect("nothing stops it"))
}

/// [`find_edges`], which asks `goes_on` with the number of vertices that have their edges, after each chunk but the
/// last. `None` if it says no.
///
/// # Errors
/// Returns the executor's error.
pub(crate) fn find_edges_while<E: Executor>(
    executor: &E,
    graph: &dyn GraphAccess<E::Graph>,
    batch: &[Slot],
    mode: LinkMode,
    mut goes_on: impl FnMut(usize) -> bool,
) -> Result<Option<BatchEdges<E::Edges>>, E::Error> {
    let mut batch = batch.to_vec();
    batch.sort_unstable();
    let (mut edges, mut linked) = (Vec::new(), LinkedBatch::default());
    for (index, chunk) in batch.chunks(E::SEARCH_CHUNK).enumerate() {
        if index > 0 && !goes_on(index * E::SEARCH_CHUNK) {
            return Ok(None);
        }
        let pruned: ChunkEdges<_> = graph.read(|graph| {
            let search = mode.search(graph.host().params(), graph.host().metric());
            let mut candidates = executor.find_candidates(graph, chunk, search)?;
            if let LinkMode::Insert(sampling) = mode {
                candidates = executor.find_duplicates(graph, candidates)?;
                candidates = executor.add_peers(graph, candidates, sampling)?;
            }
            executor.prune(graph, candidates, mode.has_rows())
        })?;
        edges.push(pruned.edges);
        linked.duplicates.extend(pruned.duplicates);
        linked.cost += pruned.cost;
    }
    Ok(Some(BatchEdges { edges, linked }))
}

/// Publishes the edges of a batch, and merges the reversed ones into their targets.
///
/// # Errors
/// Returns the executor's error; the graph may then have edges of the batch.
pub(crate) fn publish<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    BatchEdges { edges, mut linked }: BatchEdges<E::Edges>,
    mode: LinkMode,
) -> Result<LinkedBatch, E::Error> {
    if !mode.keeps_rows() {
        graph.write(|graph| executor.publish_edges(graph, &edges))?;
    }
    let mut back_edges = executor.reverse_edges(edges)?;
    let max_kept = graph.read(|graph| {
        let (params, metric) = (graph.host().params(), graph.host().metric());
        match (mode, metric) {
            (LinkMode::Incoming, _) => None,
            // A later pass adds more edges to the same rows.
            (LinkMode::Bulk | LinkMode::Refine, Metric::L2 | Metric::Cosine) => Some(params.merged_degree()),
            _ => Some(params.max_degree()),
        }
    });
    while let Some(new_rows) = graph.read(|graph| executor.merge(graph, &mut back_edges, max_kept))? {
        let Published { cost, detached } = graph.write(|graph| executor.publish_rows(graph, new_rows))?;
        linked.cost += cost;
        linked.detached.extend(detached);
    }
    Ok(linked)
}
