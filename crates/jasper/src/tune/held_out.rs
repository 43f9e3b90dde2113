//! Queries whose true neighbors are known: half to choose with, half to confirm.

use jasper_core::recall::{Truth, recall_at};
use jasper_core::{Element, Key, MatrixView, ProgressFn, VectorId, synthetic};
use jasper_data::GroundTruth;
use jasper_graph::Graph;
use jasper_vamana::{CpuExecutor, Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use super::TuneError;
use crate::Index;

/// Queries to tune a search with, and their true neighbors.
pub(crate) struct HeldOut<T> {
    pub(super) chooses: Half<T>,
    pub(super) confirms: Half<T>,
    /// True neighbors known of each query.
    depth: usize,
}

/// Half of the queries.
pub(crate) struct Half<T> {
    dimension: usize,
    /// The queries, one behind the other.
    rows: Vec<T>,
    truths: Vec<Neighbors>,
    /// The key of each query, if it is a row of the index, and then no answer to itself.
    own: Option<Vec<Key>>,
}

/// The true neighbors of a query, nearest first.
struct Neighbors {
    keys: Vec<Key>,
    distances: Option<Vec<f32>>,
}

/// Of so many rows one may be held out: the graph must stay nearly what it is.
const ROWS_A_SAMPLE: usize = 32;

impl<T: Element> HeldOut<T> {
    /// Queries with the truth about them: those in even places choose, those in odd ones confirm.
    pub(super) fn given(queries: MatrixView<'_, T>, truth: &GroundTruth) -> Result<Self, TuneError> {
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

    /// A sample of the index's vectors as queries, and their true neighbors among all others. Also the vertices of the
    /// sample, which must have no edges while it is searched for.
    pub(crate) fn sampled(
        index: &Index<T>,
        count: usize,
        k: usize,
        seed: u64,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Self, Vec<VectorId>), TuneError> {
        index.backend.read(|graph| Self::sample(graph, &index.executor, count, k, seed, progress))
    }

    fn sample(
        graph: &Graph<T>,
        executor: &CpuExecutor,
        count: usize,
        k: usize,
        seed: u64,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Self, Vec<VectorId>), TuneError> {
        graph.require_vectors().map_err(SearchError::from)?;
        // Rows that stand for several keys are not taken, and not where searches begin: nothing would be found at all.
        let alone = |slot: VectorId| {
            let mut keys =
                graph.keys().keys_of(slot).filter(|_| !graph.adjacency().start_points().contains(&slot));
            keys.next().filter(|_| keys.next().is_none()).map(|key| (slot, key))
        };
        let alone: Vec<(VectorId, Key)> = graph.keys().live_slots().filter_map(alone).collect();
        let order = synthetic::permutation(alone.len(), seed).into_iter();
        let sample: Vec<_> = order
            .take(count.min(graph.keys().live() / ROWS_A_SAMPLE))
            .map(|place| alone[place as usize])
            .collect();
        let rows: Vec<T> = sample.iter().flat_map(|&(slot, _)| graph.vectors().get(slot)).copied().collect();
        // Deeper than k, so that rows as far away as the k-th are seen; there are no more than all the others.
        let depth = k.saturating_mul(2).min(graph.keys().len().saturating_sub(1));
        let queries = MatrixView::new(&rows, graph.dimension()).map_err(|_| TuneError::Queries(0))?;
        let nearest = executor.nearest(graph, queries, depth + 1, progress)?;
        let truths = nearest.into_iter().zip(&sample).map(|(nearest, &(own, _))| {
            let others = nearest.into_iter().filter(|near| near.id() != own);
            let (keys, distances): (Vec<Key>, Vec<f32>) = others
                .flat_map(|near| graph.keys().keys_of(near.id()).map(move |key| (key, near.distance())))
                .take(depth)
                .unzip();
            Neighbors { keys, distances: Some(distances) }
        });
        let own = sample.iter().map(|&(_, key)| Some(key));
        let held_out = Self::halve(
            queries.rows().zip(truths).zip(own).map(|((row, truth), own)| (row, truth, own)),
            depth,
        )?;
        Ok((held_out, sample.into_iter().map(|(slot, _)| slot).collect()))
    }

    fn halve<'a>(
        queries: impl Iterator<Item = (&'a [T], Neighbors, Option<Key>)>,
        depth: usize,
    ) -> Result<Self, TuneError> {
        let mut halves = [Half::new(), Half::new()];
        for (i, (row, truth, own)) in queries.enumerate() {
            halves[i % 2].push(row, truth, own);
        }
        let [chooses, confirms] = halves;
        let held_out = Self { chooses, confirms, depth };
        if held_out.len() < 2 { Err(TuneError::Queries(held_out.len())) } else { Ok(held_out) }
    }

    /// Queries there are, in both halves.
    pub(crate) fn len(&self) -> usize {
        self.chooses.truths.len() + self.confirms.truths.len()
    }

    /// Both halves.
    pub(crate) fn halves(&self) -> [&Half<T>; 2] {
        [&self.chooses, &self.confirms]
    }

    pub(super) fn check_depth(&self, k: usize) -> Result<(), TuneError> {
        if k > self.depth { Err(TuneError::Depth { k, depth: self.depth }) } else { Ok(()) }
    }
}

impl<T: Element> Half<T> {
    fn new() -> Self {
        Self { dimension: 0, rows: Vec::new(), truths: Vec::new(), own: None }
    }

    fn push(&mut self, row: &[T], truth: Neighbors, own: Option<Key>) {
        self.dimension = row.len();
        self.rows.extend_from_slice(row);
        self.truths.push(truth);
        if let Some(key) = own {
            self.own.get_or_insert_default().push(key);
        }
    }

    /// The queries over and over: a batch of so many, or all of them where they are more.
    pub(super) fn at_least(&self, batch: usize) -> Vec<T> {
        let count = batch.max(self.truths.len());
        self.rows.iter().copied().cycle().take(count * self.dimension).collect()
    }

    /// The mean recall@k of a search with a frontier of `beam_width`.
    pub(crate) fn recall(
        &self,
        k: usize,
        beam_width: usize,
        search: impl FnOnce(
            MatrixView<'_, T>,
            SearchParams<'_>,
            MatchesMut<'_>,
        ) -> Result<SearchReport, SearchError>,
    ) -> Result<f64, TuneError> {
        // A row of the index is met by its own search, and takes a place of the frontier and of the answers.
        let itself = usize::from(self.own.is_some());
        let params = SearchParams::new(k + itself).beam_width(beam_width + itself);
        let queries = MatrixView::new(&self.rows, self.dimension).expect("rows are pushed whole");
        let mut matches = Matches::new(queries.len(), params.k)?;
        search(queries, params, matches.as_mut())?;
        let recalls = matches.iter().zip(&self.truths).enumerate().map(|(query, (hits, truth))| {
            let own = self.own.as_ref().map(|own| own[query]);
            let found: Vec<Key> = hits.map(|hit| hit.key).filter(|&key| Some(key) != own).take(k).collect();
            recall_at(k, &found, Truth { ids: &truth.keys, distances: truth.distances.as_deref() })
        });
        Ok(recalls.sum::<f64>() / self.truths.len() as f64)
    }
}
