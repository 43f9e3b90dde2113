//! Bounds of what one search may ask for.

use jasper_vamana::{SearchError, SearchParams};

use crate::error::Result;

/// Bounds of what one search may ask for. A service that passes on parameters of its clients sets them, because the
/// memory and the time of a search are proportional to them. There are none by default.
///
/// ```
/// use jasper::{IndexBuilder, MatrixView, Metric, SearchLimits, SearchParams};
///
/// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
/// index.set_limits(SearchLimits::new().max_k(100).max_beam_width(1000).max_queries(10_000));
/// let error = index.search(&[1_u8, 2], SearchParams::new(101)).unwrap_err();
/// assert!(error.to_string().starts_with("k (101) must be at most 100"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchLimits {
    /// The largest `k`.
    pub max_k: usize,
    /// The widest beam that a caller may set. The default, the larger of 64 and 2 `k`, is bounded by [`Self::max_k`]. Where
    /// tombstones or a filter exclude vertices, a beam is wider than asked for, by those expected among the nearest.
    pub max_beam_width: usize,
    /// Most queries of a batch.
    pub max_queries: usize,
}

impl SearchLimits {
    /// No bounds.
    pub const fn new() -> Self {
        Self { max_k: usize::MAX, max_beam_width: usize::MAX, max_queries: usize::MAX }
    }

    /// Sets the largest `k`.
    #[must_use]
    pub const fn max_k(self, max_k: usize) -> Self {
        Self { max_k, ..self }
    }

    /// Sets the widest beam.
    #[must_use]
    pub const fn max_beam_width(self, max_beam_width: usize) -> Self {
        Self { max_beam_width, ..self }
    }

    /// Sets the most queries of a batch.
    #[must_use]
    pub const fn max_queries(self, max_queries: usize) -> Self {
        Self { max_queries, ..self }
    }

    /// Checks a search for `queries` queries, as the methods of an index do. For callers that split a batch.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidParameter`](crate::ErrorKind::InvalidParameter) for the first value that is too
    /// large.
    pub fn check(&self, params: &SearchParams<'_>, queries: usize) -> Result<()> {
        Ok(self.find_exceeded(params, queries)?)
    }

    pub(crate) fn find_exceeded(&self, params: &SearchParams<'_>, queries: usize) -> Result<(), SearchError> {
        let asked = [
            ("k", params.k, self.max_k),
            ("beam_width", params.beam_width.unwrap_or(0), self.max_beam_width),
            ("the number of queries", queries, self.max_queries),
        ];
        let exceeded = asked.into_iter().find(|(_, value, max)| value > max);
        exceeded.map_or(Ok(()), |(name, value, max)| Err(SearchError::Limit { name, value, max }))
    }
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self::new()
    }
}
