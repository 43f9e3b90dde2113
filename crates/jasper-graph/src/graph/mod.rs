//! Vectors and the edges between them: what is stored, and what may be asked of it.
//!
//! | module | holds |
//! | --- | --- |
//! | `change` | the few ways a graph changes |
//! | `keys` | which keys it has, and whose they are |
//! | `memory` | what of it is in memory, and how much |
//! | `over` | the same graph over other rows, for a while |
//! | `vectors` | rows into slots, by one thread or many |

mod change;
mod keys;
mod memory;
mod over;
mod vectors;

pub use over::TakenRows;
pub use vectors::VectorBlock;

use jasper_core::{
    BitSet, BuildParams, Element, Key, MAX_DIMENSION, MatrixError, MatrixView, Metric, VectorId, padded_len,
};

use crate::changes::Changes;
use crate::journal::Journal;
use crate::keys::KeyTable;
use crate::space::{Scorer, Space, needs_norms};
use crate::{Segments, TunedSearch, VectorError};

/// A Vamana graph over vectors of one element type: see the [crate page](crate) for an example.
///
/// A slot is *live* (it has a key and is returned), *tombstone* (traversed, never returned: a deleted vertex, or a new
/// vertex whose batch is not finished), or *free* (no edge leads there, its memory is used by the next insert).
#[derive(Debug)]
pub struct Graph<T: 'static> {
    pub(crate) params: BuildParams,
    pub(crate) space: Space<T>,
    /// `slots x max_degree`; what lies behind a row's degree means nothing.
    pub(crate) adjacency: Segments<VectorId>,
    pub(crate) degrees: Segments<u16>,
    pub(crate) keys: KeyTable,
    /// Slots that are tombstones.
    pub(crate) tombstones: BitSet,
    /// Slots that are free.
    pub(crate) free: BitSet,
    /// Where searches begin; empty only when no vertex was ever linked.
    pub(crate) start_points: Vec<VectorId>,
    /// Vertices linked since it was last known that all live ones can be reached.
    pub(crate) unchecked: usize,
    /// The key after the largest there ever was.
    pub(crate) next_key: Key,
    /// In [`TunedSearch::order`], one for each device, k, target and batch.
    pub(crate) tuned: Vec<TunedSearch>,
    pub(crate) journal: Option<Journal>,
    /// What a copy elsewhere has yet to follow, if there is one.
    pub(crate) changes: Option<Changes>,
}

impl<T: Element> Graph<T> {
    /// A graph without vertices for vectors of `dimension` coordinates.
    ///
    /// # Errors
    /// [`MatrixError::Dimension`].
    pub fn new(metric: Metric, dimension: usize, params: BuildParams) -> Result<Self, MatrixError> {
        if dimension == 0 || dimension > MAX_DIMENSION {
            return Err(MatrixError::Dimension(dimension));
        }
        Ok(Self {
            params,
            space: Space {
                metric,
                dimension,
                vectors: Segments::new(padded_len::<T>(dimension)),
                has_vectors: true,
                squared_norms: needs_norms(metric, T::EXACT).then(|| Segments::new(1)),
                largest_squared_norm: 0.0,
                sketches: None,
                codes: None,
            },
            adjacency: Segments::new(params.max_degree()),
            degrees: Segments::new(1),
            keys: KeyTable::new(),
            tombstones: BitSet::new(),
            free: BitSet::new(),
            start_points: Vec::new(),
            unchecked: 0,
            next_key: 0,
            tuned: Vec::new(),
            journal: None,
            changes: None,
        })
    }

    /// The parameters it is built with.
    pub fn params(&self) -> &BuildParams {
        &self.params
    }

    /// How near two vectors are.
    pub fn metric(&self) -> Metric {
        self.space.metric
    }

    /// Coordinates of a vector.
    pub fn dimension(&self) -> usize {
        self.space.dimension
    }

    /// Slots there are: live, tombstones and free.
    pub fn slots(&self) -> usize {
        self.degrees.len()
    }

    /// Slots that a search can return.
    pub fn live(&self) -> usize {
        self.slots() - self.tombstones.len() - self.free.len()
    }

    /// Slots that are walked through and never returned.
    pub fn tombstones(&self) -> usize {
        self.tombstones.len()
    }

    /// Slots without a vertex.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Live keys. More than [`Self::live`] when rows are identical.
    pub fn keys(&self) -> usize {
        self.live() + self.keys.shared()
    }

    /// Live keys that share their vertex with an earlier key of the same row.
    pub fn shared_keys(&self) -> usize {
        self.keys.shared()
    }

    /// Whether the slot has a vertex that a search may return.
    #[inline]
    pub fn is_live(&self, slot: VectorId) -> bool {
        slot.index() < self.slots() && !self.is_tombstone(slot) && !self.is_free(slot)
    }

    /// Whether each of 32 slots, from the `word`-th 32 on, is [live](Self::is_live): a bit each, from the lowest on.
    pub fn live_word(&self, word: usize) -> u32 {
        let of = |set: &BitSet| set.words().get(word).copied().unwrap_or(0);
        let there = match self.slots().saturating_sub(word * 32) {
            slots @ 0..32 => (1 << slots) - 1,
            _ => u32::MAX,
        };
        there & !of(&self.tombstones) & !of(&self.free)
    }

    /// Whether the slot has a vertex that is walked through and never returned.
    #[inline]
    pub fn is_tombstone(&self, slot: VectorId) -> bool {
        self.tombstones.contains(slot.index())
    }

    /// Whether the slot has no vertex.
    #[inline]
    pub fn is_free(&self, slot: VectorId) -> bool {
        self.free.contains(slot.index())
    }

    /// All live slots, rising.
    pub fn live_slots(&self) -> impl Iterator<Item = VectorId> + '_ {
        (0..self.slots()).map(VectorId::from_index).filter(|&slot| self.is_live(slot))
    }

    /// All slots that have a vertex, live or tombstone, rising.
    pub fn vertices(&self) -> impl Iterator<Item = VectorId> + '_ {
        (0..self.slots()).map(VectorId::from_index).filter(|&slot| !self.is_free(slot))
    }

    /// Where searches begin.
    pub fn start_points(&self) -> &[VectorId] {
        &self.start_points
    }

    /// Out-edges of a vertex.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn neighbors(&self, slot: VectorId) -> &[VectorId] {
        &self.adjacency.row(slot.index())[..self.degrees.at(slot.index()) as usize]
    }

    /// Asks the memory system for the out-edges of a vertex that will be read soon.
    #[inline]
    pub fn prefetch_neighbors(&self, slot: VectorId) {
        jasper_core::distance::prefetch(self.adjacency.row(slot.index()));
        jasper_core::distance::prefetch(self.degrees.row(slot.index()));
    }

    /// The vector of a slot, padded; at unit length where the metric is cosine and the element a float.
    ///
    /// # Panics
    /// If there is no such slot, or not [`Self::has_vectors`].
    #[inline]
    pub fn padded_vector(&self, slot: VectorId) -> &[T] {
        self.space.vectors.row(slot.index())
    }

    /// The vector of a slot, as [`Self::padded_vector`] without the padding.
    pub fn vector(&self, slot: VectorId) -> &[T] {
        &self.padded_vector(slot)[..self.dimension()]
    }

    /// Squared lengths of the vectors, one a slot, where the metric needs them.
    pub fn squared_norms(&self) -> Option<&Segments<f32>> {
        self.space.squared_norms.as_ref()
    }

    /// No vector has a larger squared length; 0 where the metric needs none.
    pub fn largest_squared_norm(&self) -> f32 {
        self.space.largest_squared_norm
    }

    /// What the slack of a prune counts distances from: nothing, but for inner products the least negated product that there
    /// can be. Of rows of one length, a product so counted is half of squared L2, and the slack means the same.
    pub fn slack_origin(&self) -> f32 {
        if self.metric() == Metric::InnerProduct { self.largest_squared_norm() } else { 0.0 }
    }

    /// Turns the coordinates of a user's vector into a row as it is stored: padded with zeros, and of unit length
    /// where the metric is cosine and the element a float. Gives the squared length before that.
    ///
    /// # Errors
    /// [`VectorError`], naming `row`.
    pub fn prepare(&self, row: usize, vector: &[T], out: &mut Vec<T>) -> Result<f32, VectorError> {
        crate::vector::prepare(self.metric(), self.dimension(), row, vector, out)
    }

    /// [`Self::prepare`] of many, one behind the other.
    ///
    /// # Errors
    /// [`VectorError`], naming the row.
    pub fn prepare_all(&self, vectors: MatrixView<'_, T>) -> Result<Vec<T>, VectorError> {
        let mut all = Vec::with_capacity(vectors.len() * self.space.vectors.width());
        let mut prepared = Vec::new();
        for (row, vector) in vectors.rows().enumerate() {
            self.prepare(row, vector, &mut prepared)?;
            all.extend_from_slice(&prepared);
        }
        Ok(all)
    }

    /// Distances of a prepared query in the user's metric.
    ///
    /// # Panics
    /// If `prepared` is not as long as a padded row.
    pub fn scorer<'a>(&'a self, prepared: &'a [T]) -> Scorer<'a, T> {
        assert_eq!(prepared.len(), self.space.vectors.width(), "a query is prepared before it is scored");
        self.space.query_scorer(prepared)
    }

    /// Distances of a stored row to others, by which the graph is built: in the user's metric.
    pub fn row_scorer(&self, slot: VectorId) -> Scorer<'_, T> {
        self.space.row_scorer(slot)
    }

    /// Vertices linked since it was last known that every live one can be reached.
    pub fn unchecked(&self) -> usize {
        self.unchecked
    }

    /// Searches that were measured to reach a recall, by device, target, k and batch.
    pub fn tuned(&self) -> &[TunedSearch] {
        &self.tuned
    }

    /// A number that changes when vertices come, go or get other edges: the checksum of what the file's section `params`
    /// says of the graph, its edges counted. Cost: a pass over the degrees.
    pub fn state(&self) -> u32 {
        crate::file::state(self)
    }
}
