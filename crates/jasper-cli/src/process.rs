//! Memory and CPU time of this process, on Linux; unknown elsewhere.

use std::fs;

/// Peak resident memory in bytes.
pub fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// CPU time of all living threads, in seconds.
pub fn cpu_seconds() -> Option<f64> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let times = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += times.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(nanoseconds as f64 * 1e-9)
}

/// The number of threads for the option `--threads`, one per CPU by default.
pub fn threads(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
