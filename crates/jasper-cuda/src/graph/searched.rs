//! Graphs in device memory in use: searches have snapshots, and wait for no change.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jasper_graph::{Graph, Snapshot};
use jasper_vamana::{CompactReport, Filter, GraphAccess, SharedGraph};
use parking_lot::RwLock;

use super::{HostAndDeviceGraph, SearchTables};
use crate::{GraphView, Stream};

/// Looks at searches that have not ended before the thread sleeps: a search takes some tens of microseconds.
const LOOKS: usize = 64;
/// Time that it sleeps between two looks.
const SLEEP: Duration = Duration::from_micros(50);

/// More time than most searches take.
const SEARCH_TIME: Duration = Duration::from_millis(100);
/// Time for which a compaction without memory tries to find a moment without searches.
const PATIENCE: Duration = Duration::from_secs(10);

/// A graph in device memory that is changed while it is searched, as [`HostGraph`](jasper_vamana::HostGraph) is in that of
/// the host.
///
/// ```text
/// a search:   takes the snapshot that was published last             one lock, for as long as it takes to count it
/// a change:   writes to the graph, under a lock that searches do not take
///             after each write, publishes a snapshot                 keys appear and go in one write
///             before it uses freed slots again, waits until searches that may read them have ended;
///             before it removes edges of deleted vertices, until those have that are on their way there
/// a look-up of a key, a new filter: reads the host's graph, under the lock
/// ```
///
/// `SearchTables` says what stays as it is in a snapshot.
#[derive(Debug)]
pub struct SearchedGraph<S: gpu_kernels::Stream = Stream> {
    // Dropped before the graph, to whose memory it leads.
    published: RwLock<Arc<GraphSnapshot<S>>>,
    graph: SharedGraph<HostAndDeviceGraph<S>>,
}

/// A graph on a host and a device as it was at one moment, for searches.
pub struct GraphSnapshot<S: gpu_kernels::Stream = Stream> {
    host: Snapshot,
    tables: Arc<SearchTables<S>>,
    /// Whether the host has the edges, so that it can search.
    has_host_edges: bool,
    /// The error that made the copy unusable.
    failure: Option<S::Error>,
}

impl<S: gpu_kernels::Stream> GraphSnapshot<S> {
    pub(super) fn new(
        host: Snapshot,
        tables: Arc<SearchTables<S>>,
        has_host_edges: bool,
        failure: Option<S::Error>,
    ) -> Self {
        Self { host, tables, has_host_edges, failure }
    }

    /// The graph on the host. Whether it has edges says [`Self::searchable_host`].
    pub fn host(&self) -> &Graph {
        &self.host
    }

    /// The graph on the host, if it has the edges that were uploaded, so that the host can search it.
    pub fn searchable_host(&self) -> Option<&Graph> {
        (self.has_host_edges && self.failure.is_none()).then_some(&*self.host)
    }

    #[cfg(test)]
    pub(crate) fn tables(&self) -> &SearchTables<S> {
        &self.tables
    }
}

impl GraphSnapshot {
    /// The view for searches.
    ///
    /// # Errors
    /// Returns the error that made the copy unusable, if any.
    pub fn view(&self) -> crate::Result<GraphView<'_>> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(GraphView::new(&self.host, &self.tables)),
        }
    }
}

impl<S: gpu_kernels::Stream<Error: Clone>> SearchedGraph<S> {
    /// Takes a graph into use. All work on the copy is complete.
    pub fn new(graph: HostAndDeviceGraph<S>) -> Self {
        let published = RwLock::new(snapshot_of(&graph));
        Self { published, graph: SharedGraph::new(graph) }
    }

    /// Calls `search` with the graph as it is now. What it launches ends before it returns, or is
    /// [marked](crate::DeviceSearcher::enqueue).
    pub fn search<R>(&self, filter: Option<Filter<'_>>, search: impl FnOnce(&GraphSnapshot<S>) -> R) -> R {
        search(&self.snapshot(filter))
    }

    /// The graph for a search with this filter. To be dropped before `self`, and after all that reads it has ended.
    pub(crate) fn snapshot(&self, filter: Option<Filter<'_>>) -> Arc<GraphSnapshot<S>> {
        let snapshot = Arc::clone(&self.published.read());
        let keys = snapshot.host.keys();
        let is_ready = match filter {
            None | Some(Filter::Predicate(_)) => true,
            Some(Filter::Keys(filter)) => keys.has_allowed_slots(filter),
            Some(Filter::Where(_) | Filter::PerQuery(_)) => keys.has_locations(),
        };
        if is_ready { snapshot } else { self.snapshot_with(filter) }
    }

    /// The published snapshot, with what a search with this filter looks up: the slots of keys, and those of a filter. The
    /// graph finds these faster: it knows those before the last change.
    fn snapshot_with(&self, filter: Option<Filter<'_>>) -> Arc<GraphSnapshot<S>> {
        self.read(|graph| {
            // Nothing is published while the graph is read, so both have the same keys.
            let snapshot = Arc::clone(&self.published.read());
            let host = jasper_vamana::MutableGraph::host(graph);
            host.keys().find_locations();
            snapshot.host.keys().set_locations_of(host.keys());
            if let Some(Filter::Keys(keys)) = filter {
                snapshot.host.keys().set_allowed_slots(keys, host.keys().allowed_slots(keys));
            }
            snapshot
        })
    }

    /// Runs `read` while the graph does not change.
    pub fn read<R>(&self, read: impl FnOnce(&HostAndDeviceGraph<S>) -> R) -> R {
        self.graph.read(read)
    }

    /// Runs `write` while nothing but searches reads the graph, and publishes the result.
    pub fn write<R>(&self, write: impl FnOnce(&mut HostAndDeviceGraph<S>) -> R) -> R {
        let (result, last) = self.graph.write(|graph| {
            let result = catch_unwind(AssertUnwindSafe(|| write(graph)));
            // What a panic leaves is undone by another write.
            let publish = || std::mem::replace(&mut *self.published.write(), snapshot_of(graph));
            let last = result.is_ok().then(publish);
            (result, last)
        });
        // Outside of the locks: it may free much memory.
        drop(last);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Moves the last vertices into free slots, as [`HostAndDeviceGraph::compact`]. Searches go on in the old edges, which
    /// takes their memory twice meanwhile. Where there is no room for that, it is done at a moment without searches.
    ///
    /// # Errors
    /// Returns the device's error, such as out of memory if there is no such moment within some seconds. The copy is
    /// unusable if an error occurs after vertices began to move.
    pub fn compact(&self) -> Result<CompactReport, S::Error> {
        if self.read(|graph| jasper_vamana::MutableGraph::host(graph).keys().free() == 0) {
            return Ok(CompactReport::default());
        }
        self.wait_until_unread();
        let no_room = match self.read(|graph| graph.on_device().allocate_edges()) {
            Ok(edges) => {
                let report = self.write(|graph| graph.compact_into(Some(edges)))?;
                self.free_old_arrays();
                return Ok(report);
            }
            Err(error) => error,
        };
        // Searches cannot be kept from beginning until all have ended: one may wait for another that its filter makes.
        let begin = Instant::now();
        loop {
            self.write(HostAndDeviceGraph::retire_snapshots);
            self.wait_until_unread();
            let compacted = self.graph.write(|graph| {
                let mut published = self.published.write();
                Arc::get_mut(&mut published)?;
                let result = graph.compact_into(None);
                *published = snapshot_of(graph);
                Some(result)
            });
            if let Some(result) = compacted {
                return result;
            }
            if begin.elapsed() > PATIENCE {
                return Err(no_room);
            }
        }
    }

    /// Frees the arrays that a change has replaced, such as the edges from before a compaction, when the searches that read
    /// them have ended. The next change does it if one takes long.
    pub fn free_old_arrays(&self) {
        let (begin, mut looks) = (Instant::now(), 0);
        while begin.elapsed() < SEARCH_TIME
            && self.write(HostAndDeviceGraph::free_unread).is_ok_and(|left| left)
        {
            pause(&mut looks);
        }
    }

    /// Waits until searches have ended that may read free slots.
    fn wait_until_unread(&self) {
        let mut looks = 0;
        while !self.read(|graph| jasper_vamana::MutableGraph::host(graph).are_free_slots_unread()) {
            pause(&mut looks);
        }
        // Marked launches outlast their snapshots. If the device fails, they do not go on, and the next step reports it.
        let _ = self.read(|graph| graph.on_device().wait_for_readers());
    }

    /// The graph.
    pub fn into_inner(self) -> HostAndDeviceGraph<S> {
        let Self { published, graph } = self;
        drop(published);
        graph.into_inner()
    }
}

/// Waits a little for searches.
fn pause(looks: &mut usize) {
    *looks += 1;
    if *looks < LOOKS { thread::yield_now() } else { thread::sleep(SLEEP) }
}

/// A snapshot, which only searches read.
fn snapshot_of<S: gpu_kernels::Stream<Error: Clone>>(graph: &HostAndDeviceGraph<S>) -> Arc<GraphSnapshot<S>> {
    // SAFETY: `SearchedGraph` drops the published one before the graph. It gives out others for calls that borrow it, and
    // that end or mark their launches, and to `StartedSearch`, which waits for its launch and then drops its snapshot before
    // its reference to the `SearchedGraph`.
    Arc::new(unsafe { graph.snapshot() })
}

impl<S: gpu_kernels::Stream<Error: Clone>> GraphAccess<HostAndDeviceGraph<S>> for &SearchedGraph<S> {
    fn wait_for_free_slots(&self) {
        self.wait_until_unread();
    }

    fn wait_for_searches(&mut self) {
        // Searches that begin from now on read the rows that were written. An error is that of the next step, too.
        let _ = self.read(|graph| gpu_kernels::Stream::synchronize(graph.stream()));
        SearchedGraph::write(self, HostAndDeviceGraph::retire_snapshots);
        self.wait_until_unread();
    }

    fn read_graph(&self, read: &mut dyn FnMut(&HostAndDeviceGraph<S>)) {
        self.read(read);
    }

    fn write_graph(&mut self, write: &mut dyn FnMut(&mut HostAndDeviceGraph<S>)) {
        self.write(write);
    }
}

impl<S: gpu_kernels::Stream> fmt::Debug for GraphSnapshot<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphSnapshot({:?})", self.tables)
    }
}
