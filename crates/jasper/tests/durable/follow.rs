//! Indexes that follow a durable one.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jasper::{Device, ErrorKind, Index, Key, NewKeys, OpenOptions, Progress, QuantizeMode, Stage};

use crate::kill::kill;
use crate::{DIMENSION, assert_fails, bytes_of, change, create, create_with, mix, rows, view};

/// The folder, for the process that follows.
const CHILD: &str = "JASPER_FOLLOWING_CHILD";
/// The key whose insert ends it.
const LAST: Key = 1 << 40;

fn follow(folder: &Path) -> Index {
    OpenOptions::new().threads(1).follow(true).open(folder).unwrap()
}

/// Waits until the thread of a follower has made what the index has.
fn wait_for(follower: &Index, index: &Index) {
    let start = Instant::now();
    while bytes_of(follower) != bytes_of(index) {
        assert!(start.elapsed() < Duration::from_secs(20), "the follower is not kept up to date");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_follower_has_each_change_and_makes_none() {
    for shards in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("index");
        create_with(&folder, shards);
        // One that is there before the first change, and others that come later.
        let mut followers = vec![follow(&folder)];
        let index = OpenOptions::new().threads(2).open(&folder).unwrap();
        for number in 0..120 {
            change(&index, number);
            if number % 10 == 0 {
                let made = followers[0].catch_up().unwrap();
                assert!(bytes_of(&followers[0]) == bytes_of(&index), "change {number}, {made} made");
            }
            if number % 50 == 20 {
                followers.push(follow(&folder));
            }
        }
        for follower in &followers {
            wait_for(follower, &index);
            assert_eq!(follower.catch_up().unwrap(), 0);
        }
        assert_eq!(index.catch_up().unwrap(), 0);
        let (follower, before) = (&followers[0], bytes_of(&index));
        let keys = follower.keys();
        let refused = [
            follower.insert(&rows(7, 1), NewKeys::NEXT).map(drop),
            follower.insert(view(&rows(7, 100), DIMENSION), NewKeys::NEXT).map(drop),
            follower.upsert(&rows(7, 1), &keys[..1]).map(drop),
            follower.delete(&keys[..1]).map(drop),
            follower.consolidate().map(drop),
            follower.compact().map(drop),
            follower.drop_vectors(),
        ];
        for refused in refused {
            assert!(matches!(&refused, Err(error) if error.kind() == ErrorKind::Unsupported), "{refused:?}");
        }
        assert!(follower.quantize(QuantizeMode::None).is_err() && follower.snapshot().is_err());
        assert!(bytes_of(follower) == before);
    }
}

#[test]
fn a_follower_shows_only_what_was_published() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("index");
    create(&folder);
    let (index, follower) = (Index::open(&folder).unwrap(), follow(&folder));
    let (is_done, refused) = (AtomicBool::new(false), 1 << 30);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..150 {
                let vectors = rows(number, 2);
                let keys = |first: Key| [first, first + 1];
                index.insert(view(&vectors, DIMENSION), &keys(1000 + 2 * number)).unwrap();
                if number % 3 == 0 {
                    // Cancelled when it is computed, and perhaps on disk.
                    let cancel = |progress: Progress| match progress.stage {
                        Stage::Committing => {
                            std::thread::sleep(Duration::from_millis(1));
                            ControlFlow::Break(())
                        }
                        _ => ControlFlow::Continue(()),
                    };
                    let cancelled = index
                        .with_progress(cancel)
                        .insert(view(&vectors, DIMENSION), &keys(refused + 2 * number));
                    assert!(
                        matches!(&cancelled, Err(error) if error.kind() == ErrorKind::Cancelled),
                        "{cancelled:?}"
                    );
                }
                if number % 40 == 30 {
                    index.snapshot().unwrap();
                }
            }
            is_done.store(true, Ordering::SeqCst);
        });
        let mut last = 0;
        loop {
            let was_done = is_done.load(Ordering::SeqCst);
            follower.catch_up().unwrap();
            let keys: BTreeSet<Key> = follower.keys().into_iter().filter(|&key| key >= 1000).collect();
            let len = keys.len() as u64;
            assert!(keys.into_iter().eq(1000..1000 + len) && len.is_multiple_of(2), "no state of the index");
            assert!(len >= last && (len == 0 || index.contains(1000 + len - 1)), "{len} after {last}");
            last = len;
            if was_done {
                break;
            }
        }
        assert_eq!(last, 300);
    });
    assert!(bytes_of(&follower) == bytes_of(&index));
}

#[test]
fn a_follower_outlives_the_process_that_it_follows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("index");
    create(&folder);
    let follower = follow(&folder);
    let mut made = 0;
    for round in 0..6 {
        // One more may have been under way.
        made += kill(&folder, &[made], mix(round))[0] + 1;
        let index = Index::open(&folder).unwrap();
        wait_for(&follower, &index);
        if round % 2 == 0 {
            index.snapshot().unwrap();
            index.insert(&rows(round, 1), NewKeys::NEXT).unwrap();
        }
        follower.catch_up().unwrap();
        assert!(bytes_of(&follower) == bytes_of(&index), "round {round}");
    }
    assert!(follower.check().unwrap().is_sound());
}

#[test]
fn a_follower_goes_on_where_it_is_moved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("index");
    create(&folder);
    let index = Index::open(&folder).unwrap();
    let follower = follow(&folder).to_device(Device::CPU).unwrap();
    change(&index, 0);
    wait_for(&follower, &index);
    drop(index);
    // The folder can be opened by others while one follows it.
    let index = Index::open(&folder).unwrap();
    index.insert(&rows(3, 1), &[LAST]).unwrap();
    wait_for(&follower, &index);
    drop(follower);
    let follow = OpenOptions::new().follow(true);
    let no_folder =
        [follow.open(folder.join("index-0.jasper")), follow.open_bytes(&index.to_bytes().unwrap())];
    for refused in no_folder {
        assert_fails(refused, ErrorKind::InvalidFile, "is not the folder of a durable index");
    }
}

/// Not a test, but a process that follows until the last key is there, and prints what it has then.
#[test]
#[ignore = "the process that `another_process_follows` starts"]
fn child() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let follower = follow(Path::new(&folder));
    println!("\nfollows");
    while !follower.contains(LAST) {
        std::thread::sleep(Duration::from_millis(1));
    }
    follower.save(Path::new(&folder).with_extension("followed")).unwrap();
    println!("\nhas all");
    std::io::stdout().flush().unwrap();
}

#[test]
fn another_process_follows() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("index");
    create(&folder);
    let index = Index::open(&folder).unwrap();
    change(&index, 0);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["follow::child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "follows"));
    for number in 1..60 {
        change(&index, number);
    }
    index.snapshot().unwrap();
    index.insert(&rows(1, 1), &[LAST]).unwrap();
    assert!(lines.any(|line| line == "has all"));
    assert!(child.wait().unwrap().success());
    assert!(bytes_of(&Index::open(folder.with_extension("followed")).unwrap()) == bytes_of(&index));
}
