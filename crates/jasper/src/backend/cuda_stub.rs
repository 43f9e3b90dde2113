//! CUDA devices without the feature `cuda`: there are none.

use std::sync::Arc;

use jasper_core::{Element, ProgressFn};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildSpec, Bytes, Checkpoints, CpuExecutor, Ingested, Linked, MemoryPlan, MemorySpace, ScalarQuantizer,
    UpdateError,
};

use super::Combine;
use crate::DeviceError;

pub(crate) fn check_device(ordinal: usize) -> Result<(), DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
}

pub(super) fn ordinals() -> Result<Vec<usize>, DeviceError> {
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

pub(crate) fn upload<T: Element>(
    _: &Graph<T>,
    _: &CpuExecutor,
    ordinal: usize,
    _: Option<MemorySpace>,
) -> Result<Combine<T>, DeviceError> {
    Err(DeviceError::NotCompiled(ordinal))
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
    pub(crate) fn prepare<T: Element>(&self, _: &BuildSpec, _: bool) {
        match *self {}
    }

    pub(crate) fn link<T: Element>(
        &self,
        _: &Arc<CpuExecutor>,
        _: Ingested<T>,
        _: Option<&ScalarQuantizer>,
        _: Option<Checkpoints<'_>>,
        _: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        match *self {}
    }
}
