//! Expressions bound to attributes.

mod bind;
mod clauses;
mod estimate;
mod select;

use std::fmt;

use jasper_core::Key;
use roaring::RoaringTreemap;

use crate::columns::{Numbers, Postings, Stored, Tags, Values, Words};
use crate::cow::RowSet;
use crate::keys::Keys;
use crate::{Expression, ExpressionError};

pub use clauses::ColumnTest;
pub use estimate::Estimate;

/// An expression bound to attributes: names are resolved to columns, strings to their codes.
///
/// It never holds for a key that is not live.
pub struct Predicate<'a> {
    keys: &'a Keys,
    columns: &'a [Stored],
    test: Test<'a>,
}

/// What is tested of a row. `not` is pushed down to the leaves, which is right as each test is true or false.
enum Test<'a> {
    Constant(bool),
    /// All.
    And(Vec<Self>),
    /// One at least.
    Or(Vec<Self>),
    /// The leaf, or that it does not hold.
    Leaf(Leaf<'a>, bool),
}

/// A test of one column, or of the key.
enum Leaf<'a> {
    Null(&'a Values),
    Word(&'a Words, u32),
    /// One of ascending codes.
    Words(&'a Words, Vec<u32>),
    /// From the first to the second.
    Range(&'a Numbers, i64, i64),
    /// One of ascending numbers.
    Numbers(&'a Numbers, Vec<i64>),
    /// A list with one of ascending codes.
    Any(&'a Tags, Vec<u32>),
    /// A list with all of ascending codes, of which there are some.
    All(&'a Tags, Vec<u32>),
    /// One of ascending rows.
    Ids(Vec<u32>),
    Keys(&'a RoaringTreemap),
}

/// Items that are looked through in order rather than by halves.
const FEW: usize = 8;

/// Whether ascending items have this one.
fn has<T: Ord>(items: &[T], item: &T) -> bool {
    if items.len() <= FEW { items.contains(item) } else { items.binary_search(item).is_ok() }
}

impl Leaf<'_> {
    #[inline]
    fn holds(&self, row: u32, key: Key) -> bool {
        match self {
            Self::Null(values) => values.is_null(row),
            Self::Word(words, code) => words.get(row) == *code,
            Self::Words(words, codes) => has(codes, &words.get(row)),
            Self::Range(numbers, least, most) => (*least..=*most).contains(&numbers.get(row)),
            Self::Numbers(numbers, wanted) => has(wanted, &numbers.get(row)),
            Self::Any(tags, codes) => {
                tags.get(row).is_some_and(|list| list.iter().any(|code| has(codes, code)))
            }
            Self::All(tags, codes) => {
                tags.get(row).is_some_and(|list| codes.iter().all(|code| list.contains(code)))
            }
            Self::Ids(rows) => has(rows, &row),
            Self::Keys(keys) => keys.contains(key),
        }
    }
}

impl<'a> Leaf<'a> {
    /// Adds sets of rows that each have all rows for which this holds.
    fn push_sets(&self, sets: &mut Vec<&'a RowSet>) {
        let (postings, codes): (&'a Postings, &[u32]) = match self {
            Self::Word(words, code) => (&words.postings, std::slice::from_ref(code)),
            Self::Any(tags, codes) if codes.len() == 1 => (&tags.postings, codes),
            Self::All(tags, codes) => (&tags.postings, codes),
            _ => return,
        };
        sets.extend(codes.iter().filter_map(|&code| postings.get(code)));
    }
}

impl<'a> Test<'a> {
    /// Adds sets of rows that each have all rows for which this holds.
    fn push_sets(&self, sets: &mut Vec<&'a RowSet>) {
        match self {
            Self::And(tests) => tests.iter().for_each(|test| test.push_sets(sets)),
            Self::Leaf(leaf, true) => leaf.push_sets(sets),
            _ => {}
        }
    }
}

/// The two smallest of several sets.
fn smallest(mut sets: Vec<&RowSet>) -> Option<[&RowSet; 2]> {
    sets.sort_by_key(|set| set.len());
    sets.first_chunk().copied()
}

impl Test<'_> {
    #[inline]
    fn holds(&self, row: u32, key: Key) -> bool {
        match self {
            Self::Constant(value) => *value,
            Self::And(tests) => tests.iter().all(|test| test.holds(row, key)),
            Self::Or(tests) => tests.iter().any(|test| test.holds(row, key)),
            Self::Leaf(leaf, holds) => leaf.holds(row, key) == *holds,
        }
    }
}

impl<'a> Predicate<'a> {
    pub(crate) fn new(
        keys: &'a Keys,
        columns: &'a [Stored],
        expression: &'a Expression,
    ) -> Result<Self, ExpressionError> {
        Ok(Self { keys, columns, test: bind::bind(columns, expression, true)? })
    }

    /// Whether there are columns. Without any, [`Attributes`](crate::Attributes) need not know the keys, so that nothing can
    /// be counted or selected, and only [`Self::matches_live`] means something.
    pub fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Whether a key is live and the expression true for it. Takes some nanoseconds per comparison, and the time to fetch the
    /// row from memory.
    #[inline]
    pub fn matches(&self, key: Key) -> bool {
        self.keys.find(key).is_some_and(|row| self.test.holds(row, key))
    }

    /// [`Self::matches`] of a key that is known to be live, also if there are no columns, and no test is of a row.
    #[inline]
    pub fn matches_live(&self, key: Key) -> bool {
        if self.columns.is_empty() { self.test.holds(0, key) } else { self.matches(key) }
    }
}

impl fmt::Debug for Predicate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("estimate", &self.estimate()).finish_non_exhaustive()
    }
}
