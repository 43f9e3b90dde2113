//! An index on a device has the results of one on the host. Without a GPU, `Device::AUTO` is the CPU.

use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use jasper::{
    Device, Distances, Element, ElementKind, ErrorKind, Hit, Index, IndexBuilder, KeyFilter, MemorySpace,
    Metric, NewKeys, Profile, Quantization, SearchParams, Target,
};
use jasper_core::DeviceError;
use jasper_core::synthetic::Clusters;
use jasper_vamana::SearchError;

use crate::common::{SearchHits, bytes_of, for_each_element, small, view};

const DIMENSION: usize = 12;

fn index<T: Element>(metric: Metric) -> Index {
    let rows: Vec<T> = Clusters::new(DIMENSION, 40).rows(900, 0);
    let index = small(metric).build(view(&rows, DIMENSION)).unwrap();
    index.delete(&[5, 77, 200]).unwrap();
    index
}

/// Compares results on the host and on the device, which are equal bit for bit if sums are exact.
fn compare<T: Element>(host: &Index, index: &Index, queries: &[T], params: SearchParams<'_>) {
    index.warm_up().unwrap();
    let queries = view(queries, DIMENSION);
    let expected = host.search_hits(queries, params).unwrap();
    let found = index.search_hits(queries, params).unwrap();
    let exact = T::EXACT_SUMS && host.stats().metric != Metric::Cosine;
    for (found, expected) in found.iter().zip(&expected) {
        let near = (found.distance - expected.distance).abs() <= 1e-5 * (1.0 + expected.distance.abs());
        assert!(
            if exact { found == expected } else { near || found.distance == expected.distance },
            "{params:?}"
        );
    }
    for (query, found) in queries.rows().zip(found.chunks(params.k)).take(3) {
        let alone = index.search(query, params).unwrap();
        assert_eq!(alone, found.iter().copied().filter(|hit| *hit != Hit::NONE).collect::<Vec<_>>());
    }
}

fn answers<T: Element>() {
    let queries: Vec<T> = Clusters::new(DIMENSION, 40).rows(50, 1);
    for metric in Metric::ALL {
        for device in [Device::CPU, Device::AUTO] {
            let host = index::<T>(metric);
            let index = index::<T>(metric).to_device(device).unwrap();
            assert_eq!(index.device_info().bytes > 0, index.device() != Device::CPU);
            compare(&host, &index, &queries, SearchParams::new(10));
            compare(&host, &index, &queries, SearchParams::new(200).beam_width(300));
            let few: KeyFilter = [1, 5, 300, 301].into_iter().collect();
            compare(&host, &index, &queries, SearchParams::new(5).filter(&few));
            let half = |key| key % 2 == 0;
            // Wide enough that a beam finds what a scan finds: the device may prefer one where the host does not.
            compare(&host, &index, &queries, SearchParams::new(5).beam_width(200).filter(&half));
            assert!(matches!(
                index.search(&queries[1..DIMENSION], SearchParams::new(1)).unwrap_err().downcast_ref(),
                Some(SearchError::Vector(_))
            ));
            assert_eq!(index.to_device(Device::CPU).unwrap().len(), 897);
        }
    }
}

#[test]
fn answers_do_not_depend_on_the_device() {
    for_each_element!(answers);
}

#[test]
fn threads_share_an_index_on_a_device() {
    let index = index::<u8>(Metric::L2).to_device(Device::AUTO).unwrap();
    index.warm_up().unwrap();
    let queries: Vec<u8> = Clusters::new(DIMENSION, 40).rows(64, 1);
    let params = SearchParams::new(10);
    let expected = index.search_hits(view(&queries, DIMENSION), params).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (query, expected) in queries.chunks(DIMENSION).zip(expected.chunks(10)) {
                    assert_eq!(index.search(query, params).unwrap(), expected);
                }
                assert_eq!(index.search_hits(view(&queries, DIMENSION), params).unwrap(), expected);
            });
        }
    });
}

/// Makes the same changes to an index on the host and to one on `Device::AUTO`. For byte vectors, the files are the
/// same.
#[test]
fn changes_do_not_depend_on_the_device() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 40).rows(2500, 2);
    let part = |from: usize, to: usize| view(&rows[from * DIMENSION..to * DIMENSION], DIMENSION);
    let host = index::<u8>(Metric::L2);
    let device = index::<u8>(Metric::L2).to_device(Device::AUTO).unwrap();
    for round in 0..3 {
        let (from, to) = (round * 800, round * 800 + 800);
        let first = |index: &Index| index.insert(part(from, to), NewKeys::NEXT).unwrap().first_key;
        assert_eq!(first(&host), first(&device));
        let keys: Vec<u64> = (0..900).filter(|key| key % 3 == round as u64 && host.contains(*key)).collect();
        host.delete(&keys).unwrap();
        device.delete(&keys).unwrap();
        host.undelete(&keys[..10]).unwrap();
        device.undelete(&keys[..10]).unwrap();
        let upserted: Vec<u64> = (900..950).collect();
        host.upsert(part(to, to + 50), &upserted).unwrap();
        device.upsert(part(to, to + 50), &upserted).unwrap();
        assert_eq!(host.consolidate().unwrap().freed, device.consolidate().unwrap().freed);
        if round == 1 {
            assert_eq!(host.compact().unwrap(), device.compact().unwrap());
        }
        assert!(device.delete(&keys).is_err() && device.insert(part(0, 1), &[900]).is_err());
        assert_eq!(device.len(), host.len());
        assert!(device.check().unwrap().is_sound());
        let stats = device.stats();
        assert_eq!(stats.vector_storage == MemorySpace::Device, device.device() != Device::CPU);
        let mut of_host = host.stats();
        of_host.vector_storage = stats.vector_storage;
        // Builds on a device make the same graph, but count other numbers of distances.
        of_host.build.clone_from(&stats.build);
        assert_eq!(stats, of_host);
        compare(&host, &device, &rows[..20 * DIMENSION], SearchParams::new(10));
    }
    assert!(bytes_of(&device.to_device(Device::CPU).unwrap()) == bytes_of(&host));
}

/// A sorted batch of 16,384 vectors, the largest there is, each of which is compared with all others.
#[test]
fn a_large_batch_does_not_depend_on_the_device() {
    // Such a build takes long on a CPU.
    if Device::cuda(0).resolve().is_err() {
        return;
    }
    let set = Clusters::new(DIMENSION, 41);
    let built = || {
        let rows: Vec<u8> = set.rows(140_000, 0);
        IndexBuilder::new(Metric::L2)
            .max_degree(16)
            .build_beam_width(24)
            .build(view(&rows, DIMENSION))
            .unwrap()
    };
    let device = built().to_device(Device::cuda(0)).unwrap();
    let host = built();
    let rows: Vec<u8> = set.rows_of(&[3; 17_000], 1);
    host.insert(view(&rows, DIMENSION), NewKeys::NEXT).unwrap();
    device.insert(view(&rows, DIMENSION), NewKeys::NEXT).unwrap();
    assert!(bytes_of(&device.to_device(Device::CPU).unwrap()) == bytes_of(&host));
}

/// With vectors on the host, results and changes are those with vectors on the device, and those of the CPU.
fn vectors_stay_on_the_host<T: Element>(metric: Metric) {
    let coded = || {
        let index = index::<T>(metric);
        index.quantize(Quantization::Rabitq { bits: 4 }).unwrap();
        index
    };
    let host = coded();
    let queries: Vec<T> = Clusters::new(DIMENSION, 40).rows(50, 1);
    let rows: Vec<T> = Clusters::new(DIMENSION, 40).rows(600, 2);
    let options = Device::AUTO.vector_storage(MemorySpace::Host);
    let mut apart = coded().to_device(options).unwrap();
    let there = coded().to_device(Device::AUTO).unwrap();
    let is_on_gpu = there.device() != Device::CPU;
    for round in 0..2 {
        assert_eq!(apart.stats().vector_storage, MemorySpace::Host);
        assert_eq!(apart.device_info().bytes < there.device_info().bytes, is_on_gpu);
        for distances in [Distances::Auto, Distances::Exact, Distances::Quantized { rerank: 15 }] {
            let params = SearchParams::new(10).distances(distances);
            compare(&host, &apart, &queries, params);
        }
        let part = view(&rows[round * 300 * DIMENSION..][..300 * DIMENSION], DIMENSION);
        let first = apart.insert(part, NewKeys::NEXT).unwrap().first_key.unwrap();
        assert_eq!(
            [&host, &there].map(|index| index.insert(part, NewKeys::NEXT).unwrap().first_key),
            [Some(first); 2]
        );
        let gone: Vec<u64> = (first..first + 40).collect();
        host.delete(&gone).unwrap();
        apart.delete(&gone).unwrap();
        there.delete(&gone).unwrap();
        let freed = apart.consolidate().unwrap().freed;
        assert_eq!([host.consolidate(), there.consolidate()].map(|report| report.unwrap().freed), [freed; 2]);
        host.compact().unwrap();
        apart.compact().unwrap();
        there.compact().unwrap();
        apart = apart.to_device(Device::CPU).unwrap().to_device(options).unwrap();
    }
    assert!(bytes_of(&apart.to_device(Device::CPU).unwrap()) == bytes_of(&host));
    let bytes = there.device_info().bytes;
    let there = there.to_device(options).unwrap();
    assert_eq!(there.stats().vector_storage, MemorySpace::Host, "moved from where it was already");
    assert_eq!(there.device_info().bytes < bytes, is_on_gpu);
}

#[test]
fn vectors_may_stay_on_the_host() {
    vectors_stay_on_the_host::<u8>(Metric::L2);
    vectors_stay_on_the_host::<i8>(Metric::InnerProduct);
}

/// Estimated distances and both kinds of vector storage are included.
#[test]
fn searches_for_queries_that_lie_on_a_gpu_are_timed_there() {
    let queries: Vec<f32> = Clusters::new(DIMENSION, 40).rows(50, 1);
    let queries = view(&queries, DIMENSION);
    for vectors in [Some(MemorySpace::Device), Some(MemorySpace::Host), None] {
        let index = index::<f32>(Metric::L2);
        index.quantize(Quantization::Mixed { sectors: 1 }).unwrap();
        if vectors.is_none() {
            index.drop_vectors().unwrap();
        }
        let options = Device::AUTO.vector_storage(vectors);
        let index = index.to_device(options).unwrap();
        for distances in
            [Distances::Auto, Distances::Quantized { rerank: 0 }, Distances::Quantized { rerank: 15 }]
        {
            let params = SearchParams::new(10).distances(distances);
            let time = Profile::device_time(&index, queries, params).unwrap();
            assert_eq!(
                time.is_some_and(|time| !time.is_zero()),
                index.device() != Device::CPU,
                "{vectors:?}"
            );
        }
        let exact = Profile::device_time(&index, queries, SearchParams::new(10).distances(Distances::Exact));
        assert!(exact.is_ok() || vectors.is_none());
    }
}

#[cfg(feature = "cuda")]
#[test]
fn what_a_device_has_to_hold_is_told_beforehand() {
    let index = index::<f32>(Metric::L2);
    let bytes = |index: &Index, vectors| {
        Device::cuda(0).vector_storage(vectors).memory_plan(index).unwrap().total(MemorySpace::Device)
    };
    // 12 coordinates are a multiple of 16 bytes.
    let rows = index.stats().vector_bytes as u64;
    assert_eq!(rows, 900 * 12 * 4);
    let bare = bytes(&index, MemorySpace::Device);
    assert_eq!(bytes(&index, MemorySpace::Host), bare - rows);
    index.quantize(Quantization::Mixed { sectors: 1 }).unwrap();
    let plan = Device::cuda(0).memory_plan(&index).unwrap();
    let part = |name| plan.parts().iter().find(|part| part.name == name).unwrap().bytes;
    let (codes, quantizer) = (part("codes"), part("quantizer"));
    assert_eq!(codes, 900 * 32);
    // The center, a matrix of 12 columns at least, and what belongs to each dimension.
    assert!((12 * (1 + 12 + 4) * 4..4096).contains(&quantizer), "{quantizer}");
    assert_eq!(plan.total(MemorySpace::Device), bare + codes + quantizer);
    index.drop_vectors().unwrap();
    assert_eq!(bytes(&index, MemorySpace::Host), bare - rows + codes + quantizer);
    assert_eq!(bytes(&index, MemorySpace::Device), bytes(&index, MemorySpace::Host));
}

#[test]
fn searches_go_on_while_the_index_changes() {
    let index = index::<u8>(Metric::L2).to_device(Device::AUTO).unwrap();
    let rows: Vec<u8> = Clusters::new(DIMENSION, 40).rows(1500, 3);
    let queries = view(&rows[..32 * DIMENSION], DIMENSION);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let hits = index.search_hits(queries, SearchParams::new(10)).unwrap();
                    assert!(hits.iter().all(|hit| *hit != Hit::NONE));
                }
            });
        }
        for chunk in rows.chunks(300 * DIMENSION) {
            let first = index.insert(view(chunk, DIMENSION), NewKeys::NEXT).unwrap().first_key.unwrap();
            index.delete(&[first, first + 1]).unwrap();
            index.consolidate().unwrap();
        }
        done.store(true, Relaxed);
    });
    assert_eq!(index.len(), 897 + 1500 - 10);
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let error = index::<f32>(Metric::L2).to_device(Device::cuda(999)).unwrap_err();
    assert_eq!(error.to_string(), "the index cannot be moved and stays on cpu");
    let cause = error.source().unwrap().to_string();
    assert!(cause.starts_with("device cuda:999 cannot be used"), "{cause}");
    let index = error.into_index().unwrap();
    assert_eq!((index.len(), index.device()), (897, Device::CPU));
    let rows = [0.5_f32; 4];
    let error = small(Metric::L2).device(Device::cuda(999)).build(view(&rows, 2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
}

#[test]
fn an_index_stays_on_the_device_that_is_named() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 40).rows(300, 0);
    let build = |builder: IndexBuilder<'_>| builder.build(view(&rows, DIMENSION)).unwrap();
    assert_eq!(build(small(Metric::L2)).device(), Device::CPU, "of a device that was not named");
    let first = Device::cuda(0);
    if first.resolve().is_ok() {
        let there = small(Metric::L2).device(first);
        assert_eq!(build(there.clone()).device(), Device::cuda(0));
        assert_eq!(build(there.clone().keep_on_host(true)).device(), Device::CPU);
        assert_eq!(there.empty(ElementKind::U8, DIMENSION).unwrap().device(), Device::cuda(0));
        assert_eq!(build(there.clone()).rebuild(first).unwrap().device(), Device::cuda(0));
    }
}

#[test]
fn a_refusal_names_the_device_and_the_way_out() {
    assert_eq!(Device::AUTO.resolve().unwrap(), None);
    assert_eq!(Device::CPU.resolve().unwrap(), Some(Device::CPU));
    let error = Device::cuda(999).resolve().unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("device cuda:999 cannot be used"), "{message}");
    if let Some(DeviceError::NotCompiled(_)) = error.downcast_ref() {
        assert!(message.contains("use cpu or auto"), "{message}");
    } else if let Err(error) = Device::cuda(0).resolve() {
        let cause = error.source().expect("the driver's error").to_string();
        assert!(cause.ends_with("use the cpu"), "{cause}");
    }
}

/// Quantizing, tuning, and searches by key and within a radius work on the device of the index.
#[test]
fn an_index_is_quantized_and_tuned_where_it_is() {
    let set: Vec<u8> = Clusters::new(DIMENSION, 40).rows(2500, 0);
    let built = || small(Metric::L2).device(Device::CPU).build(view(&set, DIMENSION)).unwrap();
    let (host, device) = (built(), built().to_device(Device::AUTO).unwrap());
    device.warm_up().unwrap();
    let queries: Vec<u8> = Clusters::new(DIMENSION, 40).rows(50, 1);
    let indexes = [&host, &device];
    for index in indexes {
        index.quantize(Quantization::Rabitq { bits: 4 }).unwrap();
    }
    compare(&host, &device, &queries, SearchParams::new(10));
    let params = SearchParams::new(10).distances(Distances::Exact);
    let near = indexes.map(|index| index.search(Target::key(7), params).unwrap());
    assert_eq!(near[0], near[1]);
    assert!(near[0].len() == 10 && near[0].iter().all(|hit| hit.key != 7));
    let radius = near[0][5].distance;
    let within =
        indexes.map(|index| index.search(Target::within(&set[7 * DIMENSION..][..DIMENSION], radius), params));
    let [within, on_device] = within.map(Result::unwrap);
    assert_eq!(within, on_device);
    assert!(within.len() >= 7 && within.iter().all(|hit| hit.distance <= radius));
    assert!(bytes_of(&device) == bytes_of(&host));

    let goal = jasper::tune::Goal { k: 10, recall: 0.8 };
    let report = device.tune(goal, jasper::tune::TuneQueries::sampled()).unwrap();
    assert!(report.searches.iter().all(|search| search.recall >= 0.8));
    assert_eq!(device.tuned().len(), report.searches.len());
    assert!(device.tuned().params(goal, 1).is_some() && device.check().unwrap().is_sound());
    compare(&host, &device, &queries, SearchParams::new(10));

    for index in indexes {
        index.quantize(None).unwrap();
    }
    compare(&host, &device, &queries, SearchParams::new(10));
    for index in indexes {
        index.quantize(Quantization::Rabitq { bits: 6 }).unwrap();
        index.drop_vectors().unwrap();
        assert!(index.vector(7).is_none() && index.stats().vector_bytes == 0);
    }
    compare(&host, &device, &queries, SearchParams::new(10));
    assert_eq!(device.to_device(Device::CPU).unwrap().len(), 2500);
}

#[test]
fn devices_that_do_not_exist_are_named() {
    let set = Device::cuda_set(&[61, 62]).unwrap();
    let error = set.resolve().unwrap_err();
    assert!(error.to_string().starts_with("device cuda:61 cannot be used"), "{error}");
    assert!(Device::ALL_CUDA.resolve().map_or(true, |all| all.is_some_and(|all| all != Device::CPU)));
}
