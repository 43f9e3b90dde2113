//! Profiling a search: the time of its launches, and the cost of each query.

use std::time::Duration;

use gpu_kernels::Stream as _;
use jasper_core::{Element, VectorView, with_element};
use jasper_vamana::{OperationCounts, SearchError, SearchParams, check_elements};

use crate::{DeviceBatch, DeviceSearcher, GraphView, PoolRetention, Stream, median_time};

/// Repetitions of a measurement.
const TIMES: usize = 9;

impl DeviceSearcher {
    /// Measures a search with queries and results in device memory: the median time of the launches, measured with
    /// events, and hops and distances of each query, without those of the rerank. Arguments are those of
    /// [`Self::search_batch`].
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn profile(
        &self,
        graph: GraphView<'_>,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<(Duration, Vec<OperationCounts>), SearchError> {
        with_element!(graph.host().element(), T => self.profile_of::<T>(graph, queries, params))
    }

    fn profile_of<T: Element>(
        &self,
        graph: GraphView<'_>,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<(Duration, Vec<OperationCounts>), SearchError> {
        // Refuses invalid parameters before allocating.
        self.plan(graph, params, queries.len())?;
        check_elements(graph.host(), queries)?;
        let prepared = graph.host().vectors().prepare_all::<T>(queries.iter().map(VectorView::of))?;
        // Allocating temporary memory from the driver is not timed.
        let _retention = PoolRetention::new(self.context())?;
        let stream = Stream::new(self.context())?;
        let count = queries.len();
        let queries = stream.upload(&prepared)?;
        let (mut results, mut costs) = (stream.allocate(count * params.k)?, stream.allocate(count * 2)?);
        let launch = || {
            let arrays = DeviceBatch { queries: &queries, results: &mut results, costs: &mut costs };
            self.enqueue(graph, &stream, params, arrays)
        };
        let time = median_time(&stream, TIMES, || Ok(()), launch)?;
        let costs = stream.download(&costs)?;
        let costs = costs.chunks_exact(2).map(|cost| OperationCounts {
            hops: cost[0].into(),
            distances: cost[1].into(),
            ..OperationCounts::default()
        });
        Ok((time, costs.collect()))
    }
}
