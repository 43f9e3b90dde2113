//! The queries of a call that is under way.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard};

use jasper_core::{VectorView, sync};

use crate::{MatchesMut, SearchError, SearchReport};

/// A query, and the arrays for its results.
#[derive(Debug)]
pub struct PendingQuery<'a> {
    /// Number of the query in its call.
    pub row: usize,
    /// The query, as given, in the element type of the graph.
    pub vector: VectorView<'a>,
    /// Where its results go.
    pub out: MatchesMut<'a>,
    /// Number of results.
    pub filled: usize,
    /// Whether a scan found vertices of which the filter allows no key, in whose place there may be others.
    pub is_short: bool,
}

impl<'a> PendingQuery<'a> {
    /// A query without results.
    pub fn new(row: usize, vector: VectorView<'a>, out: MatchesMut<'a>) -> Self {
        Self { row, vector, out, filled: 0, is_short: false }
    }
}

/// The queries of a call, which one or several devices take, a chunk at a time.
#[derive(Debug)]
pub struct QueryQueue<'a> {
    remaining: Mutex<Remaining<'a>>,
    len: usize,
    devices: usize,
}

/// The queries that are left.
#[derive(Debug)]
struct Remaining<'a> {
    /// Number of the first of `queries`.
    first: usize,
    queries: &'a [VectorView<'a>],
    matches: MatchesMut<'a>,
    k: usize,
    /// Queries that were taken and returned without an answer.
    returned: VecDeque<PendingQuery<'a>>,
    /// What searches cost devices that returned queries.
    report: SearchReport,
}

impl<'a> QueryQueue<'a> {
    /// The queries of a call with `k` results each, for this number of devices.
    ///
    /// # Errors
    /// Returns [`SearchError::ZeroK`], or [`SearchError::Buffer`] if the arrays do not have `k` entries per query.
    pub fn new(
        queries: &'a [VectorView<'a>],
        k: usize,
        matches: MatchesMut<'a>,
        devices: usize,
    ) -> Result<Self, SearchError> {
        if k == 0 {
            return Err(SearchError::ZeroK);
        }
        matches.check(queries.len(), k)?;
        let len = queries.len();
        let report = SearchReport::default();
        let remaining = Remaining { first: 0, queries, matches, k, returned: VecDeque::new(), report };
        Ok(Self { remaining: Mutex::new(remaining), len, devices })
    }

    /// A queue of these queries, for one device.
    pub fn of(queries: Vec<PendingQuery<'a>>) -> Self {
        // As if all of a call had been taken, and these were returned.
        let len = queries.len();
        let (matches, report) = (MatchesMut::default(), SearchReport::default());
        let remaining = Remaining { first: 0, queries: &[], matches, k: 1, returned: queries.into(), report };
        Self { remaining: Mutex::new(remaining), len, devices: 1 }
    }

    /// The queries of the call per device.
    pub fn queries_per_device(&self) -> usize {
        self.len.div_ceil(self.devices)
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        let remaining = self.lock();
        remaining.queries.is_empty() && remaining.returned.is_empty()
    }

    /// Moves the next `count` queries, or as many as are left, to the end of `chunk`.
    pub fn take(&self, count: usize, chunk: &mut Vec<PendingQuery<'a>>) {
        let (first, vectors, matches, k) = {
            let Remaining { first, queries, matches, k, returned, .. } = &mut *self.lock();
            let again = returned.len().min(count);
            chunk.extend(returned.drain(..again));
            let (vectors, rest) = queries.split_at(queries.len().min(count - again));
            let (rows, rest_matches) = mem::take(matches).split_at(vectors.len() * *k);
            (*queries, *matches) = (rest, rest_matches);
            (mem::replace(first, *first + vectors.len()), vectors, rows, *k)
        };
        // Others take theirs meanwhile.
        let new = vectors.iter().zip(matches.rows(k)).zip(first..);
        chunk.extend(new.map(|((vector, out), row)| PendingQuery::new(row, *vector, out)));
    }

    /// Returns queries that a device took and did not answer, and notes what its searches have cost.
    pub fn return_unanswered(&self, queries: Vec<PendingQuery<'a>>, answered: SearchReport) {
        let mut remaining = self.lock();
        remaining.returned.extend(queries);
        remaining.report += answered;
    }

    /// What searches cost devices that [returned queries](Self::return_unanswered), in part for these queries.
    pub fn failed_report(&self) -> SearchReport {
        self.lock().report
    }

    fn lock(&self) -> MutexGuard<'_, Remaining<'a>> {
        sync::lock(&self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hit, Matches};

    #[test]
    fn every_query_is_taken_once_unless_it_is_returned() {
        let vectors: Vec<[u8; 2]> = (0..100).map(|row| [row, 1]).collect();
        let queries: Vec<VectorView<'_>> = vectors.iter().map(|vector| vector[..].into()).collect();
        let mut matches = Matches::new(100, 3).unwrap();
        let queue = QueryQueue::new(&queries, 3, matches.as_mut(), 2).unwrap();
        assert_eq!(queue.queries_per_device(), 50);
        let (mut failed, mut taken) = (Vec::new(), Vec::new());
        queue.take(30, &mut failed);
        queue.take(20, &mut taken);
        assert!(failed.iter().chain(&taken).map(|query| query.row).eq(0..50));
        let answered = SearchReport { scanned: 3, ..SearchReport::default() };
        queue.return_unanswered(failed, answered);
        assert_eq!(queue.failed_report(), answered);
        while !queue.is_empty() {
            let before = taken.len();
            queue.take(40, &mut taken);
            assert!(taken.len() - before == 40 || queue.is_empty());
        }
        assert_eq!(taken.len(), 100);
        for query in &mut taken {
            assert_eq!(query.vector.of::<u8>(), queries[query.row].of::<u8>());
            query.out.fill([Hit { key: query.row as u64, distance: 0.0 }].into_iter());
        }
        for row in 0..100 {
            assert!(matches.hits(row).map(|hit| hit.key).eq([row as u64]));
        }
    }

    #[test]
    fn a_queue_of_queries_without_room_for_their_results_is_refused() {
        let queries = [VectorView::from(&[1_u8][..]); 4];
        let mut matches = Matches::new(4, 2).unwrap();
        assert!(matches!(QueryQueue::new(&queries, 0, matches.as_mut(), 1), Err(SearchError::ZeroK)));
        assert!(QueryQueue::new(&queries, 2, matches.as_mut(), 1).is_ok());
        let refused = QueryQueue::new(&queries, 3, matches.as_mut(), 1);
        assert!(matches!(refused, Err(SearchError::Buffer { given: 8, .. })));
    }
}
