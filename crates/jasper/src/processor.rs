//! The processor's name.

use std::fs;

/// Name of the processor, such as `AMD EPYC 9B14`; of its architecture where the operating system does not tell.
pub fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}
