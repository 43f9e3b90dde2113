//! Expressions bound to attributes.

use jasper_core::Key;

use crate::{Attributes, Expression};

/// An expression bound to attributes.
#[derive(Debug)]
pub struct Predicate<'a> {
    pub(crate) attributes: &'a Attributes,
    pub(crate) expression: &'a Expression,
}

/// How many keys a predicate selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Not fewer.
    pub least: usize,
    /// About as many.
    pub likely: usize,
    /// Not more.
    pub most: usize,
}

impl Predicate<'_> {
    /// Whether a key is live and the expression true for it.
    pub fn matches(&self, key: Key) -> bool {
        self.attributes.model().matches(self.expression, key)
    }

    /// How many keys are selected.
    pub fn estimate(&self) -> Estimate {
        let count = self.select().len();
        Estimate { least: count, likely: count, most: count }
    }

    /// The keys.
    pub fn select(&self) -> Vec<Key> {
        self.attributes.model().rows.keys().copied().filter(|&key| self.matches(key)).collect()
    }
}
