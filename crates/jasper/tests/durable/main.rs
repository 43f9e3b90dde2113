//! A durable index has every acknowledged change after any crash, to the byte. Not in the tests of `index`, because the
//! process that is killed is this program.

#![forbid(unsafe_code)]

mod follow;
mod kill;
mod rate;

use std::collections::BTreeSet;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use jasper::ErrorKind;
use jasper::attributes::Frame;
use jasper::tune::{Goal, TuneQueries};
use jasper::{
    DeleteKeys, Device, ElementKind, Error, Index, IndexBuilder, Key, MatrixView, Metric, NewKeys,
    OpenOptions, Progress, Quantization, QuantizeMode, Stage, StoredIndex, VectorSource, Vectors,
};
use jasper_core::synthetic::Clusters;
use jasper_graph::VectorError;
use jasper_quant::TrainError;
use jasper_vamana::UpdateError;

const DIMENSION: usize = 8;

fn view(rows: &[f32], dimension: usize) -> MatrixView<'_, f32> {
    MatrixView::new(rows, dimension).unwrap()
}

/// The bytes of the index file, or of those of the shards.
fn bytes_of(index: &Index) -> Vec<u8> {
    index.to_bytes().unwrap_or_else(|_| {
        let folder = tempfile::tempdir().unwrap();
        index.save(folder.path()).unwrap();
        let files = StoredIndex::read(folder.path()).unwrap().files;
        files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect()
    })
}

/// Mixes the bits of a number (splitmix64).
fn mix(x: u64) -> u64 {
    let x = (x.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn rows(seed: u64, count: usize) -> Vec<f32> {
    (0..count * DIMENSION).map(|i| (mix(seed ^ mix(i as u64)) % 2001) as f32 / 100.0 - 10.0).collect()
}

fn create(folder: &Path) {
    create_with(folder, 1);
}

fn create_with(folder: &Path, shards: usize) {
    let builder = IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(32).shards(shards);
    let index = builder.build(view(&rows(1, 60), DIMENSION)).unwrap();
    index.save_durable(folder).unwrap();
}

/// A part of some keys, by random bits.
fn some(keys: impl IntoIterator<Item = Key>, bits: u64, part: u64) -> Vec<Key> {
    let keys: BTreeSet<Key> = keys.into_iter().collect();
    keys.into_iter().filter(|&key| mix(bits ^ key).is_multiple_of(part)).collect()
}

/// Makes change number `number`, which is a function of the number and of the index.
fn change(index: &Index, number: u64) {
    let bits = mix(number);
    let batch = |most: u64| rows(bits, (1 + bits / 64 % most) as usize);
    let insert = |rows: &[f32]| index.insert(view(rows, DIMENSION), NewKeys::NEXT).map(drop);
    let quantize = |quantization: Option<Quantization>| index.quantize(quantization).map(drop);
    let tenants = |rows: usize| {
        let tenants = (0..rows as u64).map(|row| (mix(bits ^ row) % 5) as i64);
        let frame = Frame::new(rows).column("tenant", tenants).unwrap();
        // A column that only some changes give.
        match bits / 64 % 3 {
            0 => frame.column("tag", vec![["old", "new"][bits as usize / 256 % 2]; rows]).unwrap(),
            _ => frame,
        }
    };
    let changed = match bits % 18 {
        _ if index.len() > 300 => index.delete(&some(index.keys(), bits, 2)).map(drop),
        0..=4 => insert(&batch(30)),
        5 => index.insert(&batch(1), &[mix(bits) >> 1]).map(drop),
        6 => {
            let keys = some(index.keys(), bits, 9);
            index.upsert(view(&rows(bits, keys.len().max(1)), DIMENSION), &keys).map(drop)
        }
        7 => index.delete(&some(index.keys(), bits, 8)).map(drop),
        8 => index.delete(DeleteKeys::Present(&some(0..index.stats().next_key.min(1000), bits, 8))).map(drop),
        9 => {
            let deleted = index.read_graph(|graph| graph.keys().deleted_keys().collect::<Vec<_>>());
            match deleted {
                Ok(deleted) => index.undelete(&some(deleted, bits, 3)),
                // The graphs of shards are not read.
                Err(_) => insert(&batch(70)),
            }
        }
        10 => index.consolidate().map(drop),
        11 => index.compact().map(drop),
        12 => quantize(Some(Quantization::Rabitq { bits: 1 + (bits / 64 % 4) as u32 })),
        13 => quantize(None),
        14 => {
            // Refused after it was logged: a value is not finite.
            let mut batch = batch(20);
            *batch.last_mut().unwrap() = f32::NAN;
            let refused = insert(&batch);
            assert!(
                matches!(&refused, Err(error) if error.downcast_ref::<VectorError>().is_some()),
                "{refused:?}"
            );
            refused
        }
        15 => {
            let keys = some(index.keys(), bits, 4);
            index.set_attributes(&keys, &tenants(keys.len()))
        }
        16 => {
            let batch = batch(10);
            let tenants = tenants(batch.len() / DIMENSION);
            index.insert(view(&batch, DIMENSION), (NewKeys::NEXT, &tenants)).map(drop)
        }
        _ => {
            // The reference is not durable, and has no snapshots.
            let _ = index.snapshot();
            Ok(())
        }
    };
    // There may be no keys to replace, and too few vectors to quantize.
    let is_refusal = |error: Error| {
        error.downcast_ref::<VectorError>().is_some()
            || matches!(error.downcast_ref(), Some(UpdateError::KeyCount { .. }))
            || error.downcast_ref::<TrainError>().is_some()
    };
    assert!(changed.is_ok() || changed.is_err_and(is_refusal), "change {number} fails");
}

#[test]
fn a_replayed_index_equals_the_live_one() {
    for shards in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("index");
        create_with(&folder, shards);
        let reference = Index::open(folder.join("index-0.jasper")).unwrap();
        for (round, threads) in (0..24).zip([1, 2, 4].into_iter().cycle()) {
            let index = OpenOptions::new().threads(threads).open(&folder).unwrap();
            assert_eq!(index.stats().shards, shards);
            assert!(bytes_of(&index) == bytes_of(&reference), "round {round}");
            for number in round * 20..(round + 1) * 20 {
                change(&index, number);
                change(&reference, number);
            }
            assert!(bytes_of(&index) == bytes_of(&reference), "round {round}, live");
        }
    }
}

#[test]
fn a_snapshot_empties_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    create(&path);
    let names = || -> Vec<String> {
        let names = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with("index")).collect()
    };
    let index = Index::open(&path).unwrap();
    index.delete(&index.keys()).unwrap();
    index.insert(view(&rows(5, 40), DIMENSION), NewKeys::NEXT).unwrap();
    let before = bytes_of(&index);
    assert_eq!(names(), vec!["index-0.jasper"]);
    index.snapshot().unwrap();
    assert_eq!(names(), vec!["index-2.jasper"]);
    // What a crash leaves that comes before the journal has the new snapshot.
    std::fs::write(path.join("index-7.jasper"), "half").unwrap();
    drop(index);
    let index = Index::open(&path).unwrap();
    assert_eq!(names(), vec!["index-2.jasper"]);
    assert!(bytes_of(&index) == before);
}

#[test]
fn changes_go_on_while_a_snapshot_is_written() {
    for shards in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        create_with(&path, shards);
        let index = Index::open(&path).unwrap();
        index.insert(view(&rows(5, 40), DIMENSION), NewKeys::NEXT).unwrap();
        let ((began, begins), (ended, ends)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            let index = &index;
            let mut reports = 0;
            let wait = move |progress: Progress| {
                if progress.stage == Stage::Saving && reports == 0 {
                    began.send(()).unwrap();
                    ends.recv_timeout(Duration::from_secs(20)).unwrap();
                    reports += 1;
                }
                ControlFlow::Continue(())
            };
            scope.spawn(move || index.with_progress(wait).snapshot().unwrap());
            begins.recv_timeout(Duration::from_secs(20)).unwrap();
            index.delete(&index.keys()[..20]).unwrap();
            index.consolidate().unwrap();
            index.insert(view(&rows(6, 40), DIMENSION), NewKeys::NEXT).unwrap();
            ended.send(()).unwrap();
        });
        assert!(path.join("index-1.jasper").exists() && !path.join("index-0.jasper").exists());
        assert_eq!(StoredIndex::read(&path).unwrap().changes, Some(3));
        let before = bytes_of(&index);
        drop(index);
        assert!(bytes_of(&Index::open(&path).unwrap()) == before);
    }
}

/// Vectors that only the calling thread reads.
struct Serial<'a>(MatrixView<'a, f32>);

impl VectorSource<f32> for Serial<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn dimension(&self) -> usize {
        self.0.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [f32]) -> io::Result<()> {
        self.0.read(range, out)
    }
}

#[test]
fn blocks_of_vectors_are_read_as_they_were_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let dimension = 3000;
    let builder = IndexBuilder::new(Metric::L2).max_degree(4).build_beam_width(4);
    builder.empty(ElementKind::F32, dimension).unwrap().save_durable(&path).unwrap();
    let index = Index::open(&path).unwrap();
    // 2 MB are committed in a group, and 6 MB are not.
    let vectors: Vec<f32> = (0..2900 * dimension).map(|i| (i % 1_000_003) as f32).collect();
    index.insert(view(&vectors[..170 * dimension], dimension), NewKeys::NEXT).unwrap();
    index.insert(view(&vectors[..500 * dimension], dimension), NewKeys::NEXT).unwrap();
    let before = bytes_of(&index);
    drop(index);
    let index = Index::open(&path).unwrap();
    assert!(bytes_of(&index) == before);
    // With another 35 MB, a snapshot is due.
    index.insert(Vectors::from_source(&Serial(view(&vectors, dimension))), NewKeys::NEXT).unwrap();
    assert!(path.join("index-3.jasper").is_file() && !path.join("index-0.jasper").exists());
    let before = bytes_of(&index);
    drop(index);
    assert!(bytes_of(&Index::open(&path).unwrap()) == before);
}

#[test]
fn tuned_searches_and_chosen_codes_are_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let vectors: Vec<f32> = Clusters::new(256, 7).rows(3000, 0);
    let builder = IndexBuilder::new(Metric::L2).max_degree(16).build_beam_width(16);
    builder.build(view(&vectors, 256)).unwrap().save_durable(&path).unwrap();
    let steps: [fn(&Index); 4] = [
        |index| {
            drop(index.tune(Goal { k: 1, recall: 0.5 }, TuneQueries::Sampled { count: 60, seed: 1 }).unwrap())
        },
        |index| {
            // Drops the tuned search, and then there are no codes.
            let cancel = |progress: Progress| match (progress.stage, progress.done) {
                (Stage::Tuning, 2) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            index.with_progress(cancel).quantize(QuantizeMode::Auto(Device::CPU)).unwrap_err();
            assert!(index.tuned().is_empty() && index.stats().quantization.is_none());
        },
        |index| assert!(index.quantize(QuantizeMode::Auto(Device::cuda(0))).unwrap().quantization.is_some()),
        |index| index.drop_vectors().unwrap(),
    ];
    each_step_is_kept(&path, &steps);
}

/// Exact distances of vectors of 32 bytes cost less than estimates.
#[test]
fn a_trial_that_chooses_no_codes_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let vectors: Vec<f32> = Clusters::new(8, 7).rows(3000, 0);
    let builder = IndexBuilder::new(Metric::L2).max_degree(16).build_beam_width(16);
    builder.build(view(&vectors, 8)).unwrap().save_durable(&path).unwrap();
    let choose = |index: &Index| {
        assert_eq!(index.quantize(QuantizeMode::Auto(Device::CPU)).unwrap().quantization, None);
        assert!(index.tuned().is_empty() && index.stats().quantization.is_none());
    };
    let steps: [fn(&Index); 4] = [
        |index| drop(index.quantize(Quantization::Rabitq { bits: 1 }).unwrap()),
        choose,
        |index| {
            drop(index.tune(Goal { k: 1, recall: 0.5 }, TuneQueries::Sampled { count: 60, seed: 1 }).unwrap())
        },
        choose,
    ];
    each_step_is_kept(&path, &steps);
}

/// Checks that each step changes the durable index, which is the same when it is opened again.
fn each_step_is_kept(path: &Path, steps: &[fn(&Index)]) {
    for (number, step) in steps.iter().enumerate() {
        let index = Index::open(path).unwrap();
        let before = bytes_of(&index);
        step(&index);
        let after = bytes_of(&index);
        assert!(after != before, "step {number} changes nothing");
        drop(index);
        assert!(bytes_of(&Index::open(path).unwrap()) == after, "step {number}");
    }
}

/// Checks that a call failed, for this reason.
#[track_caller]
fn assert_fails<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, reason: &str) {
    let error = result.unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(reason), "{error:?}");
}

#[test]
fn a_folder_is_open_once_and_made_once() {
    let folder = tempfile::tempdir().unwrap();
    assert_fails(Index::open(folder.path()), ErrorKind::InvalidFile, "is not the folder of a durable index");
    assert_fails(
        OpenOptions::new().open(folder.path()),
        ErrorKind::InvalidFile,
        "is not the folder of a durable index",
    );
    let path = folder.path().join("index");
    create(&path);
    let index = Index::open(&path).unwrap();
    assert_fails(Index::open(&path), ErrorKind::InUse, "is open already");
    let copy = Index::open(path.join("index-0.jasper")).unwrap();
    assert_fails(copy.save_durable(&path), ErrorKind::InUse, "is open already");
    assert_fails(copy.snapshot(), ErrorKind::Unsupported, "has no journal");
    let index = index.to_device(Device::CPU).unwrap();
    index.insert(&rows(9, 1), &[1000]).unwrap();
    drop(index);
    assert_fails(copy.save_durable(&path), ErrorKind::AlreadyExists, "has a durable index already");
    assert!(Index::open(&path).unwrap().contains(1000));
}

#[test]
fn a_save_that_fails_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let index = IndexBuilder::new(Metric::L2).build(view(&rows(1, 60), DIMENSION)).unwrap();
    let cancelled = || {
        let cancel = |_: Progress| ControlFlow::Break(());
        let error = index.with_progress(cancel).save_durable(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    };
    cancelled();
    assert!(!path.exists());
    std::fs::create_dir(&path).unwrap();
    cancelled();
    assert!(std::fs::read_dir(&path).unwrap().next().is_none());
    for name in ["notes", "index-0.jasper", "index-7.jasper"] {
        std::fs::write(path.join(name), "mine").unwrap();
        assert_fails(index.save_durable(&path), ErrorKind::AlreadyExists, "is not empty");
        assert_eq!(std::fs::read(path.join(name)).unwrap(), b"mine");
        std::fs::remove_file(path.join(name)).unwrap();
    }
    assert!(index.save_durable(path.join("missing/index")).is_err());
    index.save_durable(&path).unwrap();
    assert_eq!(Index::open(&path).unwrap().len(), 60);
}

#[test]
fn a_journal_knows_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    create(&path);
    let insert =
        |index: &Index, number| index.insert(view(&rows(number, 3), DIMENSION), NewKeys::NEXT).unwrap();
    for name in ["index-0.jasper", "index-1.jasper"] {
        let index = Index::open(&path).unwrap();
        insert(&index, 5);
        drop(index);
        let snapshot = path.join(name);
        let saved = std::fs::read(&snapshot).unwrap();
        // What a program does that takes it for an index of its own.
        let index = Index::open(&snapshot).unwrap();
        insert(&index, 6);
        index.save(&snapshot).unwrap();
        let reason = format!("its snapshot {name} was changed or replaced");
        assert_fails(Index::open(&path), ErrorKind::InvalidFile, &reason);
        std::fs::write(&snapshot, saved).unwrap();
        Index::open(&path).unwrap().snapshot().unwrap();
    }
}

#[test]
fn damage_of_the_journal_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    create(&path);
    let marked = [77.125_f32; DIMENSION];
    Index::open(&path).unwrap().insert(&marked, &[1000]).unwrap();
    let journal = path.join("journal-1.log");
    let mut bytes = std::fs::read(&journal).unwrap();
    let mark = marked.map(f32::to_le_bytes).concat();
    let at =
        bytes.windows(mark.len()).position(|window| window == mark).expect("vectors are stored as they are");
    bytes[at] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    assert_fails(Index::open(&path), ErrorKind::InvalidFile, "its journal is damaged");
}
