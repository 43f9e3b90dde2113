//! What stands for CUDA where this crate is compiled without it: types that have no values.

#![allow(clippy::unused_self, reason = "no value is there to be used")]

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use jasper_core::{Element, MatrixView, ProgressFn};
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{
    BuildShape, Bytes, Checkpoints, CompactReport, CpuExecutor, Hit, Ingested, Linked, MatchesMut,
    MemoryPlan, SearchCost, SearchError, SearchParams, SearchReport, UpdateError, VectorStorage,
};

use crate::DeviceError;
use crate::bench::DevicePeaks;

pub(crate) fn find(ordinal: usize) -> Result<(), DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn ordinals() -> Result<Vec<usize>, DeviceError> {
    Ok(Vec::new())
}

#[expect(clippy::extra_unused_type_parameters, reason = "the signature of the CUDA backend")]
pub(crate) fn plan_build<T: Element>(_: &BuildShape, ordinal: usize) -> Result<MemoryPlan, DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn plan_graph<T: Element>(_: &Graph<T>, _: VectorStorage) -> Option<MemoryPlan> {
    None
}

pub(crate) struct CudaGraph<T>(Infallible, PhantomData<T>);

#[derive(Debug)]
pub(crate) struct CudaBackend<T>(Infallible, PhantomData<T>);

pub(crate) struct CudaBuilder(Infallible);

impl<T: Element> CudaGraph<T> {
    pub(crate) fn upload(
        _: &Graph<T>,
        _: &ThreadPool,
        ordinal: usize,
        _: Option<VectorStorage>,
    ) -> Result<Self, DeviceError> {
        Err(DeviceError::NotCompiled(ordinal))
    }
}

impl<T: Element> CudaBackend<T> {
    pub(crate) fn new(_: Graph<T>, copy: CudaGraph<T>, _: &Arc<CpuExecutor>) -> Self {
        match copy.0 {}
    }

    pub(crate) fn executor(&self) -> &CpuExecutor {
        match self.0 {}
    }

    pub(crate) fn graph(&self) -> &RwLock<Graph<T>> {
        match self.0 {}
    }

    pub(crate) fn read<R>(&self, _: impl FnOnce(&Graph<T>) -> R) -> R {
        match self.0 {}
    }

    pub(crate) fn read_edges(&self, _: &ThreadPool) -> Result<(), DeviceError> {
        match self.0 {}
    }

    pub(crate) fn into_graph(self) -> Graph<T> {
        match self.0 {}
    }

    pub(crate) fn ordinal(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn device_name(&self) -> String {
        match self.0 {}
    }

    pub(crate) fn max_beam_width(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn vector_storage(&self) -> VectorStorage {
        match self.0 {}
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn check_updates(&self) -> Result<(), DeviceError> {
        match self.0 {}
    }

    pub(crate) fn pin_memory(&self) -> Result<(), DeviceError> {
        match self.0 {}
    }

    pub(crate) fn compact(&self) -> Result<CompactReport, DeviceError> {
        match self.0 {}
    }

    pub(crate) fn search(
        &self,
        _: &ThreadPool,
        _: &[T],
        _: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        match self.0 {}
    }

    pub(crate) fn search_batch(
        &self,
        _: &ThreadPool,
        _: MatrixView<'_, T>,
        _: SearchParams<'_>,
        _: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        match self.0 {}
    }

    pub(crate) fn profile(
        &self,
        _: &ThreadPool,
        _: MatrixView<'_, T>,
        _: SearchParams<'_>,
    ) -> Result<(Duration, Vec<SearchCost>), SearchError> {
        match self.0 {}
    }

    pub(crate) fn peaks(&self) -> Result<DevicePeaks, DeviceError> {
        match self.0 {}
    }
}

impl CudaBuilder {
    pub(crate) fn open(ordinal: usize) -> Result<Self, DeviceError> {
        Err(DeviceError::NotCompiled(ordinal))
    }

    pub(crate) fn ordinal(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn device_name(&self) -> String {
        match self.0 {}
    }

    pub(crate) fn free_memory(&self) -> Result<Bytes, DeviceError> {
        match self.0 {}
    }

    #[expect(clippy::extra_unused_type_parameters, reason = "the signature of the CUDA backend")]
    pub(crate) fn prepare<T: Element>(&self, _: &BuildShape) {
        match self.0 {}
    }

    pub(crate) fn link<T: Element>(
        &self,
        _: &CpuExecutor,
        _: Ingested<T>,
        _: Option<Checkpoints<'_>>,
        _: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        match self.0 {}
    }
}
