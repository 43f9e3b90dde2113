//! An index of several shards has the results of one graph, and its folder opens only if it is whole.

use jasper::ErrorKind;
use jasper_graph::KeyError;
use jasper_vamana::UpdateError;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jasper::{
    DeleteKeys, Device, Element, ElementKind, Index, IndexBuilder, KeyFilter, Metric, NewKeys, OpenOptions,
    Progress, Quantization, QuantizeMode, SearchParams, Stage, Target,
};
use jasper_core::synthetic::Clusters;

use crate::common::{assert_exact, everything, for_each_element, keys, small, view};

const DIMENSION: usize = 12;

fn vectors<T: Element>(count: usize, seed: u64) -> Vec<T> {
    Clusters::new(DIMENSION, 40).rows(count, seed)
}

fn builder<'a>(metric: Metric, shards: usize) -> IndexBuilder<'a> {
    small(metric).device(Device::CPU).shards(shards)
}

fn sharded(count: usize, shards: usize) -> Index {
    builder(Metric::L2, shards).build(view(&vectors::<u8>(count, 1), DIMENSION)).unwrap()
}

fn finds_all<T: Element>() {
    let rows: Vec<T> = vectors(700, 1);
    let view = view(&rows, DIMENSION);
    for metric in Metric::ALL {
        for shards in [2, 5] {
            let index = builder(metric, shards).build(view).unwrap();
            assert_eq!((index.stats().shards, index.len(), index.stats().keys), (shards, 700, 700));
            let stored = |key| index.vector(key).unwrap().into_iter().map(T::from_f32).collect();
            let stored: Vec<Vec<T>> = (0..700).map(stored).collect();
            for row in [3, 77, 500] {
                let all = stored.iter().enumerate().map(|(key, row)| (key as u64, &row[..]));
                let found = everything(&index, view.row(row));
                assert_eq!(found.len(), 700);
                assert_exact(metric, &stored[row], &found, all);
            }
            assert!(index.check().unwrap().is_sound());
        }
    }
}

#[test]
fn a_sharded_index_finds_all_keys_in_order() {
    for_each_element!(finds_all);
}

/// Beams that hold everything find the same in one graph and in many.
fn assert_same(index: &Index, one: &Index) {
    let queries = vectors::<u8>(300, 9);
    let (queries, params) = (view(&queries, DIMENSION), SearchParams::new(9).beam_width(3000));
    let by_key = |index: &Index, params: SearchParams<'_>| -> Vec<Vec<(u32, u64)>> {
        let matches = index.search_batch(queries, params).unwrap();
        let sorted = |hits: Vec<jasper::Hit>| {
            let last = hits.last().map_or(0.0, |hit| hit.distance);
            let mut hits: Vec<_> = hits.into_iter().filter(|hit| hit.distance < last).collect();
            hits.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.key.cmp(&b.key)));
            hits.into_iter().map(|hit| (hit.distance.to_bits(), hit.key)).collect()
        };
        matches.iter().map(|hits| sorted(hits.collect())).collect()
    };
    assert_eq!(by_key(index, params), by_key(one, params));
    let some: KeyFilter = (0..5000).step_by(3).collect();
    assert_eq!(by_key(index, params.filter(&some)), by_key(one, params.filter(&some)));
    let odd = |key| key % 2 == 1;
    assert_eq!(by_key(index, params.filter(&odd)), by_key(one, params.filter(&odd)));
    for query in queries.rows().take(20) {
        let alone = index.search(query, params).unwrap();
        let matches = index.search_batch(view(query, DIMENSION), params).unwrap();
        assert_eq!(alone, matches.hits(0).collect::<Vec<_>>());
        assert!(alone.is_sorted_by_key(|hit| (hit.distance.to_bits(), hit.key)));
    }
    let mut all = [index.keys(), one.keys()];
    all.iter_mut().for_each(|keys| keys.sort_unstable());
    assert_eq!(all[0], all[1]);
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn changes_go_where_the_keys_are() {
    let (index, one) = (sharded(800, 3), sharded(800, 1));
    let each = |change: &dyn Fn(&Index)| {
        [&index, &one].into_iter().for_each(change);
        assert_same(&index, &one);
    };
    let more = vectors::<u8>(400, 2);
    each(&|index| {
        assert_eq!(index.insert(view(&more, DIMENSION), NewKeys::NEXT).unwrap().first_key, Some(800))
    });
    each(&|index| assert_eq!(index.delete(&(100..250).collect::<Vec<_>>()).unwrap(), 150));
    each(&|index| index.undelete(&[110, 111]).unwrap());
    each(&|index| {
        assert_eq!(index.delete(DeleteKeys::Present(&[111, 260, 111, 120, 5000, 261])).unwrap(), 3)
    });
    each(&|index| {
        let keys: Vec<u64> = (600..1000).collect();
        assert_eq!(index.upsert(view(&more, DIMENSION), &keys).unwrap().keys, 400);
    });
    each(&|index| assert!(index.consolidate().is_ok()));
    each(&|index| assert!(index.compact().is_ok()));
    assert_eq!(index.stats().free_slots, 0);
    // Ties are ordered by key in shards, and by vertex in one graph.
    let near = [&index, &one].map(|index| {
        let mut keys = keys(&index.search(Target::key(300), SearchParams::new(4).beam_width(3000)).unwrap());
        keys.sort_unstable();
        keys
    });
    assert_eq!(near[0], near[1]);
    let rebuilt = index.rebuild(Device::CPU).unwrap();
    assert_eq!(rebuilt.stats().shards, 3);
    assert_same(&rebuilt, &one);
    for index in [&index, &one] {
        index.quantize(Quantization::Rabitq { bits: 4 }).unwrap();
    }
    assert_eq!(index.stats().quantization, Some(Quantization::Rabitq { bits: 4 }));
    assert_eq!(
        index.search(&more[..DIMENSION], SearchParams::new(1).beam_width(3000)).unwrap()[0].distance,
        0.0
    );
}

/// What an index has, to compare with later.
fn contents(index: &Index) -> (Vec<Option<Vec<f32>>>, usize, usize) {
    let stats = index.stats();
    ((0..3000).map(|key| index.vector(key)).collect(), stats.deleted_keys, stats.free_slots)
}

#[test]
fn a_change_that_one_shard_refuses_changes_none() {
    let index = sharded(600, 4);
    let before = contents(&index);
    let rows = vectors::<u8>(2000, 3);
    let view = view(&rows, DIMENSION);
    let keys: Vec<u64> = (1000..3000).collect();
    for key in [5, 1001] {
        let mut keys = keys.clone();
        keys[1999] = key;
        let error = index.insert(view, &keys).unwrap_err();
        assert!(
            error.downcast_ref::<KeyError>().is_some()
                || matches!(error.downcast_ref(), Some(UpdateError::RepeatedKey(_))),
            "{error}"
        );
    }
    assert!(matches!(
        index.insert(view, &keys[1..]).unwrap_err().downcast_ref(),
        Some(UpdateError::KeyCount { keys: 1999, vectors: 2000 })
    ));
    assert!(index.delete(&[1, 2, 3, 4, 5, 700]).is_err() && index.delete(&[1, 2, 1]).is_err());
    assert!(index.undelete(&[1]).is_err());
    let mut reports = 0;
    loop {
        let mut left = reports;
        let stop = move |_: Progress| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match index.with_progress(stop).insert(view, &keys) {
            Err(error) if error.kind() == ErrorKind::Cancelled => assert!(contents(&index) == before),
            made => break assert_eq!(made.unwrap().keys, 2000),
        }
        reports += 1;
    }
    assert!(reports > 3 && index.len() == 2600 && index.check().unwrap().is_sound());
}

#[test]
fn errors_name_the_row_of_the_caller() {
    let mut rows = vectors::<f32>(500, 4);
    rows[321 * DIMENSION + 3] = f32::NAN;
    let built = builder(Metric::L2, 3).build(view(&rows, DIMENSION));
    assert!(built.unwrap_err().to_string().starts_with("row 321 holds"));
    let index = builder(Metric::L2, 3).empty(ElementKind::F32, DIMENSION).unwrap();
    let error = index.insert(view(&rows, DIMENSION), NewKeys::NEXT).unwrap_err();
    assert!(error.to_string().starts_with("row 321 holds"), "{error}");
    assert!(index.is_empty());
}

#[test]
fn a_given_number_of_shards_is_kept_on_every_device() {
    let rows = vectors::<u8>(100, 6);
    let shards = |builder: IndexBuilder<'_>| builder.build(view(&rows, DIMENSION)).unwrap().stats().shards;
    for device in [Device::AUTO, Device::CPU].into_iter().flat_map(|device| [device, device.sharded(true)]) {
        assert_eq!(shards(small(Metric::L2).device(device).shards(3)), 3);
    }
    // There is one device.
    assert_eq!(shards(small(Metric::L2).device(Device::CPU.sharded(true))), 1);
}

#[test]
fn builds_are_refused_and_cancelled() {
    let rows = vectors::<u8>(500, 5);
    let view = view(&rows, DIMENSION);
    for shards in [0, 257, usize::MAX] {
        let error = builder(Metric::L2, shards).build(view).unwrap_err();
        assert_eq!(error.to_string(), format!("shards ({shards}) must be between 1 and 256"));
    }
    let error = builder(Metric::L2, 2).quantize(QuantizeMode::Auto(Device::AUTO)).build(view).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    let keys: Vec<u64> = (0..500).map(|key| key % 499).collect();
    assert!(matches!(
        builder(Metric::L2, 3).keys(&keys).build(view).unwrap_err().downcast_ref(),
        Some(UpdateError::RepeatedKey(0))
    ));
    assert!(builder(Metric::L2, 3).keys(&keys[1..]).build(view).is_err());
    let stop = |progress: Progress| match progress.stage {
        Stage::Linking if progress.done > 20 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    assert_eq!(
        builder(Metric::L2, 3).with_progress(stop).build(view).unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    let plan = builder(Metric::L2, 4).memory_plan(ElementKind::U8, 1000, 96).unwrap();
    let vectors = plan.parts().iter().find(|part| part.name == "vectors").unwrap();
    assert_eq!(vectors.bytes, 1000 * 96);
}

#[test]
fn what_needs_one_graph_says_so() {
    let index = sharded(400, 2);
    let sampled = jasper::tune::TuneQueries::sampled();
    let queries = vectors::<u8>(10, 6);
    let alone = jasper::tune::TuneQueries::Given { queries: view(&queries, DIMENSION).into(), truth: None };
    let refused = [
        index.tune(jasper::tune::Goal { k: 5, recall: 0.9 }, alone).unwrap_err().to_string(),
        index.read_graph(|_| ()).unwrap_err().to_string(),
        index.tune(jasper::tune::Goal { k: 5, recall: 0.9 }, sampled).unwrap_err().to_string(),
        index.quantize(QuantizeMode::Auto(Device::CPU)).unwrap_err().to_string(),
    ];
    for error in refused {
        assert!(error.contains("is not supported on a sharded index"), "{error}");
    }
    assert!(index.to_bytes().is_err());
}

/// Files of shards in a folder, sorted.
fn shard_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "jasper")).collect();
    files.sort();
    files
}

#[test]
fn a_folder_has_the_index_and_is_replaced_as_a_whole() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("vectors");
    let index = sharded(900, 3);
    let saved = index.save(&folder).unwrap();
    let files = shard_files(&folder);
    assert_eq!(files.len(), 3);
    assert_eq!(saved.bytes, files.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>());
    for options in [OpenOptions::new(), OpenOptions::new().mapped(true).threads(1)] {
        let opened = options.open(&folder).unwrap();
        assert_eq!(opened.stats().shards, 3);
        assert_same(&opened, &index);
    }
    assert_eq!(Index::open(&folder).unwrap().stats().shards, 3);
    assert_eq!(OpenOptions::new().device(Device::CPU).open(&folder).unwrap().len(), 900);

    index.delete(&[1, 2, 3]).unwrap();
    index.save(&folder).unwrap();
    assert_eq!(Index::open(&folder).unwrap().len(), 897);
    let second = shard_files(&folder);
    assert!(second.len() == 3 && second.iter().all(|path| !files.contains(path)));
    // A save that fails leaves the index that was there.
    let stop = |progress: Progress| match progress.done * 2 > progress.total {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    index.delete(&[4]).unwrap();
    assert!(index.with_progress(stop).save(&folder).is_err());
    assert_eq!(shard_files(&folder), second);
    assert_eq!(Index::open(&folder).unwrap().len(), 897);

    fs::write(parent.path().join("other"), "").unwrap();
    let error = index.save(parent.path()).unwrap_err();
    assert!(error.to_string().contains("has other files"), "{error}");
}

#[test]
fn a_folder_that_is_not_whole_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sharded(500, 3).save(folder).unwrap();
    let files = shard_files(folder);
    let (first, second) = (fs::read(&files[0]).unwrap(), fs::read(&files[1]).unwrap());
    let refused = |problem: &str| {
        for error in [
            Index::open(folder).map(drop).unwrap_err().to_string(),
            OpenOptions::new().open(folder).map(drop).unwrap_err().to_string(),
        ] {
            assert!(error.contains(problem), "{error}");
        }
    };
    fs::remove_file(&files[1]).unwrap();
    refused("shard-0-1.jasper: is missing: it has shard 1 of 3");
    fs::write(&files[1], &first).unwrap();
    refused("shard-0-1.jasper: is a copy of shard 0 where shard 1 should be");
    let other = tempfile::tempdir().unwrap();
    builder(Metric::L2, 3)
        .seed(5)
        .build(view(&vectors::<u8>(500, 1), DIMENSION))
        .unwrap()
        .save(other.path())
        .unwrap();
    fs::copy(&shard_files(other.path())[1], &files[1]).unwrap();
    refused("shard-0-1.jasper: is not the file of shard 1 that was saved, but of another build");
    let mut newer = second.clone();
    newer[8] += 1;
    fs::write(&files[1], newer).unwrap();
    refused("shard-0-1.jasper: ");
    fs::write(&files[1], &second[..second.len() / 2]).unwrap();
    refused("shard-0-1.jasper: ");
    fs::write(&files[1], &second).unwrap();
    assert_eq!(Index::open(folder).unwrap().len(), 500);

    let manifest = folder.join("manifest.txt");
    let text = fs::read_to_string(&manifest).unwrap();
    for (damaged, problem) in [
        (
            text.replace("shards 2", "shards 1"),
            "begins with `jasper shards 1`, and this release reads `jasper shards 2`",
        ),
        (
            text.replace("shards 2", "shards 3"),
            "begins with `jasper shards 3`, and this release reads `jasper shards 2`",
        ),
        (text.replace("jasper shards", "faiss"), "is not the manifest of an index"),
        (text.replace("0-1", "0-0"), "names shard-0-0.jasper twice, as shards 0 and 1"),
        (text.replace(' ', ""), "is not the manifest"),
        (format!("{text}nonsense\n"), "is damaged"),
        ("jasper shards 2\n".to_owned(), "is damaged"),
        (text.replace("\nshard", "\n../shard"), "is damaged"),
    ] {
        fs::write(&manifest, damaged).unwrap();
        refused(problem);
    }
}
