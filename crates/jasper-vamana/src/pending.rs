//! A query of a call that is under way.

use crate::MatchesMut;

/// A query, and the arrays for its results.
#[derive(Debug)]
pub struct PendingQuery<'a, T> {
    /// Number of the query in its call.
    pub row: usize,
    /// The query, as given.
    pub vector: &'a [T],
    /// Where its results go.
    pub out: MatchesMut<'a>,
    /// Number of results.
    pub filled: usize,
}

impl<'a, T> PendingQuery<'a, T> {
    /// A query without results.
    pub fn new(row: usize, vector: &'a [T], out: MatchesMut<'a>) -> Self {
        Self { row, vector, out, filled: 0 }
    }
}
