//! Where an index is built: on the processor, or on a CUDA device.

use jasper_build::{Checkpoints, CpuExecutor, InsertError, Work, link_on_host};
use jasper_core::{Element, ProgressFn, VectorId};
use jasper_graph::Graph;

use crate::{Device, DeviceError};

/// A processor that is ready to build. Without the feature `cuda` there is only one kind.
pub(crate) struct Place {
    /// None where the processor builds.
    #[cfg(feature = "cuda")]
    context: Option<jasper_cuda::Context>,
}

impl Place {
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

    /// Links the vertices of a bulk build: see [`jasper_build::bulk_build_by`].
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
    ) -> Result<Work, InsertError> {
        #[cfg(feature = "cuda")]
        if let Some(context) = &self.context {
            let pool = executor.pool();
            return jasper_cuda::link_on_device(context, pool, graph, order, checkpoints, progress);
        }
        link_on_host(executor, graph, order, checkpoints, progress)
    }
}
