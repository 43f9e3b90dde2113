//! Errors of devices.

use std::convert::Infallible;
use std::error::Error;

/// A device cannot be used, or failed, or the index is not where the call needs it: on a device, or in one graph.
///
/// With the feature `cuda` of the crate `jasper`, the source of [`Self::Unavailable`] and [`Self::Failed`] is a
/// `jasper_cuda::Error`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The program was compiled without CUDA.
    #[error(
        "device cuda:{0} cannot be used: jasper was compiled without CUDA; use cpu or auto, or enable the feature `cuda`"
    )]
    NotCompiled(usize),
    /// There is no such device, no driver for it, or not enough room on it.
    #[error("device cuda:{device} cannot be used")]
    Unavailable {
        /// Number of the device.
        device: usize,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The device failed.
    #[error("device cuda:{device} failed")]
    Failed {
        /// Number of the device.
        device: usize,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Queries in device memory were given to an index on the CPU.
    #[error("the index is on the cpu, which cannot read device memory; move it to a CUDA device")]
    OnCpu,
    /// The operation needs all vectors in one graph.
    #[error("{0} is not supported on a sharded index; build it without shards")]
    Sharded(&'static str),
}

/// The CPU as a device cannot fail.
impl From<Infallible> for DeviceError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
