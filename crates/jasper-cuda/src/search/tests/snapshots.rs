//! Searches of a snapshot beside changes of the graph.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jasper_core::{Key, MatrixView, ProgressFn, no_progress};
use jasper_vamana::{
    ChangeHooks, GraphAccess, MutableGraph as _, NewVectors, OnConflict, consolidate, insert,
};

use super::*;
use crate::graph::SearchTables;
use crate::{DeviceExecutor, GraphSnapshot, HostAndDeviceGraph, SearchedGraph};

/// A graph of bytes in use on an emulated device.
pub(super) struct InUse {
    pub(super) both: Both,
    pub(super) graph: SearchedGraph<EmulatedStream>,
    executor: DeviceExecutor<EmulatedStream>,
    pub(super) rows: Vec<u8>,
}

pub(super) const DIMENSION: usize = 16;

impl InUse {
    pub(super) fn new(vectors: usize, max_vectors: usize) -> Self {
        let both = Both::new(31);
        let rows = whole::<u8>(max_vectors, DIMENSION, 3);
        let host = built(&rows[..vectors * DIMENSION], DIMENSION, Metric::L2, &both);
        let copy = DeviceGraph::upload(&both.stream, &host, MemorySpace::Device).unwrap();
        let cpu = Arc::new(CpuExecutor::new(2).unwrap());
        let executor = DeviceExecutor::new(both.stream.clone(), &host, cpu).exact_linking(true);
        let graph = SearchedGraph::new(HostAndDeviceGraph::new(host, copy));
        Self { both, graph, executor, rows }
    }

    fn row(&self, key: Key) -> &[u8] {
        &self.rows[key as usize * DIMENSION..][..DIMENSION]
    }

    pub(super) fn insert(&self, keys: Range<Key>) {
        self.insert_with(keys, &mut no_progress);
    }

    pub(super) fn insert_with(&self, keys: Range<Key>, progress: &mut ProgressFn<'_>) {
        let rows = &self.rows[keys.start as usize * DIMENSION..keys.end as usize * DIMENSION];
        let vectors = MatrixView::new(rows, DIMENSION).unwrap();
        let keys: Vec<Key> = keys.collect();
        let new = NewVectors::new(vectors, &keys, OnConflict::Refuse);
        insert(&self.executor, &mut &self.graph, new, ChangeHooks::new(progress)).unwrap();
    }

    pub(super) fn delete(&self, mut keys: Range<Key>) {
        let delete = |host: &mut Graph| keys.all(|key| host.keys_mut().delete(key).is_ok());
        assert!(<dyn GraphAccess<_>>::change_host(&mut &self.graph, delete).unwrap());
    }

    pub(super) fn consolidate(&self) {
        consolidate(&self.executor, &mut &self.graph, ChangeHooks::new(&mut no_progress)).unwrap();
    }

    /// The keys below `end` that a search of a snapshot finds by their vectors, and no other key.
    fn found(&self, snapshot: &GraphSnapshot<EmulatedStream>, end: Key) -> Vec<Key> {
        let queries: Vec<_> = (0..end).map(|key| VectorView::from(self.row(key))).collect();
        let params = SearchParams::new(1).beam_width(80);
        let plan = SearchPlan::new(snapshot.host(), params, queries.len(), AS_CPU).unwrap();
        let mut matches = Matches::new(queries.len(), 1).unwrap();
        let queue = QueryQueue::new(&queries, 1, matches.as_mut(), 1).unwrap();
        let buffers = || EmulatedBuffers::new(&self.both.stream);
        let search =
            BatchSearch { plans: Plans::One(&plan), graph: snapshot.tables(), pool: self.both.cpu.pool() };
        search.search(&queue, &mut vec![buffers().unwrap()], buffers).unwrap();
        let is_found =
            |&key: &Key| matches.hits(key as usize).any(|hit| (hit.key, hit.distance) == (key, 0.0));
        let known = |key: Key| snapshot.host().keys().slot_of(key).is_some();
        assert!((0..queries.len()).all(|row| matches.hits(row).all(|hit| known(hit.key))));
        (0..end).filter(is_found).collect()
    }

    fn found_now(&self, end: Key) -> Vec<Key> {
        self.found(&self.graph.snapshot(None), end)
    }
}

/// The keys from the first of each pair to below the second.
fn keys(ranges: &[(Key, Key)]) -> Vec<Key> {
    ranges.iter().flat_map(|&(first, end)| first..end).collect()
}

#[test]
fn a_snapshot_is_searched_as_it_was_while_the_graph_changes() {
    let graph = InUse::new(300, 460);
    let first = graph.graph.snapshot(None);
    // One by one and many; tables move, because they are full.
    graph.insert(300..301);
    let second = graph.graph.snapshot(None);
    graph.insert(301..420);
    graph.delete(20..90);
    assert_eq!(graph.found(&first, 420), keys(&[(0, 300)]));
    assert_eq!(graph.found(&second, 420), keys(&[(0, 301)]));
    assert_eq!(graph.found_now(420), keys(&[(0, 20), (90, 420)]));
    drop(first);
    assert_eq!(graph.found(&second, 420), keys(&[(0, 301)]));

    thread::scope(|scope| {
        let change = scope.spawn(|| graph.consolidate());
        // Not proof, but the change would be done by now.
        thread::sleep(Duration::from_millis(200));
        assert!(!change.is_finished(), "edges to vertices that the snapshot has are removed");
        assert_eq!(graph.found(&second, 301), keys(&[(0, 301)]));
        drop(second);
        change.join().unwrap();
    });
    assert_eq!(graph.found_now(420), keys(&[(0, 20), (90, 420)]));

    let before = graph.graph.snapshot(None);
    let report = graph.graph.compact().unwrap();
    assert_eq!((report.freed, graph.graph.read(|graph| graph.host().slots())), (70, 350));
    assert_eq!(graph.found(&before, 420), keys(&[(0, 20), (90, 420)]));
    assert_eq!(graph.found_now(420), keys(&[(0, 20), (90, 420)]));
    thread::scope(|scope| {
        let change = scope.spawn(|| graph.insert(420..460));
        thread::sleep(Duration::from_millis(200));
        assert!(!change.is_finished(), "slots after the last are those of vertices that have moved");
        assert_eq!(graph.found(&before, 420), keys(&[(0, 20), (90, 420)]));
        drop(before);
        change.join().unwrap();
    });
    assert_eq!(graph.found_now(460), keys(&[(0, 20), (90, 460)]));
}

/// The vertex stays live under another key, which it gets in another table.
#[test]
fn a_snapshot_keeps_the_first_keys_of_vertices() {
    let graph = InUse::new(100, 100);
    let slot = graph.graph.read(|graph| graph.host().keys().slot_of(7).unwrap());
    <dyn GraphAccess<_>>::change_host(&mut &graph.graph, |host| host.keys_mut().assign(500, slot).unwrap())
        .unwrap();
    let snapshot = graph.graph.snapshot(None);
    let key = |tables: &SearchTables<EmulatedStream>| {
        // SAFETY: the emulator's memory is that of the host, and nothing writes it now.
        unsafe { *tables.args().keys.at(slot.index()) }
    };
    graph.delete(7..8);
    assert_eq!((key(snapshot.tables()), key(graph.graph.snapshot(None).tables())), (7, 500));
    assert_eq!(graph.found(&snapshot, 100), keys(&[(0, 100)]));
    assert_eq!(graph.found_now(100), keys(&[(0, 7), (8, 100)]));
}
