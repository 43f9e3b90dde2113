//! An index in host memory.

use std::sync::Arc;

use jasper_core::{DeviceError, Slot, VectorView};
use jasper_graph::Graph;
use jasper_vamana::{
    ChangeHooks, CompactReport, ConsolidateReport, CpuExecutor, Explanation, Hit, HostGraph, InsertReport,
    MatchesMut, MemorySpace, NewVectors, SearchError, SearchParams, SearchReport, UpdateError, compact,
    cpu_name,
};

use super::Backend;
use crate::Device;

/// A graph in host memory, searched and changed by the CPU.
pub(crate) struct HostBackend {
    graph: HostGraph,
    executor: Arc<CpuExecutor>,
}

impl HostBackend {
    pub(crate) fn new(graph: Graph, executor: Arc<CpuExecutor>) -> Self {
        Self { graph: HostGraph::new(graph), executor }
    }
}

impl Backend for HostBackend {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn device_name(&self) -> String {
        cpu_name()
    }

    fn vector_storage(&self) -> MemorySpace {
        MemorySpace::Host
    }

    fn max_beam_width(&self) -> usize {
        usize::MAX
    }

    fn read_graph(&self, read: &mut dyn FnMut(&Graph)) {
        self.graph.read(read);
    }

    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        self.graph.write(change);
        Ok(())
    }

    fn into_graphs(self: Arc<Self>) -> Vec<Graph> {
        let this = Arc::into_inner(self).expect("the caller holds the only reference");
        vec![this.graph.into_inner()]
    }

    fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError> {
        self.graph.explain(params, queries)
    }

    fn search_one(&self, query: VectorView<'_>, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        self.graph.search_one(&self.executor, query, params)
    }

    fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.graph.search_batch(&self.executor, queries, params, matches)
    }

    fn insert(&self, new: NewVectors<'_>, hooks: ChangeHooks<'_>) -> Result<InsertReport, UpdateError> {
        self.graph.insert(&self.executor, new, hooks)
    }

    fn consolidate(&self, hooks: ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError> {
        self.graph.consolidate(&self.executor, hooks)
    }

    fn compact(&self) -> Result<CompactReport, UpdateError> {
        Ok(self.graph.write(compact)?)
    }

    fn without_edges(&self, vertices: &[Slot], work: &mut dyn FnMut()) -> Result<(), DeviceError> {
        self.graph.without_edges(&self.executor, vertices, work);
        Ok(())
    }
}
