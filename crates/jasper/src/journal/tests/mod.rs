//! A disk that fails on demand, at every call that changes the log.

mod disk;
mod folder;
mod log;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::ErrorKind;
use jasper_core::{ElementKind, MatrixView, Metric, VectorSource, Vectors, no_progress};
use jasper_graph::Graph;
use jasper_vamana::UpdateError;

use super::*;
use crate::backend::faulty::{Controls, Faulty};
use crate::backend::{Backend, HostBackend};
use crate::{Error, Index, IndexBuilder, NewKeys, OpenOptions};
use disk::{Disk, PATIENCE};

fn empty(shards: usize) -> Index {
    let builder = IndexBuilder::new(Metric::L2).max_degree(4).build_beam_width(8);
    builder.shards(shards).empty(ElementKind::U8, 2).unwrap()
}

/// The graph, or those of the shards, as files.
fn files_of(index: &Index) -> Vec<Vec<u8>> {
    let write = |graph: &Graph| {
        let mut file = io::Cursor::new(Vec::new());
        graph.write_to(&mut file, &mut no_progress).unwrap();
        file.into_inner()
    };
    index.inner.backend.shards_or_self().iter().map(|shard| shard.read(write)).collect()
}

/// An index in memory with the same content.
fn copy_of(files: &[Vec<u8>]) -> Index {
    let graphs = files.iter().map(|file| Graph::read_from(&file[..], &mut no_progress).unwrap());
    match files.len() {
        1 => OpenOptions::new().open_bytes(&files[0]).unwrap(),
        _ => IndexInner::from_shards(graphs, Arc::clone(&empty(1).inner.executor), false).into(),
    }
}

/// An index with a journal on a disk.
fn durable(index: Index, disk: &Disk, folder: &Path) -> Index {
    let snapshot = SnapshotId { number: 0, checksum: None };
    let journal = Journal {
        folder: folder.to_owned(),
        turns: Turns::new(0),
        waiting: Mutex::default(),
        store: Mutex::new(Store::new(Arc::new(disk.clone()), snapshot, None, 0).unwrap()),
        ended: AtomicU64::new(0),
        logged_ended: AtomicU64::new(0),
        snapshotting: Mutex::default(),
        logged_bytes: AtomicU64::new(0),
        snapshot_bytes: AtomicU64::new(0),
        lock: Ok(acquire(folder).unwrap()),
    };
    index.inner.changes.set_journal(journal);
    index
}

fn read_log(disk: &Disk) -> Log {
    Log::read(Arc::new(disk.clone())).unwrap()
}

/// Makes the changes of a log in an index, whose number of shards does not matter to the log.
fn replayed(disk: &Disk, shards: usize) -> Index {
    let (log, index) = (read_log(disk), empty(shards));
    for number in log.numbers() {
        record::replay(&index.inner, &log, number).unwrap();
    }
    index
}

fn insert(index: &Index, keys: Option<Range<u64>>) -> Result<(), Error> {
    let rows: Vec<u8> = (0..80).collect();
    let rows = MatrixView::new(&rows, 2).unwrap();
    match keys {
        Some(keys) => index.insert(rows, &keys.collect::<Vec<_>>()).map(drop),
        None => index.insert(rows, NewKeys::NEXT).map(drop),
    }
}

type Step = fn(&Index) -> Result<(), Error>;

const STEPS: [Step; 6] = [
    |index| insert(index, Some(100..140)),
    |index| index.upsert(&[200_u8, 3], &[7]).map(drop),
    |index| index.delete(&[7]).map(drop),
    |index| insert(index, None),
    |index| index.consolidate().map(drop),
    // Refused.
    |index| index.delete(&[7]).map(drop),
];

/// Takes the steps, and those that the journal does not refuse in `reference` as well. Returns the first that it
/// refuses; the index is then as before.
fn take_steps(index: &Index, reference: &Index) -> Option<usize> {
    let mut refused = None;
    for (number, step) in STEPS.iter().enumerate() {
        let before = files_of(index);
        match step(index) {
            Err(ref error) if let Some(UpdateError::Journal(error)) = error.downcast_ref() => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                assert!(files_of(index) == before);
                refused.get_or_insert(number);
            }
            result => assert_eq!(result.is_ok(), step(reference).is_ok()),
        }
    }
    refused
}

/// Takes the steps while `count` calls of the disk fail, from each number on. Returns how many runs saw an error.
fn fail_at_each(count: u64, shards: usize) -> usize {
    let mut failed = 0;
    for call in 0.. {
        let (disk, folder, reference) = (Disk::default(), tempfile::tempdir().unwrap(), empty(shards));
        let index = durable(empty(shards), &disk, folder.path());
        disk.fail(call..call.saturating_add(count));
        let refused = take_steps(&index, &reference);
        let calls = disk.state().calls;

        // The process ends here.
        let (found, expected) = (files_of(&replayed(&disk.after_crash(), shards)), files_of(&reference));
        if found != expected {
            // The last sync failed, and so did everything that could have said so.
            assert_eq!(count, u64::MAX, "call {call}");
            let with_refused = copy_of(&expected);
            STEPS[refused.unwrap()](&with_refused).unwrap();
            assert!(found == files_of(&with_refused), "call {call}");
        }
        // Or the power is cut: what was acknowledged is there.
        assert!(files_of(&replayed(&disk.after_power_cut(0), shards)) == expected, "call {call}");

        // Or it goes on, with a disk that works.
        disk.fail(0..0);
        for index in [&index, &reference] {
            index.insert(&[9_u8, 9], &[1 << 40]).unwrap();
        }
        drop(index);
        let later = files_of(&reference);
        assert!(files_of(&replayed(&disk, shards)) == later, "call {call}, later");
        assert!(files_of(&replayed(&disk.after_power_cut(0), shards)) == later, "call {call}, later");
        failed += usize::from(refused.is_some());
        if call > calls {
            assert_eq!(refused, None);
            return failed;
        }
    }
    unreachable!("the steps end")
}

#[test]
fn a_change_is_refused_when_a_write_of_its_log_fails() {
    for shards in [1, 3] {
        assert!(fail_at_each(1, shards) > 10);
    }
}

#[test]
fn all_changes_are_refused_while_the_disk_fails() {
    for shards in [1, 3] {
        assert!(fail_at_each(u64::MAX, shards) > 10);
    }
}

/// Vectors that are others when they are read again, or cannot be read.
struct Fickle {
    rows: usize,
    reads: AtomicU64,
    fails: bool,
}

impl VectorSource<u8> for Fickle {
    fn len(&self) -> usize {
        self.rows
    }

    fn dimension(&self) -> usize {
        2
    }

    fn read(&self, range: Range<usize>, out: &mut [u8]) -> io::Result<()> {
        if self.fails {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        for (row, out) in range.zip(out.chunks_exact_mut(2)) {
            out.copy_from_slice(&[(row % 250) as u8, read as u8]);
        }
        Ok(())
    }
}

#[test]
fn what_is_logged_is_what_is_inserted() {
    for (rows, is_large) in [(10, false), (GROUP_BYTES as usize / 2 + 10, true)] {
        let (disk, folder) = (Disk::default(), tempfile::tempdir().unwrap());
        let index = durable(empty(1), &disk, folder.path());
        let source = Fickle { rows, reads: AtomicU64::new(0), fails: false };
        let inserted = index.insert(Vectors::from_source(&source), NewKeys::NEXT);
        if is_large {
            assert!(
                matches!(&inserted, Err(error) if matches!(error.downcast_ref(), Some(UpdateError::Read(_)))),
                "{inserted:?}"
            );
        } else {
            inserted.unwrap();
        }
        let failing = index.insert(Vectors::from_source(&Fickle { fails: true, ..source }), NewKeys::NEXT);
        assert!(
            matches!(failing.as_ref().unwrap_err().downcast_ref(), Some(UpdateError::Read(error)) if error.kind() == io::ErrorKind::PermissionDenied),
            "{failing:?}"
        );
        index.insert(&[9_u8, 9], &[1 << 40]).unwrap();
        assert_eq!(index.len(), if is_large { 1 } else { rows + 1 });
        assert!(files_of(&replayed(&disk.after_crash(), 1)) == files_of(&index));
    }
}

type MakeChange = fn(&Index) -> Result<(), Error>;

fn more() -> MatrixView<'static, u8> {
    MatrixView::new(b"some thirty vectors of two bytes, which are text, not digits", 2).unwrap()
}

/// Changes with a commit point, which are logged while they are computed.
const WITH_COMMIT_POINT: [MakeChange; 4] = [
    |index| index.insert(more(), &(300..330).collect::<Vec<_>>()).map(drop),
    |index| index.upsert(more(), &(20..50).collect::<Vec<_>>()).map(drop),
    |index| index.insert(more(), NewKeys::NEXT).map(drop),
    |index| index.consolidate().map(drop),
];

/// A durable index with live and deleted keys, and one without a journal.
fn durable_pair(disk: &Disk, folder: &Path) -> (Arc<Index>, Arc<Index>) {
    let (index, reference) = (Arc::new(durable(empty(1), disk, folder)), Arc::new(empty(1)));
    for index in [&index, &reference] {
        insert(index, Some(0..40)).unwrap();
        index.delete(&(5..15).collect::<Vec<_>>()).unwrap();
    }
    (index, reference)
}

#[track_caller]
fn assert_equal(a: &Index, b: &Index) {
    assert!(files_of(a) == files_of(b));
}

/// Makes a change in both, after which they and the log must be equal.
fn assert_usable(index: &Index, reference: &Index, disk: &Disk, shards: usize) {
    for index in [index, reference] {
        insert(index, None).unwrap();
    }
    assert_equal(index, reference);
    assert_equal(&replayed(&disk.after_crash(), shards), reference);
}

/// Waits until the log has this number of changes.
fn wait_for_log(disk: &Disk, changes: usize) {
    let start = Instant::now();
    while read_log(disk).numbers().len() < changes {
        assert!(start.elapsed() < PATIENCE, "the change is not logged");
        std::thread::yield_now();
    }
}

/// The disk does nothing until all is computed; then each of its calls fails in turn, until none is left.
#[test]
fn a_change_that_was_computed_is_cancelled_when_its_log_fails() {
    for make in WITH_COMMIT_POINT {
        let mut failed = 0;
        for call in 0.. {
            let (disk, folder) = (Disk::default(), tempfile::tempdir().unwrap());
            let (index, reference) = durable_pair(&disk, folder.path());
            disk.hold();
            let shared = (disk.clone(), Arc::clone(&index), Arc::clone(&reference));
            let made = make(&index.with_progress(move |report| {
                let (disk, index, reference) = &shared;
                if report.stage == Stage::Committing {
                    assert_eq!(index.keys(), reference.keys(), "nothing is visible yet");
                    assert_equal(&replayed(&disk.after_crash(), 1), reference);
                    disk.fail(call..call + 1);
                    disk.release();
                }
                ControlFlow::Continue(())
            }));
            match made {
                Err(ref error) if let Some(UpdateError::Journal(error)) = error.downcast_ref() => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull)
                }
                made => {
                    made.unwrap();
                    make(&reference).unwrap();
                }
            }
            assert_equal(&index, &reference);
            assert_equal(&replayed(&disk.after_crash(), 1), &reference);
            let is_last = {
                let state = disk.state();
                state.calls <= state.failing.start
            };
            disk.fail(0..0);
            assert_usable(&index, &reference, &disk, 1);
            if is_last {
                break;
            }
            failed += 1;
        }
        assert!(failed > 2, "{failed}");
    }
}

/// A crash before the change has ended may bring it back; its end removes it.
#[test]
fn a_change_that_fails_after_it_was_logged_is_removed_from_the_log() {
    for make in WITH_COMMIT_POINT {
        // It is cancelled, as above and its removal fails, or it panics.
        for way in 0..3 {
            let (disk, folder) = (Disk::default(), tempfile::tempdir().unwrap());
            let (index, reference) = durable_pair(&disk, folder.path());
            let before = files_of(&reference);
            let crashed = Arc::new(Mutex::new(None));
            let shared = (disk.clone(), Arc::clone(&index), Arc::clone(&reference), Arc::clone(&crashed));
            let progress = move |report: Progress| {
                let (disk, index, reference, crashed) = &shared;
                if report.stage != Stage::Committing {
                    return ControlFlow::Continue(());
                }
                wait_for_log(disk, 3);
                assert_eq!(index.keys(), reference.keys(), "nothing is visible yet");
                *lock(crashed) = Some(disk.after_crash());
                match way {
                    0 => {}
                    1 => disk.fail(0..u64::MAX),
                    _ => panic!("on purpose"),
                }
                ControlFlow::Break(())
            };
            let made = catch_unwind(AssertUnwindSafe(|| make(&index.with_progress(progress))));
            match (way, made) {
                (0 | 1, Ok(Err(error))) if error.kind() == [ErrorKind::Cancelled, ErrorKind::Io][way] => {
                    assert_equal(&index, &reference);
                    disk.fail(0..0);
                    assert_usable(&index, &reference, &disk, 1);
                }
                (2, Err(_)) => assert_equal(&replayed(&disk.after_crash(), 1), &reference),
                (_, made) => panic!("{made:?}"),
            }
            let with_change = copy_of(&before);
            make(&with_change).unwrap();
            assert_equal(&replayed(lock(&crashed).as_ref().unwrap(), 1), &with_change);
        }
    }
}

#[test]
fn changes_that_wait_share_a_commit() {
    let (disk, folder) = (Disk::default(), tempfile::tempdir().unwrap());
    let index = durable(empty(1), &disk, folder.path());
    let journal = index.inner.changes.journal.get().unwrap();
    index.insert(&[0_u8, 0], &[1000]).unwrap();
    let before = disk.state().syncs;
    let store = lock(&journal.store);
    std::thread::scope(|scope| {
        for key in 0..10_u8 {
            let index = &index;
            // Calls with progress are not made together.
            let insert = move || {
                let vectors = [key, key];
                let vectors = MatrixView::new(&vectors, 2).unwrap();
                index.with_progress(no_progress).insert(vectors, &[key.into()]).unwrap();
            };
            scope.spawn(insert);
        }
        while lock(&journal.waiting).len() < 10 {
            std::thread::yield_now();
        }
        assert_eq!(index.len(), 1);
        drop(store);
    });
    assert!(disk.state().syncs - before <= 2);
    assert_eq!(index.len(), 11);
    assert_equal(&replayed(&disk, 1), &index);
}

#[test]
fn a_snapshot_that_fails_loses_nothing() {
    for (shards, call) in [1, 3].into_iter().flat_map(|shards| (0..8).map(move |call| (shards, call))) {
        let (disk, folder, reference) = (Disk::default(), tempfile::tempdir().unwrap(), empty(shards));
        let index = durable(empty(shards), &disk, folder.path());
        assert_eq!(take_steps(&index, &reference), None);
        disk.fail(call..u64::MAX);
        let snapshot = index.snapshot();
        disk.fail(0..0);
        for disk in [disk.after_crash(), disk.after_power_cut(0)] {
            let mut log = read_log(&disk);
            let is_there = |&number: &u64| snapshot_path(folder.path(), number).exists();
            let number = log.snapshots().iter().map(|snapshot| snapshot.number).rfind(is_there).unwrap_or(0);
            log.remove_below(number);
            let left = match number {
                0 => empty(shards),
                _ => Index::open(snapshot_path(folder.path(), number)).unwrap(),
            };
            assert!(number > 0 || snapshot.is_err(), "call {call}");
            for number in log.numbers() {
                record::replay(&left.inner, &log, number).unwrap();
            }
            assert!(files_of(&left) == files_of(&index), "call {call}: {snapshot:?}");
        }
        // And the next one succeeds.
        index.insert(&[9_u8, 9], &[1 << 40]).unwrap();
        index.snapshot().unwrap();
        assert!(read_log(&disk).numbers().is_empty());
    }
}

/// What it wrote takes the room that the log needs.
#[test]
fn changes_go_on_after_a_snapshot_that_cannot_be_named() {
    for shards in [1, 3] {
        let (disk, folder, reference) = (Disk::default(), tempfile::tempdir().unwrap(), empty(shards));
        let index = durable(empty(shards), &disk, folder.path());
        // There is nothing to write, and the file of the last snapshot is not touched.
        index.snapshot().unwrap();
        assert!(!snapshot_path(folder.path(), 0).exists());
        take_steps(&index, &reference);
        disk.state().full_with_snapshot = Some(folder.path().to_owned());
        let failed = index.snapshot().unwrap_err().downcast::<JournalError>().unwrap().into_cause();
        assert!(
            matches!(&failed, JournalFault::Journal(error) if error.kind() == io::ErrorKind::StorageFull),
            "{failed:?}"
        );
        assert_usable(&index, &reference, &disk, shards);
        disk.state().full_with_snapshot = None;
        index.snapshot().unwrap();
        assert!(read_log(&disk).numbers().is_empty());
    }
}

/// What is in an index, to which there is no other reference.
fn into_inner(index: Index) -> IndexInner {
    Arc::into_inner(index.inner).unwrap()
}

#[test]
fn all_shards_have_a_change_or_none() {
    let (disk, folder, reference) = (Disk::default(), tempfile::tempdir().unwrap(), empty(3));
    let controls: Vec<Arc<Controls>> = (0..3).map(|_| Arc::default()).collect();
    let on = |shard: usize, graph, executor| Faulty::backend(graph, &executor, shard, &controls[shard]);
    let index = durable(into_inner(empty(3)).moved(on).into(), &disk, folder.path());
    for index in [&index, &reference] {
        insert(index, Some(0..40)).unwrap();
        index.delete(&(5..15).collect::<Vec<_>>()).unwrap();
    }
    for control in &controls {
        control.has_no_memory.store(true, Ordering::Relaxed);
        for make in WITH_COMMIT_POINT {
            let failed = make(&index);
            assert!(matches!(&failed, Err(error) if error.kind() == ErrorKind::Device), "{failed:?}");
            assert_equal(&replayed(&disk.after_crash(), 3), &reference);
        }
        let keys = || [&index, &reference].map(|index| BTreeSet::from_iter(index.keys()));
        index.delete(&(20..40).collect::<Vec<_>>()).unwrap_err();
        assert_equal(&replayed(&disk.after_power_cut(0), 3), &reference);
        control.has_no_memory.store(false, Ordering::Relaxed);
        for index in [&index, &reference] {
            insert(index, None).unwrap();
        }
        let [found, expected] = keys();
        assert_eq!(found, expected);
        assert_equal(&replayed(&disk, 3), &reference);
    }
}
