//! One batch, and many: link, turn around, merge, publish.

use std::sync::{PoisonError, RwLock};

use jasper_core::{Cancelled, Element, VectorId};

use crate::{Linker, Links, SearchCost};

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

/// Links one batch of vertices into the graph: those that are not linked, and what it cost. Before the candidates are
/// pruned, `widen` may add to them.
///
/// # Errors
/// Of the processor; the graph may be changed in part.
pub fn link_batch<T: Element, L: Linker<T>>(
    linker: &L,
    cell: &mut impl GraphLock<L::Graph>,
    batch: &[VectorId],
    widen: impl Fn(&L::Graph, L::Candidates) -> Result<L::Candidates, L::Error>,
) -> Result<(Identical, SearchCost), L::Error> {
    let mut batch = batch.to_vec();
    batch.sort_unstable();
    let links = cell.read(|graph| {
        let parts = batch.chunks(L::SEARCHED_AT_ONCE).map(|part| {
            let candidates = linker.search(graph, part)?;
            linker.prune(graph, widen(graph, candidates)?)
        });
        parts.collect::<Result<_, _>>().map(L::Links::join)
    })?;
    cell.write(|graph| linker.publish_links(graph, &links))?;
    let (identical, mut cost) = (links.identical().to_vec(), links.cost());
    let mut back_edges = linker.reverse_edges(links)?;
    while let Some(updates) = cell.read(|graph| linker.merge(graph, &mut back_edges))? {
        cost += cell.write(|graph| linker.publish(graph, updates))?;
    }
    Ok((identical, cost))
}

/// Vertices that were not linked because their row is that of another: (the vertex, the other).
pub type Identical = Vec<(VectorId, VectorId)>;

/// Links `order` batch by batch, each as large as `size` says of the number of vertices linked before it. Gives
/// the vertices that were not linked, and what it cost.
///
/// `between` is told before each batch, and behind the last, how many vertices are linked and at what cost; it tells
/// others, and ends the work by an error.
///
/// # Errors
/// Those of `between`; what was published stays, and the caller rolls it back.
pub fn link_all<T: Element, L: Linker<T>, C: GraphLock<L::Graph>, E: From<LinkError<L::Error>>>(
    linker: &L,
    cell: &mut C,
    order: &[VectorId],
    widen: impl Fn(&L::Graph, L::Candidates) -> Result<L::Candidates, L::Error>,
    size: impl Fn(usize) -> usize,
    mut between: impl FnMut(&C, usize, SearchCost) -> Result<(), E>,
) -> Result<(Identical, SearchCost), E> {
    let (mut identical, mut cost) = (Identical::new(), SearchCost::default());
    let mut done = 0;
    while done < order.len() {
        between(cell, done, cost)?;
        let batch = &order[done..][..size(done).clamp(1, order.len() - done)];
        let (same, batch_work) = link_batch(linker, cell, batch, &widen).map_err(LinkError::Linker)?;
        identical.extend(same);
        cost += batch_work;
        done += batch.len();
    }
    between(cell, done, cost)?;
    Ok((identical, cost))
}
