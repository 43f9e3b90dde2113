//! Options that several commands share.

mod device;
mod distances;
mod graph;
mod quantization;

pub use device::{DeviceArgs, VectorStorageArgs, on_threads, storage_on_device};
pub use distances::DistanceArgs;
pub use graph::GraphArgs;
pub use quantization::QuantizationChoice;

/// Parses a number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1; leave it out for one per CPU".to_owned()),
        threads => threads.map_err(|error| error.to_string()),
    }
}
