//! Options that several commands share.

mod device;
mod distances;
mod graph;
mod quantization;

use jasper::SearchError;

pub use device::{DeviceArgs, VectorStorageArgs, on_threads, storage_on_device};
pub use distances::DistanceArgs;
pub use graph::GraphArgs;
pub use quantization::QuantizationChoice;

/// Checks the sizes of a search, before files are read.
pub fn check_search(k: usize, beam_widths: &[usize]) -> Result<(), SearchError> {
    if k == 0 {
        return Err(SearchError::ZeroK);
    }
    match beam_widths.iter().find(|&&beam_width| beam_width < k) {
        Some(&beam_width) => Err(SearchError::BeamWidth { beam_width, k }),
        None => Ok(()),
    }
}

/// Parses a number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1; leave it out for one per CPU".to_owned()),
        threads => threads.map_err(|error| error.to_string()),
    }
}
