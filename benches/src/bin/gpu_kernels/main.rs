//! Measures kernels on a GPU. Prints one line of JSON per measurement.
//!
//! ```sh
//! cargo run --release -p jasper-benches --bin gpu_kernels                # everything
//! cargo run --release -p jasper-benches --bin gpu_kernels -- codes       # one part
//! ```
//!
//! Times are medians of one launch or sequence timed by events, after one warm-up. Bandwidths count the bytes that the
//! work needs, and are compared with that of a copy within the device in the same run.

mod codes;
mod knn;
#[cfg(test)]
mod lost_device;
mod pairs;

use std::time::Duration;

use jasper_cuda::{Context, Result, Stream, copy_bandwidth, median_time};
use serde_json::{Value, json};

/// Repetitions of a measurement.
const TIMES: usize = 7;

/// A part of the program: its name, and what it prints.
type Part = (&'static str, fn(&Bench) -> Result<()>);

const PARTS: [Part; 3] = [("codes", codes::run), ("knn", knn::run), ("pairs", pairs::run)];

fn main() -> Result<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let context = Context::open(0)?;
    let stream = Stream::new(&context)?;
    let copy = copy_bandwidth(&stream)? / 1e9;
    let bench = Bench { stream, copy };
    let device = context.device();
    println!("{}", json!({"what": "device", "name": device.name, "multiprocessors": device.multiprocessors}));
    println!("{}", json!({"what": "copy", "gb_per_s": bench.copy}));
    for (name, part) in PARTS {
        if names.is_empty() || names.iter().any(|known| known == name) {
            part(&bench)?;
        }
    }
    Ok(())
}

/// What the parts share.
struct Bench {
    stream: Stream,
    /// Gigabytes a second that a copy reads and writes.
    copy: f64,
}

impl Bench {
    /// The median time of `work`, which is only queued.
    fn time(&self, work: impl FnMut() -> Result<()>) -> Result<Duration> {
        self.time_after(|| Ok(()), work)
    }

    /// The same of work that needs something done before it, which is only queued as well and does not count.
    fn time_after(
        &self,
        prepare: impl FnMut() -> Result<()>,
        work: impl FnMut() -> Result<()>,
    ) -> Result<Duration> {
        median_time(&self.stream, TIMES, prepare, work)
    }

    /// Prints a measurement of work that needs `bytes` bytes of device memory to pass.
    fn report(&self, what: Value, time: Duration, bytes: u64) {
        let rate = bytes as f64 / time.as_secs_f64() / 1e9;
        let mut line = what;
        line["milliseconds"] = json!(time.as_secs_f64() * 1e3);
        line["gb_per_s"] = json!(rate);
        line["of_copy"] = json!(rate / self.copy);
        println!("{line}");
    }
}
