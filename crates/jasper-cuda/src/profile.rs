//! A search looked at closely: the time of its launch alone, and what each query took.

use std::time::Duration;

use gpu_kernels::Stream as _;
use jasper_core::{Element, MatrixView};
use jasper_data::ThreadPool;
use jasper_vamana::{SearchCost, SearchError, SearchParams};

use crate::{DeviceBatch, GraphView, PoolRetention, SearchContexts, Stream, median_time};

/// Launches that are timed.
const TIMES: usize = 9;

/// What the launch of a search took.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchProfile {
    /// The median time of the launch, by events.
    pub time: Duration,
    /// Hops and distances of each query; not those of a rerank.
    pub costs: Vec<SearchCost>,
}

impl<T: Element> SearchContexts<T> {
    /// Searches for `queries` when they lie in device memory, some times over: what is left of a search when nothing
    /// crosses the bus. Arguments are those of [`Self::answer`].
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn profile(
        &self,
        graph: GraphView<'_, T>,
        pool: &ThreadPool,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<LaunchProfile, SearchError> {
        // What the device does not take is refused before there is room for its answers.
        graph.plan(params)?;
        let prepared = graph.host().vectors().prepare_all(queries)?;
        // Memory for what launches leave to each other is no part of their time.
        let _kept = PoolRetention::new(self.context())?;
        let stream = Stream::new(self.context())?;
        let count = queries.len();
        let queries = stream.upload(&prepared)?;
        let (mut answers, mut work) = (stream.allocate(count * params.k)?, stream.allocate(count * 2)?);
        let launch = || {
            let arrays = DeviceBatch { queries: &queries, answers: &mut answers, work: &mut work };
            self.launch(graph, pool, &stream, params, arrays)
        };
        let time = median_time(&stream, TIMES, || Ok(()), launch)?;
        let work = stream.download(&work)?;
        let costs = work.chunks_exact(2).map(|work| SearchCost {
            hops: work[0].into(),
            distances: work[1].into(),
            ..SearchCost::default()
        });
        Ok(LaunchProfile { time, costs: costs.collect() })
    }
}
