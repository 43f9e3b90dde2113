//! Searches.

use jasper_core::{Element, Key, MatrixView};
use jasper_graph::KeyError;
use jasper_vamana::{Hit, Matches, MatchesMut, SearchError, SearchParams, SearchReport};

use crate::callers::SearchFuture;
use crate::{Device, Index};

impl<T: Element> Index<T> {
    /// The nearest keys to a vector, nearest first: `k` of them, or as many as there are.
    ///
    /// On the CPU the calling thread searches. On a CUDA device, searches that other threads begin meanwhile share a
    /// launch, unless their parameters differ or the filter is a predicate; a lone search is not delayed.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        match self.device() {
            Device::Cpu => self.backend.search(query, params),
            Device::Auto | Device::Cuda(_) => self.callers.search(query, params),
        }
    }

    /// Queues a search and returns at once: the result is a future, for callers that serve many requests without a
    /// thread for each. What is queued while others are searched is searched together.
    ///
    /// ```
    /// # use jasper::bench::synthetic::Clusters;
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// # use std::task::{Context, Poll, Waker};
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(500, 0);
    /// let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 16)?)?;
    /// let found = async {
    ///     let (first, second) = (index.submit(&vectors[..16], SearchParams::new(5)), index.submit(&vectors[16..32], SearchParams::new(5)));
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
    /// Returns [`SearchError::SubmittedPredicate`], [`SearchError::Thread`]; the future has those of [`Self::search`].
    pub fn submit(&self, query: &[T], params: SearchParams<'_>) -> Result<SearchFuture<T>, SearchError> {
        self.callers.submit(query, params)
    }

    /// The nearest keys to every vector of `queries`, on all threads: two arrays of shape `(queries, k)`.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Matches, SearchError> {
        let mut matches = Matches::new(queries.len(), params.k)?;
        self.backend.search_batch(queries, params, matches.as_mut())?;
        Ok(matches)
    }

    /// [`Self::search_batch`] into the caller's arrays, of `queries.len() x k` entries each: the hits of a query in a row,
    /// nearest first, then [`NO_KEY`](crate::NO_KEY) and infinity where there are fewer.
    ///
    /// # Errors
    /// Returns [`SearchError`]; the contents of the arrays are then unspecified.
    pub fn search_batch_into(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        keys: &mut [Key],
        distances: &mut [f32],
    ) -> Result<SearchReport, SearchError> {
        self.backend.search_batch(queries, params, MatchesMut::new(keys, distances))
    }

    /// The nearest keys to the vector of a key, without the key itself. Other keys of an identical vector are hits, at
    /// distance 0.
    ///
    /// # Errors
    /// Returns [`SearchError`] if there is no such key, or the index has no vectors, or as for [`Self::search`].
    pub fn search_by_key(&self, key: Key, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        let vector = self.backend.read(|graph| {
            graph.require_vectors()?;
            let slot = graph.keys().slot_of(key).ok_or(KeyError::Unknown(key))?;
            Ok::<_, SearchError>(graph.vectors().get(slot).to_vec())
        })?;
        // The key is a hit of its own search.
        let (k, beam_width) = (params.k.saturating_add(1), params.beam_width.saturating_add(1));
        let one_more = match params.k {
            0 => params,
            _ => params.k(k).beam_width(beam_width.min(self.backend.max_beam_width().max(k))),
        };
        let mut hits = self.search(&vector, one_more)?;
        hits.retain(|hit| hit.key != key);
        hits.truncate(params.k);
        Ok(hits)
    }

    /// The keys within `radius` of a vector, nearest first: all whose distance, in the metric of the index, is at most
    /// `radius` and that the beam search finds. L2 distances are squared: give the square of the radius.
    ///
    /// Starts with `params` and doubles `k` and the beam width until the farthest hit is beyond the radius, or every
    /// key is a hit. Each hit is within the radius; one may be missed, as by any approximate search, and less likely
    /// with a wider beam. On a CUDA device at most 1024 keys can be found, the
    /// widest beam there.
    ///
    /// # Errors
    /// Returns [`SearchError`]; [`SearchError::BeamWidthLimit`] if a CUDA device would have to find more keys than its
    /// widest beam holds.
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
            let widest = self.backend.max_beam_width();
            let wider = |width: usize| width.saturating_mul(2).min(widest).max(width);
            // At the widest beam, one hit more is asked for and refused.
            let k = if params.k < widest { wider(params.k) } else { params.k.saturating_add(1) };
            params = params.k(k).beam_width(wider(params.beam_width).max(k));
        }
    }
}

#[cfg(feature = "cuda")]
impl<T: Element> Index<T> {
    /// Queues a search of queries that are in device memory, without waiting for it: results are ready in the order of
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
    /// Returns [`SearchError`]; [`SearchError::Device`] on the CPU.
    ///
    /// # Panics
    /// Panics if another stream made one of the arrays, or `stream` belongs to another device.
    pub fn search_on_device(
        &self,
        stream: &jasper_cuda::Stream,
        params: SearchParams<'_>,
        arrays: jasper_cuda::DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        let cuda = self.backend.as_cuda().ok_or(crate::DeviceError::OnCpu)?;
        cuda.launch(stream, params, arrays)
    }

    /// Queries as [`Self::search_on_device`] takes them: padded, and at unit length for cosine distances of floats.
    ///
    /// # Errors
    /// Returns [`SearchError::Vector`].
    pub fn prepare_queries(&self, queries: MatrixView<'_, T>) -> Result<Vec<T>, SearchError> {
        self.backend.read(|graph| Ok(graph.vectors().prepare_all(queries)?))
    }
}
