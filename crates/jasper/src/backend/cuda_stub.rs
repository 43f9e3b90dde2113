//! CUDA devices without the feature `cuda`: there are none.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use jasper_core::{DeviceError, Element, ProgressFn};
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

#[expect(clippy::extra_unused_type_parameters, reason = "the signature of the CUDA backend")]
pub(crate) fn plan_build<T: Element>(
    _: &BuildSpec,
    _: bool,
    ordinal: usize,
) -> Result<MemoryPlan, DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn plan_graph<T: Element>(_: &Graph<T>, _: MemorySpace) -> Option<MemoryPlan> {
    None
}

pub(crate) struct DeviceGraph<T>(Infallible, PhantomData<T>);

pub(crate) fn upload_graph<T: Element>(
    _: &Graph<T>,
    _: &CpuExecutor,
    ordinal: usize,
    _: Option<MemorySpace>,
) -> Result<DeviceGraph<T>, DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(crate) fn cuda_backend<T: Element>(
    _: Graph<T>,
    copy: DeviceGraph<T>,
    _: Arc<CpuExecutor>,
    _: bool,
    _: Arc<Mutex<()>>,
) -> Arc<dyn Backend<T>> {
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

    #[expect(clippy::extra_unused_type_parameters, reason = "the signature of the CUDA backend")]
    pub(crate) fn preload_kernels<T: Element>(&self, _: &BuildSpec, _: bool) {
        match *self {}
    }

    pub(crate) fn quantize<T: Element>(
        &self,
        _: &CpuExecutor,
        _: &Graph<T>,
    ) -> Result<Option<Infallible>, DeviceError> {
        match *self {}
    }

    pub(crate) fn link<T: Element>(
        &self,
        _: &Arc<CpuExecutor>,
        _: Ingested<T>,
        _: Option<Infallible>,
        _: Option<Checkpoints<'_>>,
        _: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        match *self {}
    }
}
