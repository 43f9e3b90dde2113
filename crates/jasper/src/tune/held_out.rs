//! Queries whose true neighbours are known: half to choose with, half to confirm.

use jasper_build::{Hit, SearchError, SearchParams, SearchReport};
use jasper_core::recall::{Truth, recall_at};
use jasper_core::{Element, Key, MatrixView, ProgressFn, VectorId, synthetic};
use jasper_data::GroundTruth;

use super::TuneError;
use crate::Index;

/// Queries to tune a search with, and their true neighbours.
#[derive(Clone, Debug)]
pub struct HeldOut<T> {
    chooses: Half<T>,
    confirms: Half<T>,
    /// True neighbours known of each query.
    depth: usize,
}

/// Half of the queries.
#[derive(Clone, Debug)]
pub(super) struct Half<T> {
    dimension: usize,
    /// The queries, one behind the other.
    rows: Vec<T>,
    truths: Vec<Neighbors>,
    /// The key of each query, if it is a row of the index, and then no answer to itself.
    own: Option<Vec<Key>>,
}

/// The true neighbours of a query, nearest first.
#[derive(Clone, Debug, Default)]
struct Neighbors {
    keys: Vec<Key>,
    distances: Option<Vec<f32>>,
}

impl<T: Element> HeldOut<T> {
    /// Queries of one's own, with their true neighbours, such as [`jasper_data::exact_knn`] finds: those in even places
    /// choose, those in odd ones confirm. What the index is asked in earnest is best.
    ///
    /// # Errors
    /// [`TuneError::Queries`] and [`TuneError::Truths`].
    pub fn new(queries: MatrixView<'_, T>, truth: &GroundTruth) -> Result<Self, TuneError> {
        if truth.len() != queries.len() {
            return Err(TuneError::Truths { queries: queries.len(), truths: truth.len() });
        }
        let truths = (0..truth.len()).map(|query| {
            let Truth { ids, distances } = truth.truth(query);
            let keys = ids.iter().map(|&id| id.into()).collect();
            Neighbors { keys, distances: distances.map(<[f32]>::to_vec) }
        });
        Self::halve(queries.rows().zip(truths).map(|(row, truth)| (row, truth, None)), truth.k())
    }

    /// A seeded sample of the index's own rows, `queries` of them or as many as there are, each searched for without
    /// itself: its exact neighbours are found by looking at every row but it, and a search is asked for one answer more
    /// and not credited with the row. Rows that are identical to others are not taken.
    ///
    /// Real queries may be harder to answer than rows of the index, which edges lead away from in all directions, and for
    /// inner products they often are of another kind than the rows: prefer [`Self::new`] where there are some.
    ///
    /// Cost: a distance for each query and live vertex, on all threads.
    ///
    /// # Errors
    /// [`TuneError::Queries`], [`TuneError::Exact`].
    pub fn sample(
        index: &Index<T>,
        queries: usize,
        k: usize,
        seed: u64,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Self, TuneError> {
        let graph = index.graph();
        let alone: Vec<(VectorId, Key)> = graph
            .live_slots()
            .filter_map(|slot| {
                let mut keys = graph.keys_of(slot);
                keys.next().filter(|_| keys.next().is_none()).map(|key| (slot, key))
            })
            .collect();
        let order = synthetic::permutation(alone.len(), seed);
        let sample: Vec<_> = order.into_iter().take(queries).map(|place| alone[place as usize]).collect();
        let rows: Vec<T> = sample.iter().flat_map(|&(slot, _)| graph.vector(slot)).copied().collect();
        // Deeper than k, so that rows as far away as the k-th are seen.
        let depth = 2 * k;
        let view = MatrixView::new(&rows, graph.dimension()).map_err(|_| TuneError::Queries(0))?;
        let nearest = index.executor.nearest(graph, view, depth + 1, progress)?;
        let truths = nearest.into_iter().zip(&sample).map(|(nearest, &(own, _))| {
            let others = nearest.into_iter().filter(|near| near.id() != own);
            let (keys, distances): (Vec<Key>, Vec<f32>) = others
                .flat_map(|near| graph.keys_of(near.id()).map(move |key| (key, near.distance())))
                .take(depth)
                .unzip();
            Neighbors { keys, distances: Some(distances) }
        });
        let own = sample.iter().map(|&(_, key)| Some(key));
        Self::halve(view.rows().zip(truths).zip(own).map(|((row, truth), own)| (row, truth, own)), depth)
    }

    fn halve<'a>(
        queries: impl Iterator<Item = (&'a [T], Neighbors, Option<Key>)>,
        depth: usize,
    ) -> Result<Self, TuneError> {
        let mut halves = [Half::default(), Half::default()];
        let mut count = 0;
        for (row, truth, own) in queries {
            halves[count % 2].push(row, truth, own);
            count += 1;
        }
        let [chooses, confirms] = halves;
        if count < 2 { Err(TuneError::Queries(count)) } else { Ok(Self { chooses, confirms, depth }) }
    }

    /// Queries there are, in both halves.
    pub fn len(&self) -> usize {
        self.chooses.truths.len() + self.confirms.truths.len()
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn check_depth(&self, k: usize) -> Result<(), TuneError> {
        if k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if k > self.depth { Err(TuneError::Depth { k, depth: self.depth }) } else { Ok(()) }
    }

    pub(super) fn chooses(&self) -> &Half<T> {
        &self.chooses
    }

    pub(super) fn confirms(&self) -> &Half<T> {
        &self.confirms
    }

    /// So many queries one behind the other: those that choose, over and over.
    pub(super) fn batch(&self, queries: usize) -> Vec<T> {
        let Half { rows, dimension, .. } = &self.chooses;
        rows.iter().copied().cycle().take(queries * dimension).collect()
    }
}

impl<T: Element> Half<T> {
    fn push(&mut self, row: &[T], truth: Neighbors, own: Option<Key>) {
        self.dimension = row.len();
        self.rows.extend_from_slice(row);
        self.truths.push(truth);
        if let Some(key) = own {
            self.own.get_or_insert_default().push(key);
        }
    }

    /// The mean recall@k of a search with a frontier of `beam_width`.
    pub(super) fn recall(
        &self,
        k: usize,
        beam_width: usize,
        search: impl FnOnce(MatrixView<'_, T>, SearchParams<'_>, &mut [Hit]) -> Result<SearchReport, SearchError>,
    ) -> Result<f64, TuneError> {
        // The row itself is among its answers.
        let asked = k + usize::from(self.own.is_some());
        let params = SearchParams::new(asked).beam_width(beam_width.max(asked));
        let queries = MatrixView::new(&self.rows, self.dimension).expect("rows are pushed whole");
        let mut hits = params.places(queries.len())?;
        search(queries, params, &mut hits)?;
        let recalls = hits.chunks_exact(asked).zip(&self.truths).enumerate().map(|(query, (hits, truth))| {
            let own = self.own.as_ref().map(|own| own[query]);
            let others = hits.iter().filter(|hit| **hit != Hit::NONE && Some(hit.key) != own);
            let answers: Vec<Key> = others.map(|hit| hit.key).take(k).collect();
            recall_at(k, &answers, Truth { ids: &truth.keys, distances: truth.distances.as_deref() })
        });
        Ok(recalls.sum::<f64>() / self.truths.len() as f64)
    }
}

impl<T> Default for Half<T> {
    fn default() -> Self {
        Self { dimension: 0, rows: Vec::new(), truths: Vec::new(), own: None }
    }
}
