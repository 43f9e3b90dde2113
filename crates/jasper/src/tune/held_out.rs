//! Queries with known true neighbors: half for selection, half for validation.

use jasper_core::recall::{Truth, recall_at};
use jasper_core::synthetic::Permutation;
use jasper_core::{Element, Key, MatrixView, Slot};
use jasper_data::GroundTruth;
use jasper_vamana::{Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use super::TuneError;
use crate::error::Result;
use crate::typed::TypedIndex;

/// Queries to tune a search with, and their true neighbors.
pub(crate) struct HeldOut<T> {
    pub(super) selection: Half<T>,
    pub(super) validation: Half<T>,
    /// True neighbors per query.
    depth: usize,
}

/// Half of the queries.
#[derive(Default)]
pub(crate) struct Half<T> {
    dimension: usize,
    /// The queries, one after another.
    rows: Vec<T>,
    truths: Vec<Neighbors>,
    /// The keys of the queries, if these are vectors of the index; otherwise empty. A key is not a hit of its own
    /// search.
    own: Vec<Key>,
}

/// The true neighbors of a query, nearest first.
struct Neighbors {
    keys: Vec<Key>,
    distances: Option<Vec<f32>>,
}

/// Checks that there is a query for each half, and `k` neighbors of each.
fn check(queries: usize, depth: usize, k: usize) -> Result<()> {
    match queries {
        ..2 => Err(TuneError::Queries(queries).into()),
        _ if k > depth => Err(TuneError::Depth { k, depth }.into()),
        _ => Ok(()),
    }
}

/// The number of neighbors to find for each query: more than `k`, if there are, so that ties with the k-th are
/// recognized.
fn depth(k: usize, keys: usize) -> usize {
    k.saturating_mul(2).min(keys)
}

/// Minimum number of vectors of the index per sampled vector, so that the graph stays nearly the same.
const VECTORS_PER_SAMPLE: usize = 32;

impl<T: Element> HeldOut<T> {
    /// Splits queries and their true neighbors: those at even positions are for selection, those at odd ones for
    /// validation.
    pub(super) fn given(queries: MatrixView<'_, T>, truth: &GroundTruth) -> Result<Self> {
        if truth.len() != queries.len() {
            return Err(TuneError::Truths { queries: queries.len(), truths: truth.len() }.into());
        }
        let truths = (0..truth.len()).map(|query| {
            let Truth { ids, distances } = truth.truth(query);
            let keys = ids.iter().map(|&id| id.into()).collect();
            Neighbors { keys, distances: distances.map(<[f32]>::to_vec) }
        });
        Ok(Self::halve(queries.rows().zip(truths).map(|(row, truth)| (row, truth, None)), truth.k()))
    }

    /// Queries that are not in the index, and their neighbors: as many as asked for of what `nearest` finds, which gets
    /// the queries and the number of neighbors of each.
    pub(super) fn searched(
        index: &TypedIndex<T>,
        queries: MatrixView<'_, T>,
        k: usize,
        nearest: impl FnOnce(MatrixView<'_, T>, usize) -> Result<Vec<Vec<(Key, f32)>>, SearchError>,
    ) -> Result<Self> {
        let depth = depth(k, index.backend.read(|graph| graph.keys().len()));
        check(queries.len(), depth, k)?;
        let truths = nearest(queries, depth)?.into_iter().map(|nearest| {
            let (keys, distances) = nearest.into_iter().take(depth).unzip();
            Neighbors { keys, distances: Some(distances) }
        });
        Ok(Self::halve(queries.rows().zip(truths).map(|(row, truth)| (row, truth, None)), depth))
    }

    /// A sample of the index's vectors as queries, and their neighbors among all others: as many as asked for of what
    /// `nearest` finds, which gets the queries and the number of neighbors of each, itself included. Also returns the
    /// vertices of the sample, which must have no edges while it is searched for. The caller holds the writer lock.
    pub(crate) fn sampled(
        index: &TypedIndex<T>,
        count: usize,
        k: usize,
        seed: u64,
        nearest: impl FnOnce(MatrixView<'_, T>, usize) -> Result<Vec<Vec<(Key, f32)>>, SearchError>,
    ) -> Result<(Self, Vec<Slot>), SearchError> {
        let (sample, rows, keys) = index.backend.read(|graph| {
            graph.require_vectors()?;
            // Vertices of several keys are not sampled, nor are start points, without whose edges a search finds
            // nothing.
            let single_key = |slot: Slot| {
                let mut keys =
                    graph.keys().keys_of(slot).filter(|_| !graph.adjacency().start_points().contains(&slot));
                keys.next().filter(|_| keys.next().is_none()).map(|key| (slot, key))
            };
            let order = Permutation::new(graph.slots(), seed);
            let slots = (0..graph.slots() as u32).map(|position| Slot::new(order.at(position)));
            let sample: Vec<_> = slots
                .filter_map(single_key)
                .take(count.min(graph.keys().live() / VECTORS_PER_SAMPLE))
                .collect();
            let rows: Vec<T> =
                sample.iter().flat_map(|&(slot, _)| graph.vectors().get(slot)).copied().collect();
            Ok::<_, SearchError>((sample, rows, graph.keys().len()))
        })?;
        let depth = depth(k, keys.saturating_sub(1));
        let queries = MatrixView::new(&rows, index.dimension()).expect("whole rows");
        let truths = nearest(queries, depth + 1)?.into_iter().zip(&sample).map(|(nearest, &(_, own))| {
            let others = nearest.into_iter().filter(|&(key, _)| key != own);
            let (keys, distances) = others.take(depth).unzip();
            Neighbors { keys, distances: Some(distances) }
        });
        let own = sample.iter().map(|&(_, key)| Some(key));
        let queries = queries.rows().zip(truths).zip(own).map(|((row, truth), own)| (row, truth, own));
        Ok((Self::halve(queries, depth), sample.into_iter().map(|(slot, _)| slot).collect()))
    }

    fn halve<'a>(queries: impl Iterator<Item = (&'a [T], Neighbors, Option<Key>)>, depth: usize) -> Self {
        let mut halves = [Half::default(), Half::default()];
        for (i, (row, truth, own)) in queries.enumerate() {
            halves[i % 2].push(row, truth, own);
        }
        let [selection, validation] = halves;
        Self { selection, validation, depth }
    }

    /// Number of queries, in both halves.
    pub(crate) fn len(&self) -> usize {
        self.selection.truths.len() + self.validation.truths.len()
    }

    /// Both halves.
    pub(crate) fn halves(&self) -> [&Half<T>; 2] {
        [&self.selection, &self.validation]
    }

    /// Checks that each half has a query, and each query `k` neighbors.
    pub(super) fn check(&self, k: usize) -> Result<()> {
        check(self.len(), self.depth, k)
    }
}

impl<T: Element> Half<T> {
    fn push(&mut self, row: &[T], truth: Neighbors, own: Option<Key>) {
        self.dimension = row.len();
        self.rows.extend_from_slice(row);
        self.truths.push(truth);
        self.own.extend(own);
    }

    /// The queries, repeated to at least `batch`.
    pub(super) fn at_least(&self, batch: usize) -> Vec<T> {
        let count = batch.max(self.truths.len());
        self.rows.iter().copied().cycle().take(count * self.dimension).collect()
    }

    /// The mean recall@k of a search with this beam width.
    pub(crate) fn recall(
        &self,
        k: usize,
        beam_width: usize,
        search: impl FnOnce(
            MatrixView<'_, T>,
            SearchParams<'_>,
            MatchesMut<'_>,
        ) -> Result<SearchReport, SearchError>,
    ) -> Result<f64, SearchError> {
        // A vector of the index is a hit of its own search, and takes an entry of the frontier and of the results.
        let own = usize::from(!self.own.is_empty());
        let params = SearchParams::new(k + own).beam_width(beam_width + own);
        let queries = MatrixView::new(&self.rows, self.dimension).expect("rows are pushed whole");
        let mut matches = Matches::new(queries.len(), params.k)?;
        search(queries, params, matches.as_mut())?;
        let recalls = matches.iter().zip(&self.truths).enumerate().map(|(query, (hits, truth))| {
            let own = self.own.get(query).copied();
            let found: Vec<Key> = hits.map(|hit| hit.key).filter(|&key| Some(key) != own).take(k).collect();
            recall_at(k, &found, Truth { ids: &truth.keys, distances: truth.distances.as_deref() })
        });
        Ok(recalls.sum::<f64>() / self.truths.len() as f64)
    }
}
