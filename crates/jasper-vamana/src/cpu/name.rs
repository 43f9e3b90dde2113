//! The name of the CPU.

use std::fs;

/// Name of the CPU, such as `AMD EPYC 9B14`, or of its architecture if the operating system does not say.
pub fn cpu_name() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}
