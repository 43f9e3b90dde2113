//! Searches.

use jasper_attributes::Expression;
use jasper_core::{Key, VectorBuffer, VectorView};
use jasper_graph::KeyError;
use jasper_vamana::{Filter, Hit, Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use super::IndexInner;
use crate::batcher::Pending;

impl IndexInner {
    pub(crate) fn search(
        &self,
        query: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        self.limits().find_exceeded(&params, 1)?;
        params.check_filters(1)?;
        self.search_unlimited(query, params)
    }

    /// [`Self::search`], without its limits.
    fn search_unlimited(
        &self,
        query: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        if self.backend.is_on_cpu() {
            self.backend.search_one(query, params)
        } else {
            self.batcher.search(query, params)
        }
    }

    pub(crate) fn submit(
        &self,
        query: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Pending<Vec<Hit>>, SearchError> {
        params.check_filters(1)?;
        self.limits().find_exceeded(&params, 1)?;
        let submitted = self.batcher.submit(query, params)?;
        Ok(Pending::new(async move { Ok(submitted.await?) }))
    }

    pub(crate) fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Matches, SearchError> {
        let search = |matches: MatchesMut<'_>| self.backend.search_batch(queries, params, matches);
        Matches::filled(queries.len(), params.k, search)
    }

    pub(crate) fn search_by_key(&self, key: Key, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        params.check()?;
        params.check_filters(1)?;
        self.limits().find_exceeded(&params, 1)?;
        let vector = self.backend.read_with(key, |graph| {
            graph.require_vectors()?;
            let slot = graph.keys().slot_of(key).ok_or(KeyError::Unknown(key))?;
            Ok::<_, SearchError>(VectorBuffer::from(graph.vectors().view(slot)))
        })?;
        let widest = self.backend.max_beam_width();
        if params.k == widest {
            // There is no room for the key beside as many others.
            return self.search_but(key, vector.row(0), params);
        }
        // The key is a hit of its own search.
        let mut one_more = params.k(params.k.saturating_add(1));
        one_more.beam_width = params.beam_width.map(|width| width.saturating_add(1).min(widest));
        let mut hits = self.search_unlimited(vector.row(0), one_more)?;
        hits.retain(|hit| hit.key != key);
        hits.truncate(params.k);
        Ok(hits)
    }

    /// Searches for all keys but one.
    fn search_but(
        &self,
        key: Key,
        vector: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        match params.filter {
            Some(Filter::Where(expression)) => {
                let others = expression.clone().and(Expression::keys([key]).not());
                self.search_unlimited(vector, params.filter(&others))
            }
            Some(Filter::Keys(keys)) => {
                let is_other = |other| other != key && keys.contains(other);
                self.search_unlimited(vector, params.filter(&is_other))
            }
            Some(Filter::Predicate(allows)) => {
                let is_other = |other| other != key && allows(other);
                self.search_unlimited(vector, params.filter(&is_other))
            }
            Some(Filter::PerQuery(_)) => self.search_but(key, vector, params.of_query(0)),
            None => self.search_unlimited(vector, params.filter(&|other| other != key)),
        }
    }

    /// All hits within `radius`, by searches that double `k` until the farthest hit is beyond it.
    pub(crate) fn search_within(
        &self,
        query: VectorView<'_>,
        radius: f32,
        mut params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        loop {
            let mut hits = self.search(query, params)?;
            let within = hits.partition_point(|hit| hit.distance <= radius);
            if within < params.k {
                hits.truncate(within);
                return Ok(hits);
            }
            params = self.wider(params)?;
        }
    }

    /// [`Self::search_within`] of each query, in rows as long as the most hits.
    pub(crate) fn search_batch_within(
        &self,
        queries: &[VectorView<'_>],
        radius: f32,
        mut params: SearchParams<'_>,
    ) -> Result<Matches, SearchError> {
        params.check_filters(queries.len())?;
        let mut report = SearchReport::default();
        let mut found = vec![Vec::new(); queries.len()];
        let mut waiting: Vec<usize> = (0..queries.len()).collect();
        loop {
            self.limits().find_exceeded(&params, waiting.len())?;
            let rows: Vec<_> = waiting.iter().map(|&query| queries[query]).collect();
            let filters: Vec<Filter<'_>> =
                waiting.iter().filter_map(|&query| params.of_query(query).filter).collect();
            let batch = match params.filter {
                Some(Filter::PerQuery(_)) => params.filter(&filters[..]),
                _ => params,
            };
            let matches = self.search_batch(&rows, batch)?;
            report += *matches.report();
            let mut rows = matches.iter();
            waiting.retain(|&query| {
                let hits = rows.next().into_iter().flatten();
                found[query] = hits.take_while(|hit| hit.distance <= radius).collect();
                found[query].len() == params.k
            });
            if waiting.is_empty() {
                break;
            }
            params = self.wider(params)?;
        }
        let most = found.iter().map(Vec::len).max().unwrap_or(0).max(1);
        Matches::filled(found.len(), most, |matches| {
            matches.rows(most).zip(found).for_each(|(mut row, hits)| _ = row.fill(hits.into_iter()));
            Ok(report)
        })
    }

    /// Twice the `k` and the beam width, as far as the device allows, for a query that has `k` hits or more.
    fn wider<'a>(&self, params: SearchParams<'a>) -> Result<SearchParams<'a>, SearchError> {
        let max = self.backend.max_beam_width();
        if params.k >= max {
            return Err(SearchError::HitLimit(max));
        }
        let wider = |width: usize| width.saturating_mul(2).min(max);
        Ok(params.k(wider(params.k)).beam_width(wider(params.effective_beam_width())))
    }
}
