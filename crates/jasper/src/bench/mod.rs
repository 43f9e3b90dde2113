//! For benchmarks: synthetic sets, recall, and profiles.

mod profile;
pub mod recall;

pub use crate::device::cpu_name;
pub use jasper_core::synthetic;
pub use profile::{DevicePeaks, Measure, Profile};
