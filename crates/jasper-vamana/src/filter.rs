//! Filters: which keys a search may return.

use std::fmt;

use jasper_core::Key;
use jasper_graph::KeyFilter;

use crate::mutable::reading;

/// Which keys a search may return.
#[derive(Clone, Copy)]
pub enum Filter<'a> {
    /// A set of keys.
    Keys(&'a KeyFilter),
    /// The keys for which this returns true. Called from many threads, in any order, more than once per key.
    /// It may read the index, and must not change it.
    Predicate(&'a (dyn Fn(Key) -> bool + Sync)),
}

impl Filter<'_> {
    /// Whether the filter allows `key`.
    pub fn allows(&self, key: Key) -> bool {
        match self {
            Self::Keys(keys) => keys.contains(key),
            // Called by threads of a search, for which another has locked the graph.
            Self::Predicate(allows) => reading(|| allows(key)),
        }
    }
}

impl<'a> From<&'a KeyFilter> for Filter<'a> {
    fn from(keys: &'a KeyFilter) -> Self {
        Self::Keys(keys)
    }
}

impl<'a, F: Fn(Key) -> bool + Sync> From<&'a F> for Filter<'a> {
    fn from(allows: &'a F) -> Self {
        Self::Predicate(allows)
    }
}

/// Filters are equal if they share a set of keys. A predicate equals nothing, not even itself.
impl PartialEq for Filter<'_> {
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Keys(a), Self::Keys(b)) if a.ptr_eq(b))
    }
}

impl fmt::Debug for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(keys) => keys.fmt(f),
            Self::Predicate(_) => f.write_str("a predicate"),
        }
    }
}
