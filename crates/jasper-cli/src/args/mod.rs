//! Options that several commands share.

mod device;
mod distances;
mod graph;
mod quantization;
mod vectors;

pub use device::{DeviceArgs, on_threads};
pub use distances::DistanceArgs;
pub use graph::GraphArgs;
pub use quantization::QuantizationChoice;
pub use vectors::{VectorStorageArgs, storage_on_device, warn_pcie};
