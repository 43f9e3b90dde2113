//! A file layer that fails on demand, at every call that changes the log.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jasper_core::{MatrixView, Metric};
use redb::{Builder, StorageBackend};

use super::*;
use crate::{IndexBuilder, OpenOptions};

/// A file in memory, whose calls that change it fail from a number on.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    calls: u64,
    /// The calls that fail.
    failing: Range<u64>,
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Makes some of the next calls fail.
    fn fail(&self, calls: Range<u64>) {
        let mut state = self.state();
        state.failing = state.calls + calls.start..state.calls.saturating_add(calls.end);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut state = self.state();
        state.calls += 1;
        if state.failing.contains(&(state.calls - 1)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change(&mut state.bytes);
        Ok(())
    }

    fn store(&self) -> Store {
        let disk = self.clone();
        Store::open_with(Box::new(move || {
            Builder::new().set_check_integrity_on_open(true).create_with_backend(disk.clone())
        }))
        .unwrap()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.state().bytes[offset as usize..][..out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|bytes| bytes.resize(len as usize, 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|_| ())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|bytes| bytes[offset as usize..][..data.len()].copy_from_slice(data))
    }
}

fn empty() -> Index<u8> {
    IndexBuilder::new(Metric::L2).max_degree(4).build_beam_width(8).empty(2).unwrap()
}

/// An empty index with a journal on a disk.
fn durable(disk: &Disk, folder: &Path) -> Index<u8> {
    let journal = Journal {
        folder: folder.to_owned(),
        turns: Turns::new(0),
        waiting: Mutex::default(),
        store: Mutex::new(disk.store()),
        logged: AtomicU64::new(0),
        snapshot: AtomicU64::new(0),
        _lock: acquire(folder).unwrap(),
    };
    let mut index = empty();
    index.journal = Some(journal);
    index
}

/// The changes of a log, made again.
fn replayed(disk: &Disk) -> Index<u8> {
    let store = disk.store();
    let log = store.read().unwrap();
    let index = empty();
    for number in log.numbers().unwrap() {
        record::replay(&index, &log, number).unwrap();
    }
    index
}

fn insert(index: &Index<u8>, keys: Option<Range<u64>>) -> Result<(), UpdateError> {
    let rows: Vec<u8> = (0..80).collect();
    let rows = MatrixView::new(&rows, 2).unwrap();
    match keys {
        Some(keys) => index.insert(&rows, &keys.collect::<Vec<_>>()).map(drop),
        None => index.insert_auto(&rows).map(drop),
    }
}

type Step = fn(&Index<u8>) -> Result<(), UpdateError>;

const STEPS: [Step; 6] = [
    |index| insert(index, Some(100..140)),
    |index| index.upsert_one(&[200, 3], 7).map(drop),
    |index| index.delete(&[7]),
    |index| insert(index, None),
    |index| index.consolidate().map(drop),
    // Refused.
    |index| index.delete(&[7]),
];

/// Takes the steps, and those that the journal does not refuse in `reference` as well. Returns the first that it
/// refuses; the index is then as before.
fn take_steps(index: &Index<u8>, reference: &Index<u8>) -> Option<usize> {
    let mut refused = None;
    for (number, step) in STEPS.iter().enumerate() {
        let before = index.to_bytes().unwrap();
        match step(index) {
            Err(UpdateError::Journal(error)) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                assert!(index.to_bytes().unwrap() == before);
                refused.get_or_insert(number);
            }
            result => assert_eq!(result.is_ok(), step(reference).is_ok()),
        }
    }
    refused
}

/// Takes the steps while `count` calls of the disk fail, from each number on. Returns how many runs saw an error.
fn fail_at_each(count: u64) -> usize {
    let mut failed = 0;
    for call in 0.. {
        let (disk, folder, reference) = (Disk::default(), tempfile::tempdir().unwrap(), empty());
        let index = durable(&disk, folder.path());
        let before = disk.state().calls;
        disk.fail(call..call.saturating_add(count));
        let refused = take_steps(&index, &reference);
        let calls = disk.state().calls - before;

        // The process ends here.
        let bytes = disk.state().bytes.clone();
        let found = replayed(&Disk(Arc::new(Mutex::new(State { bytes, ..State::default() }))));
        let (found, expected) = (found.to_bytes().unwrap(), reference.to_bytes().unwrap());
        if found != expected {
            // The last sync failed, and so did everything that could have removed the change.
            assert_eq!(count, u64::MAX, "call {call}");
            let with_refused = OpenOptions::new().open_bytes(&expected).unwrap();
            STEPS[refused.unwrap()](&with_refused).unwrap();
            assert!(found == with_refused.to_bytes().unwrap(), "call {call}");
        }

        // Or it goes on, with a disk that works.
        disk.fail(0..0);
        for index in [&index, &reference] {
            index.insert_one(&[9, 9], 1 << 40).unwrap();
        }
        drop(index);
        assert!(replayed(&disk).to_bytes().unwrap() == reference.to_bytes().unwrap(), "call {call}, later");
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
    assert!(fail_at_each(1) > 20);
}

#[test]
fn all_changes_are_refused_while_the_disk_fails() {
    assert!(fail_at_each(u64::MAX) > 20);
}

#[test]
fn changes_that_wait_share_a_commit() {
    let (disk, folder) = (Disk::default(), tempfile::tempdir().unwrap());
    let index = durable(&disk, folder.path());
    let journal = index.journal.as_ref().unwrap();
    let before = disk.state().calls;
    index.insert_one(&[0, 0], 1000).unwrap();
    let calls_alone = disk.state().calls - before;
    let store = lock(&journal.store);
    std::thread::scope(|scope| {
        for key in 0..10 {
            let index = &index;
            scope.spawn(move || index.insert_one(&[key, key], key.into()).unwrap());
        }
        while lock(&journal.waiting).len() < 10 {
            std::thread::yield_now();
        }
        assert_eq!(index.len(), 1);
        drop(store);
    });
    assert!(disk.state().calls - before < 3 * calls_alone);
    assert_eq!(index.len(), 11);
    assert!(replayed(&disk).to_bytes().unwrap() == index.to_bytes().unwrap());
}

#[test]
fn a_snapshot_that_fails_loses_nothing() {
    for call in 0..12 {
        let (disk, folder, reference) = (Disk::default(), tempfile::tempdir().unwrap(), empty());
        let index = durable(&disk, folder.path());
        assert_eq!(take_steps(&index, &reference), None);
        disk.fail(call..u64::MAX);
        let snapshot = index.snapshot();
        disk.fail(0..0);
        let store = disk.store();
        let log = store.read().unwrap();
        let left = match log.snapshot {
            None => empty(),
            Some(number) => Index::open(snapshot_path(folder.path(), number)).unwrap(),
        };
        assert!(log.snapshot.is_some() || snapshot.is_err(), "call {call}");
        for number in log.numbers().unwrap() {
            record::replay(&left, &log, number).unwrap();
        }
        assert!(left.to_bytes().unwrap() == index.to_bytes().unwrap(), "call {call}: {snapshot:?}");
    }
}
