//! Shards change all or none, and answers are merged.

use std::sync::atomic::Ordering::Relaxed;

use jasper_core::synthetic::Clusters;
use jasper_core::{MatrixView, Metric, no_progress};

use super::*;
use crate::backend::faulty::{Controls, Faulty};
use crate::{Error, Index, IndexBuilder, NewKeys, Quantization, QuantizeMode};

const DIMENSION: usize = 12;

fn rows(count: usize, seed: u64) -> Vec<u8> {
    Clusters::new(DIMENSION, 40).rows(count, seed)
}

fn view(rows: &[u8]) -> MatrixView<'_, u8> {
    MatrixView::new(rows, DIMENSION).unwrap()
}

/// An index of three shards, each on a device that faults on demand.
fn index() -> (Index, Vec<Arc<Controls>>) {
    let controls: Vec<Arc<Controls>> = (0..3).map(|_| Arc::default()).collect();
    let builder = IndexBuilder::new(Metric::L2).max_degree(8).build_beam_width(16).threads(2);
    let builder = builder.device(Device::CPU).shards(3);
    let index = builder.build_on_host(view(&rows(900, 1)).into(), &mut no_progress).unwrap();
    let on = |shard: usize, graph, executor| Faulty::backend(graph, &executor, shard, &controls[shard]);
    (index.moved(on).into(), controls)
}

/// The vectors, and which keys are deleted.
fn contents(index: &Index) -> (Vec<Option<Vec<f32>>>, usize, usize) {
    let stats = index.stats();
    ((0..2000).map(|key| index.vector(key)).collect(), stats.deleted_keys, stats.free_slots)
}

#[test]
fn keys_of_equal_distances_are_sorted() {
    let found = [(5, 1.0), (9, 2.0), (4, 2.0), (7, 2.0), (1, 3.0)];
    let answer = Matches::filled(2, 6, |matches| {
        for mut row in matches.rows(6) {
            row.fill(found.into_iter().map(|(key, distance)| Hit { key, distance }));
        }
        Ok(SearchReport::default())
    });
    let mut list = Vec::new();
    load(&mut list, &answer.unwrap(), 1);
    assert_eq!(list.iter().map(|hit| hit.key).collect::<Vec<_>>(), [5, 4, 7, 9, 1, Hit::NONE.key]);
    load(&mut list, &Matches::new(3, 4).unwrap(), 2);
    assert_eq!(list, [Hit::NONE; 4]);
}

#[test]
fn lists_are_merged_by_distance_and_key() {
    let bytes = rows(400, 3);
    for k in [1, 2, 10, 33] {
        for lists in bytes.chunks_exact(4 * k + 2) {
            let (lens, values) = lists.split_at(2);
            let list = |i: usize| {
                let hit =
                    |pair: &[u8]| Hit { key: Key::from(pair[0] % 90), distance: f32::from(pair[1] % 9) };
                let pairs = values[i * 2 * k..].chunks_exact(2);
                let mut hits: Vec<Hit> = pairs.take(lens[i] as usize % (k + 1)).map(hit).collect();
                sort(&mut hits);
                hits.resize(k, Hit::NONE);
                hits
            };
            let (one, other) = (list(0), list(1));
            let mut expected = [&one[..], &other].concat();
            sort(&mut expected);
            let mut merged = vec![Hit::NONE; k];
            merge(&one, &other, &mut merged);
            assert_eq!(merged, expected[..k]);
        }
    }
}

#[test]
fn a_shard_that_cannot_change_leaves_all_as_they_were() {
    let more = rows(600, 2);
    for broken in 0..3 {
        let (index, controls) = index();
        index.delete(&(0..60).collect::<Vec<_>>()).unwrap();
        let before = contents(&index);
        controls[broken].has_no_memory.store(true, Relaxed);
        let device = |error: Error| match error.downcast_ref() {
            Some(DeviceError::Unavailable { device, .. }) => *device,
            _ => panic!("{error}"),
        };
        assert_eq!(device(index.insert(view(&more), NewKeys::NEXT).unwrap_err()), broken);
        assert_eq!(device(index.upsert(view(&more), &(100..700).collect::<Vec<_>>()).unwrap_err()), broken);
        assert_eq!(device(index.consolidate().unwrap_err()), broken);
        assert_eq!(device(index.delete(&(100..200).collect::<Vec<_>>()).unwrap_err()), broken);
        assert_eq!(device(index.undelete(&(10..50).collect::<Vec<_>>()).unwrap_err()), broken);
        assert!(contents(&index) == before);
        assert!(index.search(&more[..DIMENSION], SearchParams::new(1)).is_err(), "an answer lacks a shard");
        controls[broken].has_no_memory.store(false, Relaxed);
        assert_eq!(index.insert(view(&more), NewKeys::NEXT).unwrap().keys, 600);
        assert!(index.check().unwrap().is_sound());
    }
}

/// A device that fails late has dropped the codes of its shard, as a rollback does.
#[test]
fn codes_of_all_shards_change_or_none() {
    let quantization = |bits| QuantizeMode::Forced(Quantization::Rabitq { bits });
    for (broken, is_late) in [(0, false), (2, false), (0, true), (1, true), (2, true)] {
        let (index, controls) = index();
        index.quantize(quantization(4)).unwrap();
        let backend = &index.inner.backend;
        backend.change(|graph| graph.set_encoded_tuned_searches(vec![7; 128])).unwrap();
        let state = |graph: &Graph| {
            let codes = graph.vectors().codes().map(|codes| {
                (0..graph.slots()).map(|slot| codes.table().row(slot).to_vec()).collect::<Vec<_>>()
            });
            let vectors = graph.keys().vertices().map(|slot| graph.vectors().padded_bytes(slot).to_vec());
            (codes, vectors.collect::<Vec<_>>(), graph.encoded_tuned_searches().to_vec())
        };
        let states = || backend.shards().iter().map(|shard| shard.read(state)).collect::<Vec<_>>();
        let before = states();
        let changes: [&dyn Fn() -> Result<(), Error>; 3] = [
            &|| index.quantize(quantization(2)).map(drop),
            &|| index.quantize(QuantizeMode::None).map(drop),
            &|| index.drop_vectors(),
        ];
        for change in changes {
            let fault = if is_late { &controls[broken].fails_late } else { &controls[broken].has_no_memory };
            fault.store(true, Relaxed);
            change().unwrap_err();
            controls[broken].has_no_memory.store(false, Relaxed);
            assert!(states() == before, "shard {broken}");
        }
        index.quantize(quantization(2)).unwrap();
        assert_eq!(index.stats().quantization, Some(Quantization::Rabitq { bits: 2 }));
    }
}

#[test]
fn without_room_for_the_codes_that_there_were_no_shard_has_any() {
    let (index, controls) = index();
    index.quantize(QuantizeMode::Forced(Quantization::Rabitq { bits: 4 })).unwrap();
    controls[1].fails_late.store(true, Relaxed);
    // Two changes of the first shard succeed: to the new codes, and to none.
    *controls[0].changes_left.lock().unwrap() = Some(2);
    index.quantize(QuantizeMode::Forced(Quantization::Rabitq { bits: 2 })).unwrap_err();
    *controls[0].changes_left.lock().unwrap() = None;
    let backend = &index.inner.backend;
    let has_codes = |shard: &Arc<dyn Backend>| shard.read(|graph| graph.vectors().codes().is_some());
    assert!(!backend.shards().iter().any(has_codes));
}

#[test]
fn every_shard_answers_and_ties_are_ordered_by_key() {
    let (index, controls) = index();
    let twice = rows(40, 3).repeat(2);
    let first = index.insert(view(&twice), NewKeys::NEXT).unwrap().first_key.unwrap();
    assert_eq!(first, 900);
    let queries = twice.repeat(20);
    let matches = index.search_batch(view(&queries), SearchParams::new(4).beam_width(500)).unwrap();
    for (query, hits) in matches.iter().enumerate() {
        let keys: Vec<Key> = hits.map(|hit| hit.key).collect();
        let key = 900 + query as Key % 40;
        assert_eq!(keys[..2], [key, key + 40]);
    }
    assert!(controls.iter().all(|controls| controls.queries.load(Relaxed) == 1600));
    assert_eq!(index.device().to_string(), "cuda:0,1,2");
}

#[test]
fn a_shard_without_live_keys_answers_nothing() {
    let (index, _) = index();
    let (queries, params) = (rows(40, 4), SearchParams::new(5));
    let search = || index.search_batch(view(&queries), params).unwrap();
    let keys_of = |shard: usize| (0..900).filter(move |&key| shard_of(key, 3) == shard).collect::<Vec<Key>>();
    let before = search();
    assert!(before.iter().flatten().any(|hit| shard_of(hit.key, 3) == 1));
    index.delete(&keys_of(1)).unwrap();
    assert!(search().iter().flatten().all(|hit| shard_of(hit.key, 3) != 1));
    index.delete(&[keys_of(0), keys_of(2)].concat()).unwrap();
    assert_eq!(search(), Matches::new(40, 5).unwrap());
    // The arrays of the caller are written as well.
    let (mut keys, mut distances) = before.into_arrays();
    index.search_batch_into(view(&queries), params, &mut keys, &mut distances).unwrap();
    assert!(keys.iter().all(|&key| key == Hit::NONE.key) && distances.iter().all(|d| d.is_infinite()));
}

#[test]
fn an_empty_batch_may_ask_for_any_number_of_results() {
    let (index, _) = index();
    let params = SearchParams::new(usize::MAX / 4);
    let found = index.inner.backend.search_batch(&[], params, MatchesMut::default());
    assert!(!matches!(found, Err(SearchError::Buffer { .. })), "{found:?}");
}

#[test]
fn a_query_that_is_refused_is_named_by_its_row_in_the_batch() {
    let rows: Vec<f32> = Clusters::new(4, 9).rows(60, 1);
    let rows = MatrixView::new(&rows, 4).unwrap();
    let index = IndexBuilder::new(Metric::L2).device(Device::CPU).shards(3).build(rows).unwrap();
    // 1,000 results per query: the batch is searched in more than one chunk.
    let (mut queries, params) = (vec![1.0_f32; 2600 * 4], SearchParams::new(1000));
    queries[2550 * 4] = f32::NAN;
    let queries = MatrixView::new(&queries, 4).unwrap();
    let refused = index.search_batch(queries, params).unwrap_err().to_string();
    assert!(refused.contains("row 2550 "), "{refused}");
    assert!(index.search_batch(queries.slice(0..2550), params).unwrap().hits(2549).count() == 60);
}

#[test]
fn vectors_are_in_a_place_if_those_of_every_shard_are() {
    let (index, controls) = index();
    let are_in = |storage| index.inner.backend.stores_vectors_in(storage);
    assert!(are_in(MemorySpace::Host) && !are_in(MemorySpace::Device));
    controls[1].is_uploaded.store(true, Relaxed);
    assert!(!are_in(MemorySpace::Host) && !are_in(MemorySpace::Device));
    controls.iter().for_each(|controls| controls.is_uploaded.store(true, Relaxed));
    assert!(are_in(MemorySpace::Device) && !are_in(MemorySpace::Host));
}

#[test]
fn shards_are_even() {
    for shards in [2, 3, 7, 100, 256] {
        let rows = RowsByShard::new(None, 100_000, shards);
        let sizes: Vec<usize> = (0..shards).map(|shard| rows.len(shard)).collect();
        let mean = 100_000 / shards;
        assert!(sizes.iter().all(|size| size.abs_diff(mean) < mean / 4), "{sizes:?}");
    }
    assert_eq!([0, 1, 2, 1 << 40].map(|key| shard_of(key, 256)), [226, 145, 151, 31], "files depend on this");
}
