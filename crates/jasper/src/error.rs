//! All errors and their causes. Those of most calls are also at the root of the crate.

pub use crate::builder::BuildError;
pub use crate::check::CheckError;
pub use crate::device::{MoveError, ParseDeviceError};
pub use crate::device_set::ParseSpreadError;
pub use crate::index::OpenError;
pub use crate::journal::{JournalError, JournalFault};
pub use crate::tune::error::{QuantizeError, TuneError};
pub use jasper_core::{Cancelled, DeviceError, MatrixError, ParamError};
pub use jasper_graph::{FileError, FileFault, KeyError, VectorError};
pub use jasper_quant::{ParseQuantizationError, TrainError};
pub use jasper_vamana::{
    CheckpointError, ParseMemorySpaceError, PlanError, PoolError, SearchError, UpdateError,
};

/// Converts errors of inner calls. Failures of the device and cancellation keep their own variant, so that callers
/// match them in one place.
macro_rules! convert {
    ($($Inner:ident => $Outer:ident::$Variant:ident;)*) => {$(
        impl From<$Inner> for $Outer {
            fn from(error: $Inner) -> Self {
                match error {
                    $Inner::Cancelled(error) => Self::Cancelled(error),
                    $Inner::Device(error) => Self::Device(error),
                    error => Self::$Variant(error),
                }
            }
        }
    )*};
}

convert! {
    SearchError => TuneError::Search;
    UpdateError => TuneError::Update;
    SearchError => QuantizeError::Search;
    UpdateError => QuantizeError::Update;
    UpdateError => BuildError::Input;
    QuantizeError => BuildError::Quantize;
}
