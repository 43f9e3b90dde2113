//! An index on two GPUs or more. Skipped where there are fewer, unless `JASPER_REQUIRE_GPUS` says how many there must be.

use jasper::{Device, Element, Index, KeyFilter, Metric, NewKeys, SearchParams};
use jasper_core::synthetic::Clusters;

use crate::common::{bytes_of, for_each_element, small, view};

const DIMENSION: usize = 12;
const ALL: Device = Device::ALL_CUDA;

fn has_several_devices() -> bool {
    let all = ALL.resolve().ok().flatten();
    let devices = all.map_or(0, |all| all.cuda_ordinals().len());
    let required =
        std::env::var("JASPER_REQUIRE_GPUS").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(devices >= required, "JASPER_REQUIRE_GPUS={required}, and there are {devices}");
    devices > 1
}

fn change<T: Element>(index: &Index) {
    let more: Vec<T> = Clusters::new(DIMENSION, 40).rows(400, 2);
    index.insert(view(&more, DIMENSION), NewKeys::NEXT).unwrap();
    index.delete(&(100..300).collect::<Vec<_>>()).unwrap();
    index.upsert(view(&more, DIMENSION), &(700..1100).collect::<Vec<_>>()).unwrap();
    index.consolidate().unwrap();
    index.compact().unwrap();
    assert!(index.check().unwrap().is_sound());
    assert!(index.device_info().faults.is_empty());
}

fn replicas_are_equal<T: Element>() {
    let rows: Vec<T> = Clusters::new(DIMENSION, 40).rows(900, 0);
    let queries: Vec<T> = Clusters::new(DIMENSION, 40).rows(12_000, 1);
    let built = || small(Metric::L2).device(Device::CPU).build(view(&rows, DIMENSION)).unwrap();
    let one = built().to_device(Device::cuda(0)).unwrap();
    let all = built().to_device(ALL).unwrap();
    assert!(all.device().cuda_ordinals().len() > 1 && all.stats().shards == 1);
    assert!(all.device_info().bytes >= 2 * one.device_info().bytes);
    [&one, &all].into_iter().for_each(|index| index.warm_up().unwrap());
    let some: KeyFilter = (0..600).collect();
    let compare = || {
        for params in [SearchParams::new(10), SearchParams::new(10).filter(&some)] {
            let queries = view(&queries, DIMENSION);
            assert_eq!(
                all.search_batch(queries, params).unwrap(),
                one.search_batch(queries, params).unwrap()
            );
            assert_eq!(
                all.search(queries.row(5), params).unwrap(),
                one.search(queries.row(5), params).unwrap()
            );
        }
    };
    compare();
    [&one, &all].into_iter().for_each(change::<T>);
    compare();
    assert!(bytes_of(&all) == bytes_of(&one));
    let dealt = all.to_device(ALL.sharded(true)).unwrap();
    assert!(dealt.stats().shards > 1, "from replicas on the same devices");
    assert_eq!(dealt.to_device(Device::CPU).unwrap().device(), Device::CPU);
}

#[test]
fn replicas_on_devices_are_equal() {
    if has_several_devices() {
        for_each_element!(replicas_are_equal);
    }
}

fn shards_find_all<T: Element>() {
    let rows: Vec<T> = Clusters::new(DIMENSION, 40).rows(900, 0);
    let queries: Vec<T> = Clusters::new(DIMENSION, 40).rows(500, 1);
    let one = small(Metric::L2).device(Device::CPU).build(view(&rows, DIMENSION)).unwrap();
    let builder = small(Metric::L2).device(ALL.sharded(true));
    let index = builder.build(view(&rows, DIMENSION)).unwrap();
    let report = index.stats().build.unwrap();
    assert!(report.device.cuda_ordinals().len() > 1 && index.stats().shards > 1);
    assert_eq!(index.device(), report.device);
    [&one, &index].into_iter().for_each(change::<T>);
    let (queries, params) = (view(&queries, DIMENSION), SearchParams::new(10).beam_width(1000));
    let [expected, found] = [&one, &index].map(|index| index.search_batch(queries, params).unwrap());
    for (found, expected) in found.distances().iter().zip(expected.distances()) {
        assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{found} {expected}");
    }
    let folder = tempfile::tempdir().unwrap();
    index.save(folder.path()).unwrap();
    // Fewer devices have several shards each.
    for device in [Device::cuda(0), ALL, Device::CPU] {
        let opened = Index::open(folder.path()).unwrap().to_device(device).unwrap();
        assert_eq!((opened.stats().shards, opened.len()), (index.stats().shards, index.len()));
        let again = opened.search_batch(queries, params).unwrap();
        assert!(device == Device::CPU || again == found);
    }
    // An index of one graph is dealt out.
    let dealt = one.to_device(ALL.sharded(true)).unwrap();
    assert_eq!((dealt.stats().shards, dealt.len()), (index.stats().shards, index.len()));
    assert!(dealt.check().unwrap().is_sound());
}

#[test]
fn shards_on_devices_find_all_keys() {
    if has_several_devices() {
        for_each_element!(shards_find_all);
    }
}
