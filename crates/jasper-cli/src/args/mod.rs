//! Options that several commands share.

mod attributes;
mod device;
mod distances;
mod graph;
mod quantization;

pub use attributes::ColumnArgs;
pub use device::{DeviceArgs, PlacementArgs, note_faults, on_threads, storage_on_device};
pub use distances::DistanceArgs;
pub use graph::GraphArgs;
pub use quantization::QuantizationChoice;

use crate::process;

/// Parses a number of threads, and limits it to one per CPU: more would not be faster, and thousands never end.
pub fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1; leave it out for one per CPU".to_owned()),
        Ok(threads) => Ok(threads.min(process::threads(None))),
        Err(error) => Err(error.to_string()),
    }
}
