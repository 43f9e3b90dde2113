//! Compares graphs in use in the emulator with the CPU executor: every change of one is made to the other.

use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use bytemuck::Pod;
use cuda_std::emulator::{Emulator, Fault};
use gpu_kernels::emulated::{EmulatedBuffer, EmulatedFault, EmulatedStream};
use gpu_kernels::{Buffer as _, Kernel, Stream};
use jasper_core::synthetic::rng;
use jasper_core::{
    BuildParams, Element, Key, MatrixView, Metric, Progress, ProgressFn, Slot, f16, no_progress,
};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::{
    ChangeHooks, CpuExecutor, InsertReport, MutableGraph, NewVectors, OnConflict, UpdateError, bulk_build,
    compact, consolidate, insert, quantize, transaction, unreachable_slots,
};
use rand::RngExt;

use super::{DeviceGraph, HostAndDeviceGraph};
use crate::{DeviceExecutor, MemorySpace};

const DIMENSION: usize = 5;

/// An emulated stream, of which one call may be made to fail.
#[derive(Clone)]
pub(super) struct Faulty {
    stream: EmulatedStream,
    /// Calls that succeed before one fails; after that all do.
    pub(super) calls: Arc<Mutex<Option<usize>>>,
    /// What the device says that is free.
    pub(super) free: Arc<AtomicU64>,
}

impl Faulty {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            stream: EmulatedStream::new(Emulator::new(seed).threads(2)),
            calls: Arc::default(),
            free: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    fn call(&self) -> Result<(), EmulatedFault> {
        let mut calls = self.calls.lock().unwrap();
        let left = *calls;
        *calls = left.and_then(|left| left.checked_sub(1));
        if left == Some(0) { Err(wished()) } else { Ok(()) }
    }
}

/// A fault of no kernel.
fn wished() -> EmulatedFault {
    Fault::Unwritten { buffer: "wished".into(), element: 0, len: 0 }.into()
}

// SAFETY: every call is one of the emulator, or fails.
unsafe impl Stream for Faulty {
    type Error = EmulatedFault;
    type Buffer<T: Pod> = EmulatedBuffer<T>;

    fn another(&self) -> Result<Self, EmulatedFault> {
        self.call()?;
        Ok(self.clone())
    }

    fn multiprocessors(&self) -> u32 {
        self.stream.multiprocessors()
    }

    fn free_bytes(&self) -> Result<u64, EmulatedFault> {
        self.call()?;
        Ok(self.free.load(Relaxed))
    }

    fn allocate<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, EmulatedFault> {
        self.call()?;
        self.stream.allocate(len)
    }

    fn allocate_on_host<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, EmulatedFault> {
        self.call()?;
        self.stream.allocate_on_host(len)
    }

    fn upload<T: Pod>(&self, values: &[T]) -> Result<Self::Buffer<T>, EmulatedFault> {
        self.call()?;
        self.stream.upload(values)
    }

    fn write_range<T: Pod, E: From<EmulatedFault>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        within: Range<usize>,
        row_len: usize,
        fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.call()?;
        self.stream.write_range(buffer, within, row_len, fill)
    }

    fn copy<T: Pod>(
        &self,
        from: &Self::Buffer<T>,
        to: &mut Self::Buffer<T>,
        len: usize,
    ) -> Result<(), EmulatedFault> {
        self.call()?;
        self.stream.copy(from, to, len)
    }

    fn fill<T: Pod>(&self, buffer: &mut Self::Buffer<T>, byte: u8) -> Result<(), EmulatedFault> {
        self.call()?;
        self.stream.fill(buffer, byte)
    }

    fn download_range<T: Pod>(
        &self,
        buffer: &Self::Buffer<T>,
        within: Range<usize>,
    ) -> Result<Vec<T>, EmulatedFault> {
        self.call()?;
        self.stream.download_range(buffer, within)
    }

    fn synchronize(&self) -> Result<(), EmulatedFault> {
        self.call()
    }

    fn wait_for(&self, _: &Self) -> Result<(), EmulatedFault> {
        self.call()
    }

    fn synchronize_device(&self) -> Result<(), EmulatedFault> {
        self.call()
    }

    fn check_owner<T: Pod>(&self, buffer: &Self::Buffer<T>) {
        self.stream.check_owner(buffer);
    }

    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<(), EmulatedFault> {
        self.call()?;
        // SAFETY: upheld by the caller.
        unsafe { self.stream.launch(kernel, args) }
    }
}

/// A graph on the host, and an equal one on an emulated device.
struct Twins<T: Element> {
    cpu: Arc<CpuExecutor>,
    host: Graph,
    stream: Faulty,
    executor: DeviceExecutor<Faulty>,
    resident: HostAndDeviceGraph<Faulty>,
    /// Where the device's copies of vectors are.
    vectors: MemorySpace,
    /// Seed of the next rows.
    seed: u64,
    element: PhantomData<T>,
}

impl<T: Element> Twins<T> {
    fn new(metric: Metric, rows: usize, max_degree: usize, seed: u64, vectors: MemorySpace) -> Self {
        let cpu = Arc::new(CpuExecutor::new(2).unwrap());
        let params =
            BuildParams::builder().max_degree(max_degree).build_beam_width(2 * max_degree).build().unwrap();
        let rows = whole::<T>(seed, rows);
        let view = MatrixView::new(&rows, DIMENSION).unwrap();
        let build = || bulk_build(&cpu, view, None, metric, params, &mut no_progress).unwrap().0;
        let (mut host, mut other) = (build(), build());
        // An index that begins empty has none.
        if !rows.is_empty() {
            for graph in [&mut host, &mut other] {
                quantize(&cpu, graph, Quantization::Rabitq { bits: 3 }).unwrap();
            }
        }
        let stream = Faulty::new(seed);
        let executor = DeviceExecutor::new(stream.clone(), &host, cpu.clone()).exact_linking(true);
        let copy = DeviceGraph::upload(&stream, &other, vectors).unwrap();
        let mut resident = HostAndDeviceGraph::new(other, copy);
        // Comparisons download the edges.
        resident.free_uploaded_edges();
        Self { cpu, host, stream, executor, resident, vectors, seed, element: PhantomData }
    }

    fn rows(&mut self, count: usize) -> Vec<T> {
        self.seed += 100;
        whole(self.seed, count)
    }

    /// Inserts into the device's graph only, because this may fail.
    fn try_insert(
        &mut self,
        rows: &[T],
        keys: &[Key],
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError> {
        let vectors = MatrixView::new(rows, DIMENSION).unwrap();
        let new = NewVectors::new(vectors, keys, OnConflict::Replace);
        insert(&self.executor, &mut self.resident, new, ChangeHooks::new(progress))
    }

    fn insert_on_host(&mut self, rows: &[T], keys: &[Key]) -> InsertReport {
        let vectors = MatrixView::new(rows, DIMENSION).unwrap();
        let new = NewVectors::new(vectors, keys, OnConflict::Replace);
        insert(&*self.cpu, &mut self.host, new, ChangeHooks::new(&mut no_progress)).unwrap()
    }

    fn insert(&mut self, rows: &[T], keys: &[Key]) {
        let expected = self.insert_on_host(rows, keys);
        let found = self.try_insert(rows, keys, &mut no_progress).unwrap();
        assert_eq!(
            (found.duplicates, found.reconnected, found.cost.hops),
            (expected.duplicates, expected.reconnected, expected.cost.hops)
        );
        self.compare();
    }

    fn change_keys(&mut self, keys: &[Key], change: impl Fn(&mut Graph, Key)) {
        keys.iter().for_each(|&key| change(&mut self.host, key));
        let changed = transaction(&mut self.resident, |graph| {
            graph.change_host(|host| keys.iter().for_each(|&key| change(host, key)))
        });
        changed.unwrap();
        self.compare();
    }

    fn delete(&mut self, keys: &[Key]) {
        self.change_keys(keys, |host, key| host.keys_mut().delete(key).unwrap());
    }

    fn consolidate(&mut self) {
        let expected = consolidate(&*self.cpu, &mut self.host, ChangeHooks::new(&mut no_progress)).unwrap();
        let found =
            consolidate(&self.executor, &mut self.resident, ChangeHooks::new(&mut no_progress)).unwrap();
        assert_eq!((found.freed, found.reconnected), (expected.freed, expected.reconnected));
        self.compare();
    }

    fn compact(&mut self) {
        assert_eq!(self.resident.compact().unwrap(), compact(&mut self.host).unwrap());
        self.compare();
    }

    /// Compares the host's graph with the other graph, whose edges are downloaded, and with the tables on the device.
    fn compare(&mut self) {
        self.resident.sync_host_edges(self.cpu.pool()).unwrap();
        let (expected, found) = (&self.host, self.resident.host());
        assert_eq!((found.slots(), found.keys().free()), (expected.slots(), expected.keys().free()));
        assert_eq!(
            (found.keys().live(), found.keys().tombstones()),
            (expected.keys().live(), expected.keys().tombstones())
        );
        assert_eq!(
            (found.keys().len(), found.keys().next_key()),
            (expected.keys().len(), expected.keys().next_key())
        );
        assert_eq!(found.adjacency().start_points(), expected.adjacency().start_points());
        assert!(found.keys().deleted_keys().eq(expected.keys().deleted_keys()));
        assert!(found.keys().live_slots().eq(expected.keys().live_slots()));
        let (copy, stream, slots) = (self.resident.on_device(), &self.stream, expected.slots());
        let row_bytes = copy.row_bytes() as usize;
        let rows = stream.download_range(&copy.rows, 0..slots * row_bytes).unwrap();
        let keys = stream.download_range(&copy.keys, 0..slots).unwrap();
        let terms = copy.terms.as_ref().map(|terms| stream.download_range(terms, 0..slots).unwrap());
        let live = stream.download(&copy.live).unwrap();
        assert_eq!((live.len(), &live), (copy.capacity.div_ceil(32), &copy.live_words));
        let bits = (0..32 * live.len()).filter(|slot| live[slot / 32] >> (slot % 32) & 1 == 1);
        assert_eq!(bits.filter(|&slot| slot >= slots).count(), 0, "live slots past the last");
        let searched = copy.searched();
        assert_eq!((searched.slots(), searched.bitmap_len()), (slots, live.len()));
        assert_eq!(
            (searched.live().at(0), searched.args().edges.at(0)),
            (copy.live.input().at(0), copy.edges.input().at(0))
        );
        let codes = copy
            .codes
            .as_ref()
            .map(|codes| stream.download_range(&codes.table, 0..slots * codes.words()).unwrap());
        for slot in (0..slots).map(Slot::from_index) {
            let is_live = live[slot.index() / 32] >> (slot.index() % 32) & 1 == 1;
            assert_eq!(is_live, expected.keys().is_live(slot), "liveness of {slot}");
        }
        for slot in expected.keys().vertices() {
            let at = slot.index();
            let code = expected.vectors().codes().map(|codes| codes.table().row(at));
            let copied = codes.as_ref().map(|codes| {
                let words = copy.codes.as_ref().unwrap().words();
                &codes[at * words..][..words]
            });
            assert_eq!(copied, code, "code of {slot}");
            assert_eq!(
                found.adjacency().neighbors(slot),
                expected.adjacency().neighbors(slot),
                "links of {slot}"
            );
            assert_eq!(
                &rows[at * row_bytes..][..row_bytes],
                expected.vectors().padded_bytes(slot),
                "row of {slot}"
            );
            assert_eq!(terms.as_ref().map(|terms| terms[at]), expected.vectors().terms().map(|n| n.at(at)));
            assert!(found.keys().keys_of(slot).eq(expected.keys().keys_of(slot)), "keys of {slot}");
            if expected.keys().is_live(slot) {
                assert_eq!(keys[at], expected.keys().first_key(slot));
            }
        }
        assert_eq!((copy.slots(), copy.vector_storage()), (slots, self.vectors));
        assert_eq!(copy.center, *expected.vectors().center());
        assert_eq!(stream.download(&copy.start_points).unwrap(), super::start_points(expected));
        assert!(found.check_structure().is_sound() && self.resident.check().is_ok());
        self.compare_trees();
    }

    /// Checks that every vertex is reachable, and that the device has the parents of the host's spanning tree, whose
    /// edges are in the graph.
    fn compare_trees(&self) {
        let found = self.resident.host();
        assert_eq!(unreachable_slots(found), []);
        let parents = &self.resident.on_device().parents;
        let Some(tree) = found.adjacency().spanning_tree() else {
            assert!(parents.is_none());
            return;
        };
        let parents = self.stream.download_range(parents.as_ref().unwrap(), 0..found.slots()).unwrap();
        for slot in found.keys().vertices() {
            assert_eq!(parents[slot.index()], tree.word(slot), "parent of {slot}");
            let parent = tree.parent(slot).expect("every vertex has a parent");
            assert!(parent == slot || found.adjacency().neighbors(parent).contains(&slot), "edge to {slot}");
        }
    }
}

/// Rows of whole numbers, whose squares and products are exact in every element; few enough values that some rows are
/// the same.
fn whole<T: Element>(seed: u64, count: usize) -> Vec<T> {
    let mut random = rng(seed);
    let mut rows: Vec<T> =
        (0..count * DIMENSION).map(|_| T::from_f32(random.random_range(1..20) as f32)).collect();
    if count > 10 {
        rows.copy_within(..2 * DIMENSION, 6 * DIMENSION);
    }
    rows
}

/// Inserts of few vectors, where rows are so short that some lose the last edge to a vertex. The tree of the device may
/// be another than that of the host, and the edges are the same.
fn small_inserts<T: Element>(metric: Metric, max_degree: usize, seed: u64) {
    let mut twins = Twins::<T>::new(metric, 150, max_degree, seed, MemorySpace::Device);
    let mut had_tree = false;
    for (round, count) in [1, 1, 2, 1, 1, 2, 1].into_iter().cycle().take(21).enumerate() {
        let rows = twins.rows(count);
        let first = 1000 + round as Key;
        // Every other one of these keys has a vector already.
        twins.insert(&rows, &(first..first + count as Key).collect::<Vec<_>>());
        had_tree |= twins.resident.on_device().parents.is_some();
        if round % 7 == 6 {
            let gone: Vec<Key> = (0..20).map(|key| 20 * (round as Key / 7) + key).collect();
            twins.delete(&gone);
            twins.consolidate();
        }
    }
    assert!(had_tree);
}

#[test]
fn few_vectors_leave_every_vertex_reachable() {
    small_inserts::<u8>(Metric::L2, 4, 21);
    small_inserts::<i8>(Metric::Cosine, 6, 22);
    small_inserts::<f32>(Metric::InnerProduct, 8, 23);
}

/// Makes rounds of all kinds of changes.
fn rounds<T: Element>(metric: Metric, seed: u64, vectors: MemorySpace) {
    let mut twins = Twins::<T>::new(metric, 90, 6, seed, vectors);
    twins.compare();
    let mut next = 1000;
    for round in 0..2 {
        let first: Vec<Key> = (next..next + 40).collect();
        let rows = twins.rows(40);
        twins.insert(&rows, &first);
        // Half of these are new vectors of existing keys. Some rows are already in the graph.
        let mixed: Vec<Key> = (next + 30..next + 50).collect();
        let mut rows = twins.rows(20);
        let stored = twins.host.keys().live_slots().next().unwrap();
        rows[..DIMENSION].copy_from_slice(twins.host.vectors().get(stored));
        twins.insert(&rows, &mixed);
        let gone: Vec<Key> = (next..next + 30).filter(|key| key % 3 != 0).collect();
        twins.delete(&gone);
        twins.change_keys(&gone[..4], |host, key| host.keys_mut().restore(key).unwrap());
        // A start point goes too.
        let start = twins.host.adjacency().start_points()[0];
        let of_start: Vec<Key> = twins.host.keys().keys_of(start).collect();
        twins.delete(&of_start);
        twins.consolidate();
        if round > 0 {
            twins.compact();
        }
        next += 50;
    }
    let rows = twins.rows(25);
    twins.insert(&rows, &(5000..5025).collect::<Vec<_>>());
}

#[test]
fn a_device_changes_as_the_cpu_does() {
    rounds::<u8>(Metric::L2, 1, MemorySpace::Device);
    rounds::<i8>(Metric::Cosine, 2, MemorySpace::Host);
    rounds::<f32>(Metric::InnerProduct, 3, MemorySpace::Device);
    rounds::<f16>(Metric::L2, 4, MemorySpace::Host);
}

#[test]
fn dropped_vectors_and_codes_come_back() {
    for storage in [MemorySpace::Device, MemorySpace::Host] {
        let mut twins = Twins::<f32>::new(Metric::L2, 60, 6, 6, storage);
        let rows = twins.rows(9);
        twins.insert(&rows, &(100..109).collect::<Vec<_>>());
        for drop in [Graph::drop_vectors, Graph::drop_codes] {
            let kept = twins.resident.host().keep_vectors();
            twins.resident.change_host(drop).unwrap();
            let copy = twins.resident.on_device();
            assert!(copy.codes.is_none() || copy.rows.is_empty());
            twins.resident.change_host(|host| host.restore_vectors(&kept)).unwrap();
            twins.compare();
        }
        let rows = twins.rows(40);
        twins.insert(&rows, &(200..240).collect::<Vec<_>>());
    }
}

#[test]
fn an_index_begins_empty_and_ends_empty() {
    let mut twins = Twins::<u8>::new(Metric::L2, 0, 4, 5, MemorySpace::Host);
    let rows = twins.rows(1);
    twins.insert(&rows, &[7]);
    let rows = twins.rows(30);
    twins.insert(&rows, &(100..130).collect::<Vec<_>>());
    let all: Vec<Key> = twins
        .host
        .keys()
        .live_slots()
        .flat_map(|slot| twins.host.keys().keys_of(slot).collect::<Vec<_>>())
        .collect();
    twins.delete(&all);
    twins.consolidate();
    twins.compact();
    let rows = twins.rows(12);
    twins.insert(&rows, &(0..12).collect::<Vec<_>>());
}

#[test]
fn whatever_fails_leaves_the_graph_as_it_was() {
    let mut twins = Twins::<u8>::new(Metric::L2, 60, 4, 6, MemorySpace::Host);
    let gone: Vec<Key> = (0..20).collect();
    twins.delete(&gone);
    let rows = twins.rows(12);
    let keys: Vec<Key> = (20..26).chain(200..206).collect();
    let mut failures = 0;
    let mut insert_with_failures = |twins: &mut Twins<u8>, rows: &[u8], keys: &[Key]| {
        for call in (0..).step_by(3) {
            *twins.stream.calls.lock().unwrap() = Some(call);
            let inserted = twins.try_insert(rows, keys, &mut no_progress);
            if twins.stream.calls.lock().unwrap().take().is_some() {
                inserted.unwrap();
                break;
            }
            assert!(matches!(inserted, Err(UpdateError::Device(_))), "call {call}: {inserted:?}");
            failures += 1;
            let slot_of =
                |graph: &Graph| keys.iter().map(|&key| graph.keys().slot_of(key)).collect::<Vec<_>>();
            assert_eq!(slot_of(twins.resident.host()), slot_of(&twins.host), "call {call}");
            twins.compare();
        }
        twins.insert_on_host(rows, keys);
        twins.compare();
    };
    insert_with_failures(&mut twins, &rows, &keys);
    for call in (0..).step_by(5) {
        *twins.stream.calls.lock().unwrap() = Some(call);
        let done = consolidate(&twins.executor, &mut twins.resident, ChangeHooks::new(&mut no_progress));
        if twins.stream.calls.lock().unwrap().take().is_some() {
            done.unwrap();
            break;
        }
        assert!(done.is_err(), "call {call}");
        twins.compare();
    }
    consolidate(&*twins.cpu, &mut twins.host, ChangeHooks::new(&mut no_progress)).unwrap();
    twins.compare();
    // Into slots that are free now.
    assert!(twins.host.keys().free() > rows.len() / DIMENSION);
    let rows = twins.rows(12);
    insert_with_failures(&mut twins, &rows, &(300..312).collect::<Vec<_>>());
    assert!(failures > 20);
}

#[test]
fn a_cancel_leaves_the_graph_as_it_was() {
    let mut twins = Twins::<i8>::new(Metric::L2, 60, 4, 7, MemorySpace::Device);
    let rows = twins.rows(12);
    for reports in 0..3 {
        let mut left = reports;
        let mut cancel = |_: Progress| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let error = twins.try_insert(&rows, &(100..112).collect::<Vec<_>>(), &mut cancel).unwrap_err();
        assert!(matches!(error, UpdateError::Cancelled(_)), "{error}");
        twins.compare();
    }
}

#[test]
fn uploaded_edges_stay_on_the_host_until_they_are_freed_or_change() {
    let mut twins = Twins::<u8>::new(Metric::L2, 60, 4, 8, MemorySpace::Device);
    let again = |twins: &mut Twins<u8>| {
        twins.resident.sync_host_edges(twins.cpu.pool()).unwrap();
        let graph = twins.resident.host().try_clone().unwrap();
        let copy = DeviceGraph::upload(&twins.stream, &graph, twins.vectors).unwrap();
        twins.resident = HostAndDeviceGraph::new(graph, copy);
    };

    // Changed keys leave them, and changed edges free them.
    again(&mut twins);
    let delete = |graph: &mut Graph| graph.keys_mut().delete(7).unwrap();
    transaction(&mut twins.resident, |graph| graph.change_host(delete)).unwrap();
    delete(&mut twins.host);
    let uploaded = twins.resident.uploaded_host().unwrap();
    assert!(uploaded.check_structure().is_sound() && unreachable_slots(uploaded).is_empty());
    let rows = twins.rows(3);
    twins.try_insert(&rows, &[500, 501, 502], &mut no_progress).unwrap();
    assert!(twins.resident.uploaded_host().is_none());
    twins.insert_on_host(&rows, &[500, 501, 502]);
    twins.compare();

    // Those that a caller wants stay, and are not downloaded.
    again(&mut twins);
    *twins.stream.calls.lock().unwrap() = Some(0);
    twins.resident.sync_host_edges(twins.cpu.pool()).unwrap();
    twins.resident.free_uploaded_edges();
    twins.resident.sync_host_edges(twins.cpu.pool()).unwrap();
    *twins.stream.calls.lock().unwrap() = None;
    assert!(twins.resident.uploaded_host().is_none());
    twins.compare();

    again(&mut twins);
    twins.resident.free_uploaded_edges();
    assert!(twins.resident.uploaded_host().is_none());
    twins.compare();
}
