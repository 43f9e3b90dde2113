//! Searches.

use jasper_attributes::Expression;
use jasper_core::{Element, Key, MatrixView};
use jasper_graph::KeyError;
use jasper_vamana::{Filter, Hit, Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use super::TypedIndex;
use crate::batcher::Pending;

impl<T: Element> TypedIndex<T> {
    pub(crate) fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.limits().find_exceeded(&params, 1)?;
        params.check_filters(1)?;
        self.search_unlimited(query, params)
    }

    /// [`Self::search`], without its limits.
    fn search_unlimited(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        if self.backend.is_on_cpu() {
            self.backend.search_one(query, params)
        } else {
            self.batcher.search(query, params)
        }
    }

    pub(crate) fn submit(
        &self,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Pending<Vec<Hit>>, SearchError> {
        params.check_filters(1)?;
        self.limits().find_exceeded(&params, 1)?;
        let submitted = self.batcher.submit(query, params)?;
        Ok(Pending::new(async move { Ok(submitted.await?) }))
    }

    pub(crate) fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Matches, SearchError> {
        let search = |matches: MatchesMut<'_>| self.backend.search_matrix(queries, params, matches);
        Matches::filled(queries.len(), params.k, search)
    }

    pub(crate) fn search_batch_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        keys: &mut [Key],
        distances: &mut [f32],
    ) -> Result<SearchReport, SearchError> {
        self.backend.search_matrix(queries, params, MatchesMut::new(keys, distances))
    }

    pub(crate) fn search_by_key(&self, key: Key, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        params.check()?;
        params.check_filters(1)?;
        self.limits().find_exceeded(&params, 1)?;
        let vector = self.backend.read_with(key, |graph| {
            graph.require_vectors()?;
            let slot = graph.keys().slot_of(key).ok_or(KeyError::Unknown(key))?;
            Ok::<_, SearchError>(graph.vectors().get(slot).to_vec())
        })?;
        let widest = self.backend.max_beam_width();
        if params.k == widest {
            // There is no room for the key beside as many others.
            return self.search_but(key, &vector, params);
        }
        // The key is a hit of its own search.
        let mut one_more = params.k(params.k.saturating_add(1));
        one_more.beam_width = params.beam_width.map(|width| width.saturating_add(1).min(widest));
        let mut hits = self.search_unlimited(&vector, one_more)?;
        hits.retain(|hit| hit.key != key);
        hits.truncate(params.k);
        Ok(hits)
    }

    /// Searches for all keys but one.
    fn search_but(&self, key: Key, vector: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
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

    pub(crate) fn search_within(
        &self,
        query: &[T],
        radius: f32,
        mut params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        loop {
            let mut hits = self.search(query, params)?;
            let within = hits.partition_point(|hit| hit.distance <= radius);
            if within < hits.len() || hits.len() < params.k {
                hits.truncate(within);
                return Ok(hits);
            }
            let max_beam_width = self.backend.max_beam_width();
            if params.k >= max_beam_width {
                return Err(SearchError::BeamWidthLimit { beam_width: params.k + 1, max_beam_width });
            }
            let wider = |width: usize| width.saturating_mul(2).min(max_beam_width);
            params = params.k(wider(params.k)).beam_width(wider(params.effective_beam_width()));
        }
    }
}

#[cfg(feature = "cuda")]
impl<T: Element> TypedIndex<T> {
    pub(crate) fn search_on_device(
        &self,
        stream: &jasper_cuda::Stream,
        params: SearchParams<'_>,
        arrays: jasper_cuda::DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        use jasper_cuda::prelude::*;

        let row_len = self.backend.read(|graph| jasper_core::padded_len::<T>(graph.dimension()));
        self.limits().find_exceeded(&params, arrays.queries.len() / row_len)?;
        self.backend.search_on_device(stream, params, arrays)
    }

    pub(crate) fn prepare_queries(&self, queries: MatrixView<'_, T>) -> Result<Vec<T>, SearchError> {
        self.backend.read(|graph| Ok(graph.vectors().prepare_all(queries)?))
    }
}
