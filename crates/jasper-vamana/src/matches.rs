//! Results of searches: keys and distances in two arrays.

use jasper_core::{Key, NO_KEY};

use crate::{SearchError, SearchReport};

/// One vector found by a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The vector's key.
    pub key: Key,
    /// Its distance: squared L2, negated inner product, or 1 - cos.
    pub distance: f32,
}

impl Hit {
    /// Stands for no hit, where a query has fewer than `k`.
    pub const NONE: Self = Self { key: NO_KEY, distance: f32::INFINITY };
}

/// Results of a batch of queries: two arrays of shape `(queries, k)`.
///
/// The hits of a query are ordered nearest first, ties by vertex. Where a query has fewer than `k` hits, the rest of
/// its row is [`NO_KEY`] and infinity. Results are equal if their hits are, whatever the searches cost.
///
/// ```
/// use jasper_vamana::Matches;
/// let matches = Matches::new(2, 3)?;
/// assert_eq!((matches.queries(), matches.k(), matches.keys().len()), (2, 3, 6));
/// assert_eq!(matches.hits(0).count(), 0);
/// # Ok::<(), jasper_vamana::SearchError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Matches {
    keys: Vec<Key>,
    distances: Vec<f32>,
    k: usize,
    report: SearchReport,
}

impl PartialEq for Matches {
    fn eq(&self, other: &Self) -> bool {
        (self.k, &self.keys, &self.distances) == (other.k, &other.keys, &other.distances)
    }
}

impl Matches {
    /// Allocates arrays without hits.
    ///
    /// # Errors
    /// Returns [`SearchError::Memory`] if they cannot be allocated.
    pub fn new(queries: usize, k: usize) -> Result<Self, SearchError> {
        let no_memory = SearchError::Memory { queries, k };
        let Some(len) = queries.checked_mul(k) else { return Err(no_memory) };
        let (mut keys, mut distances) = (Vec::new(), Vec::new());
        if keys.try_reserve_exact(len).is_err() || distances.try_reserve_exact(len).is_err() {
            return Err(no_memory);
        }
        keys.resize(len, NO_KEY);
        distances.resize(len, f32::INFINITY);
        Ok(Self { keys, distances, k, report: SearchReport::default() })
    }

    /// The results that `search` writes to new arrays, with its report.
    ///
    /// # Errors
    /// Returns [`SearchError::Memory`], and those of `search`.
    pub fn filled(
        queries: usize,
        k: usize,
        search: impl FnOnce(MatchesMut<'_>) -> Result<SearchReport, SearchError>,
    ) -> Result<Self, SearchError> {
        let mut matches = Self::new(queries, k)?;
        matches.report = search(matches.as_mut())?;
        Ok(matches)
    }

    /// What the search of all queries cost.
    pub fn report(&self) -> &SearchReport {
        &self.report
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.keys.len().checked_div(self.k).unwrap_or(0)
    }

    /// Entries per query.
    pub fn k(&self) -> usize {
        self.k
    }

    /// All keys, row-major.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// All distances, row-major.
    pub fn distances(&self) -> &[f32] {
        &self.distances
    }

    /// The hits of one query, nearest first.
    ///
    /// # Panics
    /// Panics if there is no such query.
    pub fn hits(&self, query: usize) -> impl Iterator<Item = Hit> {
        let row = query * self.k..(query + 1) * self.k;
        hits(&self.keys[row.clone()], &self.distances[row])
    }

    /// The hits of each query.
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = Hit>> {
        (0..self.queries()).map(|query| self.hits(query))
    }

    /// Borrows the two arrays, to be written.
    pub fn as_mut(&mut self) -> MatchesMut<'_> {
        MatchesMut::new(&mut self.keys, &mut self.distances)
    }

    /// Keys and distances, both row-major.
    pub fn into_arrays(self) -> (Vec<Key>, Vec<f32>) {
        (self.keys, self.distances)
    }
}

fn hits(keys: &[Key], distances: &[f32]) -> impl Iterator<Item = Hit> {
    let found = keys.iter().zip(distances).take_while(|(key, _)| **key != NO_KEY);
    found.map(|(&key, &distance)| Hit { key, distance })
}

/// Borrowed arrays that a search writes its results to: as many entries as queries times `k` in each.
#[derive(Debug, Default)]
pub struct MatchesMut<'a> {
    keys: &'a mut [Key],
    distances: &'a mut [f32],
}

impl<'a> MatchesMut<'a> {
    /// Borrows two arrays. The search checks their sizes.
    pub fn new(keys: &'a mut [Key], distances: &'a mut [f32]) -> Self {
        Self { keys, distances }
    }

    /// Checks that both arrays have `k` entries per query.
    ///
    /// # Errors
    /// Returns [`SearchError::Buffer`].
    pub fn check(&self, queries: usize, k: usize) -> Result<(), SearchError> {
        let lens = [self.keys.len(), self.distances.len()];
        match lens.into_iter().find(|&len| Some(len) != queries.checked_mul(k)) {
            Some(given) => Err(SearchError::Buffer { given, queries, k }),
            None => Ok(()),
        }
    }

    /// Splits the arrays at an entry.
    ///
    /// # Panics
    /// Panics if they have fewer entries.
    pub fn split_at(self, entry: usize) -> (MatchesMut<'a>, MatchesMut<'a>) {
        let (keys, rest_keys) = self.keys.split_at_mut(entry);
        let (distances, rest_distances) = self.distances.split_at_mut(entry);
        (MatchesMut { keys, distances }, MatchesMut { keys: rest_keys, distances: rest_distances })
    }

    /// Splits the arrays into the rows of single queries.
    ///
    /// # Panics
    /// Panics if `k` is 0.
    pub fn rows(self, k: usize) -> impl Iterator<Item = MatchesMut<'a>> {
        let rows = self.keys.chunks_exact_mut(k).zip(self.distances.chunks_exact_mut(k));
        rows.map(|(keys, distances)| MatchesMut { keys, distances })
    }

    /// Writes as many of `hits` as fit, then [`NO_KEY`] and infinity. Returns the number of hits written.
    pub fn fill(&mut self, hits: impl Iterator<Item = Hit>) -> usize {
        let mut filled = 0;
        for ((key, distance), hit) in self.keys.iter_mut().zip(&mut *self.distances).zip(hits) {
            (*key, *distance) = (hit.key, hit.distance);
            filled += 1;
        }
        self.keys[filled..].fill(NO_KEY);
        self.distances[filled..].fill(f32::INFINITY);
        filled
    }
}
