//! Profiles of searches: the cost of each query, the time of a batch, and the peaks of a device.

use std::time::{Duration, Instant};

use jasper_core::{Metric, VectorView, Vectors};
use jasper_vamana::{Distances, Matches, OperationCounts, SearchError, SearchParams};

use crate::Index;
use crate::error::Result;
use crate::index::vector_error;
use crate::inner::IndexInner;

/// The cost of a batch of searches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Time of the batch; on a CUDA device, the time of the launch alone, without transfers.
    pub time: Duration,
    /// Hops and distances of each query.
    pub costs: Vec<OperationCounts>,
    /// Bytes read per distance: a vector with its padding.
    pub vector_bytes: u64,
    /// Bytes read per hop: the edges of a vertex at full degree.
    pub links_bytes: u64,
    /// Floating-point operations per distance. Per coordinate these are a product and a sum, and for L2 a difference.
    pub operations: u64,
}

impl Profile {
    /// Profiles a batch of searches with exact distances: the cost of each query, and the time of the batch. On a CPU,
    /// sketches rule out most vectors, so fewer bytes are read than counted.
    ///
    /// # Errors
    /// As [`Index::search_batch`].
    pub fn measure<'a>(
        index: &Index,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
    ) -> Result<Self> {
        Ok(profile(index, queries.into(), params)?)
    }

    /// Measures the time that a GPU takes to search for queries in its memory, without transfers: the median of several
    /// launches. `None` on the CPU.
    ///
    /// # Errors
    /// As [`Index::search_batch`].
    pub fn device_time<'a>(
        index: &Index,
        queries: impl Into<Vectors<'a>>,
        params: SearchParams<'_>,
    ) -> Result<Option<Duration>> {
        Ok(device_time(index, queries.into(), params)?)
    }

    /// Bytes that a query reads, from memory or caches.
    pub fn bytes(&self, cost: OperationCounts) -> u64 {
        cost.distances * self.vector_bytes + cost.hops * self.links_bytes
    }

    /// Bytes per second that all queries read.
    pub fn bytes_per_second(&self) -> f64 {
        self.costs.iter().map(|&cost| self.bytes(cost)).sum::<u64>() as f64 / self.time.as_secs_f64()
    }

    /// Floating-point operations of all distances, per second.
    pub fn operations_per_second(&self) -> f64 {
        let distances: u64 = self.costs.iter().map(|cost| cost.distances).sum();
        (distances * self.operations) as f64 / self.time.as_secs_f64()
    }
}

// Not generic, so that this crate has the only copy of their machine code.

fn profile(index: &Index, queries: Vectors<'_>, params: SearchParams<'_>) -> Result<Profile, SearchError> {
    let profile = |queries: &[VectorView<'_>]| profile_rows(&index.inner, queries, params);
    queries.with_rows(index.element(), profile).map_err(vector_error)?
}

fn device_time(
    index: &Index,
    queries: Vectors<'_>,
    params: SearchParams<'_>,
) -> Result<Option<Duration>, SearchError> {
    let profile = |queries: &[VectorView<'_>]| index.inner.backend.profile(queries, params);
    Ok(queries.with_rows(index.element(), profile).map_err(vector_error)??.map(|(time, _)| time))
}

fn profile_rows(
    index: &IndexInner,
    queries: &[VectorView<'_>],
    params: SearchParams<'_>,
) -> Result<Profile, SearchError> {
    let params = params.distances(Distances::Exact);
    let (time, costs) = match index.backend.profile(queries, params)? {
        Some(measured) => measured,
        None => on_host(index, queries, params)?,
    };
    let (dimension, metric) = (index.dimension, index.metric);
    // Cosine distances of floats are squared L2 distances of unit vectors.
    let is_difference = metric == Metric::L2 || metric == Metric::Cosine && !index.element.is_integer();
    Ok(Profile {
        time,
        costs,
        vector_bytes: index.backend.read(|graph| graph.vectors().row_bytes()) as u64,
        links_bytes: (index.stats().params.max_degree() * size_of::<u32>()) as u64,
        operations: dimension as u64 * if is_difference { 3 } else { 2 },
    })
}

/// The time of a batch, and the cost of each query.
fn on_host(
    index: &IndexInner,
    queries: &[VectorView<'_>],
    params: SearchParams<'_>,
) -> Result<(Duration, Vec<OperationCounts>), SearchError> {
    let mut matches = Matches::new(queries.len(), params.k)?;
    index.backend.search_batch(queries, params, matches.as_mut())?;
    let begun = Instant::now();
    index.backend.search_batch(queries, params, matches.as_mut())?;
    let time = begun.elapsed();
    // A query costs the same alone as in a batch.
    let costs = (0..queries.len())
        .zip(matches.as_mut().rows(params.k))
        .map(|(query, row)| Ok(index.backend.search_batch(&queries[query..=query], params, row)?.cost));
    Ok((time, costs.collect::<Result<_, SearchError>>()?))
}
