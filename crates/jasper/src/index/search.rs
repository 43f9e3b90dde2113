//! Searches.

use jasper_core::{Element, Key, MatrixView};
use jasper_graph::KeyError;
use jasper_vamana::{Hit, Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use crate::batcher::SearchFuture;
use crate::{DeviceError, Index};

impl<T: Element> Index<T> {
    /// Returns the `k` nearest keys to a vector, or as many as there are, nearest first.
    ///
    /// On the CPU, the calling thread searches. On a CUDA device, concurrent searches of several threads may share
    /// a launch, unless their parameters differ or the filter is a predicate. A single search is not delayed.
    ///
    /// # Errors
    /// Returns [`SearchError`] if
    /// - the query has another dimension or a value that is not finite, is too long for distances to be finite, or is
    ///   zero under the cosine metric;
    /// - `k` is 0, `k` or the beam width is above [`Self::max_beam_width`], or launch parameters are out of range;
    /// - it asks for more than the [limits](Self::set_limits) allow;
    /// - estimated distances are requested of an index without codes, or exact ones of an index without vectors;
    /// - the device failed.
    pub fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.limits().check(&params, 1)?;
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

    /// Waits until a CUDA device has compiled the kernels of a single search with default parameters.
    ///
    /// That takes some tenths of a second after the index is moved there, unless the driver has compiled them before.
    /// Until then, the host answers single searches and batches of at most 16 queries. Returns at once on the CPU.
    ///
    /// # Errors
    /// Returns [`DeviceError`].
    pub fn warm_up(&self) -> Result<(), DeviceError> {
        self.backend.warm_up()
    }

    /// Queues a search and returns a future at once, for callers that serve many requests without a thread for each.
    /// Searches that are queued while others run are run together. The future owns a copy of the query and a clone of
    /// the filter.
    ///
    /// ```
    /// # use jasper::bench::synthetic::Clusters;
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// # use std::task::{Context, Poll, Waker};
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
    /// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 16)?)?;
    /// let found = async {
    ///     let params = SearchParams::new(5);
    ///     let (first, second) = (index.submit(&vectors[..16], params), index.submit(&vectors[16..32], params));
    ///     Ok::<_, jasper::SearchError>((first?.await?, second?.await?))
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
    /// Returns [`SearchError::SubmittedPredicate`] for a filter that the future cannot own, [`SearchError::Limit`], or
    /// [`SearchError::Thread`] if the threads that search cannot be started: then there is no future. The future returns
    /// the errors of [`Self::search`].
    pub fn submit(&self, query: &[T], params: SearchParams<'_>) -> Result<SearchFuture<T>, SearchError> {
        self.limits().check(&params, 1)?;
        self.batcher.submit(query, params)
    }

    /// The nearest keys to every vector of `queries`, on all threads: two arrays of shape `(queries, k)`, and a
    /// [report](Matches::report) of the hops and distances that they took.
    ///
    /// ```
    /// # use jasper::bench::synthetic::Clusters;
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
    /// let vectors = MatrixView::new(&vectors, 16)?;
    /// let index = IndexBuilder::new(Metric::L2).build(&vectors)?;
    /// let found = index.search_batch(vectors.slice(0..100), SearchParams::new(10))?;
    /// assert_eq!((found.queries(), found.k(), found.keys().len()), (100, 10, 1000));
    /// for (query, hits) in found.iter().enumerate() {
    ///     assert_eq!(hits.map(|hit| hit.key).next(), Some(query as u64));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::search`] if one of the queries is refused, or [`SearchError::Memory`] if the arrays cannot be
    /// allocated.
    pub fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Matches, SearchError> {
        self.limits().check(&params, queries.len())?;
        let search = |matches: MatchesMut<'_>| self.backend.search_matrix(queries, params, matches);
        Matches::filled(queries.len(), params.k, search)
    }

    /// Searches as [`Self::search_batch`] does, and writes the results to the caller's arrays of `queries.len() x k`
    /// entries each. The hits of a query are in one row, nearest first, then [`NO_KEY`](crate::NO_KEY) and infinity if
    /// there are fewer. Returns the hops and distances of the whole batch.
    ///
    /// # Errors
    /// As [`Self::search`], or [`SearchError::Buffer`] if an array has another length. The contents of the arrays are
    /// then unspecified.
    pub fn search_batch_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        keys: &mut [Key],
        distances: &mut [f32],
    ) -> Result<SearchReport, SearchError> {
        self.limits().check(&params, queries.len())?;
        self.backend.search_matrix(queries, params, MatchesMut::new(keys, distances))
    }

    /// Returns the nearest keys to the vector of a key, without the key itself. Other keys of an identical vector are
    /// hits, at distance 0.
    ///
    /// # Errors
    /// Returns [`SearchError`] if there is no such key, the index has no vectors, or [`Self::search`] would fail.
    pub fn search_by_key(&self, key: Key, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        params.check()?;
        self.limits().check(&params, 1)?;
        let vector = self.backend.read_with(key, |graph| {
            graph.require_vectors()?;
            let slot = graph.keys().slot_of(key).ok_or(KeyError::Unknown(key))?;
            Ok::<_, SearchError>(graph.vectors().get(slot).to_vec())
        })?;
        let widest = self.backend.max_beam_width();
        if params.k == widest {
            // There is no room for the key beside as many others.
            let is_other = |other| other != key && params.filter.is_none_or(|filter| filter.allows(other));
            return self.search_unlimited(&vector, params.filter(&is_other));
        }
        // The key is a hit of its own search.
        let mut one_more = params.k(params.k.saturating_add(1));
        one_more.beam_width = params.beam_width.map(|width| width.saturating_add(1).min(widest));
        let mut hits = self.search_unlimited(&vector, one_more)?;
        hits.retain(|hit| hit.key != key);
        hits.truncate(params.k);
        Ok(hits)
    }

    /// Returns the keys within `radius` of a vector, nearest first: all keys that the beam search finds and whose
    /// distance, in the metric of the index, is at most `radius`. L2 distances are squared, so give the square of the
    /// radius.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&[0_u8, 0, 3, 4, 9, 9], 2)?)?;
    /// let within_five = index.search_within(&[0, 0], 5.0 * 5.0, SearchParams::new(10))?;
    /// assert_eq!(within_five.iter().map(|hit| hit.distance).collect::<Vec<_>>(), [0.0, 25.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Starts with `params` and doubles `k` and the beam width until the farthest hit is beyond the radius, or every
    /// key is a hit. Each hit is within the radius. As in any approximate search, keys may be missed, less likely with
    /// a wider beam. On a CUDA device, at most 1024 keys can be found, which is the widest beam there.
    ///
    /// # Errors
    /// As [`Self::search`], [`SearchError::Limit`] if more keys are within the radius than the limits allow to find, or
    /// [`SearchError::BeamWidthLimit`] if a CUDA device would have to find more keys than its widest beam holds.
    pub fn search_within(
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
impl<T: Element> Index<T> {
    /// Queues a search for queries in device memory, without waiting for it. The results are complete in the order of
    /// `stream`. Changes of the index wait for the search.
    ///
    /// ```no_run
    /// use jasper::bench::synthetic::Clusters;
    /// use jasper::cuda::prelude::*;
    /// use jasper::cuda::{Context, DeviceBatch, Stream, hit_from_device};
    /// use jasper::{Device, IndexBuilder, MatrixView, Metric, SearchParams};
    ///
    /// let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// let queries = MatrixView::new(&vectors[..1600], 16)?;
    /// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 16)?)?;
    /// let index = index.to_device(Device::Cuda(0))?;
    ///
    /// let stream = Stream::new(&Context::open(0)?)?;
    /// let on_device = stream.upload(&index.prepare_queries(queries)?)?;
    /// let (mut results, mut costs) = (stream.allocate(100 * 10)?, stream.allocate(100 * 2)?);
    /// let arrays = DeviceBatch { queries: &on_device, results: &mut results, costs: &mut costs };
    /// index.search_on_device(&stream, SearchParams::new(10), arrays)?;
    /// assert_eq!(hit_from_device(stream.download(&results)?[0]).key, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A filter or tombstones can leave fewer than `k` hits: no exact scan completes them.
    ///
    /// # Errors
    /// As [`Self::search`], but queries are not checked; [`SearchError::Buffer`] if an array has another length, and
    /// [`SearchError::Device`] if the index is on the CPU ([`DeviceError::OnCpu`]) or has several shards
    /// ([`DeviceError::Sharded`]).
    ///
    /// [`DeviceError::OnCpu`]: crate::DeviceError::OnCpu
    /// [`DeviceError::Sharded`]: crate::DeviceError::Sharded
    ///
    /// # Panics
    /// Panics if another stream allocated one of the arrays, or `stream` belongs to another device.
    pub fn search_on_device(
        &self,
        stream: &jasper_cuda::Stream,
        params: SearchParams<'_>,
        arrays: jasper_cuda::DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        use jasper_cuda::prelude::*;

        let row_len = self.backend.read(|graph| jasper_core::padded_len::<T>(graph.dimension()));
        self.limits().check(&params, arrays.queries.len() / row_len)?;
        self.backend.search_on_device(stream, params, arrays)
    }

    /// Prepares queries for [`Self::search_on_device`]: pads them, and normalizes them for cosine distances of floats.
    ///
    /// # Errors
    /// Returns [`SearchError::Vector`] if a query cannot be searched for.
    pub fn prepare_queries(&self, queries: MatrixView<'_, T>) -> Result<Vec<T>, SearchError> {
        self.backend.read(|graph| Ok(graph.vectors().prepare_all(queries)?))
    }
}
