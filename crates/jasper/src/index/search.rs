//! Searches.

use jasper_core::{Key, VectorView, Vectors};
use jasper_vamana::{Explanation, Filter, Hit, Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use super::target::{Kind, Target};
use super::{Index, vector_error};
#[cfg(doc)]
use crate::ErrorKind;
use crate::batcher::Pending;
use crate::error::Result;

// Methods that take several types call others, which are not generic: this crate has the only copy of their machine code.

impl Index {
    /// Returns the `k` nearest keys to a vector, or as many as there are, nearest first; or what another [`Target`] says.
    ///
    /// On the CPU, the calling thread searches. On a CUDA device, concurrent searches of several threads may share
    /// a launch, unless their parameters differ or the filter is a predicate. A single search is not delayed.
    ///
    /// # Errors
    /// Fails with
    /// - [`ErrorKind::InvalidInput`] if the query has another dimension or a value that is not finite or that the
    ///   element type cannot hold, is too long for distances to be finite, or is zero under the cosine metric; or if
    ///   the filter does not fit the attributes;
    /// - [`ErrorKind::InvalidParameter`] if more keys are within the radius of the target than the limits, or the
    ///   widest beam of a CUDA device, allow to find; or if `k` or the beam width is 0, or above [that of the
    ///   device](crate::DeviceInfo::max_beam_width) or the [limits](Self::set_limits), or launch parameters are out of
    ///   range;
    /// - [`ErrorKind::UnknownKey`] if the key of the target is not in the index;
    /// - [`ErrorKind::Unsupported`] if estimated distances are requested of an index without codes, or exact ones of an
    ///   index without vectors;
    /// - [`ErrorKind::Device`] if the device failed.
    pub fn search<'a>(&self, target: impl Into<Target<'a>>, params: SearchParams<'_>) -> Result<Vec<Hit>> {
        Ok(self.search_for(target.into(), params)?)
    }

    pub(super) fn search_for(
        &self,
        target: Target<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let index = &self.inner;
        match target.0 {
            Kind::Vector(vector) => self.of_one(vector, |query| index.search(query, params))?,
            Kind::Within(vector, radius) => {
                self.of_one(vector, |query| index.search_within(query, radius, params))?
            }
            Kind::Key(key) => index.search_by_key(key, params),
        }
    }

    /// The nearest keys to every vector of a batch, on all threads: two arrays of shape `(queries, k)`, and a
    /// [report](Matches::report) of the hops and distances that they took. For [`Target::within`], `k` is the largest
    /// number of hits of a query; for [`Target::key`], there is one row, and nothing is reported.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// # use jasper_core::synthetic::Clusters;
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
    /// let vectors = MatrixView::new(&vectors, 16)?;
    /// let index = IndexBuilder::new(Metric::L2).build(vectors)?;
    /// let found = index.search_batch(vectors.slice(0..100), SearchParams::new(10))?;
    /// assert_eq!((found.queries(), found.k(), found.keys().len()), (100, 10, 1000));
    /// for (query, hits) in found.iter().enumerate() {
    ///     assert_eq!(hits.map(|hit| hit.key).next(), Some(query as u64));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::search`] if one of the queries is refused, or with [`ErrorKind::OutOfMemory`] if the arrays cannot be
    /// allocated.
    pub fn search_batch<'a>(
        &self,
        target: impl Into<Target<'a>>,
        params: SearchParams<'_>,
    ) -> Result<Matches> {
        Ok(self.search_all(target.into(), params)?)
    }

    fn search_all(&self, target: Target<'_>, params: SearchParams<'_>) -> Result<Matches, SearchError> {
        let (queries, radius) = match target.0 {
            Kind::Vector(queries) => (queries, None),
            Kind::Within(queries, radius) => (queries, Some(radius)),
            Kind::Key(key) => {
                let hits = self.inner.search_by_key(key, params)?;
                return Matches::filled(1, params.k, |mut matches| {
                    matches.fill(hits.into_iter());
                    Ok(SearchReport::default())
                });
            }
        };
        self.limits().find_exceeded(&params, queries.len())?;
        let search = |queries: &[VectorView<'_>]| match radius {
            None => self.inner.search_batch(queries, params),
            Some(radius) => self.inner.search_batch_within(queries, radius, params),
        };
        queries.with_rows(self.element(), search).map_err(vector_error)?
    }

    /// Searches as [`Self::search_batch`] does, and writes the results to the caller's arrays of `queries.len() x k`
    /// entries each. The hits of a query are in one row, nearest first, then [`NO_KEY`](crate::NO_KEY) and infinity if
    /// there are fewer. Returns the hops and distances of the whole batch.
    ///
    /// # Errors
    /// As [`Self::search`], or with [`ErrorKind::InvalidInput`] if an array has another length. The contents of the
    /// arrays are then unspecified.
    pub fn search_batch_into<'a>(
        &self,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
        keys: &mut [Key],
        distances: &mut [f32],
    ) -> Result<SearchReport> {
        Ok(self.search_all_into(queries.into(), params, keys, distances)?)
    }

    fn search_all_into(
        &self,
        queries: Vectors<'_>,
        params: SearchParams<'_>,
        keys: &mut [Key],
        distances: &mut [f32],
    ) -> Result<SearchReport, SearchError> {
        self.limits().find_exceeded(&params, queries.len())?;
        let search = |queries: &[VectorView<'_>]| {
            self.inner.backend.search_batch(queries, params, MatchesMut::new(keys, distances))
        };
        queries.with_rows(self.element(), search).map_err(vector_error)?
    }

    /// Returns how a search for several queries would be executed, and how many keys its filter allows; if each query has a
    /// filter, that of the first. [`Matches::report`] says what a search did.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// # use jasper_core::synthetic::Clusters;
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(5000, 0);
    /// use jasper::attributes::{Frame, column};
    ///
    /// let years = Frame::new(5000).column("year", 0..5000)?;
    /// let index = IndexBuilder::new(Metric::L2).attributes(&years).build(MatrixView::new(&vectors, 16)?)?;
    /// let recent = column("year").ge(4990);
    /// let few = index.explain(SearchParams::new(5).filter(&recent), 1)?;
    /// assert_eq!((few.allowed, few.beam_width), (10, None));
    /// assert_eq!(few.to_string(), "10 of 5000 keys pass: exact scan of these");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::search`].
    pub fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation> {
        if let Some(Filter::PerQuery([])) = params.filter {
            return Err(SearchError::Filters { given: 0, queries }.into());
        }
        Ok(self.inner.backend.explain(params, queries)?)
    }

    /// Queues a search and returns a future at once, for callers that serve many requests without a thread for each.
    /// Searches that are queued while others run are run together. The future owns a copy of the query and a clone of
    /// the filter.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// # use jasper_core::synthetic::Clusters;
    /// # use std::task::{Context, Poll, Waker};
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&vectors, 16)?)?;
    /// let found = async {
    ///     let params = SearchParams::new(5);
    ///     let (first, second) = (index.submit(&vectors[..16], params), index.submit(&vectors[16..32], params));
    ///     Ok::<_, jasper::Error>((first?.await?, second?.await?))
    /// };
    /// // In a server, the runtime polls.
    /// let mut found = std::pin::pin!(found);
    /// let (first, second) = loop {
    ///     if let Poll::Ready(found) = found.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
    ///         break found?;
    ///     }
    ///     std::thread::yield_now();
    /// };
    /// assert_eq!((first[0].key, second[0].key), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidInput`] for a filter that the future cannot own or a vector that cannot be
    /// converted, [`ErrorKind::InvalidParameter`] beyond the [limits](Self::set_limits), or [`ErrorKind::OutOfThreads`]
    /// if the threads that search cannot be started: then there is no future. The future returns the other errors of
    /// [`Self::search`].
    pub fn submit<'a>(
        &self,
        query: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
    ) -> Result<Pending<Vec<Hit>>> {
        Ok(self.submit_one(query.into(), params)?)
    }

    fn submit_one(
        &self,
        query: Vectors<'_>,
        params: SearchParams<'_>,
    ) -> Result<Pending<Vec<Hit>>, SearchError> {
        self.of_one(query, |query| self.inner.submit(query, params))?
    }

    /// Calls `search` with the only vector.
    fn of_one<R>(
        &self,
        vector: Vectors<'_>,
        search: impl FnOnce(VectorView<'_>) -> R,
    ) -> Result<R, SearchError> {
        if vector.len() != 1 {
            return Err(SearchError::OneQuery(vector.len()));
        }
        Ok(vector.with_rows(self.element(), |rows| search(rows[0])).map_err(vector_error)?)
    }
}
