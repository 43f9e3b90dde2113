//! A file layer that fails on demand, at every call that changes the log.

use std::io;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use jasper_core::{ElementKind, MatrixView, Metric, VectorSource, Vectors, no_progress};
use redb::{Builder, StorageBackend};

use super::*;
use crate::{Index, IndexBuilder, NewKeys, OpenOptions};

/// A file in memory, whose calls that change it fail or wait on demand.
#[derive(Clone, Debug, Default)]
struct Disk {
    state: Arc<Mutex<State>>,
    released: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    calls: u64,
    /// The calls that fail.
    failing: Range<u64>,
    /// Whether calls wait.
    is_held: bool,
}

/// How long calls wait at most.
const PATIENCE: Duration = Duration::from_secs(20);

impl Disk {
    fn with_bytes(bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.state().bytes = bytes;
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The disk as a process finds it that starts after this one has ended now.
    fn after_crash(&self) -> Self {
        Self::with_bytes(self.state().bytes.clone())
    }

    /// Makes calls wait.
    fn hold(&self) {
        self.state().is_held = true;
    }

    fn release(&self) {
        self.state().is_held = false;
        self.released.notify_all();
    }

    /// Makes some of the next calls fail.
    fn fail(&self, calls: Range<u64>) {
        let mut state = self.state();
        state.failing = state.calls + calls.start..state.calls.saturating_add(calls.end);
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let is_held = |state: &mut State| state.is_held;
        let (mut state, timeout) = self.released.wait_timeout_while(self.state(), PATIENCE, is_held).unwrap();
        if timeout.timed_out() {
            state.is_held = false;
            return Err(io::ErrorKind::TimedOut.into());
        }
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

fn typed(index: &Index) -> &TypedIndex<u8> {
    index.of().unwrap()
}

fn empty() -> Index {
    IndexBuilder::new(Metric::L2).max_degree(4).build_beam_width(8).empty(ElementKind::U8, 2).unwrap()
}

/// An empty index with a journal on a disk.
fn durable(disk: &Disk, folder: &Path) -> Index {
    let journal = Journal {
        folder: folder.to_owned(),
        turns: Turns::new(0),
        waiting: Mutex::default(),
        store: Mutex::new(disk.store()),
        logged_bytes: AtomicU64::new(0),
        snapshot_bytes: AtomicU64::new(0),
        lock: Ok(acquire(folder).unwrap()),
    };
    let index = empty();
    typed(&index).changes.set_journal(journal);
    index
}

/// The changes of a log, made again.
fn replayed(disk: &Disk) -> Index {
    let store = disk.store();
    let log = store.read().unwrap();
    let index = empty();
    for number in log.numbers().unwrap() {
        record::replay(typed(&index), &log, number).unwrap();
    }
    index
}

fn insert(index: &Index, keys: Option<Range<u64>>) -> Result<(), UpdateError> {
    let rows: Vec<u8> = (0..80).collect();
    let rows = MatrixView::new(&rows, 2).unwrap();
    match keys {
        Some(keys) => index.insert(rows, &keys.collect::<Vec<_>>()).map(drop),
        None => index.insert(rows, NewKeys::Next).map(drop),
    }
}

type Step = fn(&Index) -> Result<(), UpdateError>;

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
        let found = replayed(&disk.after_crash());
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
            index.insert(&[9_u8, 9], &[1 << 40]).unwrap();
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
        let index = durable(&disk, folder.path());
        let source = Fickle { rows, reads: AtomicU64::new(0), fails: false };
        let inserted = index.insert(Vectors::from_source(&source), NewKeys::Next);
        if is_large {
            assert!(matches!(inserted, Err(UpdateError::Read(_))), "{inserted:?}");
        } else {
            inserted.unwrap();
        }
        let failing = index.insert(Vectors::from_source(&Fickle { fails: true, ..source }), NewKeys::Next);
        assert!(
            matches!(&failing, Err(UpdateError::Read(error)) if error.kind() == io::ErrorKind::PermissionDenied),
            "{failing:?}"
        );
        index.insert(&[9_u8, 9], &[1 << 40]).unwrap();
        assert_eq!(index.len(), if is_large { 1 } else { rows + 1 });
        assert!(replayed(&disk.after_crash()).to_bytes().unwrap() == index.to_bytes().unwrap());
    }
}

type MakeChange = fn(&Index) -> Result<(), UpdateError>;

fn more() -> MatrixView<'static, u8> {
    MatrixView::new(b"some thirty vectors of two bytes, which are text, not digits", 2).unwrap()
}

/// Changes with a commit point, which are logged while they are computed.
const WITH_COMMIT_POINT: [MakeChange; 4] = [
    |index| index.insert(more(), &(300..330).collect::<Vec<_>>()).map(drop),
    |index| index.upsert(more(), &(20..50).collect::<Vec<_>>()).map(drop),
    |index| index.insert(more(), NewKeys::Next).map(drop),
    |index| index.consolidate().map(drop),
];

/// A durable index with live and deleted keys, and one without a journal.
fn durable_pair(disk: &Disk, folder: &Path) -> (Arc<Index>, Arc<Index>) {
    let (index, reference) = (Arc::new(durable(disk, folder)), Arc::new(empty()));
    for index in [&index, &reference] {
        insert(index, Some(0..40)).unwrap();
        index.delete(&(5..15).collect::<Vec<_>>()).unwrap();
    }
    (index, reference)
}

fn assert_equal(a: &Index, b: &Index) {
    assert!(a.to_bytes().unwrap() == b.to_bytes().unwrap());
}

/// Makes a change in both, after which they and the log must be equal.
fn assert_usable(index: &Index, reference: &Index, disk: &Disk) {
    for index in [index, reference] {
        insert(index, None).unwrap();
    }
    assert_equal(index, reference);
    assert_equal(&replayed(&disk.after_crash()), reference);
}

/// Waits until the log has this number of changes.
fn wait_for_log(index: &Index, changes: usize) {
    let start = Instant::now();
    let journal = typed(index).changes.journal.get().unwrap();
    while lock(&journal.store).read().unwrap().numbers().unwrap().len() < changes {
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
                    assert_equal(&replayed(&disk.after_crash()), reference);
                    disk.fail(call..call + 1);
                    disk.release();
                }
                ControlFlow::Continue(())
            }));
            match made {
                Err(UpdateError::Journal(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
                made => {
                    made.unwrap();
                    make(&reference).unwrap();
                }
            }
            assert_equal(&index, &reference);
            assert_equal(&replayed(&disk.after_crash()), &reference);
            let is_last = {
                let state = disk.state();
                state.calls <= state.failing.start
            };
            disk.fail(0..0);
            assert_usable(&index, &reference, &disk);
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
            let before = reference.to_bytes().unwrap();
            let crashed = Arc::new(Mutex::new(None));
            let shared = (disk.clone(), Arc::clone(&index), Arc::clone(&reference), Arc::clone(&crashed));
            let progress = move |report: Progress| {
                let (disk, index, reference, crashed) = &shared;
                if report.stage != Stage::Committing {
                    return ControlFlow::Continue(());
                }
                wait_for_log(index, 3);
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
                (0, Ok(Err(UpdateError::Cancelled(_)))) | (1, Ok(Err(UpdateError::Journal(_)))) => {
                    assert_equal(&index, &reference);
                    disk.fail(0..0);
                    assert_usable(&index, &reference, &disk);
                }
                (2, Err(_)) => assert_equal(&replayed(&disk.after_crash()), &reference),
                (_, made) => panic!("{made:?}"),
            }
            let with_change = OpenOptions::new().open_bytes(&before).unwrap();
            make(&with_change).unwrap();
            assert_equal(&replayed(lock(&crashed).as_ref().unwrap()), &with_change);
        }
    }
}

#[test]
fn changes_that_wait_share_a_commit() {
    let (disk, folder) = (Disk::default(), tempfile::tempdir().unwrap());
    let index = durable(&disk, folder.path());
    let journal = typed(&index).changes.journal.get().unwrap();
    let before = disk.state().calls;
    index.insert(&[0_u8, 0], &[1000]).unwrap();
    let calls_alone = disk.state().calls - before;
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
            record::replay(typed(&left), &log, number).unwrap();
        }
        assert!(left.to_bytes().unwrap() == index.to_bytes().unwrap(), "call {call}: {snapshot:?}");
    }
}

fn saved(folder: &Path) -> Index {
    let index = empty();
    index.save_durable(folder).unwrap();
    Index::open(folder).unwrap()
}

#[test]
fn a_folder_that_cannot_be_written_has_an_index_that_does_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let index = saved(folder);
    insert(&index, Some(0..40)).unwrap();
    let before = index.to_bytes().unwrap();
    drop(index);
    let files = || {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect::<Vec<_>>()
    };
    let found = files();
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::ReadOnlyFilesystem] {
        let journal = OpenJournal::with_store(folder, Err(io::Error::from(kind).into())).unwrap();
        let index = Index::open(journal.snapshot()).unwrap();
        typed(&index).changes.set_journal(journal.replay(typed(&index), &mut no_progress).unwrap());
        assert!(index.to_bytes().unwrap() == before);
        for step in STEPS {
            let refused = step(&index).unwrap_err();
            assert!(matches!(refused, UpdateError::Journal(error) if error.kind() == kind));
        }
        let refused = index.snapshot().unwrap_err().into_cause();
        assert!(matches!(refused, JournalFault::Journal(error) if error.kind() == kind));
        assert!(index.to_bytes().unwrap() == before && files() == found);
    }
    let other = OpenJournal::with_store(folder, Err(io::Error::other("of another kind").into()));
    assert!(matches!(other.err(), Some(JournalFault::Journal(_))));
}

#[test]
fn a_log_without_a_checksum_of_its_snapshot_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let index = saved(folder);
    insert(&index, Some(0..40)).unwrap();
    drop(index);
    let database = Builder::new().create(store_path(folder)).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = redb::TableDefinition::<(), u32>::new("snapshot checksum");
    assert!(transaction.delete_table(table).unwrap());
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(Index::open(folder).unwrap().len(), 40);
}
