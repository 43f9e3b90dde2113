//! Folders: snapshots, followers, and the logs of earlier releases.

use super::*;
use crate::ErrorKind;
use jasper_vamana::UpdateError;

/// A store that continues the log of a folder.
fn store_of(folder: &Path) -> Store {
    let segments: Arc<dyn Segments> = Arc::new(Folder(folder.to_owned()));
    let log = Log::read(Arc::clone(&segments)).unwrap();
    Store::new(segments, *log.snapshots().last().unwrap(), log.end(), log.ended()).unwrap()
}

#[test]
fn a_snapshot_that_is_named_and_gone_does_not_count() {
    let (folder, reference) = (tempfile::tempdir().unwrap(), empty(1));
    let folder = folder.path();
    let index = saved(folder);
    for index in [&index, &reference] {
        insert(index, Some(0..40)).unwrap();
    }
    drop(index);
    store_of(folder).set_snapshot(SnapshotId { number: 1, checksum: Some(7) }).unwrap();
    let follower = OpenOptions::new().follow(true).open(folder).unwrap();
    assert_equal(&follower, &reference);
    assert_eq!(DurableInfo::read(folder).unwrap().changes, 1);
    for _ in 0..2 {
        let index = Index::open(folder).unwrap();
        assert_equal(&index, &reference);
        for index in [&index, &reference] {
            insert(index, None).unwrap();
        }
        follower.catch_up().unwrap();
        assert_equal(&follower, &reference);
    }
}

/// Its log went with the segments before the last snapshot.
#[test]
fn a_snapshot_that_was_replaced_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let index = saved(folder);
    let last = || DurableInfo::read(folder).unwrap().snapshot;
    for _ in 0..2 {
        let old = (last(), fs::read(last()).unwrap());
        insert(&index, None).unwrap();
        index.snapshot().unwrap();
        let new = last();
        fs::write(&old.0, old.1).unwrap();
        fs::rename(&new, folder.join("hidden")).unwrap();
        assert!(OpenOptions::new().follow(true).open(folder).is_err(), "{new:?}");
        fs::rename(folder.join("hidden"), &new).unwrap();
    }
}

#[test]
fn a_follower_refuses_only_what_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    drop(saved(folder));
    let mut store = store_of(folder);
    let argument = bytemuck::cast_slice(&[9_u64]).to_vec();
    let delete = StoredChange { number: 0, kind: "delete", argument, vectors: Vec::new() };
    store.commit(&[0], |segment| segment.write(&delete)).unwrap();
    // As if it had been made: the index that is followed is another one.
    store.set_ended(1);
    drop(store);
    let follow = || OpenOptions::new().follow(true).open(folder);
    let differs = follow().unwrap_err();
    assert!(differs.to_string().contains("cannot be made again"), "{differs}");
    // Its process was killed before it could say that the change failed.
    let index = Index::open(folder).unwrap();
    let follower = follow().unwrap();
    insert(&index, None).unwrap();
    follower.catch_up().unwrap();
    assert_equal(&index, &follower);
}

#[test]
fn a_follower_goes_on_after_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let index = saved(folder.path());
    let follower = OpenOptions::new().follow(true).open(folder.path()).unwrap();
    let controls = Arc::new(Controls::default());
    let on = |_, graph, executor| Faulty::backend(graph, &executor, 0, &controls);
    controls.panics.store(true, Ordering::Relaxed);
    let follower = Index::from(into_inner(follower).moved(on));
    insert(&index, Some(0..40)).unwrap();
    let start = Instant::now();
    let wait = |condition: &dyn Fn() -> bool| {
        while !condition() {
            assert!(start.elapsed() < PATIENCE, "the thread of the follower has ended");
            std::thread::yield_now();
        }
    };
    wait(&|| !controls.panics.load(Ordering::Relaxed));
    wait(&|| follower.len() == 40);
    assert_equal(&index, &follower);
}

/// A process may be killed while what it wrote is removed.
#[test]
fn a_snapshot_is_kept_while_the_log_may_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (log, snapshot) = (folder.join("journal-0.log"), folder.join("index-0.jasper"));
    let failed = create(folder, |path| {
        let saved = empty(1).inner.save(path, &mut no_progress);
        // The log can neither be written nor emptied.
        fs::remove_file(&log).unwrap();
        fs::create_dir(&log).unwrap();
        saved
    });
    assert!(failed.is_err() && snapshot.is_file());
}

#[test]
fn a_follower_goes_on_in_another_backend() {
    let folder = tempfile::tempdir().unwrap();
    let index = saved(folder.path());
    let follower = OpenOptions::new().follow(true).open(folder.path()).unwrap();
    let to = |_, graph, executor| Arc::new(HostBackend::new(graph, executor)) as Arc<dyn Backend>;
    let follower = Index::from(into_inner(follower).moved(to));
    insert(&index, Some(0..40)).unwrap();
    follower.catch_up().unwrap();
    assert_equal(&index, &follower);
    assert_eq!(insert(&follower, None).unwrap_err().kind(), ErrorKind::Unsupported);
}

fn saved(folder: &Path) -> Index {
    let index = empty(1);
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
        let journal = OpenJournal::with_lock(folder, Err(io::Error::from(kind).into())).unwrap();
        let index = Index::open(journal.snapshot()).unwrap();
        index.inner.changes.set_journal(journal.replay(&index.inner, &mut no_progress).unwrap());
        assert!(index.to_bytes().unwrap() == before);
        for step in STEPS {
            let refused = step(&index).unwrap_err();
            assert!(
                matches!(refused.downcast_ref(), Some(UpdateError::Journal(error)) if error.kind() == kind)
            );
        }
        let refused = index.snapshot().unwrap_err().downcast::<JournalError>().unwrap().into_cause();
        assert!(matches!(refused, JournalFault::Journal(error) if error.kind() == kind));
        assert!(index.to_bytes().unwrap() == before && files() == found);
    }
    let other = OpenJournal::with_lock(folder, Err(io::Error::other("of another kind").into()));
    assert!(matches!(other.err(), Some(JournalFault::Journal(_))));
}

/// Makes the log of a folder that of an earlier release.
fn make_legacy(folder: &Path, with_checksum: bool, is_killed: bool) {
    use redb::TableDefinition;
    let segments: Arc<dyn Segments> = Arc::new(Folder(folder.to_owned()));
    let log = Log::read(Arc::clone(&segments)).unwrap();
    let database = redb::Database::create(folder.join("journal.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut changes =
            transaction.open_table(TableDefinition::<u64, (&str, &[u8])>::new("changes")).unwrap();
        let mut vectors =
            transaction.open_table(TableDefinition::<(u64, u64), &[u8]>::new("vectors")).unwrap();
        for number in log.numbers() {
            let (kind, argument) = log.change(number).unwrap();
            changes.insert(number, (&*kind, &*argument)).unwrap();
            for (first, chunk) in log.chunks(number).unwrap() {
                vectors.insert((number, first), &*chunk).unwrap();
            }
        }
        let SnapshotId { number, checksum } = log.snapshots()[0];
        let mut table = transaction.open_table(TableDefinition::<(), u64>::new("snapshot")).unwrap();
        table.insert((), number).unwrap();
        if with_checksum {
            let mut table =
                transaction.open_table(TableDefinition::<(), u32>::new("snapshot checksum")).unwrap();
            table.insert((), checksum.unwrap()).unwrap();
        }
    }
    transaction.commit().unwrap();
    if is_killed {
        // It is repaired when it is opened.
        fs::copy(folder.join("journal.redb"), folder.join("copy")).unwrap();
        drop(database);
        fs::rename(folder.join("copy"), folder.join("journal.redb")).unwrap();
    } else {
        drop(database);
    }
    drop(log);
    for number in segments.list().unwrap() {
        assert!(segments.remove(number).unwrap());
    }
}

#[test]
fn a_folder_of_an_earlier_release_is_opened_and_converted() {
    for (with_checksum, is_killed) in [(true, false), (false, true)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (index, reference) = (saved(folder), empty(1));
        for step in &STEPS[..5] {
            [&index, &reference].into_iter().for_each(|index| step(index).unwrap());
        }
        drop(index);
        make_legacy(folder, with_checksum, is_killed);
        assert!(is_durable(folder) && !folder.join("journal-0.log").exists());
        assert_eq!(DurableInfo::read(folder).unwrap().changes, 5);
        let followed = OpenOptions::new().follow(true).open(folder).unwrap_err();
        assert!(followed.to_string().contains("open it once"), "{followed}");
        // Where nothing can be written, it is read as it is.
        let full = Err(io::Error::from(io::ErrorKind::StorageFull).into());
        let journal = OpenJournal::with_lock(folder, full).unwrap();
        let read = Index::open(journal.snapshot()).unwrap();
        journal.replay(&read.inner, &mut no_progress).unwrap();
        assert_equal(&read, &reference);
        assert!(folder.join("journal.redb").exists());
        // Twice: one that is converted, and one that was before its old log was removed.
        let old = fs::read(folder.join("journal.redb")).unwrap();
        for _ in 0..2 {
            let index = Index::open(folder).unwrap();
            assert_equal(&index, &reference);
            assert!(!folder.join("journal.redb").exists());
            [&index, &reference].into_iter().for_each(|index| insert(index, None).unwrap());
            drop(index);
            fs::write(folder.join("journal.redb"), &old).unwrap();
        }
    }
}
