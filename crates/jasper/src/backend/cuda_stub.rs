//! CUDA devices without the feature `cuda`: there are none.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use jasper_core::{DeviceError, ProgressFn};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildSpec, Bytes, Checkpoints, CpuExecutor, Ingested, Linked, MemoryPlan, MemorySpace, UpdateError,
};

use super::Backend;
use crate::Device;

pub(crate) fn check_device(ordinal: usize) -> Result<(), DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn ordinals() -> Result<Vec<usize>, DeviceError> {
    Ok(Vec::new())
}

pub(crate) fn plan_build(_: &BuildSpec, _: bool, ordinal: usize) -> Result<MemoryPlan, DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn plan_graph(_: &Graph, _: MemorySpace) -> Option<MemoryPlan> {
    None
}

pub(crate) struct DeviceGraph(Infallible);

pub(crate) fn upload_graph(
    _: &Graph,
    _: &CpuExecutor,
    ordinal: usize,
    _: Option<MemorySpace>,
) -> Result<DeviceGraph, DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn cuda_backend(
    _: Graph,
    copy: DeviceGraph,
    _: Arc<CpuExecutor>,
    _: bool,
    _: Arc<Mutex<()>>,
) -> Arc<dyn Backend> {
    match copy.0 {}
}

pub(crate) struct OpeningDevice;

impl OpeningDevice {
    pub(crate) fn start(_: Device) -> Self {
        Self
    }
}

pub(crate) enum BuildDevice {}

impl BuildDevice {
    pub(crate) fn open(ordinal: usize) -> Result<Self, DeviceError> {
        Err(DeviceError::NotCompiled(ordinal))
    }

    pub(crate) fn ordinal(&self) -> usize {
        match *self {}
    }

    pub(crate) fn device_name(&self) -> String {
        match *self {}
    }

    pub(crate) fn free_memory(&self) -> Result<Bytes, DeviceError> {
        match *self {}
    }

    pub(crate) fn preload_kernels(&self, _: &BuildSpec, _: bool) {
        match *self {}
    }

    pub(crate) fn quantize(&self, _: &CpuExecutor, _: &Graph) -> Result<Option<Infallible>, DeviceError> {
        match *self {}
    }

    pub(crate) fn link(
        &self,
        _: &Arc<CpuExecutor>,
        _: Ingested,
        _: Option<Infallible>,
        _: Option<Checkpoints<'_>>,
        _: &mut ProgressFn<'_>,
    ) -> Result<Linked, UpdateError> {
        match *self {}
    }
}
