//! Queries with known true neighbors: half for selection, half for validation.

use jasper_core::recall::{Truth, recall_at};
use jasper_core::synthetic::Permutation;
use jasper_core::{Key, Slot, VectorBuffer, VectorView};
use jasper_data::GroundTruth;
use jasper_graph::VectorError;
use jasper_vamana::{Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use super::TuneError;
use crate::error::Result;
use crate::inner::IndexInner;

/// Queries to tune a search with, and their true neighbors.
pub(crate) struct HeldOut {
    pub(super) selection: Half,
    pub(super) validation: Half,
    /// True neighbors per query.
    depth: usize,
}

/// Half of the queries.
#[derive(Default)]
pub(crate) struct Half {
    /// `None` if there are no queries.
    queries: Option<VectorBuffer>,
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

impl HeldOut {
    /// Splits queries and their true neighbors: those at even positions are for selection, those at odd ones for
    /// validation.
    pub(super) fn given(queries: &[VectorView<'_>], truth: &GroundTruth) -> Result<Self> {
        if truth.len() != queries.len() {
            return Err(TuneError::Truths { queries: queries.len(), truths: truth.len() }.into());
        }
        let truths = (0..truth.len()).map(|query| {
            let Truth { ids, distances } = truth.truth(query);
            let keys = ids.iter().map(|&id| id.into()).collect();
            Neighbors { keys, distances: distances.map(<[f32]>::to_vec) }
        });
        let given = queries.iter().zip(truths).map(|(&query, truth)| (query, truth, None));
        Ok(Self::halve(given, truth.k()))
    }

    /// Queries that are not in the index, and their neighbors: as many as asked for of what `nearest` finds, which gets
    /// the queries and the number of neighbors of each.
    pub(super) fn searched(
        index: &IndexInner,
        queries: &[VectorView<'_>],
        k: usize,
        nearest: impl FnOnce(&[VectorView<'_>], usize) -> Result<Vec<Vec<(Key, f32)>>, SearchError>,
    ) -> Result<Self> {
        let depth = depth(k, index.backend.read(|graph| graph.keys().len()));
        check(queries.len(), depth, k)?;
        let truths = nearest(queries, depth)?.into_iter().map(|nearest| {
            let (keys, distances) = nearest.into_iter().take(depth).unzip();
            Neighbors { keys, distances: Some(distances) }
        });
        Ok(Self::halve(queries.iter().zip(truths).map(|(&query, truth)| (query, truth, None)), depth))
    }

    /// A sample of the index's vectors as queries, and their neighbors among all others: as many as asked for of what
    /// `nearest` finds, which gets the queries and the number of neighbors of each, itself included. Also returns the
    /// vertices of the sample, which must have no edges while it is searched for. The caller holds the writer lock.
    pub(crate) fn sampled(
        index: &IndexInner,
        count: usize,
        k: usize,
        seed: u64,
        nearest: impl FnOnce(&[VectorView<'_>], usize) -> Result<Vec<Vec<(Key, f32)>>, SearchError>,
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
            let mut rows =
                VectorBuffer::new(graph.element(), graph.dimension()).map_err(VectorError::from)?;
            rows.extend(sample.iter().map(|&(slot, _)| graph.vectors().view(slot)));
            Ok::<_, SearchError>((sample, rows, graph.keys().len()))
        })?;
        let depth = depth(k, keys.saturating_sub(1));
        let queries: Vec<_> = rows.rows().collect();
        let truths = nearest(&queries, depth + 1)?.into_iter().zip(&sample).map(|(nearest, &(_, own))| {
            let others = nearest.into_iter().filter(|&(key, _)| key != own);
            let (keys, distances) = others.take(depth).unzip();
            Neighbors { keys, distances: Some(distances) }
        });
        let own = sample.iter().map(|&(_, key)| Some(key));
        let queries = rows.rows().zip(truths).zip(own).map(|((query, truth), own)| (query, truth, own));
        Ok((Self::halve(queries, depth), sample.into_iter().map(|(slot, _)| slot).collect()))
    }

    fn halve<'a>(
        queries: impl Iterator<Item = (VectorView<'a>, Neighbors, Option<Key>)>,
        depth: usize,
    ) -> Self {
        let mut halves = [Half::default(), Half::default()];
        for (i, (query, truth, own)) in queries.enumerate() {
            halves[i % 2].push(query, truth, own);
        }
        let [selection, validation] = halves;
        Self { selection, validation, depth }
    }

    /// Number of queries, in both halves.
    pub(crate) fn len(&self) -> usize {
        self.selection.truths.len() + self.validation.truths.len()
    }

    /// Both halves.
    pub(crate) fn halves(&self) -> [&Half; 2] {
        [&self.selection, &self.validation]
    }

    /// Checks that each half has a query, and each query `k` neighbors.
    pub(super) fn check(&self, k: usize) -> Result<()> {
        check(self.len(), self.depth, k)
    }
}

impl Half {
    fn push(&mut self, query: VectorView<'_>, truth: Neighbors, own: Option<Key>) {
        match &mut self.queries {
            Some(queries) => queries.extend([query]),
            None => self.queries = Some(query.into()),
        }
        self.truths.push(truth);
        self.own.extend(own);
    }

    fn rows(&self) -> impl Iterator<Item = VectorView<'_>> + Clone {
        self.queries.iter().flat_map(VectorBuffer::rows)
    }

    /// The queries, repeated to at least `batch`.
    pub(super) fn at_least(&self, batch: usize) -> Vec<VectorView<'_>> {
        self.rows().cycle().take(batch.max(self.truths.len())).collect()
    }

    /// The mean recall@k of a search with this beam width.
    pub(crate) fn recall(
        &self,
        k: usize,
        beam_width: usize,
        search: impl FnOnce(
            &[VectorView<'_>],
            SearchParams<'_>,
            MatchesMut<'_>,
        ) -> Result<SearchReport, SearchError>,
    ) -> Result<f64, SearchError> {
        // A vector of the index is a hit of its own search, and takes an entry of the frontier and of the results.
        let own = usize::from(!self.own.is_empty());
        let params = SearchParams::new(k + own).beam_width(beam_width + own);
        let queries: Vec<_> = self.rows().collect();
        let mut matches = Matches::new(queries.len(), params.k)?;
        search(&queries, params, matches.as_mut())?;
        let recalls = matches.iter().zip(&self.truths).enumerate().map(|(query, (hits, truth))| {
            let own = self.own.get(query).copied();
            let found: Vec<Key> = hits.map(|hit| hit.key).filter(|&key| Some(key) != own).take(k).collect();
            recall_at(k, &found, Truth { ids: &truth.keys, distances: truth.distances.as_deref() })
        });
        Ok(recalls.sum::<f64>() / self.truths.len() as f64)
    }
}
