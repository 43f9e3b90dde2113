//! Errors: the few types that calls return, and in [`crate::error`] their causes.

pub use jasper_core::{Cancelled, MatrixError, ParamError};
pub use jasper_graph::{FileFault, KeyError, VectorError};
pub use jasper_quant::TrainError;
pub use jasper_vamana::{CheckpointError, ExactError, PlanError, PoolError, QuantizeError};

use jasper_core::Key;
use jasper_vamana::SearchError;

use crate::DeviceError;

/// An index could not be changed; it is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// A key cannot be deleted or restored.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key was given twice in one call.
    #[error("key {0} is given twice")]
    RepeatedKey(Key),
    /// There are no vectors, or no memory for more.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// Vectors cannot be quantized.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    /// There are no codes.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
