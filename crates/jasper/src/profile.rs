//! A batch of searches looked at closely: what each query took, and how fast the bytes came.

use std::time::{Duration, Instant};

use jasper_core::{Element, MatrixView, Metric, padded_len};
use jasper_vamana::{Distances, SearchCost, SearchError, SearchParams};

use crate::SharedIndex;
#[cfg(feature = "cuda")]
use crate::home::Home;

/// What a batch of searches took.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Time of the batch: on a CUDA device that of the launch alone, with queries and answers in device memory.
    pub time: Duration,
    /// Hops and distances of each query.
    pub costs: Vec<SearchCost>,
    /// Bytes that a distance asks for: a vector, with its padding.
    pub vector_bytes: u64,
    /// Bytes that a hop asks for: the edges of a vertex, at full degree.
    pub links_bytes: u64,
    /// Operations on floats that a distance is: a difference, a product and a sum a coordinate, or the last two.
    pub operations: u64,
}

/// What a device gives at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    /// Bytes a second of a copy within its memory, read and written ones.
    pub bytes_per_second: f64,
    /// Operations on f32 a second, by its clock and its lanes.
    pub operations_per_second: f64,
}

impl Profile {
    /// Bytes that a query asked for, from memory or caches.
    pub fn bytes(&self, cost: SearchCost) -> u64 {
        cost.distances * self.vector_bytes + cost.hops * self.links_bytes
    }

    /// Bytes that all queries asked for, a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.costs.iter().map(|&cost| self.bytes(cost)).sum::<u64>() as f64 / self.time.as_secs_f64()
    }

    /// Operations on floats of all distances, a second.
    pub fn operations_per_second(&self) -> f64 {
        let distances: u64 = self.costs.iter().map(|cost| cost.distances).sum();
        (distances * self.operations) as f64 / self.time.as_secs_f64()
    }
}

impl<T: Element> SharedIndex<T> {
    /// Searches for `queries` and looks closely: the counters of each query, and the time of all. Distances are exact,
    /// whatever `params` say of codes: bytes are those of vectors.
    ///
    /// Bytes are those asked for. On a processor an index with sketches reads fewer: a sketch rules most rows out.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn profile(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Profile, SearchError> {
        let (time, costs) = self.measure(queries, params.distances(Distances::Exact))?;
        let max_degree = self.home.read(|graph| graph.params().max_degree());
        let (dimension, metric) = (self.dimension(), self.metric());
        // Cosine of floats is the squared L2 of rows at unit length.
        let is_difference = metric == Metric::L2 || metric == Metric::Cosine && !T::EXACT;
        Ok(Profile {
            time,
            costs,
            vector_bytes: (padded_len::<T>(dimension) * size_of::<T>()) as u64,
            links_bytes: (max_degree * size_of::<u32>()) as u64,
            operations: dimension as u64 * if is_difference { 3 } else { 2 },
        })
    }

    fn measure(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<(Duration, Vec<SearchCost>), SearchError> {
        #[cfg(feature = "cuda")]
        if let Home::Cuda(cuda) = &self.home {
            let pool = self.executor.pool();
            let profile = cuda.search(|graph| cuda.contexts.profile(graph, pool, queries, params))?;
            return Ok((profile.time, profile.costs));
        }
        let mut hits = params.places(queries.len())?;
        self.search_into(queries, params, &mut hits)?;
        let begun = Instant::now();
        self.search_into(queries, params, &mut hits)?;
        let time = begun.elapsed();
        // A query costs the same when it is searched for alone.
        let costs = (0..queries.len())
            .zip(hits.chunks_exact_mut(params.k))
            .map(|(query, hits)| Ok(self.search_into(queries.slice(query..query + 1), params, hits)?.cost));
        Ok((time, costs.collect::<Result<_, SearchError>>()?))
    }

    /// How long the searches for `queries` take a GPU that has them in its memory, and leaves answers there: the median of
    /// some rounds, by its own clock. None on a processor.
    ///
    /// # Errors
    /// [`SearchError`].
    #[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "there is no GPU"))]
    pub fn resident_time(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<Option<Duration>, SearchError> {
        #[cfg(feature = "cuda")]
        if let Home::Cuda(cuda) = &self.home {
            let pool = self.executor.pool();
            return cuda.search(|graph| Ok(Some(cuda.contexts.profile(graph, pool, queries, params)?.time)));
        }
        Ok(None)
    }

    /// What its device gives at most, measured now; none on a processor, whose caches make a copy say little.
    ///
    /// # Errors
    /// [`SearchError::Device`].
    pub fn roof(&self) -> Result<Option<Roof>, SearchError> {
        #[cfg(feature = "cuda")]
        if let Home::Cuda(cuda) = &self.home {
            let context = cuda.contexts.context();
            let stream = jasper_cuda::Stream::new(context)?;
            let bytes_per_second = jasper_cuda::copy_bandwidth(&stream)?;
            let operations_per_second = context.device().peak_f32();
            return Ok(Some(Roof { bytes_per_second, operations_per_second }));
        }
        Ok(None)
    }
}
