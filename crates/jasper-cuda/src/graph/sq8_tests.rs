//! Changes by SQ8 distances, in the emulator, against changes by exact distances.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gpu_kernels::Stream as _;
use jasper_core::synthetic::Clusters;
use jasper_core::{
    BuildParams, Element, Key, MatrixView, Metric, Neighbor, Slot, f16, no_progress, padded_len,
};
use jasper_graph::Graph;
use jasper_vamana::{
    ChangeHooks, CpuExecutor, Executor as _, MutableGraph as _, NewVectors, OnConflict, ScalarQuantizer,
    SearchParams, UpdateError, bulk_build, consolidate, insert,
};

use super::update_tests::Faulty;
use super::{DeviceGraph, HostAndDeviceGraph};
use crate::{DeviceExecutor, MemoryPlan, MemorySpace};

const DIMENSION: usize = 12;
/// Vectors of the index before it changes.
const BUILT: usize = 200;

/// An index on an emulated device.
struct Subject<T: Element> {
    cpu: Arc<CpuExecutor>,
    stream: Faulty,
    executor: DeviceExecutor<Faulty>,
    graph: HostAndDeviceGraph<Faulty>,
    element: PhantomData<T>,
}

impl<T: Element> Subject<T> {
    fn new(metric: Metric, vectors: &[T], exact_linking: bool) -> Self {
        Self::with_dimension(DIMENSION, metric, vectors, exact_linking)
    }

    fn with_dimension(dimension: usize, metric: Metric, vectors: &[T], exact_linking: bool) -> Self {
        let (cpu, stream) = (Arc::new(CpuExecutor::new(2).unwrap()), Faulty::new(1));
        let params = BuildParams::builder().max_degree(12).build_beam_width(24).build().unwrap();
        let rows = MatrixView::new(vectors, dimension).unwrap();
        let (host, _) = bulk_build(&cpu, rows, None, metric, params, &mut no_progress).unwrap();
        let executor = DeviceExecutor::new(stream.clone(), &host, cpu.clone()).exact_linking(exact_linking);
        let copy = DeviceGraph::upload(&stream, &host, MemorySpace::Device).unwrap();
        let mut graph = HostAndDeviceGraph::new(host, copy);
        graph.free_uploaded_edges();
        Self { cpu, stream, executor, graph, element: PhantomData }
    }

    fn try_insert(&mut self, vectors: &[T], first: Key) -> Result<(), UpdateError> {
        let rows = MatrixView::new(vectors, self.graph.host().dimension()).unwrap();
        let keys: Vec<Key> = (first..).take(rows.len()).collect();
        let new = NewVectors::new(rows, &keys, OnConflict::Refuse);
        insert(&self.executor, &mut self.graph, new, ChangeHooks::new(&mut no_progress)).map(drop)
    }

    fn try_consolidate(&mut self) -> Result<(), UpdateError> {
        consolidate(&self.executor, &mut self.graph, ChangeHooks::new(&mut no_progress)).map(drop)
    }

    fn delete(&mut self, keys: impl IntoIterator<Item = Key>) {
        let delete = |host: &mut Graph| keys.into_iter().for_each(|key| host.keys_mut().delete(key).unwrap());
        self.graph.change_host(delete).unwrap();
    }

    /// Slots at the last trial, and whether it allowed bytes.
    fn trial(&self) -> Option<(usize, bool)> {
        self.graph.trial.as_ref().map(|trial| (trial.slots, trial.quantizer.is_some()))
    }

    /// The edges of every vertex, once no transaction is open.
    fn edges(&mut self) -> Vec<Vec<Slot>> {
        assert!(self.graph.on_device().sq8.is_none(), "SQ8 vectors are freed with the transaction");
        self.graph.sync_host_edges(self.cpu.pool()).unwrap();
        let host = self.graph.host();
        assert!(host.check_structure().is_sound());
        (0..host.slots()).map(|slot| host.adjacency().neighbors(Slot::from_index(slot)).to_vec()).collect()
    }

    /// Recall@10 of its own vectors as queries.
    fn recall(&mut self) -> f64 {
        self.edges();
        let host = self.graph.host();
        let (mut found, mut wanted) = (0, 0);
        for slot in host.keys().live_slots().step_by(3) {
            let computer = host.vectors().slot_distance_computer::<T>(slot);
            let mut exact: Vec<_> = host
                .keys()
                .live_slots()
                .map(|other| Neighbor::new(computer.distance_to(other), other))
                .collect();
            exact.sort_unstable();
            let params = SearchParams::new(10).beam_width(12);
            let hits = self.cpu.search_one(host, host.vectors().view(slot), params).unwrap();
            let is_found =
                |near: &&Neighbor| hits.iter().any(|hit| hit.key == host.keys().first_key(near.slot()));
            found += exact[..10].iter().filter(is_found).count();
            wanted += 10;
        }
        found as f64 / f64::from(wanted)
    }
}

/// Clustered vectors, far from the origin unless products count, and no dimension like another.
fn vectors<T: Element>(metric: Metric, count: usize) -> Vec<T> {
    let center = if metric == Metric::L2 { 100.0 } else { 0.0 };
    let rows: Vec<f32> = Clusters::new(DIMENSION, 3).rows(count, 0);
    let scaled = rows.iter().enumerate().map(|(i, x)| x * (1.0 + (i % DIMENSION) as f32) + center);
    scaled.map(T::from_f32).collect()
}

#[test]
fn changes_by_sq8_keep_recall() {
    keep_recall::<f16>(Metric::L2);
    keep_recall::<f32>(Metric::Cosine);
    keep_recall::<f16>(Metric::InnerProduct);
}

fn keep_recall<T: Element>(metric: Metric) {
    let all = vectors::<T>(metric, 2 * BUILT);
    let (built, added) = all.split_at(BUILT * DIMENSION);
    let mut subjects = [true, false].map(|exact| Subject::new(metric, built, exact));
    let mut recall = [0.0; 2];
    for (subject, recall) in subjects.iter_mut().zip(&mut recall) {
        subject.try_insert(added, 1000).unwrap();
        subject.delete((0..BUILT as Key).step_by(3));
        subject.try_consolidate().unwrap();
        *recall = subject.recall();
    }
    let [exact, sq8] = &mut subjects;
    assert_eq!((exact.trial(), sq8.trial()), (None, Some((2 * BUILT, true))), "{metric}");
    assert!(recall[1] > recall[0] - 0.01, "{metric}: recall {recall:?}");
    let (exact, sq8) = (exact.edges(), sq8.edges());
    let shared = exact.iter().zip(&sq8).flat_map(|(a, b)| a.iter().filter(|id| b.contains(id))).count();
    let share = shared as f64 / exact.iter().map(Vec::len).sum::<usize>() as f64;
    assert!(share > 0.7 && share < 1.0, "{metric}: {share} of the edges");
}

#[test]
fn sq8_vectors_are_the_nearest_bytes() {
    let rows = vectors::<f16>(Metric::L2, BUILT);
    let mut subject = Subject::new(Metric::L2, &rows, false);
    subject.graph.begin().unwrap();
    subject.executor.quantize_for_linking(&mut subject.graph, &[], u64::MAX).unwrap();
    let quantizer = subject.graph.trial.as_ref().unwrap().quantizer.clone().unwrap();
    let sq8 = subject.graph.on_device().sq8.as_ref().unwrap();
    let bytes = subject.stream.download(&sq8.bytes).unwrap();
    for (row, bytes) in rows.chunks_exact(DIMENSION).zip(bytes.chunks_exact(padded_len::<i8>(DIMENSION))) {
        let round = |(x, center): (&f16, &f32)| ((x.to_f32() - center) * quantizer.scale()).round_ties_even();
        let expected = row.iter().zip(quantizer.centers()).map(|pair| round(pair).clamp(-127.0, 127.0) as i8);
        assert!(
            bytes[..DIMENSION].iter().copied().eq(expected) && bytes[DIMENSION..].iter().all(|&b| b == 0)
        );
    }
    let input = subject.graph.on_device().linking_input();
    assert_eq!((input.element, input.args.shape.row_bytes()), (i8::KIND, 16));
    subject.graph.rollback();
    assert_eq!(subject.graph.on_device().linking_input().element, f16::KIND);
    subject.edges();
}

#[test]
fn vectors_are_quantized_where_that_pays_and_fits() {
    let all = vectors::<f32>(Metric::L2, 4 * BUILT);
    let (built, rest) = all.split_at(BUILT * DIMENSION);
    let mut subject = Subject::new(Metric::L2, built, false);
    // 72 distances per vector, of 4 per slot.
    subject.try_insert(&rest[..2 * DIMENSION], 1000).unwrap();
    assert_eq!(subject.trial(), None);
    let rest = &rest[2 * DIMENSION..];
    subject.stream.free.store(10_000, Relaxed);
    subject.try_insert(&rest[..50 * DIMENSION], 2000).unwrap();
    assert_eq!(subject.trial(), None);
    subject.stream.free.store(u64::MAX, Relaxed);
    let (slots, rest) = (BUILT + 2 + 50 + 40, &rest[50 * DIMENSION..]);
    subject.try_insert(&rest[..40 * DIMENSION], 3000).unwrap();
    assert_eq!(subject.trial(), Some((slots, true)));
    // The trial is kept until the index has grown by half.
    let rest = &rest[40 * DIMENSION..];
    subject.try_insert(&rest[..50 * DIMENSION], 4000).unwrap();
    assert_eq!(subject.trial(), Some((slots, true)));
    let rest = &rest[50 * DIMENSION..];
    subject.try_insert(&rest[..200 * DIMENSION], 5000).unwrap();
    let slots = slots + 250;
    assert_eq!(subject.trial(), Some((slots, true)));
    // Vectors far from the others would be clamped.
    let far: Vec<f32> = rest[200 * DIMENSION..][..60 * DIMENSION].iter().map(|x| x + 1e3).collect();
    subject.try_insert(&far, 6000).unwrap();
    assert_eq!(subject.trial().map(|(slots, _)| slots), Some(slots + 60));
    subject.edges();
}

/// SQ8 vectors are made from some number of free bytes on, SQ4 vectors if theirs can be used beside these. Changes by both
/// keep recall.
#[test]
fn changes_of_long_vectors_search_sq4_where_it_fits() {
    let (dimension, added) = (ScalarQuantizer::MIN_SQ4_DIMENSION, 2 * BUILT);
    let all: Vec<f32> = Clusters::new(dimension, 3).rows(BUILT + added, 0);
    let (built, new) = all.split_at(BUILT * dimension);
    let subject = || Subject::with_dimension(dimension, Metric::L2, built, false);
    let mut tried = subject();
    let mut made = |free: u64| {
        tried.stream.free.store(free, Relaxed);
        tried.graph.begin().unwrap();
        tried.executor.quantize_for_linking(&mut tried.graph, &[], u64::MAX).unwrap();
        let sq8 = tried.graph.on_device().sq8.as_ref();
        let made = [sq8.is_some(), sq8.is_some_and(|sq8| sq8.sq4.is_some())];
        tried.graph.rollback();
        made
    };
    let mut least = |kind: usize| {
        let (mut without, mut with) = (0, 1 << 30);
        while with - without > 1 {
            let free = u64::midpoint(without, with);
            *if made(free)[kind] { &mut with } else { &mut without } = free;
        }
        with
    };
    let usable = [0, 1].map(|kind| MemoryPlan::usable(least(kind)));
    assert_eq!(usable[1] - usable[0], (BUILT * dimension / 2) as u64);

    let [(exact, exact_edges), (by_sq4, edges)] = [true, false].map(|exact| {
        let mut subject = Subject::with_dimension(dimension, Metric::L2, built, exact);
        subject.try_insert(new, 1000).unwrap();
        subject.delete((0..BUILT as Key).step_by(3));
        subject.try_consolidate().unwrap();
        assert_eq!(subject.trial(), (!exact).then_some((BUILT + added, true)));
        (subject.recall(), subject.edges())
    });
    assert!(by_sq4 > exact - 0.01, "recall {by_sq4}, {exact} by exact distances");
    assert!(edges != exact_edges);
}

#[test]
fn narrow_clusters_are_linked_as_they_are() {
    let clusters = vectors::<f32>(Metric::L2, 4);
    let narrow: Vec<f32> = (0..2 * BUILT * DIMENSION)
        .map(|i| clusters[i % clusters.len()] + ((i * i) as f32 * 0.7).sin() * 3e-3)
        .collect();
    let (built, added) = narrow.split_at(BUILT * DIMENSION);
    let [exact, sq8] = [true, false].map(|exact| {
        let mut subject = Subject::new(Metric::L2, built, exact);
        subject.try_insert(added, 1000).unwrap();
        assert_eq!(subject.trial(), (!exact).then_some((2 * BUILT, false)));
        subject.edges()
    });
    assert!(exact == sq8);
}

#[test]
fn whatever_fails_leaves_the_graph_as_it_was() {
    let all = vectors::<f32>(Metric::L2, BUILT + 30);
    let (built, added) = all.split_at(BUILT * DIMENSION);
    let mut subject = Subject::new(Metric::L2, built, false);
    subject.delete((0..BUILT as Key).step_by(6));
    type Change = fn(&mut Subject<f32>, &[f32]) -> Result<(), UpdateError>;
    let changes: [Change; 2] =
        [|subject, added| subject.try_insert(added, 1000), |subject, _| subject.try_consolidate()];
    for change in changes {
        let (before, mut failures) = (subject.edges(), 0);
        for call in (0..).step_by(3) {
            *subject.stream.calls.lock().unwrap() = Some(call);
            let changed = change(&mut subject, added);
            if subject.stream.calls.lock().unwrap().take().is_some() {
                changed.unwrap();
                break;
            }
            assert!(matches!(changed, Err(UpdateError::Device(_))), "call {call}: {changed:?}");
            failures += 1;
            let mut after = subject.edges();
            after.truncate(before.len());
            assert!(after == before, "call {call}");
        }
        assert!(failures > 5 && subject.edges() != before);
    }
    assert!(matches!(subject.trial(), Some((_, true))));
}
