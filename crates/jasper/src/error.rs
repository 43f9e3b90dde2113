//! Errors: the few types that calls return, and in [`crate::error`] their causes.

pub use jasper_core::{Cancelled, MatrixError, ParamError};
pub use jasper_graph::{FileFault, KeyError, VectorError};
pub use jasper_quant::TrainError;
pub use jasper_vamana::{CheckpointError, PlanError, PoolError};
