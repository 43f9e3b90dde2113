//! Errors of builds.

use jasper_core::{Cancelled, DeviceError, MatrixError, ParamError};
use jasper_vamana::{PlanError, PoolError, UpdateError};

use crate::backend::MAX_SHARDS;
use crate::tune::error::QuantizeError;

/// An index could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// A parameter is out of its bounds.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The device cannot be used, or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The dimension is out of range.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// The build needs more memory than there is.
    #[error(transparent)]
    Memory(#[from] PlanError),
    /// The threads could not be started.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// Vectors, keys or a checkpoint are invalid or cannot be read, or vectors cannot be quantized: the errors of
    /// [`Index::insert`](crate::Index::insert) and [`Index::quantize`](crate::Index::quantize).
    #[error(transparent)]
    Input(UpdateError),
    /// No quantization suits the vectors.
    #[error(transparent)]
    Quantize(QuantizeError),
    /// An option that needs vectors was set for [`IndexBuilder::empty`](crate::IndexBuilder::empty).
    #[error("{0} needs vectors, and the index is empty; leave it out, or build from vectors")]
    Empty(&'static str),
    /// The number of shards is out of its bounds.
    #[error("shards ({0}) must be between 1 and {max}", max = MAX_SHARDS)]
    Shards(usize),
    /// An option was set that shards do not have.
    #[error("{0} is not supported with several shards; leave it out, or build one graph")]
    Sharded(&'static str),
    /// The progress callback cancelled the build.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

#[cfg(test)]
mod tests {
    use jasper_core::{MatrixView, Metric};

    use crate::{Device, ErrorKind, IndexBuilder};

    #[test]
    fn an_index_that_cannot_be_moved_is_in_the_error() {
        let builder = IndexBuilder::new(Metric::L2).threads(1);
        let index = builder.build(MatrixView::new(&[1_u8, 2, 3, 4], 2).unwrap()).unwrap();
        let there = builder.clone().device(Device::Cuda(999));
        let error = there.placed(index).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.starts_with("device cuda:999 cannot be used"), "{source}");
        assert_eq!(error.into_index().unwrap().vector(1), Some(vec![3.0, 4.0]));
        let index = builder.build(MatrixView::new(&[1_u8, 2, 3, 4], 2).unwrap()).unwrap();
        assert_eq!(there.keep_on_host(true).placed(index).unwrap().device(), Device::Cpu);
    }
}
