//! One batch, and many: link, turn around, merge, publish.

use std::sync::{PoisonError, RwLock};

use jasper_core::{Cancelled, Element, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;

use crate::{Executor, Lists, Work};

/// A graph that is read while a batch is worked out and written while it is published.
///
/// Behind it is a plain `&mut` ([`Exclusive`]), or a lock that searches share: they wait only for the publishing.
pub trait GraphCell<T: Element> {
    /// Lets `look` read the graph.
    fn read<R>(&self, look: impl FnOnce(&Graph<T>) -> R) -> R;
    /// Lets `change` write it.
    fn write<R>(&mut self, change: impl FnOnce(&mut Graph<T>) -> R) -> R;
}

/// A graph nobody else looks at.
#[derive(Debug)]
pub struct Exclusive<'a, T: 'static>(pub &'a mut Graph<T>);

impl<T: Element> GraphCell<T> for Exclusive<'_, T> {
    fn read<R>(&self, look: impl FnOnce(&Graph<T>) -> R) -> R {
        look(self.0)
    }

    fn write<R>(&mut self, change: impl FnOnce(&mut Graph<T>) -> R) -> R {
        change(self.0)
    }
}

/// A panic in a reader leaves the graph whole, and a writer's changes cannot be seen before they are published.
impl<T: Element> GraphCell<T> for &RwLock<Graph<T>> {
    fn read<R>(&self, look: impl FnOnce(&Graph<T>) -> R) -> R {
        look(&RwLock::read(self).unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&mut self, change: impl FnOnce(&mut Graph<T>) -> R) -> R {
        change(&mut RwLock::write(self).unwrap_or_else(PoisonError::into_inner))
    }
}

/// Vertices that are searched for before they are pruned: candidates take a kilobyte or two a vertex, links a third of
/// that. Batches whose vertices are candidates of each other are smaller.
pub(crate) const SEARCHED_AT_ONCE: usize = 4096;

/// Links one batch of vertices into the graph: its links, and what they cost with the merge of their targets.
pub fn link_batch<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<T>,
    batch: &[VectorId],
    within_batch: bool,
) -> (E::Lists, Work) {
    let links = cell.read(|graph| {
        let parts = batch.chunks(SEARCHED_AT_ONCE).map(|part| {
            let candidates = executor.search(graph, part);
            executor.prune(graph, candidates, within_batch)
        });
        E::Lists::join(parts.collect())
    });
    cell.write(|graph| executor.publish_links(graph, &links));
    let mut work = links.work();
    let mut back_edges = executor.turn_around(&links);
    while let Some(updates) = cell.read(|graph| executor.merge(graph, &mut back_edges)) {
        work += cell.write(|graph| executor.publish(graph, updates));
    }
    (links, work)
}

/// Links `order` batch by batch, each as large as `size` says of the number of vertices linked before it.
///
/// # Errors
/// [`Cancelled`] between batches; what was published stays, and the caller rolls it back.
pub fn link_all<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<T>,
    order: &[VectorId],
    within_batch: bool,
    size: impl Fn(usize) -> usize,
    progress: &mut ProgressFn<'_>,
) -> Result<(Vec<(VectorId, VectorId)>, Work), Cancelled> {
    let before = cell.read(|graph| graph.live() + graph.hidden()) - order.len();
    let (mut identical, mut work) = (Vec::new(), Work::default());
    let mut done = 0;
    while done < order.len() {
        Progress { stage: Stage::Linking, done, total: order.len() }.report(progress)?;
        let batch = &order[done..][..size(before + done).clamp(1, order.len() - done)];
        let (links, batch_work) = link_batch(executor, cell, batch, within_batch);
        identical.extend_from_slice(links.identical());
        work += batch_work;
        done += batch.len();
    }
    Progress { stage: Stage::Linking, done, total: order.len() }.report(progress)?;
    Ok((identical, work))
}
