//! Graphs in host memory in use: searches have snapshots, and wait for no change.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jasper_core::Element;
use jasper_graph::{Graph, KeyFilter};
use parking_lot::RwLock;

use crate::{Filter, GraphAccess, SharedGraph};

/// A graph in host memory that is changed while it is searched.
///
/// ```text
/// a search:   takes the snapshot that was published last             one lock, for as long as it takes to count it
/// a change:   writes to the graph, under a lock that searches do not take
///             after each write, publishes a snapshot                 keys appear and go in one write
///             before it uses freed slots again, waits until searches that may read them have ended;
///             before it removes edges to deleted vertices, until those have that may return them
/// a look-up of a key, a new filter: reads the graph, under the lock
/// ```
///
/// A snapshot is kept alive by the searches that have it, so it is whole: a change that is published meanwhile is in none
/// of their results. Only edges change under them: see [`Graph::snapshot`].
#[derive(Debug)]
pub struct HostGraph<T: Element> {
    graph: SharedGraph<Graph<T>>,
    published: RwLock<Arc<Graph<T>>>,
}

/// Looks at searches that have not ended before the thread sleeps: a search takes some tens of microseconds.
const LOOKS: usize = 64;
/// Time that it sleeps between two looks.
const SLEEP: Duration = Duration::from_micros(50);

impl<T: Element> HostGraph<T> {
    /// Takes a graph into use.
    pub fn new(graph: Graph<T>) -> Self {
        let published = RwLock::new(Arc::new(graph.snapshot()));
        Self { graph: SharedGraph::new(graph), published }
    }

    /// The graph for a search with this filter.
    pub fn snapshot(&self, filter: Option<Filter<'_>>) -> Arc<Graph<T>> {
        let snapshot = Arc::clone(&self.published.read());
        match filter {
            Some(Filter::Keys(keys)) if !snapshot.keys().has_allowed_slots(keys) => self.snapshot_with(keys),
            _ => snapshot,
        }
    }

    /// The published snapshot, with the slots of a filter. The graph finds them faster: it knows the slot of each key, and
    /// those of the filter before the last change.
    fn snapshot_with(&self, filter: &KeyFilter) -> Arc<Graph<T>> {
        self.read(|graph| {
            // Nothing is published while the graph is read, so both have the same keys.
            let snapshot = Arc::clone(&self.published.read());
            snapshot.keys().set_allowed_slots(filter, graph.keys().allowed_slots(filter));
            snapshot
        })
    }

    /// Runs `read` while the graph does not change.
    pub fn read<R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> R {
        self.graph.read(read)
    }

    /// Runs `write` while nothing reads the graph, and publishes the result.
    pub fn write<R>(&self, write: impl FnOnce(&mut Graph<T>) -> R) -> R {
        self.graph.write(|graph| {
            let result = catch_unwind(AssertUnwindSafe(|| write(graph)));
            let snapshot = Arc::new(graph.snapshot());
            let last = std::mem::replace(&mut *self.published.write(), snapshot);
            // It may free memory, which nobody has to wait for.
            drop(last);
            result.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// The graph.
    pub fn into_inner(self) -> Graph<T> {
        self.graph.into_inner()
    }
}

impl<T: Element> GraphAccess<Graph<T>> for &HostGraph<T> {
    fn wait_for_free_slots(&self) {
        let mut looks = 0;
        while !self.read(Graph::are_free_slots_unread) {
            looks += 1;
            if looks < LOOKS { thread::yield_now() } else { thread::sleep(SLEEP) }
        }
    }

    fn wait_for_searches(&mut self) {
        self.write(Graph::retire_snapshots);
        self.wait_for_free_slots();
    }

    fn read<R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> R {
        HostGraph::read(self, read)
    }

    fn write<R>(&mut self, write: impl FnOnce(&mut Graph<T>) -> R) -> R {
        HostGraph::write(self, write)
    }
}
