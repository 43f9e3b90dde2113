//! A graph in use: its host half, which says what there is, and its links, wherever they are worked on.

use std::convert::Infallible;
use std::error::Error;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jasper_core::Element;
use jasper_graph::Graph;

use crate::GraphLock;

/// A graph that is updated while it serves.
///
/// The host's graph is authoritative for vectors, keys, tombstones and start points. For an index on a device, the device's
/// edges are authoritative, and its copies of the rest are updated by every [`Self::change`].
pub trait MutableGraph {
    /// Type of a coordinate.
    type Element: Element;
    /// What a [`Linker`](crate::Linker) reads and writes.
    type Links;
    /// Errors of the device; `Infallible` on the CPU.
    type Error: Error + Send + Sync + 'static;

    /// The host's graph. Its edges are current only if [`Self::links`] is that graph.
    fn host(&self) -> &Graph<Self::Element>;

    /// The authoritative edges.
    fn links(&self) -> &Self::Links;

    /// The same, mutable.
    fn links_mut(&mut self) -> &mut Self::Links;

    /// Changes host data except edges, and updates device copies.
    ///
    /// # Errors
    /// Of the device. Within a transaction the caller rolls back.
    fn change<R>(&mut self, change: impl FnOnce(&mut Graph<Self::Element>) -> R) -> Result<R, Self::Error>;

    /// Remembers everything that [`Self::rollback`] needs, until [`Self::commit`].
    ///
    /// # Errors
    /// Of the device; nothing is remembered.
    fn begin(&mut self) -> Result<(), Self::Error>;

    /// Lets the changes since [`Self::begin`] stand.
    fn commit(&mut self);

    /// Undoes all changes since [`Self::begin`], those of links included. A device that fails at this is lost: every
    /// later call says so.
    fn rollback(&mut self);
}

impl<T: Element> MutableGraph for Graph<T> {
    type Element = T;
    type Links = Self;
    type Error = Infallible;

    fn host(&self) -> &Self {
        self
    }

    fn links(&self) -> &Self {
        self
    }

    fn links_mut(&mut self) -> &mut Self {
        self
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> Result<R, Infallible> {
        Ok(change(self))
    }

    fn begin(&mut self) -> Result<(), Infallible> {
        Graph::begin(self);
        Ok(())
    }

    fn commit(&mut self) {
        Graph::commit(self);
    }

    fn rollback(&mut self) {
        Graph::rollback(self);
    }
}

/// Runs `work` on the graph of a cell as one transaction: what it changed stands if it succeeds, and else is undone, also
/// where a closure or a source of rows that it calls panics.
///
/// # Errors
/// Those of `work`, and of the device.
pub fn transaction<G: MutableGraph, C: GraphLock<G>, R, E>(
    cell: &mut C,
    failed: impl FnOnce(G::Error) -> E,
    work: impl FnOnce(&mut C) -> Result<R, E>,
) -> Result<R, E> {
    cell.write(G::begin).map_err(failed)?;
    let result = catch_unwind(AssertUnwindSafe(|| work(cell)));
    cell.write(if matches!(result, Ok(Ok(_))) { G::commit } else { G::rollback });
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The links of the graph in a cell, as a cell.
pub(crate) struct LinksLock<'a, C, G> {
    cell: &'a mut C,
    graph: PhantomData<fn() -> G>,
}

impl<'a, C, G> LinksLock<'a, C, G> {
    pub(crate) fn new(cell: &'a mut C) -> Self {
        Self { cell, graph: PhantomData }
    }
}

impl<G: MutableGraph, C: GraphLock<G>> GraphLock<G::Links> for LinksLock<'_, C, G> {
    fn read<R>(&self, look: impl FnOnce(&G::Links) -> R) -> R {
        self.cell.read(|graph| look(graph.links()))
    }

    fn write<R>(&mut self, change: impl FnOnce(&mut G::Links) -> R) -> R {
        self.cell.write(|graph| change(graph.links_mut()))
    }
}
