//! For benchmarks: synthetic sets, recall, profiles, and runbooks of changes.

mod profile;
pub mod recall;
pub mod runbook;

pub use crate::device::cpu_name;
pub use jasper_core::synthetic;
pub use profile::{DevicePeaks, Measure, Profile};
