//! What users ask of a search, and what they get: the nearest live keys, past tombstones and through filters.

use jasper_core::Cancelled;
use jasper_graph::{KeyError, VectorError};

use crate::{Filter, SearchCost, TunedLaunch};

/// What is asked of a search.
///
/// ```
/// use jasper_vamana::{Filter, SearchParams};
/// let even = |key| key % 2 == 0;
/// let params = SearchParams::new(10).beam_width(100).filter(Filter::Predicate(&even));
/// assert_eq!((params.k, params.beam_width), (10, 100));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SearchParams<'a> {
    /// Answers wanted for each query; at least 1.
    pub k: usize,
    /// Frontier of the search: recall against time. At least `k`.
    pub beam_width: usize,
    /// Which keys may be answers; all, if none.
    pub filter: Option<Filter<'a>>,
    /// Distances used for traversal.
    pub distances: Distances,
    /// Launch parameters on a GPU; by default those that suit the batch and the beam width. Ignored on the CPU.
    pub launch: Option<TunedLaunch>,
}

/// Distances used for traversal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distances {
    /// Estimated distances with a rerank of the whole frontier if the index is quantized, else exact ones.
    #[default]
    Auto,
    /// Exact distances; refused if the vectors were dropped.
    Exact,
    /// Estimated distances. At the end the nearest `rerank` entries of the frontier get exact distances and are ordered by them,
    /// if the index has vectors; with 0, results have estimated distances. Each extra one reads one vector and raises recall. If
    /// fewer than k are reranked, those come first, then the others by estimated distance.
    Quantized {
        /// How many get exact distances.
        rerank: usize,
    },
}

impl<'a> SearchParams<'a> {
    /// `k` answers, with a frontier of 64 or, where that is more, of 2 `k`: recall near 0.99 on most data. Where a device
    /// has no room for 2 `k`, the frontier is as wide as it has.
    pub const fn new(k: usize) -> Self {
        Self {
            k,
            beam_width: if k > 32 { k.saturating_mul(2) } else { 64 },
            filter: None,
            distances: Distances::Auto,
            launch: None,
        }
    }

    /// The same where no frontier is wider than `widest`: one that `k` alone asks for is no wider either.
    pub(crate) fn within(mut self, widest: usize) -> Self {
        if self.k <= widest && self.beam_width == Self::new(self.k).beam_width {
            self.beam_width = self.beam_width.min(widest);
        }
        self
    }

    /// Sets the frontier: recall against time, nearly in proportion.
    #[must_use]
    pub const fn beam_width(mut self, beam_width: usize) -> Self {
        self.beam_width = beam_width;
        self
    }

    /// Returns only keys that pass. A filter that few pass is answered by an exact scan of those.
    #[must_use]
    pub const fn filter(mut self, filter: Filter<'a>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets by which distances the search finds its way.
    #[must_use]
    pub const fn distances(mut self, distances: Distances) -> Self {
        self.distances = distances;
        self
    }

    /// Sets how a GPU shares the work out, as it was tuned for this graph.
    #[must_use]
    pub const fn launch(mut self, launch: TunedLaunch) -> Self {
        self.launch = Some(launch);
        self
    }
}

/// A search was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// `k` is 0.
    #[error("k (0) must be at least 1")]
    NoAnswers,
    /// The frontier cannot hold the answers.
    #[error("beam_width ({beam_width}) must be at least k ({k}); raise beam_width or lower k")]
    BeamWidth {
        /// Frontier asked for.
        beam_width: usize,
        /// Answers asked for.
        k: usize,
    },
    /// There is nothing to estimate distances from.
    #[error(
        "estimated distances were asked of an index without codes; make some with `Index::quantize`, or ask for exact ones"
    )]
    NoCodes,
    /// The caller's buffer has another size.
    #[error("the buffer holds {given} answers where {queries} queries of k ({k}) need {}", queries.saturating_mul(*k))]
    Buffer {
        /// Answers the buffer holds.
        given: usize,
        /// Queries asked.
        queries: usize,
        /// Answers a query.
        k: usize,
    },
    /// There is no memory for so many answers.
    #[error(
        "no memory for the answers of {queries} queries of k ({k}); lower k, or ask fewer queries at once"
    )]
    Memory {
        /// Queries asked.
        queries: usize,
        /// Answers a query.
        k: usize,
    },
    /// A query cannot be searched for.
    #[error("query: {0}")]
    Vector(VectorError),
    /// The progress callback cancelled a long search.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The key whose vector is searched for is not in the index.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The frontier is wider than the device has room for.
    #[error(
        "beam_width ({beam_width}) must be at most {widest} on this device; lower beam_width, or search on the cpu"
    )]
    Widest {
        /// Frontier asked for.
        beam_width: usize,
        /// The widest there is.
        widest: usize,
    },
    /// A device cannot share the work out like that.
    #[error("{name} ({value}) of the launch must be {bound}")]
    Launch {
        /// Which part of it.
        name: &'static str,
        /// The value given.
        value: u32,
        /// What it must be.
        bound: &'static str,
    },
    /// The device failed: with the feature `cuda` of the crate `jasper` this is its `cuda::Error`.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
}

/// Search statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SearchReport {
    /// What it cost, all queries together.
    pub cost: SearchCost,
    /// Queries that were answered by an exact scan, because so few points match that it is cheaper or surer.
    pub scanned: usize,
    /// Exact distances of vertices found by estimates, all queries together; they are part of the work's distances.
    pub reranked: u64,
}

impl std::ops::AddAssign for SearchReport {
    fn add_assign(&mut self, other: Self) {
        self.cost += other.cost;
        self.scanned += other.scanned;
        self.reranked += other.reranked;
    }
}

impl From<VectorError> for SearchError {
    fn from(error: VectorError) -> Self {
        Self::Vector(error)
    }
}

impl SearchError {
    /// The failure of a device.
    pub fn device(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Device(Box::new(error))
    }
}
