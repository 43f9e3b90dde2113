//! A call that fails or is cancelled changes nothing: the index is saved to the same file as before, and continues as
//! if the call had not been made.

use std::collections::BTreeSet;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use jasper::{
    Element, ElementKind, Error, ErrorKind, Index, IndexBuilder, Key, Metric, NewKeys, Progress,
    Quantization, Stage, VectorSource, Vectors, f16,
};
use jasper_core::Cancelled;
use jasper_core::synthetic::Clusters;
use jasper_graph::VectorError;
use jasper_vamana::UpdateError;

use crate::common::{SearchHits, bytes_of, everything, view};

const DIMENSION: usize = 6;

/// Cancels a call at its `stop`-th report, and records the stage.
struct Stopper {
    stop: usize,
    reports: AtomicUsize,
    stopped: OnceLock<Stage>,
}

impl Stopper {
    fn at(stop: usize) -> Arc<Self> {
        Arc::new(Self { stop, reports: AtomicUsize::new(0), stopped: OnceLock::new() })
    }

    fn callback(self: &Arc<Self>) -> impl FnMut(Progress) -> ControlFlow<()> + use<> {
        let stopper = Arc::clone(self);
        move |progress| {
            assert!(progress.done <= progress.total, "{progress:?}");
            if stopper.reports.fetch_add(1, Relaxed) < stopper.stop {
                return ControlFlow::Continue(());
            }
            stopper.stopped.set(progress.stage).expect("not asked again after it was stopped");
            ControlFlow::Break(())
        }
    }
}

/// An index with free slots, tombstones, restorable keys and shared vertices.
fn used<T: Element>(metric: Metric) -> Index {
    used_with::<T>(metric, 6, 8)
}

/// As [`used`], with these build parameters. With few edges, some vertices are reconnected.
fn used_with<T: Element>(metric: Metric, max_degree: usize, build_beam_width: usize) -> Index {
    let rows: Vec<T> = Clusters::new(DIMENSION, 31).rows(900, 0);
    let builder =
        IndexBuilder::new(metric).max_degree(max_degree).build_beam_width(build_beam_width).threads(2);
    let index = builder.build(view(&rows, DIMENSION)).unwrap();
    index.delete(&(100..400).collect::<Vec<_>>()).unwrap();
    index.consolidate().unwrap();
    index.insert(view(&rows[..3 * DIMENSION], DIMENSION), &[5000, 5001, 5002]).unwrap();
    index.delete(&(500..600).collect::<Vec<_>>()).unwrap();
    index.delete(&[5001, 2]).unwrap();
    index
}

/// Rows cluster by cluster. Some are already in the index, and the last ones are longer than all others.
fn fresh<T: Element>() -> (Vec<T>, Vec<Key>) {
    let set = Clusters::new(DIMENSION, 31);
    let labels: Vec<usize> = (0..1100).map(|i| i / 55).collect();
    let mut rows: Vec<T> = set.rows_of(&labels, 1);
    let known: Vec<T> = set.rows(520, 0);
    rows[..20 * DIMENSION].copy_from_slice(&known[500 * DIMENSION..]);
    rows[1090 * DIMENSION..].fill(T::from_f32(127.0));
    // Key 510 was deleted, and may be restored until it gets a new vector.
    let keys = (0..1100).map(|i| if i == 7 { 510 } else { 10_000 + i }).collect();
    (rows, keys)
}

/// Cancels `call` at each of its reports, and finally lets it finish. Returns the stages in which it was cancelled.
fn stop_everywhere<E: std::fmt::Debug>(
    index: &Index,
    call: impl Fn(&Index) -> Result<(), E>,
    is_cancel: impl Fn(&E) -> bool,
) -> BTreeSet<String> {
    let before = bytes_of(index);
    assert!(index.check().unwrap().is_sound());
    let mut stages = BTreeSet::new();
    for stop in 0.. {
        let stopper = Stopper::at(stop);
        match call(&index.with_progress(stopper.callback())) {
            Ok(()) => {
                assert!(stopper.stopped.get().is_none(), "a stop was not heard");
                assert_eq!(stopper.reports.load(Relaxed), stop);
                return stages;
            }
            Err(error) => {
                assert!(is_cancel(&error), "{error:?}");
                stages.insert(stopper.stopped.get().expect("only the callback cancels").to_string());
            }
        }
        assert!(bytes_of(index) == before, "stopped at report {stop}: something is left behind");
        let check = index.check().unwrap();
        assert!(check.is_sound());
    }
    unreachable!("a call makes an end of reports")
}

fn stops<T: Element>(metric: Metric) {
    let index = used_with::<T>(metric, 5, 6);
    let untouched = used_with::<T>(metric, 5, 6);
    let (rows, keys) = fresh::<T>();
    let rows = view(&rows, DIMENSION);

    let inserted = stop_everywhere(
        &index,
        |index| index.insert(rows, &keys).map(|_| ()),
        |error| error.kind() == ErrorKind::Cancelled,
    );
    assert_eq!(inserted, ["committing", "linking", "reading", "reconnecting"].map(String::from).into());
    untouched.insert(rows, &keys).unwrap();
    assert!(
        bytes_of(&index) == bytes_of(&untouched),
        "{} {metric}: an insert remembers what it was stopped in",
        T::KIND
    );

    let gone: Vec<Key> = (600..800).collect();
    index.delete(&gone).unwrap();
    untouched.delete(&gone).unwrap();
    let consolidated = stop_everywhere(&index, |index| index.consolidate().map(|_| ()), |_| true);
    assert_eq!(consolidated, ["committing", "consolidating", "reconnecting"].map(String::from).into());
    untouched.consolidate().unwrap();
    assert!(bytes_of(&index) == bytes_of(&untouched), "{} {metric}: consolidation", T::KIND);
    assert_eq!(everything(&index, &[T::from_f32(1.0); DIMENSION]).len(), index.len());
}

#[test]
fn a_call_stopped_at_any_report_has_done_nothing() {
    stops::<f32>(Metric::InnerProduct);
    stops::<f16>(Metric::L2);
    stops::<u8>(Metric::Cosine);
    stops::<i8>(Metric::InnerProduct);
}

#[test]
fn quantizing_compacting_and_checking_stop_at_any_report() {
    let index = used::<f32>(Metric::L2);
    let is_cancel = |error: &Error| error.kind() == ErrorKind::Cancelled;
    let quantized = stop_everywhere(
        &index,
        |index| index.quantize(Quantization::Rabitq { bits: 2 }).map(drop),
        |error| error.kind() == ErrorKind::Cancelled,
    );
    assert_eq!(quantized, ["quantizing".to_owned()].into());
    assert_eq!(index.stats().quantization, Some(Quantization::Rabitq { bits: 2 }));
    let free = index.stats().free_slots;
    let compacted = stop_everywhere(&index, |index| index.compact().map(|_| ()), is_cancel);
    assert_eq!(compacted, ["compacting".to_owned()].into());
    assert!(free > 0 && index.stats().free_slots == 0);
    let checked = stop_everywhere(
        &index,
        |index| index.check().map(|_| ()),
        |error| error.kind() == ErrorKind::Cancelled,
    );
    assert_eq!(checked, ["checking".to_owned()].into());
}

#[test]
fn an_empty_index_stays_empty_when_its_first_insert_is_stopped() {
    let rows: Vec<f32> = Clusters::new(DIMENSION, 32).rows(1500, 0);
    let rows = view(&rows, DIMENSION);
    let keys: Vec<Key> = (0..1500).collect();
    let index = IndexBuilder::new(Metric::L2).threads(2).empty(ElementKind::F32, DIMENSION).unwrap();
    let stages = stop_everywhere(
        &index,
        |index| index.insert(rows, &keys).map(|_| ()),
        |error| error.kind() == ErrorKind::Cancelled,
    );
    assert!(stages.contains("reading") && stages.contains("linking"));
    assert_eq!(index.len(), 1500);
}

#[test]
fn a_build_can_be_stopped_at_any_report() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 33).rows(1500, 0);
    let rows = view(&rows, DIMENSION);
    let builder = IndexBuilder::new(Metric::L2).max_degree(4).build_beam_width(6).threads(2);
    let expected = bytes_of(&builder.build(rows).unwrap());
    let mut stages = BTreeSet::new();
    for stop in 0.. {
        let stopper = Stopper::at(stop);
        match builder.clone().with_progress(stopper.callback()).build(rows) {
            Ok(index) => {
                let report = index.stats().build.unwrap();
                assert!(report.reconnected > 0, "the set is such that some vertices are lost");
                assert!(bytes_of(&index) == expected);
                break;
            }
            Err(ref error) if let Some(cancelled) = error.downcast_ref::<Cancelled>() => {
                assert_eq!(Some(&cancelled.stage), stopper.stopped.get());
                stages.insert(cancelled.stage.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(stages, ["linking", "reading", "reconnecting"].map(String::from).into());
}

/// Rows of which those from `bad` on cannot be read, or make the reader panic.
struct Broken<'a, T> {
    rows: &'a [T],
    bad: usize,
    panics: bool,
}

impl<T: Element> VectorSource<T> for Broken<'_, T> {
    fn len(&self) -> usize {
        self.rows.len() / DIMENSION
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        if range.end > self.bad {
            assert!(!self.panics, "a reader that panics");
            return Err(io::Error::other("the disk is gone"));
        }
        out.copy_from_slice(&self.rows[range.start * DIMENSION..range.end * DIMENSION]);
        Ok(())
    }
}

fn source<'a>(broken: &'a Broken<'_, u8>) -> Vectors<'a> {
    Vectors::from_source(broken)
}

#[test]
fn rows_that_cannot_be_read_leave_no_trace() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 34).rows(3000, 1);
    let keys: Vec<Key> = (20_000..23_000).collect();
    let index = used::<u8>(Metric::L2);
    let before = bytes_of(&index);
    for bad in [0, 1023, 1024, 2999] {
        let broken = Broken { rows: &rows, bad, panics: false };
        for result in [index.insert(source(&broken), &keys), index.upsert(source(&broken), &keys)] {
            let error = result.unwrap_err();
            assert!(
                matches!(error.downcast_ref(), Some(UpdateError::Read(cause)) if cause.to_string() == "the disk is gone"),
                "{error}"
            );
        }
        assert!(matches!(
            index.insert(source(&broken), NewKeys::NEXT).unwrap_err().downcast_ref(),
            Some(UpdateError::Read(_))
        ));
        let error = IndexBuilder::new(Metric::L2).build(source(&broken)).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(UpdateError::Read(_))), "{error}");
        assert!(bytes_of(&index) == before, "rows from {bad} on");
    }
    // An invalid row, after many valid ones.
    let rows: Vec<f32> = Clusters::new(DIMENSION, 34).rows(3000, 1);
    let mut bad = rows.clone();
    bad[2500 * DIMENSION + 1] = f32::NAN;
    let index = used::<f32>(Metric::InnerProduct);
    let before = bytes_of(&index);
    assert!(index.insert(view(&bad, DIMENSION), &keys).unwrap_err().downcast_ref::<VectorError>().is_some());
    assert!(bytes_of(&index) == before);
    index.insert(view(&rows, DIMENSION), &keys).unwrap();
    let untouched = used::<f32>(Metric::InnerProduct);
    untouched.insert(view(&rows, DIMENSION), &keys).unwrap();
    assert!(bytes_of(&index) == bytes_of(&untouched));
}

#[test]
fn a_panic_of_the_callers_code_leaves_an_index_that_works() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 35).rows(3000, 1);
    let keys: Vec<Key> = (20_000..23_000).collect();
    let index = used::<u8>(Metric::L2);
    let query = &rows[..DIMENSION];
    let before = everything(&index, query);
    let broken = Broken { rows: &rows, bad: 2000, panics: true };
    let panicked = |call: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err();
    assert!(panicked(&|| drop(index.insert(source(&broken), &keys))));
    let never = |_| panic!("a filter that panics");
    let filtered = jasper::SearchParams::new(5).filter(jasper::Filter::Predicate(&never));
    assert!(panicked(&|| drop(index.search(query, filtered))));
    assert!(panicked(&|| drop(index.search_hits_into(
        view(&rows, DIMENSION),
        filtered,
        &mut [jasper::Hit::NONE; 15_000]
    ))));
    assert_eq!(everything(&index, query), before);
    assert!(index.check().unwrap().is_sound());
    index.insert(view(&rows, DIMENSION), &keys).unwrap();
    index.consolidate().unwrap();
    assert!(index.check().unwrap().is_sound(), "{:?}", index.check().unwrap());
    assert_eq!(everything(&index, query).len(), before.len() + 3000);
}
