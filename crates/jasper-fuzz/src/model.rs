//! What an index should hold and return: a map from keys to vectors, searched by brute force.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Debug;

use arbitrary::Arbitrary;
use jasper::{
    Distances, Element, ElementKind, Filter, Hit, Index, Key, KeyFilter, MatrixView, Metric, NO_KEY,
    SearchLimits, SearchParams, Target,
};
use jasper_graph::Graph;

use crate::operations::key;

/// Whether a call should succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Success,
    Failure,
}

impl Expected {
    pub fn success_if(condition: bool) -> Self {
        if condition { Self::Success } else { Self::Failure }
    }

    /// Checks that a call succeeded or failed as expected, and returns the result.
    pub fn compare<R: Debug, E: Error>(self, result: Result<R, E>) -> Option<R> {
        match (self, result) {
            (Self::Success, Ok(result)) => Some(result),
            (Self::Success, Err(error)) => panic!("a valid call is refused: {error}"),
            (Self::Failure, Ok(result)) => panic!("an invalid or cancelled call succeeds: {result:?}"),
            (Self::Failure, Err(error)) => {
                assert!(!error.to_string().is_empty());
                None
            }
        }
    }
}

/// Metric and dimension, which decide what vectors are valid.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub metric: Metric,
    pub dimension: usize,
}

impl Shape {
    /// A vector that repeats four coordinates. Few values, so that vectors are equal and distances tie, and some
    /// extreme ones.
    pub fn vector<T: Element>(self, bytes: [u8; 4]) -> Vec<T> {
        let coordinate = |byte: u8| match (T::KIND, byte) {
            (ElementKind::U8, _) => f32::from(byte),
            (ElementKind::I8, _) => f32::from(byte.cast_signed()),
            (_, 0x80) => f32::NAN,
            (_, 0x81) => f32::NEG_INFINITY,
            (_, 0x82) => 1e19,
            (_, 0x83) => 5e17,
            (_, 0x84) => 1e-20,
            (_, 0x85) => f32::from_bits(1),
            (_, 0x86) => -0.0,
            (_, 0x87) => 6e4,
            (_, 0x88) => 6e-8,
            _ => f32::from(byte.cast_signed()) / 4.0,
        };
        (0..self.dimension).map(|i| T::from_f32(coordinate(bytes[i % 4]))).collect()
    }

    /// Whether an index takes the vector.
    pub fn is_valid<T: Element>(self, vector: &[T]) -> bool {
        let squared_norm = squared_norm(vector);
        vector.len() == self.dimension
            && squared_norm < f64::from(f32::MAX) / 8.0
            && (self.metric != Metric::Cosine || squared_norm > 0.0)
    }

    /// The distance by its definition.
    fn distance<T: Element>(self, a: &[T], b: &[T]) -> f64 {
        let pairs = || a.iter().zip(b).map(|(x, y)| (f64::from(x.to_f32()), f64::from(y.to_f32())));
        let dot: f64 = pairs().map(|(x, y)| x * y).sum();
        match self.metric {
            Metric::L2 => pairs().map(|(x, y)| (x - y).powi(2)).sum(),
            Metric::InnerProduct => -dot,
            Metric::Cosine => 1.0 - dot / (squared_norm(a).sqrt() * squared_norm(b).sqrt()),
        }
    }

    /// How far a returned distance may be from its definition.
    fn tolerance<T: Element>(self, a: &[T], b: &[T]) -> f64 {
        match (self.metric, T::KIND) {
            // Stored at unit length, in their own type.
            (Metric::Cosine, ElementKind::F16) => 4e-3,
            (Metric::Cosine, _) => 1e-6,
            (_, ElementKind::U8 | ElementKind::I8) => 0.0,
            _ => 1e-6 * (squared_norm(a) + squared_norm(b)) + 1e-40,
        }
    }
}

fn squared_norm<T: Element>(vector: &[T]) -> f64 {
    vector.iter().map(|x| f64::from(x.to_f32()).powi(2)).sum()
}

pub fn view<T: Element>(rows: &[T], dimension: usize) -> MatrixView<'_, T> {
    MatrixView::new(rows, dimension).expect("whole rows")
}

/// A search, as bytes.
#[derive(Arbitrary, Debug)]
pub struct Search {
    vector: [u8; 4],
    k: u8,
    /// None is a beam as wide as the index.
    beam_width: Option<u8>,
    filter: KeySet,
    distances: u8,
    call: Call,
}

#[derive(Arbitrary, Debug)]
enum KeySet {
    All,
    List(Vec<u8>),
    /// The keys that are this number modulo eight, of a set or of a predicate.
    Residue(u8, bool),
}

#[derive(Arbitrary, Debug)]
enum Call {
    Vector,
    Batch(u8),
    Key(u8),
    Within(u8),
}

/// What an index should hold.
pub struct Model<T> {
    pub shape: Shape,
    pub live: BTreeMap<Key, Vec<T>>,
    pub deleted: BTreeMap<Key, Vec<T>>,
    /// The key after the largest that there ever was.
    pub next_key: Key,
    pub has_codes: bool,
    pub has_vectors: bool,
    pub limits: SearchLimits,
}

impl<T: Element> Model<T> {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            live: BTreeMap::new(),
            deleted: BTreeMap::new(),
            next_key: 0,
            has_codes: false,
            has_vectors: true,
            limits: SearchLimits::new(),
        }
    }

    /// Adds a key, or replaces its vector.
    pub fn hold(&mut self, key: Key, vector: Vec<T>) {
        self.deleted.remove(&key);
        self.live.insert(key, vector);
        self.next_key = self.next_key.max(key + 1);
    }

    pub fn expect_insert(&self, keys: &[Key], vectors: &[impl AsRef<[T]>], upsert: bool) -> Expected {
        let distinct: BTreeSet<&Key> = keys.iter().collect();
        Expected::success_if(
            self.has_vectors
                && keys.len() == vectors.len()
                && distinct.len() == keys.len()
                && !keys.contains(&NO_KEY)
                && (upsert || !keys.iter().any(|key| self.live.contains_key(key)))
                && vectors.iter().all(|vector| self.shape.is_valid(vector.as_ref())),
        )
    }

    pub fn expect_insert_next(&self, vectors: &[Vec<T>]) -> Expected {
        Expected::success_if(
            self.has_vectors
                && self.next_key.checked_add(vectors.len() as Key).is_some()
                && vectors.iter().all(|vector| self.shape.is_valid(vector)),
        )
    }

    /// Compares all that an index holds.
    pub fn verify(&self, index: &Index) {
        let check = index.check().expect("no device that could fail");
        assert!(check.is_sound(), "{check:?}");
        assert_eq!(index.len(), self.live.len());
        assert_eq!(index.keys().into_iter().collect::<BTreeSet<_>>(), self.live.keys().copied().collect());
        let deleted = |graph: &Graph| graph.keys().deleted_keys().collect::<BTreeSet<_>>();
        let deleted = index.read_graph(deleted).expect("no device that could fail");
        assert_eq!(deleted, self.deleted.keys().copied().collect());
        let is_stored_as_given = self.shape.metric != Metric::Cosine || T::EXACT_SUMS;
        for (&key, vector) in &self.live {
            let stored = index.vector(key);
            assert_eq!(stored.is_some(), self.has_vectors);
            assert!(
                !is_stored_as_given
                    || stored.is_none_or(|stored| stored.into_iter().eq(vector.iter().map(|x| x.to_f32()))),
                "the vector of {key}"
            );
        }
        index.set_limits(SearchLimits::new());
        let query = self.shape.vector::<T>([3, 1, 2, 1]);
        let wide = SearchParams::new(self.widest(index)).beam_width(self.widest(index));
        let hits = index.search(&query, wide).expect("a valid search");
        let all: Vec<Key> = self.live.keys().copied().collect();
        self.compare_hits(&query, &hits, &all, wide, true);
        index.set_limits(self.limits);
    }

    /// A beam as wide as the index, and no less than the number of keys.
    fn widest(&self, index: &Index) -> usize {
        let stats = index.stats();
        (stats.live_vertices + stats.tombstones).max(self.live.len()).max(1)
    }

    /// Compares the result of a search.
    pub fn compare(&self, index: &Index, search: &Search) {
        let query = self.shape.vector::<T>(search.vector);
        let widest = self.widest(index);
        let k = usize::from(search.k);
        let beam_width = search.beam_width.map_or(widest.max(k), usize::from);
        let predicate = |residue: u8| move |key: Key| key % 8 == Key::from(residue % 8);
        let allowed: Vec<Key> = match &search.filter {
            KeySet::All => self.live.keys().copied().collect(),
            KeySet::List(keys) => keys.iter().map(|byte| key(*byte)).collect(),
            KeySet::Residue(residue, _) => (0..1024).filter(|key| predicate(*residue)(*key)).collect(),
        };
        let set = allowed.iter().copied().collect::<KeyFilter>();
        let allowed_by_predicate = |key| set.contains(key);
        let filter = match &search.filter {
            KeySet::All => None,
            KeySet::Residue(_, true) => Some(Filter::Predicate(&allowed_by_predicate)),
            _ => Some(Filter::Keys(&set)),
        };
        let distances = match search.distances {
            0..100 => Distances::Auto,
            100..200 => Distances::Exact,
            rerank => Distances::Quantized { rerank: usize::from(rerank - 200) },
        };
        let mut params = SearchParams::new(k).beam_width(beam_width).distances(distances);
        params.filter = filter;
        let mut allowed: Vec<Key> = allowed.into_iter().filter(|key| self.live.contains_key(key)).collect();
        allowed.sort_unstable();
        allowed.dedup();
        let queries = if let Call::Batch(queries) = search.call { usize::from(queries % 8) } else { 1 };
        let is_valid = k > 0
            && beam_width > 0
            && self.limits.check(&params, queries).is_ok()
            && match distances {
                Distances::Exact => self.has_vectors,
                Distances::Quantized { .. } => self.has_codes,
                Distances::Auto => true,
            };
        let is_valid_query = self.shape.is_valid(&query);
        let is_wide = beam_width >= widest;
        match search.call {
            Call::Vector => {
                let expected = Expected::success_if(is_valid && is_valid_query);
                if let Some(hits) = expected.compare(index.search(&query, params)) {
                    self.compare_hits(&query, &hits, &allowed, params, is_wide);
                }
            }
            Call::Batch(_) => {
                let rows = query.repeat(queries);
                let expected = Expected::success_if(is_valid && (is_valid_query || queries == 0));
                let result = index.search_batch(view(&rows, query.len()), params);
                let Some(matches) = expected.compare(result).filter(|_| queries > 0) else { return };
                index.set_limits(SearchLimits::new());
                let hits = index.search(&query, params).expect("as valid as the batch");
                index.set_limits(self.limits);
                for row in (0..queries).map(|query| query * k..(query + 1) * k) {
                    let (keys, distances) = (&matches.keys()[row.clone()], &matches.distances()[row]);
                    let found = keys.iter().zip(distances).map(|(&key, &distance)| Hit { key, distance });
                    let found: Vec<Hit> = found.take_while(|hit| hit.key != NO_KEY).collect();
                    assert_eq!(found, hits, "a batch finds what a search finds");
                }
                self.compare_hits(&query, &hits, &allowed, params, is_wide);
            }
            Call::Key(byte) => {
                let of = key(byte);
                let known = self.live.get(&of).filter(|_| self.has_vectors);
                let expected = Expected::success_if(is_valid && known.is_some());
                let hits = expected.compare(index.search(Target::key(of), params));
                if let (Some(hits), Some(vector)) = (hits, known) {
                    allowed.retain(|key| *key != of);
                    self.compare_hits(vector, &hits, &allowed, params, is_wide);
                }
            }
            Call::Within(byte) => {
                let radius = f32::from(byte.cast_signed()) * f32::from(byte.cast_signed()).abs() / 4.0;
                let result = index.search(Target::within(&query, radius), params);
                if self.limits != SearchLimits::new() && result.is_err() {
                    // The search is repeated with a wider beam, which the limits may refuse.
                    return;
                }
                let expected = Expected::success_if(is_valid && is_valid_query);
                let Some(hits) = expected.compare(result) else { return };
                assert!(hits.iter().all(|hit| hit.distance <= radius));
                let params = params.k(hits.len().max(1)).beam_width(beam_width.max(hits.len()));
                self.compare_hits(&query, &hits, &allowed, params, false);
                if is_wide && self.is_exact(params) {
                    let is_inside = |key: &&Key| {
                        let vector = &self.live[*key];
                        let slack = 2.0 * self.shape.tolerance(&query, vector);
                        self.shape.distance(&query, vector) + slack < f64::from(radius)
                    };
                    assert!(hits.len() >= allowed.iter().filter(is_inside).count());
                }
            }
        }
    }

    /// Whether hits have exact distances and are ordered by them.
    fn is_exact(&self, params: SearchParams<'_>) -> bool {
        self.has_vectors && !matches!(params.distances, Distances::Quantized { .. })
    }

    /// Compares hits with the keys that may be found. With a beam of the whole index, none is missing.
    fn compare_hits(
        &self,
        query: &[T],
        hits: &[Hit],
        allowed: &[Key],
        params: SearchParams<'_>,
        is_wide: bool,
    ) {
        let found: BTreeSet<Key> = hits.iter().map(|hit| hit.key).collect();
        assert_eq!(found.len(), hits.len(), "a key is found once: {hits:?}");
        assert!(hits.len() <= params.k);
        assert!(hits.iter().all(|hit| allowed.binary_search(&hit.key).is_ok()), "{hits:?} of {allowed:?}");
        assert!(hits.iter().all(|hit| !hit.distance.is_nan()), "{hits:?}");
        if is_wide {
            assert_eq!(hits.len(), params.k.min(allowed.len()), "{hits:?} of {allowed:?}");
        }
        if !self.is_exact(params) {
            return;
        }
        assert!(hits.is_sorted_by(|a, b| a.distance <= b.distance), "{hits:?}");
        let tolerance = |key: &Key| self.shape.tolerance(query, &self.live[key]);
        for hit in hits {
            let exact = self.shape.distance(query, &self.live[&hit.key]);
            let error = (f64::from(hit.distance) - exact).abs();
            assert!(error <= tolerance(&hit.key), "{} {:?}: {hit:?}, {exact}", T::KIND, self.shape);
        }
        if is_wide {
            let mut all: Vec<(f64, &Key)> =
                allowed.iter().map(|key| (self.shape.distance(query, &self.live[key]), key)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (hit, (exact, key)) in hits.iter().zip(all) {
                let slack = tolerance(&hit.key) + tolerance(key);
                assert!(f64::from(hit.distance) <= exact + slack, "{hit:?}, but {key} is at {exact}");
            }
        }
    }
}
