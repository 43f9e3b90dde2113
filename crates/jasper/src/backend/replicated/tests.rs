//! Replicas on the CPU, some of which fault on demand.

use std::ops::ControlFlow;

use crate::ErrorKind;
use jasper_core::synthetic::Clusters;
use jasper_core::{DeviceError, MatrixView, Metric, Progress, no_progress};
use jasper_quant::Quantization;
use jasper_vamana::{CpuExecutor, Matches, SearchError};

use super::*;
use crate::backend::faulty::{Controls, Faulty};
use crate::inner::IndexInner;
use crate::{Index, IndexBuilder, KeyFilter, NewKeys};

const DIMENSION: usize = 12;

fn rows(count: usize, seed: u64) -> Vec<u8> {
    Clusters::new(DIMENSION, 40).rows(count, seed)
}

fn view(rows: &[u8]) -> MatrixView<'_, u8> {
    MatrixView::new(rows, DIMENSION).unwrap()
}

fn inner(rows: &[u8]) -> IndexInner {
    let builder = IndexBuilder::new(Metric::L2).max_degree(8).build_beam_width(16).threads(1);
    builder.device(Device::CPU).build_on_host(view(rows).into(), &mut no_progress).unwrap()
}

fn index(rows: &[u8]) -> Index {
    inner(rows).into()
}

/// The index over this number of replicas, and what makes them fail.
fn replicated(index: IndexInner, replicas: usize) -> (Index, Vec<Arc<Controls>>) {
    let controls: Vec<Arc<Controls>> = (0..replicas).map(|_| Arc::default()).collect();
    let index = index.moved(|_, graph, executor| {
        let replica =
            |(number, controls)| Faulty::backend(graph.try_clone().unwrap(), &executor, number, controls);
        let replicas = controls.iter().enumerate().map(replica);
        Arc::new(Replicated::new(replicas.collect::<Vec<_>>()))
    });
    (index.into(), controls)
}

fn assert_equal(index: &Index, expected: &Index) {
    let report = index.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!(index.to_bytes().unwrap() == expected.to_bytes().unwrap());
}

fn queries_of(controls: &[Arc<Controls>]) -> Vec<usize> {
    controls.iter().map(|controls| controls.queries.load(Relaxed)).collect()
}

#[test]
fn every_change_leaves_replicas_equal_to_one_index() {
    let rows = rows(1500, 1);
    let (one, (three, _)) = (index(&rows[..900 * DIMENSION]), replicated(inner(&rows[..900 * DIMENSION]), 3));
    assert_eq!(three.device().to_string(), "cuda:0,1,2");
    let each = |change: &dyn Fn(&Index)| {
        [&one, &three].into_iter().for_each(change);
        assert_equal(&three, &one);
    };
    each(&|index| {
        index.insert(view(&rows[900 * DIMENSION..][..300 * DIMENSION]), NewKeys::NEXT).unwrap();
    });
    each(&|index| assert_eq!(index.delete(&(100..250).collect::<Vec<_>>()).unwrap(), 150));
    each(&|index| index.undelete(&[110, 111]).unwrap());
    each(&|index| {
        index.upsert(view(&rows[1200 * DIMENSION..]), &(0..300).collect::<Vec<_>>()).unwrap();
    });
    each(&|index| {
        index.consolidate().unwrap();
    });
    each(&|index| {
        index.compact().unwrap();
    });
    each(&|index| drop(index.quantize(Quantization::Rabitq { bits: 4 }).unwrap()));
    let params = SearchParams::new(2).beam_width(4);
    let found = |index: &Index| index.search_batch(view(&rows), params).unwrap();
    let held_out: Vec<Slot> =
        three.inner.backend.read(|graph| graph.keys().live_slots().step_by(9).collect());
    let without =
        |index: &Index| index.inner.without_edges(&held_out, || Ok::<_, DeviceError>(found(index))).unwrap();
    assert_eq!(without(&three), without(&one));
    assert_ne!(without(&three), found(&three));
    assert_equal(&three, &one);
    each(&|index| drop(index.quantize(None).unwrap()));
    let some: KeyFilter = (0..400).collect();
    let matches =
        |index: &Index| index.search_batch(view(&rows), SearchParams::new(7).filter(&some)).unwrap();
    assert_eq!(matches(&three), matches(&one));
}

#[test]
fn refused_and_cancelled_changes_leave_all_replicas_as_they_were() {
    let rows = rows(2200, 2);
    let (one, (index, _)) = (index(&rows[..600 * DIMENSION]), replicated(inner(&rows[..600 * DIMENSION]), 3));
    let more = view(&rows[600 * DIMENSION..]);
    assert!(index.insert(more, &(500..2100).collect::<Vec<_>>()).is_err(), "key 500 is there");
    assert!(index.delete(&[1, 1]).is_err() && index.delete(&[5, 10_000]).is_err());
    let mut reports = 0;
    loop {
        let (mut left, keys) = (reports, (5000..6600).collect::<Vec<_>>());
        let progress = move |_: Progress| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match index.with_progress(progress).insert(more, &keys) {
            Err(error) if error.kind() == ErrorKind::Cancelled => assert_equal(&index, &one),
            made => {
                made.unwrap();
                break;
            }
        }
        reports += 1;
    }
    assert!(reports > 5, "{reports}");
    assert!(index.device_info().faults.is_empty());
    one.insert(more, &(5000..6600).collect::<Vec<_>>()).unwrap();
    assert_equal(&index, &one);
}

#[test]
fn single_searches_are_shared_and_go_on_after_a_fault() {
    let rows = rows(1000, 7);
    let (one, (two, controls)) = (index(&rows), replicated(inner(&rows), 2));
    let params = SearchParams::new(3);
    // More than search alone, so that most of them share batches.
    let search = || {
        thread::scope(|scope| {
            for first in 0..24 {
                let queries = view(&rows).rows().skip(first * 40).take(40);
                let search = |query| {
                    assert_eq!(two.search(query, params).unwrap(), one.search(query, params).unwrap())
                };
                scope.spawn(move || queries.for_each(search));
            }
        });
    };
    search();
    assert!(queries_of(&controls).iter().all(|&queries| queries > 0), "{:?}", queries_of(&controls));
    // Batches fail when they are started, or while they are under way.
    thread::scope(|scope| {
        scope.spawn(|| (0..4).for_each(|_| search()));
        thread::sleep(Duration::from_millis(20));
        controls[1].fault();
    });
    assert_eq!(two.device_info().faults.len(), 1);
    assert!(two.search(&[0_u8; DIMENSION - 1], params).is_err());
}

#[test]
fn a_batch_is_shared_and_a_slow_device_takes_less() {
    let rows = rows(1000, 3);
    let (one, (two, controls)) = (index(&rows), replicated(inner(&rows), 2));
    controls[0].delay.store(10, Relaxed);
    controls[1].delay.store(200, Relaxed);
    let queries = self::rows(16_000, 4);
    let (mut keys, mut distances) = (vec![0; 16_000 * 3], vec![0.0; 16_000 * 3]);
    let params = SearchParams::new(3);
    let report = two.search_batch_into(view(&queries), params, &mut keys, &mut distances).unwrap();
    let expected = one.search_batch(view(&queries), params).unwrap();
    assert_eq!(&report, expected.report());
    assert_eq!((keys, distances), expected.into_arrays());
    let taken = queries_of(&controls);
    assert_eq!(taken.iter().sum::<usize>(), 16_000);
    assert!(taken[1] > 0 && taken[0] > taken[1], "{taken:?}");
}

#[test]
fn single_queries_go_where_the_fewest_are() {
    let rows = rows(300, 5);
    let (index, controls) = replicated(inner(&rows), 2);
    for of in &controls {
        of.delay.store(20_000, Relaxed);
    }
    thread::scope(|scope| {
        for query in view(&rows).rows().take(8) {
            let index = &index;
            scope.spawn(move || index.search(query, SearchParams::new(1)).unwrap());
        }
    });
    let taken = queries_of(&controls);
    assert!(taken.iter().all(|&taken| taken >= 2) && taken.iter().sum::<usize>() == 8, "{taken:?}");
}

#[test]
fn the_others_go_on_without_a_device_that_faults() {
    let rows = rows(1200, 6);
    let (one, (three, controls)) = (index(&rows), replicated(inner(&rows), 3));
    let queries = self::rows(20_000, 7);
    let params = SearchParams::new(5);
    // It faults when it has answered some.
    controls[1].faults_at.store(2000, Relaxed);
    [0, 2].into_iter().for_each(|other: usize| controls[other].delay.store(20, Relaxed));
    let [found, expected] = [&three, &one].map(|index| index.search_batch(view(&queries), params).unwrap());
    assert_eq!((&found, found.report()), (&expected, expected.report()));
    assert!(controls[1].queries.load(Relaxed) >= 2000);
    let faults = three.device_info().faults;
    assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), ["device cuda:1 failed"]);
    assert_eq!(three.device().to_string(), "cuda:0,2");
    // The first one faults in the middle of a change, which the last one makes.
    controls[0].fault();
    for index in [&one, &three] {
        index.insert(view(&queries[..100 * DIMENSION]), NewKeys::NEXT).unwrap();
    }
    assert_eq!((three.device(), three.device_info().faults.len()), (Device::cuda(2), 2));
    assert_equal(&three, &one);
    // The errors of the last one are those of the index.
    controls[2].fault();
    assert_eq!(three.search(&rows[..DIMENSION], params).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(three.search_batch(view(&queries), params).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(three.delete(&[1]).unwrap_err().kind(), ErrorKind::Device);
    controls[2].faults.store(false, Relaxed);
    assert_equal(&three, &one);
}

#[test]
fn a_replica_without_memory_for_a_change_is_left_out() {
    let rows = rows(900, 8);
    let (index, controls) = replicated(inner(&rows[..600 * DIMENSION]), 2);
    controls[1].has_no_memory.store(true, Relaxed);
    // A search that does not fit fails, and nothing else.
    controls[0].delay.store(100, Relaxed);
    assert_eq!(
        index.search_batch(view(&rows.repeat(8)), SearchParams::new(1)).unwrap_err().kind(),
        ErrorKind::Device
    );
    assert!(index.device_info().faults.is_empty());
    index.insert(view(&rows[600 * DIMENSION..]), NewKeys::NEXT).unwrap();
    assert_eq!((index.len(), index.device_info().faults.len()), (900, 1));
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn replicas_that_differ_are_named() {
    let rows = rows(300, 9);
    let (index, _) = replicated(inner(&rows), 1);
    let graph = |index: &Index| index.read_graph(|graph| graph.try_clone().unwrap()).unwrap();
    let same = graph(&index);
    index.delete(&[7]).unwrap();
    let executor = Arc::new(CpuExecutor::new(1).unwrap());
    let graphs = [same.try_clone().unwrap(), graph(&index), same].into_iter().enumerate();
    let backends = graphs.map(|(number, graph)| Faulty::backend(graph, &executor, number, &Arc::default()));
    let replicas = Replicated::new(backends);
    assert_eq!(replicas.differing_replicas(&mut no_progress).unwrap(), [Device::cuda(1)]);
}

/// Every report but the first is checked by every method that takes arrays of the caller.
#[test]
fn invalid_batches_are_refused() {
    let (index, _) = replicated(inner(&rows(300, 10)), 2);
    let queries = rows(9000, 11);
    let params = SearchParams::new(3);
    let refused = index.search_batch_into(view(&queries), params, &mut [0; 10], &mut [0.0; 10]);
    assert!(
        matches!(&refused, Err(error) if matches!(error.downcast_ref(), Some(SearchError::Buffer { given: 10, .. })))
    );
    assert!(matches!(
        index.search_batch(view(&queries), SearchParams::new(0)).unwrap_err().downcast_ref(),
        Some(SearchError::ZeroK)
    ));
    let short = vec![0_u8; 9000];
    assert!(index.search_batch(MatrixView::new(&short, 1).unwrap(), params).is_err());
    assert_eq!(Matches::new(0, 3).unwrap(), index.search_batch(view(&[]), params).unwrap());
    // A zero vector has no cosine distance. It is named by its row in the batch, not in what a replica took of it.
    let builder = IndexBuilder::new(Metric::Cosine).max_degree(8).build_beam_width(16).device(Device::CPU);
    let (index, _) =
        replicated(builder.build_on_host(view(&rows(300, 10)).into(), &mut no_progress).unwrap(), 2);
    let mut queries = queries;
    queries[7000 * DIMENSION..][..DIMENSION].fill(0);
    let refused = index.search_batch(view(&queries), params).unwrap_err().to_string();
    assert!(refused.contains("row 7000 "), "{refused}");
}

#[test]
fn vectors_are_in_a_place_if_those_of_every_replica_are() {
    let (index, controls) = replicated(inner(&rows(100, 12)), 3);
    let are_in = |storage| index.inner.backend.stores_vectors_in(storage);
    assert!(are_in(MemorySpace::Host) && !are_in(MemorySpace::Device));
    controls[1].is_uploaded.store(true, Relaxed);
    assert!(!are_in(MemorySpace::Host) && !are_in(MemorySpace::Device));
    controls.iter().for_each(|controls| controls.is_uploaded.store(true, Relaxed));
    assert!(are_in(MemorySpace::Device) && !are_in(MemorySpace::Host));
}
