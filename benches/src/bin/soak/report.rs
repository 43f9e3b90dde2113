//! The state over time, and whether it stayed the same.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jasper_plot::{Axis, Chart, Series, svg};
use serde_json::json;

/// The state at a moment, and searches since the moment before.
pub struct Sample {
    pub process: Process,
    pub device_bytes: u64,
    pub recall: f64,
    pub searches: u64,
    pub median_us: f64,
    pub p99_us: f64,
}

/// What the system knows of this process.
pub struct Process {
    /// Bytes in memory.
    pub resident: u64,
    pub open_files: usize,
    pub threads: usize,
}

impl Process {
    /// Reads them; only Linux tells.
    pub fn now() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such field")?;
            Ok::<u64, anyhow::Error>(line.split_whitespace().next().context("no number")?.parse()?)
        };
        let open_files = fs::read_dir("/proc/self/fd")?.count();
        Ok(Self { resident: field("VmRSS:")? * 1024, open_files, threads: field("Threads:")? as usize })
    }
}

/// One of the numbers of a sample.
type Value = fn(&Sample) -> f64;

/// Samples at equal steps of time.
#[derive(Default)]
pub struct Report {
    pub samples: Vec<Sample>,
    minutes: Vec<f64>,
    /// Keys inserted and deleted so far.
    pub changes: usize,
}

/// Largest growth of memory and loss of recall from the second quarter to the last.
const GROWTH: f64 = 0.03;
const LOSS: f64 = 0.005;

impl Report {
    /// Adds a sample, and prints it.
    pub fn push(&mut self, elapsed: Duration, sample: Sample) {
        let minutes = elapsed.as_secs_f64() / 60.0;
        println!(
            "{}",
            json!({
                "minutes": (minutes * 100.0).round() / 100.0, "resident_bytes": sample.process.resident,
                "device_bytes": sample.device_bytes, "open_files": sample.process.open_files,
                "threads": sample.process.threads, "recall": sample.recall, "searches": sample.searches,
                "median_us": sample.median_us.round(), "p99_us": sample.p99_us.round(), "changes": self.changes,
            })
        );
        self.minutes.push(minutes);
        self.samples.push(sample);
    }

    /// Means over the second quarter and over the last.
    fn quarters(&self, of: Value) -> [f64; 2] {
        let quarter = self.samples.len() / 4;
        [quarter, 3 * quarter].map(|first| {
            let samples = &self.samples[first..][..quarter];
            samples.iter().map(of).sum::<f64>() / quarter as f64
        })
    }

    /// Fails if something grew that must not.
    pub fn verdict(&self) -> Result<()> {
        ensure!(self.samples.len() >= 4, "too few samples to compare");
        let grown = |name: &str, of: Value| {
            let [before, after] = self.quarters(of);
            println!("{name}: {before:.4} in the second quarter, {after:.4} in the last");
            ensure!(after <= before * (1.0 + GROWTH), "{name} grew");
            Ok(())
        };
        grown("resident bytes", |sample| sample.process.resident as f64)?;
        grown("device bytes", |sample| sample.device_bytes as f64)?;
        grown("open files", |sample| sample.process.open_files as f64)?;
        grown("threads", |sample| sample.process.threads as f64)?;
        let [before, after] = self.quarters(|sample| sample.recall);
        println!("recall: {before:.4} in the second quarter, {after:.4} in the last");
        ensure!(after >= before - LOSS, "recall fell");
        let [before, after] = self.quarters(|sample| sample.p99_us);
        println!("99th percentile: {before:.0} us in the second quarter, {after:.0} us in the last");
        Ok(())
    }

    /// Draws memory, recall, latency and open files over time.
    pub fn svg(&self, device: &str) -> Result<String> {
        let chart = |title: &str, unit: &str, lines: &[(&str, Value)]| {
            let points =
                |of: Value| self.minutes.iter().copied().zip(self.samples.iter().map(of)).collect::<Vec<_>>();
            let series: Vec<Series> =
                lines.iter().map(|&(name, of)| Series::line(name, points(of))).collect();
            let values = series.iter().flat_map(|series| series.points().iter().map(|point| point.1));
            Chart {
                title: title.into(),
                x: Axis::linear("minutes", self.minutes.iter().copied()),
                y: Axis::linear(unit, values),
                series: series.clone(),
            }
        };
        let charts = [
            chart(
                "Memory",
                "MB",
                &[
                    ("process", |sample| sample.process.resident as f64 / 1e6),
                    ("device", |sample| sample.device_bytes as f64 / 1e6),
                ],
            ),
            chart("Recall@10 at beam width 32", "percent", &[("", |sample| sample.recall * 100.0)]),
            chart(
                "Latency of a search",
                "microseconds",
                &[("median", |sample| sample.median_us), ("99th percentile", |sample| sample.p99_us)],
            ),
            chart(
                "Open files and threads",
                "number",
                &[
                    ("open files", |sample| sample.process.open_files as f64),
                    ("threads", |sample| sample.process.threads as f64),
                ],
            ),
        ];
        let searches: u64 = self.samples.iter().map(|sample| sample.searches).sum();
        let subtitle = format!("{device}: {searches} searches, {} keys inserted or deleted", self.changes);
        Ok(svg("An index that is changed and searched", &subtitle, &charts)?)
    }
}
