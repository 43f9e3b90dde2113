//! Processes that are killed while they change or save an index.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jasper::{ElementKind, ErrorKind, Index, IndexBuilder, Key, Metric, OpenOptions, Progress, StoredIndex};

use crate::{DIMENSION, assert_fails, bytes_of, change, create_with, mix, rows, view};

/// The folder, the part to play and where to begin, for the process that is killed.
const CHILD: &str = "JASPER_DURABLE_CHILD";

/// The keys of a thread after its first `changes` changes: two inserts of two keys, then one of these is deleted.
fn keys_of(thread: u64, changes: u64) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for number in 0..changes {
        let key = (thread << 32) | (number * 2);
        if number % 3 == 2 {
            keys.remove(&(key - 2));
        } else {
            keys.extend([key, key + 1]);
        }
    }
    keys
}

fn change_keys_of(index: &Index, thread: u64, number: u64) {
    let key = (thread << 32) | (number * 2);
    if number % 3 == 2 {
        return assert_eq!(index.delete(&[key - 2]).unwrap(), 1);
    }
    let vectors = [rows(key, 1), rows(key + 1, 1)].concat();
    index.insert(view(&vectors, DIMENSION), &[key, key + 1]).unwrap();
}

const THREADS: u64 = 4;

/// Not a test, but the process that the tests below kill. Prints a line after every change.
#[test]
#[ignore = "does nothing unless it is called by the tests that kill it"]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let mut words = arguments.split('\n');
    let index = OpenOptions::new().threads(2).open(words.next().unwrap()).unwrap();
    let starts: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    if let [start] = starts[..] {
        for number in start.. {
            change(&index, number);
            println!("\ndone 0");
        }
    }
    std::thread::scope(|scope| {
        for (thread, &start) in (0..).zip(&starts) {
            let index = &index;
            scope.spawn(move || {
                for number in start.. {
                    change_keys_of(index, thread, number);
                    println!("\ndone {thread}");
                }
            });
        }
    });
}

/// Starts the child, kills it at a moment that `bits` choose, and returns how many changes of each thread it has
/// acknowledged.
pub(crate) fn kill(folder: &Path, starts: &[u64], bits: u64) -> Vec<u64> {
    let arguments: Vec<String> = starts.iter().map(u64::to_string).collect();
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["kill::child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, format!("{}\n{}", folder.display(), arguments.join("\n")))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = vec![0; starts.len()];
    let mut left = bits % 40;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut count = |line: String| {
        let thread = line.strip_prefix("done ").map(|thread| thread.parse::<usize>().unwrap());
        thread.map(|thread| acknowledged[thread] += 1).is_some()
    };
    while left > 0 {
        left -= u64::from(count(lines.next().expect("the child runs until it is killed")));
    }
    std::thread::sleep(Duration::from_micros(bits / 64 % 4000));
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines {
        count(line);
    }
    acknowledged
}

/// Times to kill: a few, or as many as the environment says.
fn kills() -> u64 {
    std::env::var("JASPER_KILLS").map_or(15, |kills| kills.parse().expect("JASPER_KILLS is a number"))
}

#[test]
fn a_killed_process_leaves_what_it_acknowledged() {
    for shards in [1, 3] {
        kill_again_and_again(shards);
    }
}

fn kill_again_and_again(shards: usize) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("index");
    create_with(&folder, shards);
    let reference = Index::open(folder.join("index-0.jasper")).unwrap();
    let (mut made, mut in_flight) = (0, 0);
    for round in 0..kills() {
        let acknowledged = kill(&folder, &[made], mix(round))[0];
        (made..made + acknowledged).for_each(|number| change(&reference, number));
        made += acknowledged;
        let index = Index::open(&folder).unwrap();
        let found = bytes_of(&index);
        if found != bytes_of(&reference) {
            change(&reference, made);
            (made, in_flight) = (made + 1, in_flight + 1);
            assert!(found == bytes_of(&reference), "round {round}: neither {made} changes nor one less");
        }
        let report = index.check().unwrap();
        assert!(report.is_sound(), "round {round}: {report:?}");
    }
    println!("{} kills, {made} changes, of which {in_flight} were under way", kills());
}

#[test]
fn a_killed_process_leaves_what_each_thread_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("index");
    let builder = IndexBuilder::new(Metric::L2).max_degree(32).build_beam_width(32);
    builder.empty(ElementKind::F32, DIMENSION).unwrap().save_durable(&folder).unwrap();
    let mut made = vec![0; THREADS as usize];
    for round in 0..kills() {
        let acknowledged = kill(&folder, &made, mix(round));
        let index = Index::open(&folder).unwrap();
        let keys: BTreeSet<Key> = index.keys().into_iter().collect();
        assert_eq!(keys.len(), index.len(), "round {round}: a key is there twice");
        for (thread, (made, acknowledged)) in (0..).zip(made.iter_mut().zip(acknowledged)) {
            *made += acknowledged;
            let found: BTreeSet<Key> = keys.iter().copied().filter(|key| key >> 32 == thread).collect();
            if found != keys_of(thread, *made) {
                *made += 1;
                assert_eq!(found, keys_of(thread, *made), "round {round}, thread {thread}");
            }
        }
        assert!(keys.iter().all(|&key| index.vector(key) == Some(rows(key, 1))), "round {round}");
        assert!(index.check().unwrap().is_sound(), "round {round}");
        if round % 4 == 3 {
            index.snapshot().unwrap();
        }
    }
}

/// The folder, and the report of a save at which the process ends, for the process of the next test.
const SAVING_CHILD: &str = "JASPER_SAVING_CHILD";

/// Not a test, but a process that ends while it saves an index.
#[test]
#[ignore = "the process that `a_save_whose_process_was_killed_is_repeated` starts"]
fn saving_child() {
    let Ok(arguments) = std::env::var(SAVING_CHILD) else { return };
    let (folder, last) = arguments.split_once('\n').unwrap();
    let (mut reports, last) = (0, last.parse::<u64>().unwrap());
    let abort = move |_: Progress| {
        if reports == last {
            std::process::exit(7);
        }
        reports += 1;
        ControlFlow::Continue(())
    };
    let index = IndexBuilder::new(Metric::L2).build(view(&rows(1, 60), DIMENSION)).unwrap();
    index.with_progress(abort).save_durable(folder).unwrap();
}

#[test]
fn a_save_whose_process_was_killed_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let mut killed = 0;
    loop {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["kill::saving_child", "--exact", "--ignored", "--nocapture"])
            .env(SAVING_CHILD, format!("{}\n{killed}", path.display()))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        if ended.success() {
            break;
        }
        assert_eq!(ended.code(), Some(7));
        assert!(path.is_dir() && !StoredIndex::is_durable(&path));
        assert_fails(Index::open(&path), ErrorKind::InvalidFile, "is not the folder of a durable index");
        StoredIndex::check_new_durable(&path).unwrap();
        killed += 1;
    }
    assert!(killed > 1, "{killed}");
    // And it may have been killed when the snapshot was complete.
    let journal = std::fs::read(path.join("journal-0.log")).unwrap();
    std::fs::write(path.join("journal-0.log"), "").unwrap();
    Index::open(path.join("index-0.jasper")).unwrap().save_durable(&path).unwrap();
    assert!(std::fs::read(path.join("journal-0.log")).unwrap() == journal);
    assert_eq!(Index::open(&path).unwrap().len(), 60);
}
