//! Compares an index after any changes with a map from keys to vectors.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use jasper::{Element, Index, IndexBuilder, Key, Metric, NewKeys, OpenOptions, QuantizeMode};
use jasper_graph::KeyError;
use jasper_vamana::UpdateError;
use proptest::prelude::*;

use crate::common::{assert_exact, everything, floats, view};

const DIMENSION: usize = 2;

/// Coordinates are few, so that rows repeat and distances tie; none is zero, so that cosine takes them all.
type Row = [u8; DIMENSION];

/// One call of the library.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(Key, Row)>),
    InsertNext(Vec<Row>),
    Upsert(Vec<(Key, Row)>),
    Delete(Vec<Key>),
    Undelete(Vec<Key>),
    Consolidate,
    Compact,
    Reopen,
    Map,
    Sketch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..48_u64;
    let row = || prop::array::uniform2(1..8_u8);
    let pairs = move || prop::collection::vec((key(), row()), 0..8);
    let keys = move || prop::collection::vec(key(), 0..12);
    let step = prop_oneof![
        4 => pairs().prop_map(Step::Insert),
        2 => prop::collection::vec(row(), 0..12).prop_map(Step::InsertNext),
        3 => pairs().prop_map(Step::Upsert),
        // Keys that are there are found by the model: a list of any keys is refused nearly always.
        5 => keys().prop_map(Step::Delete),
        2 => keys().prop_map(Step::Undelete),
        3 => Just(Step::Consolidate),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Map),
        1 => Just(Step::Sketch),
    ];
    prop::collection::vec(step, 1..24)
}

/// What the index should hold.
#[derive(Clone, Debug, Default)]
struct Model {
    live: BTreeMap<Key, Row>,
    deleted: BTreeMap<Key, Row>,
    /// Rows that may still have a vertex, although no key has them any more.
    replaced: BTreeSet<Row>,
    /// The key after the largest that there ever was.
    next: Key,
}

impl Model {
    fn hold(&mut self, key: Key, row: Row) {
        let old = [self.deleted.remove(&key), self.live.insert(key, row)];
        self.replaced.extend(old.into_iter().flatten());
        self.next = self.next.max(key + 1);
    }
}

fn is_distinct(keys: &[Key]) -> bool {
    keys.iter().collect::<BTreeSet<_>>().len() == keys.len()
}

struct Subject<T: Element> {
    element: PhantomData<T>,
    index: Index,
    model: Model,
    folder: tempfile::TempDir,
}

impl<T: Element> Subject<T> {
    fn new(metric: Metric, max_degree: usize, first: &[(Key, Row)]) -> Self {
        let builder = IndexBuilder::new(metric).max_degree(max_degree).build_beam_width(8).threads(1);
        let mut model = Model::default();
        first.iter().for_each(|&(key, row)| model.hold(key, row));
        model.replaced.clear();
        let rows: Vec<T> = stored(model.live.values());
        let keys: Vec<Key> = model.live.keys().copied().collect();
        let index = builder.keys(&keys).build(view(&rows, DIMENSION)).unwrap();
        Self { element: PhantomData, index, model, folder: tempfile::tempdir().unwrap() }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Insert(pairs) => self.put(&pairs, false),
            Step::Upsert(pairs) => self.put(&pairs, true),
            Step::InsertNext(rows) => {
                let next = self.model.next;
                assert_eq!(self.index.stats().next_key, next);
                let inserted = self.index.insert(view(&stored::<T>(&rows), DIMENSION), NewKeys::NEXT);
                assert_eq!(inserted.unwrap().first_key, (!rows.is_empty()).then_some(next));
                (next..).zip(rows).for_each(|(key, row)| self.model.hold(key, row));
            }
            Step::Delete(keys) => self.delete(keys),
            Step::Undelete(keys) => self.undelete(keys),
            Step::Consolidate => self.consolidate(),
            Step::Sketch => drop(self.index.quantize(QuantizeMode::Sketches).unwrap()),
            Step::Compact => {
                self.index.compact().unwrap();
                assert_eq!(self.index.stats().free_slots, 0);
            }
            Step::Reopen | Step::Map => {
                let path = self.folder.path().join("model.jasper");
                self.index.save(&path).unwrap();
                let mapped = matches!(step, Step::Map);
                self.index = if mapped {
                    OpenOptions::new().mapped(true).open(&path).unwrap()
                } else {
                    Index::open(&path).unwrap()
                };
            }
        }
    }

    /// Whether rows of one direction are stored as one.
    fn goes_by_direction(&self) -> bool {
        self.index.stats().metric == Metric::Cosine && !T::EXACT_SUMS
    }

    fn are_same(&self, a: &Row, b: &Row) -> bool {
        let cross = |i: usize, j: usize| u16::from(a[i]) * u16::from(b[j]);
        a == b || self.goes_by_direction() && cross(0, 1) == cross(1, 0)
    }

    fn put(&mut self, pairs: &[(Key, Row)], replace: bool) {
        let keys: Vec<Key> = pairs.iter().map(|pair| pair.0).collect();
        let rows: Vec<T> = stored(pairs.iter().map(|pair| &pair.1));
        let rows = view(&rows, DIMENSION);
        let result = if replace { self.index.upsert(rows, &keys) } else { self.index.insert(rows, &keys) };
        if !is_distinct(&keys) {
            assert!(
                matches!(&result, Err(error) if matches!(error.downcast_ref(), Some(UpdateError::RepeatedKey(_))) || error.downcast_ref::<KeyError>().is_some()),
                "{result:?}"
            );
        } else if !replace && keys.iter().any(|key| self.model.live.contains_key(key)) {
            assert!(
                matches!(&result, Err(error) if matches!(error.downcast_ref(), Some(KeyError::Exists(_)))),
                "{result:?}"
            );
        } else {
            let report = result.unwrap();
            let Model { live, deleted, replaced, .. } = &self.model;
            let before: BTreeSet<&Row> = live.values().chain(deleted.values()).chain(replaced).collect();
            let new = pairs
                .iter()
                .map(|pair| pair.1)
                .filter(|row| !before.iter().any(|other| self.are_same(row, other)));
            let new: BTreeSet<Row> = new.collect();
            assert_eq!(report.keys, pairs.len());
            if !self.goes_by_direction() {
                assert!(report.duplicates <= pairs.len() - new.len(), "{report:?}: {new:?} are new");
            }
            pairs.iter().for_each(|&(key, row)| self.model.hold(key, row));
        }
    }

    /// Deletes the keys of the list that are live, then tries the whole list, which must change nothing.
    fn delete(&mut self, keys: Vec<Key>) {
        let live: BTreeSet<Key> =
            keys.iter().copied().filter(|key| self.model.live.contains_key(key)).collect();
        let live: Vec<Key> = live.into_iter().collect();
        assert_eq!(self.index.delete(&live).unwrap(), live.len());
        for key in live {
            let row = self.model.live.remove(&key).unwrap();
            self.model.deleted.insert(key, row);
        }
        match self.index.delete(&keys) {
            Ok(count) => assert!(count == 0 && keys.is_empty()),
            Err(ref error) if let Some(UpdateError::RepeatedKey(_)) = error.downcast_ref() => {
                assert!(!is_distinct(&keys))
            }
            Err(ref error) if let Some(KeyError::Deleted(key)) = error.downcast_ref() => {
                assert!(self.model.deleted.contains_key(key))
            }
            Err(ref error) if let Some(KeyError::Unknown(key)) = error.downcast_ref() => {
                assert!(!self.model.deleted.contains_key(key))
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Restores the keys of the list that can be, then tries the whole list, which must change nothing.
    fn undelete(&mut self, keys: Vec<Key>) {
        let known: BTreeSet<Key> =
            keys.iter().copied().filter(|key| self.model.deleted.contains_key(key)).collect();
        let known: Vec<Key> = known.into_iter().collect();
        self.index.undelete(&known).unwrap();
        for key in known {
            let row = self.model.deleted.remove(&key).unwrap();
            self.model.live.insert(key, row);
        }
        match self.index.undelete(&keys) {
            Ok(()) => assert!(keys.is_empty()),
            Err(ref error) if let Some(UpdateError::RepeatedKey(_)) = error.downcast_ref() => {
                assert!(!is_distinct(&keys))
            }
            Err(ref error) if let Some(KeyError::Live(key)) = error.downcast_ref() => {
                assert!(self.model.live.contains_key(key))
            }
            Err(ref error) if let Some(KeyError::Unknown(key)) = error.downcast_ref() => {
                assert!(!self.model.live.contains_key(key))
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn consolidate(&mut self) {
        let hidden = self.index.stats().tombstones;
        assert_eq!(self.index.consolidate().unwrap().freed, hidden);
        assert_eq!(self.index.stats().tombstones, 0);
        // Nothing can be restored, not even keys of vectors that other keys share.
        assert_eq!(deleted_keys(&self.index), BTreeSet::new());
        self.model.replaced.clear();
        self.model.deleted.clear();
    }

    /// Compares the results of all queries with the model.
    fn verify(&self, query: Row) {
        let Self { index, model, .. } = self;
        let check = index.check().unwrap();
        assert!(check.is_sound(), "{check:?}");
        assert_eq!(index.keys().into_iter().collect::<BTreeSet<_>>(), model.live.keys().copied().collect());
        assert_eq!(index.len(), model.live.len());
        assert_eq!(deleted_keys(index), model.deleted.keys().copied().collect());
        let query: Vec<T> = stored([&query]);
        let hits = everything(index, &query);
        assert_eq!(
            hits.iter().map(|hit| hit.key).collect::<BTreeSet<_>>(),
            model.live.keys().copied().collect()
        );
        assert_eq!(hits.len(), model.live.len(), "no key is an answer twice");
        let rows: BTreeMap<Key, Vec<T>> = model.live.iter().map(|(&key, row)| (key, stored([row]))).collect();
        assert_exact(index.stats().metric, &query, &hits, rows.iter().map(|(&key, row)| (key, &row[..])));
        for (&key, row) in &rows {
            if T::EXACT_SUMS || index.stats().metric != Metric::Cosine {
                assert_eq!(index.vector(key), Some(floats(row)));
            }
        }
    }
}

fn stored<'a, T: Element>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<T> {
    rows.into_iter().flatten().map(|&x| T::from_f32(f32::from(x))).collect()
}

fn play<T: Element>(metric: Metric, max_degree: usize, first: &[(Key, Row)], steps: Vec<Step>, query: Row) {
    let mut subject = Subject::<T>::new(metric, max_degree, first);
    subject.verify(query);
    for step in steps {
        subject.take(step);
        subject.verify(query);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_order_of_changes_is_a_map(
        element in 0..4,
        metric in 0..3_usize,
        max_degree in 1..7_usize,
        first in prop::collection::vec((0..48_u64, prop::array::uniform2(1..8_u8)), 0..40),
        steps in steps(),
        query in prop::array::uniform2(1..9_u8),
    ) {
        let metric = Metric::ALL[metric];
        match element {
            0 => play::<f32>(metric, max_degree, &first, steps, query),
            1 => play::<jasper::f16>(metric, max_degree, &first, steps, query),
            2 => play::<u8>(metric, max_degree, &first, steps, query),
            _ => play::<i8>(metric, max_degree, &first, steps, query),
        }
    }
}

fn deleted_keys(index: &Index) -> BTreeSet<Key> {
    index.read_graph(|graph| graph.keys().deleted_keys().collect()).unwrap()
}
