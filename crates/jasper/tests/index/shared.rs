//! Searches during a change: they continue, and see one state or the other.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use jasper::{
    DeleteKeys, Device, Hit, Index, Key, Metric, NewKeys, SearchParams, Update, VectorSource, Vectors,
};
use jasper_core::synthetic::Clusters;
use jasper_graph::{KeyError, VectorError};

use crate::common::{SearchHits, floats, keys, small, view};

const DIMENSION: usize = 8;

/// No call here takes a second, so waiting this long means a deadlock.
const FOREVER: Duration = Duration::from_secs(60);

fn base(n: usize) -> Vec<u8> {
    Clusters::new(DIMENSION, 91).rows(n, 0)
}

/// Rows whose last ones are not read before the test allows it.
struct Gate<'a> {
    rows: &'a [u8],
    /// Notified when the gate is reached.
    reached: mpsc::Sender<()>,
    /// Awaited at the gate.
    open: Mutex<mpsc::Receiver<()>>,
}

impl VectorSource<u8> for Gate<'_> {
    fn len(&self) -> usize {
        self.rows.len() / DIMENSION
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn read(&self, range: Range<usize>, out: &mut [u8]) -> io::Result<()> {
        if range.end == VectorSource::len(self) {
            self.reached.send(()).expect("the test listens");
            let opened = self.open.lock().expect("one reader").recv_timeout(FOREVER);
            opened.map_err(|_| io::Error::other("nobody opened the gate"))?;
        }
        view(self.rows, DIMENSION).read(range, out)
    }
}

/// Runs `work` on a thread of its own, and waits for it up to a limit.
fn in_time<R: Send>(what: &str, work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || sender.send(work()));
        receiver.recv_timeout(FOREVER).unwrap_or_else(|_| {
            // A scope would wait for the blocked thread.
            eprintln!("{what} waits for something that does not come");
            std::process::abort();
        })
    })
}

#[test]
fn searches_go_on_while_an_insert_reads_its_rows() {
    let rows = base(4500);
    let (first, more) = rows.split_at(1500 * DIMENSION);
    let index = small(Metric::L2).build(view(first, DIMENSION)).unwrap();
    let queries = view(&first[..40 * DIMENSION], DIMENSION);
    // The beam is so wide that results are exact. New rows that are not linked yet widen searches, which improves
    // narrow ones.
    let params = SearchParams::new(5).beam_width(1500);
    let ask = || {
        let mut hits = vec![Hit::NONE; 40 * 5];
        index.search_hits_into(queries, params, &mut hits).unwrap();
        hits
    };
    let before = ask();
    let (reached_sender, reached) = mpsc::channel();
    let (open, open_receiver) = mpsc::channel();
    let gate = Gate { rows: more, reached: reached_sender, open: Mutex::new(open_receiver) };
    let added: Vec<Key> = (10_000..13_000).collect();
    let deletes = AtomicBool::new(false);
    thread::scope(|scope| {
        let insert = scope.spawn(|| index.insert(Vectors::from_source(&gate), &added));
        reached.recv_timeout(FOREVER).expect("the insert gets to its last rows");
        // Two thirds of the new rows are in the tables by now.
        assert!(in_time("a search", ask) == before);
        assert_eq!(
            in_time("a search of one", || index.search(queries.row(3), params).unwrap()),
            before[15..20]
        );
        assert!(!in_time("a look-up", || index.contains(10_000)));
        assert!(in_time("a check", || index.check().unwrap()).is_sound());
        assert_eq!(in_time("a count", || index.stats()).keys, 1500);
        // Another change waits its turn.
        let delete = scope.spawn(|| {
            index.delete(&[0, 10_000]).unwrap();
            deletes.store(true, SeqCst);
        });
        assert!(in_time("a search beside two changes", ask) == before);
        assert!(!deletes.load(SeqCst));
        open.send(()).unwrap();
        insert.join().unwrap().unwrap();
        delete.join().unwrap();
    });
    assert_eq!(index.stats().keys, 4498);
    assert!(index.contains(10_001) && !index.contains(10_000) && !index.contains(0));
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn an_insert_that_fails_midway_was_never_there() {
    let rows = base(4000);
    let (first, more) = rows.split_at(1000 * DIMENSION);
    let index = small(Metric::L2).build(view(first, DIMENSION)).unwrap();
    let params = SearchParams::new(3);
    let before = index.search(&first[..DIMENSION], params).unwrap();
    let (reached_sender, reached) = mpsc::channel();
    let (open, open_receiver) = mpsc::channel();
    let gate = Gate { rows: more, reached: reached_sender, open: Mutex::new(open_receiver) };
    thread::scope(|scope| {
        let insert = scope.spawn(|| index.insert(Vectors::from_source(&gate), NewKeys::NEXT));
        reached.recv_timeout(FOREVER).expect("the insert gets to its last rows");
        assert_eq!(in_time("a search", || index.search(&first[..DIMENSION], params).unwrap()), before);
        drop(open);
        assert!(insert.join().unwrap().unwrap_err().to_string().contains("could not be read"));
    });
    assert_eq!(index.search(&first[..DIMENSION], params).unwrap(), before);
    let whole = small(Metric::L2).build(view(first, DIMENSION)).unwrap();
    assert!(
        crate::common::bytes_of(&index.to_device(Device::CPU).unwrap()) == crate::common::bytes_of(&whole)
    );
}

/// The state of a group of keys.
const NEVER: usize = 0;
const ARRIVING: usize = 1;
const INSERTED: usize = 2;
const LEAVING: usize = 3;
const DELETED: usize = 4;

const GROUPS: usize = 40;
const GROUP: usize = 12;

/// Keys of one group have the same row, so the results for that row must contain all of them or none.
#[test]
fn a_call_is_seen_whole_or_not_at_all() {
    let rows = base(1200);
    let index = small(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    let place = |group: usize| [group as u8 * 6, 255, 0, 255, 0, 255, 0, 255];
    let members =
        |group: usize| (group * GROUP..(group + 1) * GROUP).map(|i| 50_000 + i as Key).collect::<Vec<_>>();
    let states: Vec<AtomicUsize> = (0..GROUPS).map(|_| AtomicUsize::new(NEVER)).collect();
    let done = AtomicBool::new(false);
    let searches = AtomicUsize::new(0);
    thread::scope(|scope| {
        for reader in 0..3 {
            let (index, states, done, searches) = (&index, &states, &done, &searches);
            scope.spawn(move || {
                let mut group = reader * 7;
                while !done.load(SeqCst) {
                    group = (group + 1) % GROUPS;
                    let before = states[group].load(SeqCst);
                    // Twice in one call, which must see one state.
                    let queries = place(group).repeat(2);
                    let mut hits = vec![Hit::NONE; 2 * GROUP];
                    let params = SearchParams::new(GROUP).beam_width(40);
                    index.search_hits_into(view(&queries, DIMENSION), params, &mut hits).unwrap();
                    let after = states[group].load(SeqCst);
                    let (one, two) = hits.split_at(GROUP);
                    assert_eq!(one, two);
                    let expected = members(group);
                    let mut found = keys(one);
                    found.retain(|key| expected.contains(key));
                    found.sort_unstable();
                    match (before, after) {
                        (NEVER, NEVER) | (DELETED, _) => {
                            assert!(found.is_empty(), "group {group}: {found:?}")
                        }
                        (INSERTED, INSERTED) => assert_eq!(found, expected, "group {group}"),
                        _ => assert!(found.is_empty() || found == expected, "group {group}: {found:?}"),
                    }
                    searches.fetch_add(1, SeqCst);
                }
            });
        }
        for group in 0..GROUPS {
            states[group].store(ARRIVING, SeqCst);
            index.insert(view(&place(group).repeat(GROUP), DIMENSION), &members(group)).unwrap();
            states[group].store(INSERTED, SeqCst);
            if let Some(old) = group.checked_sub(3) {
                states[old].store(LEAVING, SeqCst);
                index.delete(&members(old)).unwrap();
                states[old].store(DELETED, SeqCst);
            }
            if group % 5 == 4 {
                index.consolidate().unwrap();
            }
            if group % 10 == 9 {
                index.compact().unwrap();
            }
            // A reader has looked before the next change.
            let seen = searches.load(SeqCst);
            while searches.load(SeqCst) < seen + 3 {
                thread::yield_now();
            }
        }
        done.store(true, SeqCst);
    });
    assert!(index.check().unwrap().is_sound());
    assert_eq!(index.stats().keys, 1200 + 3 * GROUP);
}

/// A key whose vector is replaced has one of both vectors, and never both or none.
#[test]
fn an_upsert_moves_a_key_in_one_step() {
    let rows = base(800);
    let index = small(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    let places = [[255_u8, 0, 255, 0, 255, 0, 255, 0], [0, 255, 255, 0, 0, 255, 255, 0]];
    let mover: Key = 70_000;
    index.insert(view(&places[0], DIMENSION), &[mover]).unwrap();
    let done = AtomicBool::new(false);
    let seen = [AtomicUsize::new(0), AtomicUsize::new(0)];
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let mut hits = [Hit::NONE; 2];
                    let params = SearchParams::new(1).beam_width(40);
                    index
                        .search_hits_into(view(places.as_flattened(), DIMENSION), params, &mut hits)
                        .unwrap();
                    let here = hits.map(|hit| hit.key == mover && hit.distance == 0.0);
                    assert!(here[0] != here[1], "{hits:?}");
                    seen[usize::from(here[1])].fetch_add(1, SeqCst);
                }
            });
        }
        for step in 1..60 {
            index.upsert(view(&places[step % 2], DIMENSION), &[mover]).unwrap();
            if step % 9 == 0 {
                index.consolidate().unwrap();
            }
            let now = seen[step % 2].load(SeqCst);
            while seen[step % 2].load(SeqCst) < now + 2 {
                thread::yield_now();
            }
        }
        done.store(true, SeqCst);
    });
    assert!(index.check().unwrap().is_sound());
}

#[test]
fn threads_that_delete_the_same_keys_delete_each_once() {
    let index = small(Metric::L2).build(view(&base(600), DIMENSION)).unwrap();
    let delete = || -> usize {
        let pairs = (0..500).step_by(2).map(|key| [key, key + 1, 9000]);
        pairs.map(|keys| index.delete(DeleteKeys::Present(&keys)).unwrap()).sum()
    };
    let deleted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(delete)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((deleted, index.len()), (500, 100));
}

#[test]
fn searches_go_on_while_a_change_waits_for_a_reader() {
    let rows = base(1_000);
    let index = small(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    thread::scope(|scope| {
        index
            .read_graph(|graph| {
                let change = scope.spawn(|| index.delete(&[0]));
                thread::sleep(Duration::from_millis(50)); // The change waits by now.
                in_time("a search", || index.search(&rows[..DIMENSION], SearchParams::new(1)).unwrap());
                assert!(!change.is_finished() && graph.keys().slot_of(0).is_some());
            })
            .unwrap();
    });
    assert!(!index.contains(0));
}

/// The change waits for the search, and would wait for ever if the filter waited for the change.
#[test]
fn callbacks_read_the_index_while_a_change_waits() {
    let rows = base(1_000);
    let index = small(Metric::L2).build(view(&rows, DIMENSION)).unwrap();
    let change = |key: Key| move |index: &Index| assert_eq!(index.delete(&[key]).unwrap(), 1);
    let beside = |change: &(dyn Fn(&Index) + Sync), read: &(dyn Fn() -> bool + Sync)| {
        thread::scope(|scope| {
            let is_waiting = AtomicBool::new(false);
            let called = || {
                if !is_waiting.swap(true, SeqCst) {
                    scope.spawn(|| change(&index));
                    thread::sleep(Duration::from_millis(50)); // The change waits by now.
                }
                read()
            };
            in_time("a search with a filter", || {
                let params = SearchParams::new(3).beam_width(20);
                index.search(&rows[..DIMENSION], params.filter(&|_: Key| called())).unwrap();
                let queries = view(&rows[..40 * DIMENSION], DIMENSION);
                index.search_batch(queries, params.filter(&|_: Key| called())).unwrap();
            });
        });
    };
    beside(&change(1), &|| index.contains(5));
    beside(&change(2), &|| index.vector(5).is_some());
    beside(&change(3), &|| index.search(&rows[..DIMENSION], SearchParams::new(1)).is_ok());
    thread::scope(|scope| {
        index
            .read_graph(|_| {
                scope.spawn(|| change(4)(&index));
                thread::sleep(Duration::from_millis(50));
                in_time("a look-up", || index.contains(5));
                assert!(index.contains(4), "and on this thread");
            })
            .unwrap();
    });
    assert_eq!(index.len(), 996);
}

#[test]
fn an_index_may_be_sent_and_shared() {
    fn is_sent_and_shared<T: Send + Sync>() {}
    is_sent_and_shared::<Index>();
    is_sent_and_shared::<Index>();
}

/// Many threads insert, replace and delete single vectors; each gets its own result, and nothing else is refused.
#[test]
fn small_changes_of_many_threads_are_made_together_and_answered_each() {
    const THREADS: u64 = 6;
    const STEPS: u64 = 40;
    let rows = base(1000);
    let row = |key: u64| &rows[(key % 1000) as usize * DIMENSION..][..DIMENSION];
    let index = small(Metric::L2).build(view(&rows[..300 * DIMENSION], DIMENSION)).unwrap();
    // Keys that the index chooses come after this one, and so after those of the threads.
    index.insert(row(0), &[100_000]).unwrap();
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (index, row) = (&index, &row);
                scope.spawn(move || {
                    let mut failed = 0;
                    for step in 0..STEPS {
                        let key = 1000 * (thread + 1) + 300 + step;
                        let report = index.insert(row(key), &[key]).unwrap();
                        assert_eq!(report.keys, 1);
                        assert!(index.contains(key));
                        assert_eq!(index.vector(key).unwrap(), floats(row(key)));
                        // One of the threads is first.
                        failed += usize::from(index.insert(row(300 + step), &[300 + step]).is_err());
                        assert!(
                            index.insert(row(key), &[key]).unwrap_err().downcast_ref::<KeyError>().is_some()
                        );
                        assert!(
                            index
                                .insert(&[1_u8; 3], &[7_000])
                                .unwrap_err()
                                .downcast_ref::<VectorError>()
                                .is_some()
                        );
                        index.upsert(row(key + 1), &[key]).unwrap();
                        assert_eq!(index.vector(key).unwrap(), floats(row(key + 1)));
                        if step % 3 == 0 {
                            index.delete(&[key]).unwrap();
                            assert!(!index.contains(key) && index.delete(&[key]).is_err());
                        }
                        let next = index
                            .insert(view(row(key + 2), DIMENSION), NewKeys::NEXT)
                            .unwrap()
                            .first_key
                            .unwrap();
                        assert_eq!(index.vector(next).unwrap(), floats(row(key + 2)));
                        index.delete(&[next]).unwrap();
                    }
                    failed
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(failed as u64, (THREADS - 1) * STEPS);
    let kept = STEPS - STEPS.div_ceil(3);
    assert_eq!(index.len() as u64, 300 + 1 + STEPS + THREADS * kept);
    assert!(index.check().unwrap().is_sound());
}

/// Changes that are submitted are made in their order, whether or not they are alike.
#[test]
fn submitted_changes_are_made_in_order() {
    let rows = base(400);
    let row = |key: u64| view(&rows[(key % 400) as usize * DIMENSION..][..DIMENSION], DIMENSION);
    let index = small(Metric::L2).build(view(&rows[..300 * DIMENSION], DIMENSION)).unwrap();
    let mut inserted = Vec::new();
    let mut deleted = Vec::new();
    for key in 300..400 {
        inserted.push(index.submit_update(Update::insert(row(key), &[key])).unwrap());
        if key % 2 == 0 {
            deleted.push(index.submit_update(Update::delete(&[key])).unwrap());
            inserted.push(index.submit_update(Update::upsert(row(key + 1), &[key])).unwrap());
        }
    }
    // Refused, without harm to those that are made with it.
    let refused = index.submit_update(Update::insert(row(5), &[5])).unwrap();
    let last = index.submit_update(Update::insert(row(6), &[1_000])).unwrap();
    let empty = index.submit_update(Update::insert(view::<u8>(&[], DIMENSION), &[])).unwrap();
    let after = index.submit_update(Update::insert(row(7), &[1_001])).unwrap();
    for change in inserted {
        assert_eq!(wait(change).unwrap().keys, 1);
    }
    deleted.into_iter().for_each(|change| assert_eq!(wait(change).unwrap(), 1));
    assert!(wait(refused).unwrap_err().downcast_ref::<KeyError>().is_some());
    // The vector of key 6 has a second key now.
    assert_eq!(wait(last).unwrap().duplicates, 1);
    assert_eq!((wait(empty).unwrap().keys, wait(after).unwrap().keys), (0, 1));
    assert_eq!(index.len(), 402);
    for key in 300..400 {
        let expected = if key % 2 == 0 { row(key + 1) } else { row(key) };
        assert_eq!(index.vector(key).unwrap(), floats(expected.row(0)));
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::yield_now();
    }
}
