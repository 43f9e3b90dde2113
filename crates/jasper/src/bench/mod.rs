//! For benchmarks: what searches cost, and what a GPU can do at most.

mod profile;

pub use profile::{DevicePeaks, Profile};
