//! Where an index is built: on the processor, or on a CUDA device.

use jasper_core::{Element, ProgressFn, VectorId};
use jasper_graph::Graph;
use jasper_vamana::{
    BuildShape, Bytes, Checkpoints, CpuExecutor, InsertError, LinkReport, MemoryPlan, MemorySpace,
    free_host_memory, link_on_host,
};

use crate::{BuildError, Device, DeviceError};

/// A processor that is ready to build. Without the feature `cuda` there is only one kind.
pub(crate) struct Site {
    /// None where the processor builds.
    #[cfg(feature = "cuda")]
    context: Option<jasper_cuda::Context>,
}

impl Site {
    /// Opens the device; [`Device::Auto`] is the processor, whose graph is the same on every machine.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub(crate) fn open(device: Device) -> Result<Self, DeviceError> {
        device.find()?;
        Ok(Self {
            #[cfg(feature = "cuda")]
            context: match device {
                Device::Auto | Device::Cpu => None,
                Device::Cuda(ordinal) => Some(
                    jasper_cuda::Context::open(ordinal)
                        .map_err(|error| DeviceError::Cuda { ordinal, error })?,
                ),
            },
        })
    }

    /// What is free there.
    ///
    /// # Errors
    /// [`DeviceError`]: the device is lost.
    pub(crate) fn free_memory(&self) -> Result<Bytes, DeviceError> {
        #[cfg(feature = "cuda")]
        if let Some(context) = &self.context {
            let ordinal = context.device().ordinal;
            return context.free_memory().map_err(|error| DeviceError::Cuda { ordinal, error });
        }
        Ok(Bytes { host: free_host_memory(), device: 0 })
    }

    /// Has the driver compile what [`Self::link`] will launch, while the caller does something else and keeps the result.
    #[cfg(feature = "cuda")]
    pub(crate) fn prepare<T: Element>(&self, shape: &BuildShape) -> Option<jasper_cuda::KernelPreload> {
        self.context.as_ref().map(|context| jasper_cuda::KernelPreload::for_build::<T>(context, shape))
    }

    /// Links the vertices of a bulk build: see [`jasper_vamana::bulk_build_by`].
    ///
    /// # Errors
    /// [`InsertError`].
    pub(crate) fn link<T: Element>(
        &self,
        executor: &CpuExecutor,
        graph: &mut Graph<T>,
        order: &[VectorId],
        checkpoints: Option<Checkpoints<'_>>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<LinkReport, InsertError> {
        #[cfg(feature = "cuda")]
        if let Some(context) = &self.context {
            let pool = executor.pool();
            return jasper_cuda::link_on_device(context, pool, graph, order, checkpoints, progress);
        }
        link_on_host(executor, graph, order, checkpoints, progress)
    }
}

/// What a build on the device takes that links by rows of bytes, whether the device is there or not.
///
/// # Errors
/// As for [`plan`].
pub(crate) fn plan_quantized<T: Element>(
    shape: &BuildShape,
    device: Device,
) -> Result<MemoryPlan, BuildError> {
    let vectors = shape.vector_bytes::<T>() as u64;
    Ok(plan::<i8>(&shape.quantized(), device)?.part(MemorySpace::Host, "vectors as given", vectors))
}

/// What a build on the device takes, whether the device is there or not.
///
/// # Errors
/// [`BuildError::Device`]: a parameter is beyond what kernels are made for, or there is no CUDA.
pub(crate) fn plan<T: Element>(shape: &BuildShape, device: Device) -> Result<MemoryPlan, BuildError> {
    match device {
        Device::Auto | Device::Cpu => Ok(shape.plan_on_host::<T>()),
        #[cfg(feature = "cuda")]
        Device::Cuda(ordinal) => {
            let plan = jasper_cuda::plan_build::<T>(shape);
            Ok(plan.map_err(|error| DeviceError::Cuda { ordinal, error })?)
        }
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(ordinal) => Err(DeviceError::NotBuilt(ordinal).into()),
    }
}
