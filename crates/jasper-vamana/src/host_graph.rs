//! Graphs in host memory in use: searches have snapshots, and wait for no change.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jasper_core::{Slot, VectorView};
use jasper_graph::{Graph, Snapshot, VectorError, check_element};
use parking_lot::RwLock;

use crate::{
    ChangeHooks, ConsolidateReport, CostModel, CpuExecutor, Explanation, Filter, GraphAccess, Hit,
    InsertReport, MatchesMut, NewVectors, SearchError, SearchParams, SearchPlan, SearchReport, SharedGraph,
    UpdateError, consolidate, insert, without_edges,
};

/// A graph in host memory that is changed while it is searched.
///
/// ```text
/// a search:   takes the snapshot that was published last             one lock, for as long as it takes to count it
/// a change:   writes to the graph, under a lock that searches do not take
///             after each write, publishes a snapshot                 keys appear and go in one write
///             before it uses freed slots again, waits until searches that may read them have ended;
///             before it removes edges to deleted vertices, until those have that may return them;
///             before it removes edges from them, until those have that may be on their way through them
/// a look-up of a key, a new filter: reads the graph, under the lock
/// ```
///
/// A snapshot is kept alive by the searches that have it, so it is whole: a change that is published meanwhile is in none
/// of their results. Only edges change under them: see [`Graph::snapshot`].
#[derive(Debug)]
pub struct HostGraph {
    graph: SharedGraph<Graph>,
    published: RwLock<Arc<Snapshot>>,
}

/// Looks at searches that have not ended before the thread sleeps: a search takes some tens of microseconds.
const LOOKS: usize = 64;
/// Time that it sleeps between two looks.
const SLEEP: Duration = Duration::from_micros(50);

impl HostGraph {
    /// Takes a graph into use.
    pub fn new(graph: Graph) -> Self {
        let published = RwLock::new(snapshot_of(&graph));
        Self { graph: SharedGraph::new(graph), published }
    }

    /// Searches for one vector: see [`CpuExecutor::search_one`].
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn search_one(
        &self,
        executor: &CpuExecutor,
        query: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        executor.search_one(&self.snapshot(params.filter), query, params)
    }

    /// Searches for several vectors: see [`CpuExecutor::search_batch`]. All see the same state of the graph.
    ///
    /// # Errors
    /// Returns [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn search_batch(
        &self,
        executor: &CpuExecutor,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        executor.search_batch(&self.snapshot(params.filter), queries, params, matches)
    }

    /// Inserts vectors: see [`insert`](crate::insert()).
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the graph is unchanged.
    pub fn insert(
        &self,
        executor: &CpuExecutor,
        new: NewVectors<'_>,
        hooks: ChangeHooks<'_>,
    ) -> Result<InsertReport, UpdateError> {
        insert(executor, &mut &*self, new, hooks)
    }

    /// Removes tombstones from the graph: see [`consolidate`](crate::consolidate()).
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the graph is unchanged.
    pub fn consolidate(
        &self,
        executor: &CpuExecutor,
        hooks: ChangeHooks<'_>,
    ) -> Result<ConsolidateReport, UpdateError> {
        consolidate(executor, &mut &*self, hooks)
    }

    /// Calls `work` while `vertices` have no out-edges, and restores these.
    pub fn without_edges(&self, executor: &CpuExecutor, vertices: &[Slot], work: &mut dyn FnMut()) {
        let Ok(()) = without_edges(executor, &mut &*self, vertices, work);
    }

    /// How a search for several queries would be executed; if each has a filter, that for the first.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError> {
        let snapshot = self.snapshot(params.filter);
        Ok(SearchPlan::new(&snapshot, params.of_query(0), queries, CostModel::CPU)?.explain())
    }

    /// The graph for a search with this filter.
    fn snapshot(&self, filter: Option<Filter<'_>>) -> Arc<Snapshot> {
        let snapshot = Arc::clone(&self.published.read());
        let is_ready = match filter {
            None | Some(Filter::Predicate(_)) => true,
            Some(Filter::Keys(keys)) if keys.is_used() => snapshot.keys().has_allowed_slots(keys),
            Some(_) => snapshot.keys().has_locations(),
        };
        if is_ready { snapshot } else { self.snapshot_with(filter) }
    }

    /// The published snapshot, with what a search with this filter looks up: the slots of keys, and those of a filter that
    /// is used again. The graph finds these faster: it knows those before the last change.
    fn snapshot_with(&self, filter: Option<Filter<'_>>) -> Arc<Snapshot> {
        self.read(|graph| {
            // Nothing is published while the graph is read, so both have the same keys.
            let snapshot = Arc::clone(&self.published.read());
            graph.keys().find_locations();
            snapshot.keys().set_locations_of(graph.keys());
            if let Some(Filter::Keys(keys)) = filter
                && keys.is_used()
            {
                snapshot.keys().set_allowed_slots(keys, graph.keys().allowed_slots(keys));
            }
            snapshot
        })
    }

    /// Runs `read` while the graph does not change.
    pub fn read<R>(&self, read: impl FnOnce(&Graph) -> R) -> R {
        self.graph.read(read)
    }

    /// Runs `write` while nothing reads the graph, and publishes the result.
    pub fn write<R>(&self, write: impl FnOnce(&mut Graph) -> R) -> R {
        let (result, last) = self.graph.write(|graph| {
            let result = catch_unwind(AssertUnwindSafe(|| write(graph)));
            let snapshot = snapshot_of(graph);
            (result, std::mem::replace(&mut *self.published.write(), snapshot))
        });
        // Outside of the locks: it may free much memory.
        drop(last);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The graph.
    pub fn into_inner(self) -> Graph {
        self.graph.into_inner()
    }
}

/// Checks that queries have the element type of the graph.
///
/// # Errors
/// Returns [`VectorError::Element`].
pub fn check_elements(graph: &Graph, queries: &[VectorView<'_>]) -> Result<(), VectorError> {
    queries.iter().try_for_each(|query| check_element(query.element(), graph.element()))
}

/// A snapshot, which only searches of this module read.
#[expect(unsafe_code, reason = "the caller must ensure what a snapshot is read for")]
fn snapshot_of(graph: &Graph) -> Arc<Snapshot> {
    // SAFETY: searches begin at start points, follow edges that they load, and scan live vertices.
    Arc::new(unsafe { graph.snapshot() })
}

impl GraphAccess<Graph> for &HostGraph {
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

    fn read_graph(&self, read: &mut dyn FnMut(&Graph)) {
        self.read(read);
    }

    fn write_graph(&mut self, write: &mut dyn FnMut(&mut Graph)) {
        self.write(write);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::mpsc;

    use jasper_core::{BuildParams, ElementKind, Metric, Progress, Slot, Stage};
    use jasper_graph::KeyFilter;

    use super::*;
    use crate::{ChangeHooks, NewVectors, OnConflict, consolidate, insert};

    fn graph(executor: &CpuExecutor, rows: &[u8], keys: &[u64]) -> HostGraph {
        let graph =
            HostGraph::new(Graph::new(ElementKind::U8, Metric::L2, 16, BuildParams::default()).unwrap());
        add(executor, &graph, rows, keys);
        graph
    }

    fn add(executor: &CpuExecutor, mut graph: &HostGraph, rows: &[u8], keys: &[u64]) {
        let vectors = jasper_core::MatrixView::new(rows, 16).unwrap();
        let new = NewVectors::new(vectors, keys, OnConflict::Refuse);
        insert(executor, &mut graph, new, ChangeHooks::new(&mut jasper_core::no_progress)).unwrap();
    }

    #[test]
    fn a_search_waits_for_no_write_and_sees_what_was_published() {
        let executor = CpuExecutor::new(2).unwrap();
        let rows: Vec<u8> = (0..100 * 16).map(|i| (i * 7 % 251) as u8).collect();
        let keys: Vec<u64> = (0..100).collect();
        let graph = graph(&executor, &rows, &keys);
        let filter: KeyFilter = [3, 50].into_iter().collect();
        let search = |filter: Option<Filter<'_>>| -> Vec<u64> {
            let params = SearchParams { filter, ..SearchParams::new(5) };
            let hits = graph.search_one(&executor, rows[3 * 16..][..16].into(), params).unwrap();
            hits.iter().map(|hit| hit.key).collect()
        };
        assert_eq!((search(None)[0], search(Some((&filter).into()))), (3, vec![3, 50]));
        graph.write(|graph| {
            graph.keys_mut().delete(3).unwrap();
            // On another thread, as it would deadlock on this one if it took the lock.
            let found = thread::scope(|scope| scope.spawn(|| search(None)).join().unwrap());
            assert_eq!(found[0], 3, "not published yet");
        });
        assert!(!search(None).contains(&3));
        assert_eq!(search(Some((&filter).into())), [50]);
    }

    /// What a snapshot has live stays reachable there, and its memory is not used again, as long as it is held.
    #[test]
    fn changes_wait_for_snapshots_that_they_would_damage() {
        let executor = CpuExecutor::new(2).unwrap();
        let rows: Vec<u8> = (0..400 * 16).map(|i| (i * i / 3 % 251) as u8).collect();
        let keys: Vec<u64> = (0..200).collect();
        let (first, second) = rows.split_at(200 * 16);
        let graph = graph(&executor, first, &keys);
        let held = graph.snapshot(None);
        graph.write(|graph| (0..50).for_each(|key| graph.keys_mut().delete(key).unwrap()));
        thread::scope(|scope| {
            let change = scope.spawn(|| {
                let hooks = &mut jasper_core::no_progress;
                consolidate(&executor, &mut &graph, ChangeHooks::new(hooks)).unwrap();
                add(&executor, &graph, second, &(1000..1200).collect::<Vec<_>>());
            });
            // Not proof, but the change would be done by now.
            thread::sleep(Duration::from_millis(100));
            assert!(!change.is_finished());
            for key in 0..200 {
                let vector = &first[key as usize * 16..][..16];
                let hits =
                    executor.search_one(&held, vector.into(), SearchParams::new(1).beam_width(64)).unwrap();
                assert_eq!((hits[0].key, hits[0].distance), (key, 0.0));
                assert_eq!(held.vectors().get::<u8>(Slot::new(key as u32)), vector);
            }
            drop(held);
            change.join().unwrap();
        });
        let now = graph.snapshot(None);
        assert_eq!((now.slots(), now.keys().len()), (350, 350));
    }

    /// A search may have read the rows that lead to deleted vertices before they were repaired.
    #[test]
    fn deleted_vertices_lead_on_until_searches_have_ended() {
        let executor = CpuExecutor::new(2).unwrap();
        let rows: Vec<u8> = (0..200 * 16).map(|i| (i * i / 3 % 251) as u8).collect();
        let graph = graph(&executor, &rows, &(0..200).collect::<Vec<_>>());
        graph.write(|graph| (0..50).for_each(|key| graph.keys_mut().delete(key).unwrap()));
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            let (graph, executor) = (&graph, &executor);
            let change = scope.spawn(move || {
                let mut sender = Some(sender);
                let mut hold = |progress: Progress| {
                    if progress.stage == Stage::Consolidating
                        && let Some(sender) = sender.take()
                    {
                        sender.send(graph.snapshot(None)).unwrap();
                    }
                    ControlFlow::Continue(())
                };
                consolidate(executor, &mut &*graph, ChangeHooks::new(&mut hold)).unwrap();
            });
            let held: Arc<Snapshot> = receiver.recv().unwrap();
            // Not proof, but the change would be done by now.
            thread::sleep(Duration::from_millis(100));
            assert!(!change.is_finished());
            let mut buffer = Vec::new();
            let mut leads_on =
                |slot| !held.adjacency().load_neighbors(Slot::new(slot), &mut buffer).is_empty();
            assert!((0..50).all(&mut leads_on));
            drop(held);
            change.join().unwrap();
        });
        graph.read(|graph| {
            assert!((0..50).all(|slot| graph.adjacency().neighbors(Slot::new(slot)).is_empty()))
        });
    }
}
