//! Parameters, errors and statistics of a search.

use std::ops::Range;

use jasper_attributes::ExpressionError;
use jasper_core::{Cancelled, DeviceError};
use jasper_graph::{KeyError, VectorError};

use crate::{Filter, LaunchParams, OperationCounts};

/// Parameters of a search.
///
/// ```
/// use jasper_vamana::SearchParams;
/// let even = |key: u64| key % 2 == 0;
/// let params = SearchParams::new(10).beam_width(100).filter(&even);
/// assert_eq!((params.k, params.beam_width), (10, Some(100)));
/// assert_eq!(SearchParams::new(50).effective_beam_width(), 100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchParams<'a> {
    /// Hits wanted per query; at least 1.
    pub k: usize,
    /// A search expands this many of the nearest vertices that it finds: a wider beam finds more and takes longer. At
    /// least 1; the frontier has room for `k` entries even if the beam is narrower. `None` is 64 or 2 `k`, whichever is
    /// larger: recall near 0.99 on most data. Where a filter or tombstones exclude vertices, the beam is wider by those
    /// expected among the nearest.
    pub beam_width: Option<usize>,
    /// Which keys may be returned; all, if `None`.
    pub filter: Option<Filter<'a>>,
    /// Distances used for traversal.
    pub distances: Distances,
    /// Launch parameters on a GPU; `None` chooses them by batch and beam width. Ignored on the CPU.
    pub launch: Option<LaunchParams>,
}

/// How distances are computed: those that lead through the graph, and those of the hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distances {
    /// If the index is quantized, estimated distances, with a rerank of the whole frontier; else exact ones. Hits have
    /// estimated distances only if the vectors were dropped.
    #[default]
    Auto,
    /// Exact distances; refused if the vectors were dropped.
    Exact,
    /// Estimated distances. At the end the nearest `rerank` entries of the frontier get exact distances and are ordered
    /// by them, if the index has vectors; with 0, results have estimated distances. Each further entry reads one vector
    /// and raises recall. If fewer than k entries are reranked, they come first, then the others by estimated distance.
    Quantized {
        /// Number of entries that get exact distances.
        rerank: usize,
    },
}

impl<'a> SearchParams<'a> {
    /// `k` hits per query, with the default beam width, which a device may limit to its largest.
    pub const fn new(k: usize) -> Self {
        Self { k, beam_width: None, filter: None, distances: Distances::Auto, launch: None }
    }

    /// The beam width, or its default for `k`.
    pub const fn effective_beam_width(&self) -> usize {
        match self.beam_width {
            Some(beam_width) => beam_width,
            None if self.k > 32 => self.k.saturating_mul(2),
            None => 64,
        }
    }

    /// Checks `k` and the beam width, as every search does. A device has a limit of both.
    ///
    /// # Errors
    /// Returns [`SearchError::ZeroK`] or [`SearchError::ZeroBeamWidth`].
    pub fn check(&self) -> Result<(), SearchError> {
        match (self.k, self.effective_beam_width()) {
            (0, _) => Err(SearchError::ZeroK),
            (_, 0) => Err(SearchError::ZeroBeamWidth),
            _ => Ok(()),
        }
    }

    /// Limits a default beam width to `max_beam_width`, but not below `k`.
    pub(crate) fn within(self, max_beam_width: usize) -> Self {
        let default = || self.effective_beam_width().min(max_beam_width.max(self.k));
        Self { beam_width: Some(self.beam_width.unwrap_or_else(default)), ..self }
    }

    /// Sets the number of hits per query.
    #[must_use]
    pub const fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Sets the beam width. Time is nearly proportional to it.
    #[must_use]
    pub const fn beam_width(mut self, beam_width: usize) -> Self {
        self.beam_width = Some(beam_width);
        self
    }

    /// Sets the filter: a reference to a [`KeyFilter`](jasper_graph::KeyFilter), to an
    /// [`Expression`](jasper_attributes::Expression) on attributes, to a predicate, or to a slice of such filters, one for
    /// each query of a batch. Only keys that it allows are returned. If it allows few, the search is an exact scan of those.
    #[must_use]
    pub fn filter(mut self, filter: impl Into<Filter<'a>>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// The parameters of one query of a batch: those of the batch, with the filter of the query.
    #[must_use]
    pub fn of_query(mut self, query: usize) -> Self {
        if let Some(Filter::PerQuery(filters)) = self.filter {
            self.filter = Some(filters[query]);
        }
        self
    }

    /// The parameters of consecutive queries of a batch: those of the batch, with the filters of the queries.
    #[must_use]
    pub fn of_queries(mut self, queries: Range<usize>) -> Self {
        if let Some(Filter::PerQuery(filters)) = self.filter {
            self.filter = Some(Filter::PerQuery(&filters[queries]));
        }
        self
    }

    /// Checks that there is one filter, or one for each query.
    ///
    /// # Errors
    /// Returns [`SearchError::Filters`].
    pub fn check_filters(&self, queries: usize) -> Result<(), SearchError> {
        match self.filter {
            Some(Filter::PerQuery(filters)) if filters.len() != queries => {
                Err(SearchError::Filters { given: filters.len(), queries })
            }
            _ => Ok(()),
        }
    }

    /// The parameters without their filter, and the filter.
    pub fn split_filter(self) -> (SearchParams<'static>, Option<Filter<'a>>) {
        let Self { k, beam_width, filter, distances, launch } = self;
        (SearchParams { k, beam_width, filter: None, distances, launch }, filter)
    }

    /// Sets the distances used for traversal.
    #[must_use]
    pub const fn distances(mut self, distances: Distances) -> Self {
        self.distances = distances;
        self
    }

    /// Sets the launch parameters on a GPU. `None` chooses them by batch and beam width.
    #[must_use]
    pub fn launch(mut self, launch: impl Into<Option<LaunchParams>>) -> Self {
        self.launch = launch.into();
        self
    }
}

/// A search was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// `k` is 0.
    #[error("k (0) must be at least 1")]
    ZeroK,
    /// The beam width is 0.
    #[error("beam_width (0) must be at least 1")]
    ZeroBeamWidth,
    /// Estimated distances need quantized codes.
    #[error(
        "the index has no codes to estimate distances from; quantize it (`Index::quantize`, `jasper quantize`), or search with exact distances"
    )]
    NoCodes,
    /// The caller's buffer has another size.
    #[error("the buffer holds {given} hits where {queries} queries of k ({k}) need {}", queries.saturating_mul(*k))]
    Buffer {
        /// Hits the buffer holds.
        given: usize,
        /// Number of queries.
        queries: usize,
        /// Hits wanted per query.
        k: usize,
    },
    /// Memory for the results cannot be allocated.
    #[error(
        "no memory for the results of {queries} queries of k ({k}); lower k, or search for fewer queries at once"
    )]
    Memory {
        /// Number of queries.
        queries: usize,
        /// Hits wanted per query.
        k: usize,
    },
    /// There is not one query where one is searched for.
    #[error("there are {0} queries where one is searched for; search for several with `search_batch`")]
    OneQuery(usize),
    /// There is another number of filters than of queries.
    #[error("there are {given} filters for {queries} queries; give one for each query, or one for all")]
    Filters {
        /// Filters given.
        given: usize,
        /// Number of queries.
        queries: usize,
    },
    /// Queries in device memory have a filter each.
    #[error(
        "queries in device memory have one filter for all; search with a filter for each by `search_batch`"
    )]
    EnqueuedFilters,
    /// An expression does not fit the attributes of the index.
    #[error("filter: {0}")]
    Filter(#[from] ExpressionError),
    /// A query cannot be searched for.
    #[error("query: {0}")]
    Vector(VectorError),
    /// The progress callback cancelled a long search.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The key whose vector is searched for is not in the index.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The beam width is larger than the device supports.
    #[error(
        "beam_width ({beam_width}) must be at most {max_beam_width} on this device; lower beam_width, or search on the cpu"
    )]
    BeamWidthLimit {
        /// The beam width requested.
        beam_width: usize,
        /// The largest beam width of the device.
        max_beam_width: usize,
    },
    /// A search for all keys within a radius, or for one page after another, has more hits than its device finds.
    #[error(
        "a query has more than the {0} hits that a search on this device finds; give a smaller radius or ask for fewer \
         pages, or search on the cpu"
    )]
    HitLimit(usize),
    /// The search asks for more than the limits of the index allow.
    #[error(
        "{name} ({value}) must be at most {max}, the limit of this index; lower it, or raise the limit (`set_limits`)"
    )]
    Limit {
        /// What is limited.
        name: &'static str,
        /// The value given.
        value: usize,
        /// The largest value.
        max: usize,
    },
    /// A launch parameter is out of range.
    #[error("{name} ({value}) of the launch parameters must be {bound}")]
    Launch {
        /// Name of the parameter.
        name: &'static str,
        /// The value given.
        value: u32,
        /// The range.
        bound: &'static str,
    },
    /// A submitted search outlives the call, but a predicate is only borrowed for it.
    #[error(
        "a predicate cannot filter a submitted search; collect the keys into a KeyFilter, or call `search`"
    )]
    SubmittedPredicate,
    /// The operating system refused a thread, for submitted searches or for those of several devices.
    #[error("a thread for searches could not be started; end other threads, or raise the limit of processes")]
    Thread(#[source] std::io::Error),
    /// The device failed, or the index is not on one.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Search statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SearchReport {
    /// Operations performed, for all queries together.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub cost: OperationCounts,
    /// Queries that were executed as an exact scan, because the filter allows few keys, or because tombstones or the
    /// filter left fewer than `k` hits.
    pub scanned: usize,
    /// Exact distances computed by reranks, for all queries together; included in the cost.
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
    pub fn device(error: impl Into<DeviceError>) -> Self {
        Self::Device(error.into())
    }

    /// The same error, with another number for the row that it names, if it names one.
    #[must_use]
    pub fn map_row(self, map: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::Vector(error) => Self::Vector(error.map_row(map)),
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_default_beam_width_is_limited_to_that_of_a_device() {
        let on_device = |params: SearchParams<'_>| params.within(1024).effective_beam_width();
        assert_eq!([10, 600, 1024, 1500].map(|k| on_device(SearchParams::new(k))), [64, 1024, 1024, 1500]);
        assert_eq!(on_device(SearchParams::new(1000).beam_width(2000)), 2000);
        assert_eq!(SearchParams::new(1000).within(usize::MAX).effective_beam_width(), 2000);
    }
}
