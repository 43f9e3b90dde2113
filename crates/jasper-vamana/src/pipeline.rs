//! Linking a batch of vertices: search, prune, reverse the edges, merge them into their targets.

use std::sync::{PoisonError, RwLock};

use jasper_core::{Cancelled, Element, VectorId};

use crate::{Executor, Links, PeerSampling, SearchCost};

/// A graph that is read while a batch is worked out and written while it is published.
///
/// Behind it is a plain `&mut` ([`Exclusive`]), or a lock that searches share: they wait only for the publishing.
pub trait GraphLock<G> {
    /// Lets `look` read the graph.
    fn read<R>(&self, look: impl FnOnce(&G) -> R) -> R;
    /// Lets `change` write it.
    fn write<R>(&mut self, change: impl FnOnce(&mut G) -> R) -> R;
}

/// A graph nobody else looks at.
#[derive(Debug)]
pub struct Exclusive<'a, G>(pub &'a mut G);

impl<G> GraphLock<G> for Exclusive<'_, G> {
    fn read<R>(&self, look: impl FnOnce(&G) -> R) -> R {
        look(self.0)
    }

    fn write<R>(&mut self, change: impl FnOnce(&mut G) -> R) -> R {
        change(self.0)
    }
}

/// A panic in a reader leaves the graph whole, and a writer's changes cannot be seen before they are published.
impl<G> GraphLock<G> for &RwLock<G> {
    fn read<R>(&self, look: impl FnOnce(&G) -> R) -> R {
        look(&RwLock::read(self).unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&mut self, change: impl FnOnce(&mut G) -> R) -> R {
        change(&mut RwLock::write(self).unwrap_or_else(PoisonError::into_inner))
    }
}

/// Vertices could not be linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError<E> {
    /// The progress closure broke off.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The processor failed.
    #[error(transparent)]
    Linker(E),
}

/// What is known of the vertices of a batch.
#[derive(Clone, Copy, Debug)]
pub enum LinkMode {
    /// Distinct vectors in random order: all of a bulk build.
    Bulk,
    /// Vectors in an order of the caller's, which may be in the graph already. Duplicates are not linked, and with `peers`
    /// the vertices of a batch are candidates of each other.
    Insert {
        /// Which vertices of the batch are compared.
        peers: Option<PeerSampling>,
    },
}

/// Vertices that were not linked because their vector is that of another: (the vertex, the other).
pub type Duplicates = Vec<(VectorId, VectorId)>;

/// Links one batch of vertices into the graph. Returns the duplicates, and the cost.
///
/// ```text
/// for each part of the batch:                       parts bound the memory of candidates
///     candidates = search(part)                     on the graph as it was before the batch
///     if mode is Insert: find duplicates; add the nearest peers to the candidates
///     links += prune(candidates)
/// publish links                                     no edge leads to the batch yet
/// back edges = reverse(links), sorted
/// while targets are left: publish merge(targets)    append to rows with room, prune full ones
/// ```
///
/// DiskANN inserts vertices one by one under locks. Batches instead:
/// 1. search a frozen graph, so that the result does not depend on threads or their timing;
/// 2. sort the back edges by (target, distance, source), so that each row is merged once, and in one order;
/// 3. grow with the graph, so that what a vertex cannot see is a small share of its neighborhood.
///
/// # Errors
/// Of the executor; the graph may then have edges of the batch.
pub fn link_batch<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Graph>,
    batch: &[VectorId],
    mode: LinkMode,
) -> Result<(Duplicates, SearchCost), E::Error> {
    let mut batch = batch.to_vec();
    batch.sort_unstable();
    let links = cell.read(|graph| {
        let parts = batch.chunks(E::SEARCHED_AT_ONCE).map(|part| {
            let mut candidates = executor.search(graph, part)?;
            if let LinkMode::Insert { peers } = mode {
                candidates = executor.find_duplicates(graph, candidates)?;
                if let Some(peers) = peers {
                    candidates = executor.batch_candidates(graph, candidates, peers)?;
                }
            }
            executor.prune(graph, candidates)
        });
        parts.collect::<Result<_, _>>().map(E::Links::join)
    })?;
    cell.write(|graph| executor.publish_links(graph, &links))?;
    let (duplicates, mut cost) = (links.identical().to_vec(), links.cost());
    let mut back_edges = executor.reverse_edges(links)?;
    while let Some(updates) = cell.read(|graph| executor.merge(graph, &mut back_edges))? {
        cost += cell.write(|graph| executor.publish(graph, updates))?;
    }
    Ok((duplicates, cost))
}
