//! Graphs in use, which are changed in transactions, under a lock that searches share.

use std::cell::Cell;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jasper_core::{DeviceError, Slot};
use jasper_graph::Graph;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::Executor;

/// A graph that is changed while it is searched: on the host, or on a device.
///
/// Vectors, keys, tombstones and start points are changed in the host's graph, by [`Self::change_host`], which updates
/// the copies of a device. Edges are changed where the graph is searched; on a device, the host's graph gets them on
/// request.
pub trait MutableGraph {
    /// Errors of the device; `Infallible` on the CPU.
    type Error: Into<DeviceError>;

    /// The host's graph. Its edges may be older than those of the device.
    fn host(&self) -> &Graph;

    /// The host's graph, whose edges have been brought up to date with
    /// [`Executor::sync_host_edges`](crate::Executor::sync_host_edges).
    fn into_host(self) -> Graph;

    /// Changes vectors, keys, tombstones and start points: first in the host's graph, then in the device's copies.
    ///
    /// # Errors
    /// Returns the device's error. The copies may then differ from the host's graph until the caller rolls back.
    fn change_host<R>(&mut self, change: impl FnOnce(&mut Graph) -> R) -> Result<R, Self::Error>;

    /// Begins to record everything that [`Self::rollback`] needs, until [`Self::commit`].
    ///
    /// # Errors
    /// Returns the device's error; nothing is recorded.
    fn begin(&mut self) -> Result<(), Self::Error>;

    /// Keeps the changes since [`Self::begin`].
    fn commit(&mut self);

    /// Undoes all changes since [`Self::begin`], including changes of edges, but for [`Graph::release_tombstones`],
    /// which is the last change of a transaction. New codes are dropped. A device that fails in this call is
    /// unusable: every later call returns its error.
    fn rollback(&mut self);
}

impl MutableGraph for Graph {
    type Error = Infallible;

    fn host(&self) -> &Self {
        self
    }

    fn into_host(self) -> Self {
        self
    }

    fn change_host<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> Result<R, Infallible> {
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

/// Access to a graph: shared for reading, exclusive for short writes.
///
/// Implemented by
/// - every [`MutableGraph`], while no other thread sees it;
/// - references to a [`HostGraph`](crate::HostGraph), whose snapshots are searched meanwhile;
/// - references to a [`SharedGraph`], which searches read meanwhile;
/// - [`Transaction`].
pub trait GraphAccess<G: MutableGraph> {
    /// Waits until searches have ended that may read free slots. To be called before vectors are added, outside of
    /// [`Self::write_graph`].
    fn wait_for_free_slots(&self) {}

    /// Waits until the searches that have begun have ended. To be called outside of [`Self::write_graph`], before edges to deleted
    /// vertices are removed, which these may return, and before edges from them are, which these may follow.
    fn wait_for_searches(&mut self) {}

    /// Calls `read` once, with the graph.
    fn read_graph(&self, read: &mut dyn FnMut(&G));

    /// Calls `write` once, with the graph, while nothing else reads it.
    fn write_graph(&mut self, write: &mut dyn FnMut(&mut G));

    /// Calls [`MutableGraph::change_host`] once.
    ///
    /// # Errors
    /// Returns the device's error.
    fn change_host_graph(&mut self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        let mut changed = Ok(());
        self.write_graph(&mut |graph| changed = graph.change_host(&mut *change));
        changed.map_err(Into::into)
    }
}

/// The methods of the trait, with results.
impl<G: MutableGraph> dyn GraphAccess<G> + '_ {
    /// Runs `read` on the graph.
    pub fn read<R>(&self, read: impl FnOnce(&G) -> R) -> R {
        let (mut read, mut result) = (Some(read), None);
        self.read_graph(&mut |graph| result = read.take().map(|read| read(graph)));
        result.expect("the graph is read")
    }

    /// Runs `write` on the graph, while nothing else reads it.
    pub fn write<R>(&mut self, write: impl FnOnce(&mut G) -> R) -> R {
        let (mut write, mut result) = (Some(write), None);
        self.write_graph(&mut |graph| result = write.take().map(|write| write(graph)));
        result.expect("the graph is written")
    }

    /// Runs [`MutableGraph::change_host`] on the graph.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn change_host<R>(&mut self, change: impl FnOnce(&mut Graph) -> R) -> Result<R, DeviceError> {
        let (mut change, mut result) = (Some(change), None);
        self.change_host_graph(&mut |host| result = change.take().map(|change| change(host)))?;
        Ok(result.expect("the graph is changed"))
    }
}

impl<G: MutableGraph> GraphAccess<G> for G {
    fn read_graph(&self, read: &mut dyn FnMut(&G)) {
        read(self);
    }

    fn write_graph(&mut self, write: &mut dyn FnMut(&mut G)) {
        write(self);
    }
}

/// A graph that searches share with the change that is under way.
///
/// A reader that panics changes nothing, and what a writer changed is undone by its transaction.
///
/// A reader may read again: filters and other callbacks of a user, which are called while a graph is read, may search it.
/// They do not wait for a change that waits for them.
#[derive(Debug)]
pub struct SharedGraph<G>(RwLock<G>);

impl<G> SharedGraph<G> {
    /// Shares a graph.
    pub fn new(graph: G) -> Self {
        Self(RwLock::new(graph))
    }

    /// Runs `read` while the graph does not change.
    pub fn read<R>(&self, read: impl FnOnce(&G) -> R) -> R {
        let (graph, _reading) = self.lock_for_reading();
        read(&graph)
    }

    fn lock_for_reading(&self) -> (RwLockReadGuard<'_, G>, Reading) {
        let graph = if is_reading() { self.0.read_recursive() } else { self.0.read() };
        (graph, Reading::begin())
    }

    /// Runs `write` while nothing reads the graph.
    pub fn write<R>(&self, write: impl FnOnce(&mut G) -> R) -> R {
        write(&mut self.0.write())
    }

    /// The graph.
    pub fn into_inner(self) -> G {
        self.0.into_inner()
    }
}

thread_local! {
    /// Whether this thread runs something for which a graph is locked for reading, by this thread or another.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread [is reading](Reading).
pub(crate) fn is_reading() -> bool {
    IS_READING.get()
}

/// While this exists, a graph is locked for reading, and this thread runs something that reads it.
pub(crate) struct Reading {
    /// Whether the thread was reading before.
    before: bool,
}

impl Reading {
    pub(crate) fn begin() -> Self {
        Self { before: IS_READING.replace(true) }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        IS_READING.set(self.before);
    }
}

impl<G: MutableGraph> GraphAccess<G> for &SharedGraph<G> {
    fn read_graph(&self, read: &mut dyn FnMut(&G)) {
        self.read(read);
    }

    fn write_graph(&mut self, write: &mut dyn FnMut(&mut G)) {
        self.write(write);
    }
}

/// A graph in a [`transaction`].
pub struct Transaction<'a, G> {
    graph: &'a mut (dyn GraphAccess<G> + 'a),
    state: State,
}

/// What a transaction has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    New,
    /// [`MutableGraph::begin`].
    Open,
    /// [`MutableGraph::commit`] or [`MutableGraph::rollback`].
    Ended,
}

impl<G: MutableGraph> GraphAccess<G> for Transaction<'_, G> {
    fn wait_for_free_slots(&self) {
        self.graph.wait_for_free_slots();
    }

    fn wait_for_searches(&mut self) {
        self.graph.wait_for_searches();
    }

    fn read_graph(&self, read: &mut dyn FnMut(&G)) {
        self.graph.read_graph(read);
    }

    fn write_graph(&mut self, write: &mut dyn FnMut(&mut G)) {
        assert_eq!(self.state, State::Open, "a transaction begins with a change of the host's graph");
        self.graph.write_graph(write);
    }

    /// Begins with the first change. Rolls the transaction back on an error, before searches can see host and device
    /// differ.
    fn change_host_graph(&mut self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        self.change(change, false)
    }
}

/// To its own methods with results.
impl<'a, G: MutableGraph> Deref for Transaction<'a, G> {
    type Target = dyn GraphAccess<G> + 'a;

    fn deref(&self) -> &Self::Target {
        self
    }
}

impl<G: MutableGraph> DerefMut for Transaction<'_, G> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self
    }
}

impl<G: MutableGraph> Transaction<'_, G> {
    /// Begins, if it has not begun yet.
    fn begin(&mut self) -> Result<(), G::Error> {
        if self.state == State::New {
            self.graph.write(G::begin)?;
            self.state = State::Open;
        }
        Ok(())
    }

    /// Makes the last change, and ends the transaction with it: searches wait once for both.
    ///
    /// # Errors
    /// Returns the device's error; the transaction is rolled back.
    pub(crate) fn finish(&mut self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        self.change(change, true)
    }

    /// Runs `work` while no search reads the graph, without waiting for searches in between. For what takes less than
    /// a millisecond.
    pub(crate) fn exclusively<R>(&mut self, work: impl FnOnce(&mut Transaction<'_, G>) -> R) -> R {
        let state = &mut self.state;
        self.graph.write(|graph| {
            let mut inner = Transaction { graph, state: *state };
            let result = work(&mut inner);
            *state = inner.state;
            result
        })
    }

    /// Changes the host's graph, after it has begun, and commits it if this is the last change.
    fn change(&mut self, change: &mut dyn FnMut(&mut Graph), is_last: bool) -> Result<(), DeviceError> {
        let state = &mut self.state;
        let result = self.graph.write(|graph| {
            if *state == State::New {
                graph.begin()?;
                *state = State::Open;
            }
            match graph.change_host(change) {
                Ok(()) if is_last => {
                    graph.commit();
                    *state = State::Ended;
                    Ok(())
                }
                Ok(()) => Ok(()),
                Err(error) => {
                    graph.rollback();
                    *state = State::Ended;
                    Err(error)
                }
            }
        });
        result.map_err(Into::<DeviceError>::into)
    }
}

/// Runs `work` on a graph as one transaction. Its changes are kept if it succeeds, and undone if it fails or panics.
/// The first one is a change of the host's graph.
///
/// # Errors
/// Returns the errors of `work` and of the device.
pub fn transaction<G: MutableGraph, R, E: From<DeviceError>>(
    graph: &mut dyn GraphAccess<G>,
    work: impl FnOnce(&mut Transaction<'_, G>) -> Result<R, E>,
) -> Result<R, E> {
    run_transaction(graph, work, Result::is_ok)
}

/// Calls `work` while `vertices` have no out-edges, and restores these.
///
/// # Errors
/// Returns the errors of the device; `work` may then not have been called.
pub fn without_edges<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: &[Slot],
    work: &mut dyn FnMut(),
) -> Result<(), E::Error> {
    let no_edges = vec![Vec::new(); vertices.len()];
    let remove = |graph: &mut Transaction<'_, E::Graph>| {
        graph.begin()?;
        let new_rows = graph.read(|graph| executor.new_rows(graph, vertices, &no_edges))?;
        graph.write(|graph| executor.publish_rows(graph, new_rows))?;
        work();
        Ok(())
    };
    run_transaction(graph, remove, |_| false)
}

/// Runs `work` as one transaction, which is undone unless `keep` returns true for its result.
fn run_transaction<G: MutableGraph, R>(
    graph: &mut dyn GraphAccess<G>,
    work: impl FnOnce(&mut Transaction<'_, G>) -> R,
    keep: impl FnOnce(&R) -> bool,
) -> R {
    let mut transaction = Transaction { graph, state: State::New };
    let result = catch_unwind(AssertUnwindSafe(|| work(&mut transaction)));
    let Transaction { graph, state } = transaction;
    if state == State::Open {
        graph.write(if result.as_ref().is_ok_and(keep) { G::commit } else { G::rollback });
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}
