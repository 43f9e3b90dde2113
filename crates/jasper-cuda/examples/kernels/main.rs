//! What the kernels reach on the GPU at hand: one line of JSON a measurement.
//!
//! ```sh
//! cargo run --release -p jasper-cuda --example kernels                # everything
//! cargo run --release -p jasper-cuda --example kernels -- distances   # one part
//! ```
//!
//! Times are medians of events around one launch or sequence, after one that is not counted. Rates count the bytes that
//! the work needs, and stand beside the rate of a copy within the device, measured in the same run.

mod distances;
mod knn;
mod pairs;

use std::time::Duration;

use gpu_kernels::Stream as _;
use jasper_cuda::{Context, Event, Result, Stream};
use serde_json::{Value, json};

/// Repetitions of a measurement.
const TIMES: usize = 7;
/// Bytes of the arrays whose rows are read at random, and of the copy: far more than caches hold.
const LARGE: usize = 8 << 30;

/// A part of the program: its name, and what it prints.
type Part = (&'static str, fn(&Bench) -> Result<()>);

const PARTS: [Part; 3] = [("distances", distances::run), ("knn", knn::run), ("pairs", pairs::run)];

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let context = Context::open(0)?;
    let mut bench = Bench { stream: Stream::new(&context)?, copy: f64::NAN };
    let device = context.device();
    println!("{}", json!({"what": "device", "name": device.name, "multiprocessors": device.multiprocessors}));
    bench.copy = bench.measure_copy()?;
    println!("{}", json!({"what": "copy", "gb_per_s": bench.copy}));
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
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
        mut prepare: impl FnMut() -> Result<()>,
        mut work: impl FnMut() -> Result<()>,
    ) -> Result<Duration> {
        let (begin, end) = (Event::new(self.stream.context())?, Event::new(self.stream.context())?);
        prepare()?;
        work()?;
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            prepare()?;
            begin.record(&self.stream)?;
            work()?;
            end.record(&self.stream)?;
            times.push(end.since(&begin)?);
        }
        times.sort_unstable();
        Ok(times[TIMES / 2])
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

    /// The rate of a copy from one half of an array to the other, read and written bytes counted.
    fn measure_copy(&self) -> Result<f64> {
        let (from, mut to) = (self.stream.allocate::<u8>(LARGE / 4)?, self.stream.allocate::<u8>(LARGE / 4)?);
        let time = self.time(|| self.stream.copy(&from, &mut to))?;
        Ok(2.0 * (LARGE / 4) as f64 / time.as_secs_f64() / 1e9)
    }
}
