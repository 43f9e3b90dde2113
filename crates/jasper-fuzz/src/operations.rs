//! The operations of an index on the CPU, decoded from bytes and compared with a [`Model`] after each.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arbitrary::{Arbitrary, Unstructured};
use jasper::{
    Element, ElementKind, Index, IndexBuilder, Key, Metric, NO_KEY, NewKeys, OpenOptions, Progress,
    Quantization, QuantizeMode, SearchLimits, f16,
};
use jasper_graph::KeyError;
use jasper_quant::TrainError;
use jasper_vamana::UpdateError;

use crate::model::{Expected, Model, Search, Shape, view};

/// Most operations of one input, so that no input is slow.
const MAX_STEPS: usize = 48;
/// Vectors that an index may have before inserts are skipped.
const MAX_VECTORS: usize = 700;

/// What an input says.
#[derive(Arbitrary, Debug)]
struct Input {
    element: u8,
    metric: u8,
    dimension: u8,
    max_degree: u8,
    build_beam_width: u8,
    /// The vectors that the index is built from; it is created empty if there are none.
    first: Vec<[u8; 4]>,
    steps: Vec<Step>,
}

/// An operation, and the report of its progress at which it is cancelled, if it makes as many.
#[derive(Arbitrary, Debug)]
struct Step {
    cancel: u8,
    operation: Operation,
}

/// One call of the library. Keys, vectors and other values are bytes, which [`Shape`] and [`key`] interpret.
#[derive(Arbitrary, Debug)]
enum Operation {
    Insert { pairs: Vec<(u8, [u8; 4])>, upsert: bool, fault: u8 },
    InsertOne { key: u8, vector: [u8; 4], upsert: bool },
    InsertAuto { vectors: Vec<[u8; 4]>, copies: u8 },
    Delete(Vec<u8>),
    DeleteLive { from: u8, count: u8 },
    Undelete(Vec<u8>),
    UndeleteAll,
    Consolidate,
    Compact,
    Rabitq(u8),
    Mixed(u8),
    DropCodes,
    DropVectors,
    MeasureCodes,
    Sketch,
    Reopen,
    Limit { k: u8, beam_width: u8, queries: u8 },
    Search(Search),
}

/// Runs the operations that the bytes decode to.
///
/// # Panics
/// Panics if the index and the model differ.
pub fn run(bytes: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let play = match ElementKind::ALL[usize::from(input.element) % 4] {
        ElementKind::F32 => play::<f32>,
        ElementKind::F16 => play::<f16>,
        ElementKind::U8 => play::<u8>,
        ElementKind::I8 => play::<i8>,
    };
    play(input);
}

fn play<T: Element>(input: Input) {
    Subject::<T>::new(&input).play(input.steps);
}

/// Few keys, so that they meet, and the largest ones.
pub fn key(byte: u8) -> Key {
    match byte {
        255 => NO_KEY,
        254 => NO_KEY - 1,
        253 => 1 << 40,
        _ => Key::from(byte % 64),
    }
}

/// An index and what it should hold.
struct Subject<T: Element> {
    index: Index,
    model: Model<T>,
}

impl<T: Element> Subject<T> {
    fn new(input: &Input) -> Self {
        const DIMENSIONS: [usize; 8] = [1, 2, 3, 4, 8, 20, 64, 100];
        let metric = Metric::ALL[usize::from(input.metric) % 3];
        let shape = Shape { metric, dimension: DIMENSIONS[usize::from(input.dimension) % 8] };
        let builder = IndexBuilder::new(metric)
            .max_degree(1 + usize::from(input.max_degree % 16))
            .build_beam_width(1 + usize::from(input.build_beam_width % 32))
            .threads(1);
        let vectors: Vec<Vec<T>> = input
            .first
            .iter()
            .map(|bytes| shape.vector(*bytes))
            .filter(|vector| shape.is_valid(vector))
            .collect();
        let mut model = Model::new(shape);
        let index = if vectors.is_empty() {
            builder.empty(T::KIND, shape.dimension)
        } else {
            (0..).zip(&vectors).for_each(|(key, vector)| model.hold(key, vector.clone()));
            builder.build(view(&vectors.concat(), shape.dimension))
        };
        Self { index: index.expect("valid parameters and vectors"), model }
    }

    fn play(mut self, steps: Vec<Step>) {
        self.model.verify(&self.index);
        for step in steps.into_iter().take(MAX_STEPS) {
            let before = self.bytes();
            if !self.take(step) {
                assert!(self.bytes() == before, "a call that fails or only reads leaves the index as it was");
            }
            self.model.verify(&self.index);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.index.to_bytes().expect("no device that could fail")
    }

    /// Makes a call, compares its result with what the model expects, and changes the model. Returns whether the index
    /// may have changed.
    fn take(&mut self, step: Step) -> bool {
        let Step { cancel, operation } = step;
        match operation {
            Operation::Insert { pairs, upsert, fault } => self.insert(pairs, upsert, fault, cancel),
            Operation::InsertOne { key: byte, vector, upsert } => {
                let (key, vector) = (key(byte), self.model.shape.vector::<T>(vector));
                let expected = self.model.expect_insert(&[key], &[&vector], upsert);
                let result = match upsert {
                    true => self.index.upsert(&vector, &[key]),
                    false => self.index.insert(&vector, &[key]),
                };
                if expected.compare(result).is_none() {
                    return false;
                }
                self.model.hold(key, vector);
                true
            }
            Operation::InsertAuto { vectors, copies } => self.insert_next(vectors, copies, cancel),
            Operation::Delete(keys) => self.delete(&keys.into_iter().map(key).collect::<Vec<_>>()),
            Operation::DeleteLive { from, count } => {
                let keys = self.model.live.keys().copied();
                let some: Vec<Key> =
                    keys.skip(from.into()).step_by(1 + usize::from(from % 3)).take(count.into()).collect();
                self.delete(&some)
            }
            Operation::Undelete(keys) => self.undelete(&keys.into_iter().map(key).collect::<Vec<_>>()),
            Operation::UndeleteAll => self.undelete(&self.model.deleted.keys().copied().collect::<Vec<_>>()),
            Operation::Consolidate => self.consolidate(cancel),
            Operation::Compact => {
                let stop = Stop::new(cancel);
                let result = self.index.with_progress(stop.report()).compact();
                stop.expect(Expected::Success).compare(result).is_some()
            }
            Operation::Rabitq(bits) => {
                self.quantize(Quantization::Rabitq { bits: u32::from(bits % 10) }, cancel)
            }
            Operation::Mixed(sectors) => {
                self.quantize(Quantization::Mixed { sectors: u32::from(sectors % 6) }, cancel)
            }
            Operation::DropCodes => {
                let dropped = Expected::success_if(self.model.has_vectors).compare(self.index.quantize(None));
                self.model.has_codes &= dropped.is_none();
                dropped.is_some()
            }
            Operation::DropVectors => {
                let dropped = Expected::success_if(self.model.has_codes).compare(self.index.drop_vectors());
                self.model.has_vectors &= dropped.is_none();
                dropped.is_some()
            }
            Operation::MeasureCodes => {
                let report = self.index.check().expect("no device that could fail");
                let is_measured = report.codes.is_some() || report.codes_not_measured.is_some();
                assert_eq!(is_measured, self.model.has_codes && self.model.has_vectors);
                false
            }
            Operation::Sketch => {
                Expected::Success.compare(self.index.quantize(QuantizeMode::Sketches)).is_none()
            }
            Operation::Reopen => {
                let bytes = self.bytes();
                self.index =
                    OpenOptions::new().threads(1).open_bytes(&bytes).expect("what is saved can be opened");
                assert!(self.bytes() == bytes, "the same index is the same file");
                self.model.limits = SearchLimits::new();
                false
            }
            Operation::Limit { k, beam_width, queries } => {
                let limit = |byte: u8| if byte == 255 { usize::MAX } else { byte.into() };
                self.model.limits = SearchLimits::new()
                    .max_k(limit(k))
                    .max_beam_width(limit(beam_width))
                    .max_queries(usize::from(queries % 4));
                self.index.set_limits(self.model.limits);
                assert_eq!(self.index.limits(), self.model.limits);
                false
            }
            Operation::Search(search) => {
                self.model.compare(&self.index, &search);
                false
            }
        }
    }

    /// `fault` makes some calls wrong: a key too many, or vectors of another dimension.
    fn insert(&mut self, pairs: Vec<(u8, [u8; 4])>, upsert: bool, fault: u8, cancel: u8) -> bool {
        if self.is_full() {
            return false;
        }
        let shape =
            Shape { dimension: self.model.shape.dimension + usize::from(fault == 0xFE), ..self.model.shape };
        let mut keys: Vec<Key> = pairs.iter().map(|pair| key(pair.0)).collect();
        keys.extend((fault == 0xFD).then_some(7));
        let vectors: Vec<Vec<T>> = pairs.iter().map(|pair| shape.vector(pair.1)).collect();
        let expected = self.model.expect_insert(&keys, &vectors, upsert);
        let expected = if fault == 0xFE { Expected::Failure } else { expected };
        let rows = vectors.concat();
        let rows = view(&rows, shape.dimension);
        let stop = Stop::new(cancel);
        let index = self.index.with_progress(stop.report());
        let result = if upsert { index.upsert(rows, &keys) } else { index.insert(rows, &keys) };
        let Some(report) = stop.expect(expected).compare(result) else { return false };
        assert_eq!(report.keys, keys.len());
        keys.into_iter().zip(vectors).for_each(|(key, vector)| self.model.hold(key, vector));
        true
    }

    /// Inserts variants of the vectors until there are `copies` of each, so that a few bytes make a large graph.
    fn insert_next(&mut self, vectors: Vec<[u8; 4]>, copies: u8, cancel: u8) -> bool {
        if self.is_full() {
            return false;
        }
        let shape = self.model.shape;
        let vectors: Vec<Vec<T>> = (0..=copies)
            .flat_map(|copy| vectors.iter().map(move |bytes| variant(*bytes, copy)))
            .take(MAX_VECTORS / 2)
            .map(|bytes| shape.vector(bytes))
            .collect();
        let expected = self.model.expect_insert_next(&vectors);
        let stop = Stop::new(cancel);
        let rows = vectors.concat();
        let result =
            self.index.with_progress(stop.report()).insert(view(&rows, shape.dimension), NewKeys::NEXT);
        let Some(report) = stop.expect(expected).compare(result) else { return false };
        let first = self.model.next_key;
        assert_eq!(report.first_key, (!vectors.is_empty()).then_some(first));
        (first..).zip(vectors).for_each(|(key, vector)| self.model.hold(key, vector));
        true
    }

    fn is_full(&self) -> bool {
        let stats = self.index.stats();
        stats.live_vertices + stats.tombstones + stats.free_slots > MAX_VECTORS
    }

    fn delete(&mut self, keys: &[Key]) -> bool {
        let Model { live, deleted, .. } = &mut self.model;
        let is_valid = is_distinct(keys) && keys.iter().all(|key| live.contains_key(key));
        let result = self.index.delete(keys);
        match &result {
            Ok(count) => assert_eq!(*count, keys.len()),
            Err(error) if let Some(UpdateError::RepeatedKey(_)) = error.downcast_ref() => {
                assert!(!is_distinct(keys))
            }
            Err(error) if let Some(KeyError::Deleted(key)) = error.downcast_ref() => {
                assert!(deleted.contains_key(key))
            }
            Err(error) if let Some(KeyError::Unknown(key)) = error.downcast_ref() => {
                assert!(!deleted.contains_key(key) && !live.contains_key(key));
            }
            Err(other) => panic!("{other}"),
        }
        let is_done = Expected::success_if(is_valid).compare(result).is_some();
        if is_done {
            deleted.extend(keys.iter().filter_map(|key| live.remove_entry(key)));
        }
        is_done
    }

    fn undelete(&mut self, keys: &[Key]) -> bool {
        let Model { live, deleted, .. } = &mut self.model;
        let is_valid = is_distinct(keys) && keys.iter().all(|key| deleted.contains_key(key));
        let is_done = Expected::success_if(is_valid).compare(self.index.undelete(keys)).is_some();
        if is_done {
            live.extend(keys.iter().filter_map(|key| deleted.remove_entry(key)));
        }
        is_done
    }

    fn consolidate(&mut self, cancel: u8) -> bool {
        let tombstones = self.index.stats().tombstones;
        let stop = Stop::new(cancel);
        let result = self.index.with_progress(stop.report()).consolidate();
        // Vectors are needed to repair the edges of those that are removed.
        let expected = stop.expect(Expected::success_if(self.model.has_vectors || tombstones == 0));
        let Some(report) = expected.compare(result) else { return false };
        assert_eq!((report.freed, self.index.stats().tombstones), (tombstones, 0));
        self.model.deleted.clear();
        true
    }

    fn quantize(&mut self, quantization: Quantization, cancel: u8) -> bool {
        let stop = Stop::new(cancel);
        let result = self.index.with_progress(stop.report()).quantize(QuantizeMode::Forced(quantization));
        let is_too_few = matches!(&result, Err(error) if matches!(error.downcast_ref(), Some(TrainError::TooFewVectors { .. })));
        assert!(!is_too_few || self.index.stats().live_vertices < 2);
        let can_train = self.model.has_vectors && !is_too_few;
        let expected = stop.expect(Expected::success_if(quantization.check().is_ok() && can_train));
        if expected.compare(result).is_none() {
            return false;
        }
        assert_eq!(self.index.stats().quantization, Some(quantization));
        self.model.has_codes = true;
        true
    }
}

/// Cancels a call at one of its reports, or at none.
#[derive(Clone)]
struct Stop {
    at: Option<u8>,
    reports: Arc<AtomicU32>,
}

impl Stop {
    fn new(cancel: u8) -> Self {
        Self { at: (cancel < 24).then_some(cancel), reports: Arc::default() }
    }

    /// The callback of the call.
    fn report(&self) -> impl FnMut(Progress) -> ControlFlow<()> + use<> {
        let stop = self.clone();
        move |progress| {
            assert!(progress.done <= progress.total, "{progress:?}");
            assert!(!stop.has_stopped(), "a report after the call was cancelled");
            stop.reports.fetch_add(1, Ordering::Relaxed);
            if stop.has_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    fn has_stopped(&self) -> bool {
        self.at.is_some_and(|at| self.reports.load(Ordering::Relaxed) > at.into())
    }

    /// What is expected of the call now that it has returned.
    fn expect(&self, uncancelled: Expected) -> Expected {
        if self.has_stopped() { Expected::Failure } else { uncancelled }
    }
}

fn is_distinct(keys: &[Key]) -> bool {
    keys.iter().collect::<BTreeSet<_>>().len() == keys.len()
}

/// Another vector in the same range of bytes; itself for copy 0.
fn variant(bytes: [u8; 4], copy: u8) -> [u8; 4] {
    let mixed = u32::from(copy).wrapping_mul(0x9E37_79B1).to_le_bytes();
    std::array::from_fn(|i| bytes[i] ^ (mixed[i] & 0x5F))
}
