//! Filters: which keys a search may return.

use std::fmt;
use std::sync::Arc;

use jasper_attributes::{Expression, Predicate};
use jasper_core::Key;
use jasper_graph::{Graph, KeyFilter};

use crate::SearchError;
use crate::mutable::Reading;

/// Which keys a search may return.
#[derive(Clone, Copy)]
pub enum Filter<'a> {
    /// A set of keys.
    Keys(&'a KeyFilter),
    /// The keys whose attributes an expression selects.
    Where(&'a Expression),
    /// The keys for which this returns true. Called from many threads, in any order, more than once per key.
    /// It may read the index, and must not change it.
    Predicate(&'a (dyn Fn(Key) -> bool + Sync)),
    /// One filter for each query of a batch.
    PerQuery(&'a [Filter<'a>]),
}

impl<'a> From<&'a KeyFilter> for Filter<'a> {
    fn from(keys: &'a KeyFilter) -> Self {
        Self::Keys(keys)
    }
}

impl<'a> From<&'a Expression> for Filter<'a> {
    fn from(expression: &'a Expression) -> Self {
        Self::Where(expression)
    }
}

impl<'a> From<&'a [Filter<'a>]> for Filter<'a> {
    fn from(filters: &'a [Filter<'a>]) -> Self {
        Self::PerQuery(filters)
    }
}

impl<'a, F: Fn(Key) -> bool + Sync> From<&'a F> for Filter<'a> {
    fn from(allows: &'a F) -> Self {
        Self::Predicate(allows)
    }
}

/// Filters are equal if they share a set of keys, or if their expressions are equal. A predicate equals nothing, not even
/// itself.
impl PartialEq for Filter<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Keys(a), Self::Keys(b)) => a.ptr_eq(b),
            (Self::Where(a), Self::Where(b)) => a == b,
            (Self::PerQuery(a), Self::PerQuery(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Debug for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(keys) => keys.fmt(f),
            Self::Where(expression) => expression.fmt(f),
            Self::Predicate(_) => f.write_str("a predicate"),
            Self::PerQuery(filters) => write!(f, "{} filters", filters.len()),
        }
    }
}

/// The filter of one search, on a graph.
#[derive(Clone)]
pub(crate) enum BoundFilter<'a> {
    /// Allows every key.
    None,
    Keys(&'a KeyFilter),
    Where(Arc<Predicate<'a>>),
    Predicate(&'a (dyn Fn(Key) -> bool + Sync)),
}

impl<'a> BoundFilter<'a> {
    /// # Errors
    /// Returns [`SearchError::Filter`] if an expression does not fit the attributes, and [`SearchError::Filters`] for
    /// filters of several queries.
    pub(crate) fn new(graph: &'a Graph, filter: Option<Filter<'a>>) -> Result<Self, SearchError> {
        Ok(match filter {
            None => Self::None,
            Some(Filter::Keys(keys)) => Self::Keys(keys),
            Some(Filter::Where(expression)) => {
                Self::Where(Arc::new(graph.keys().attributes().bind(expression)?))
            }
            Some(Filter::Predicate(allows)) => Self::Predicate(allows),
            Some(Filter::PerQuery(filters)) => {
                return Err(SearchError::Filters { given: filters.len(), queries: 1 });
            }
        })
    }

    pub(crate) fn allows(&self, key: Key) -> bool {
        match self {
            Self::None => true,
            Self::Keys(keys) => keys.contains(key),
            Self::Where(predicate) => predicate.matches_live(key),
            // Called by threads of a search, for which another has locked the graph.
            Self::Predicate(allows) => {
                let _reading = Reading::begin();
                allows(key)
            }
        }
    }

    /// How many keys it allows, about and at most, if that is known without asking it for each key.
    pub(crate) fn estimate(&self) -> Option<(usize, usize)> {
        match self {
            Self::Keys(keys) => Some((keys.len(), keys.len())),
            Self::Where(predicate) if predicate.has_columns() => {
                let estimate = predicate.estimate();
                Some((estimate.likely, estimate.most))
            }
            Self::None | Self::Where(_) | Self::Predicate(_) => None,
        }
    }
}

impl fmt::Debug for BoundFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "every key",
            Self::Keys(_) => "a set of keys",
            Self::Where(_) => "an expression",
            Self::Predicate(_) => "a predicate",
        })
    }
}
