//! The cost of queries, as quantiles.

use std::fmt::Write;

use anyhow::Result;
use jasper::{Index, Profile};
use serde_json::{Value, json};

use crate::units;

/// The peak throughput of a GPU.
#[derive(Clone, Copy)]
pub struct DevicePeaks {
    /// Bytes per second of a copy within device memory, reads and writes counted.
    pub bytes_per_second: f64,
    /// f32 operations per second, by clock and lanes.
    pub operations_per_second: f64,
}

impl DevicePeaks {
    /// Measures the peaks of the GPU that the index is on, the first of several replicas. `None` on the CPU, where
    /// caches make a copy meaningless, and for several shards.
    #[cfg(feature = "cuda")]
    pub fn measure(index: &Index) -> Result<Option<Self>> {
        use jasper_cuda::{Context, Stream, copy_bandwidth};

        let ordinals = index.device().cuda_ordinals();
        let Some(&ordinal) = ordinals.first().filter(|_| index.stats().shards == 1) else { return Ok(None) };
        let context = Context::open(ordinal)?;
        let bytes_per_second = copy_bandwidth(&Stream::new(&context)?)?;
        Ok(Some(Self { bytes_per_second, operations_per_second: context.device().peak_f32() }))
    }

    /// `None` without CUDA.
    #[cfg(not(feature = "cuda"))]
    pub fn measure(_index: &Index) -> Result<Option<Self>> {
        Ok(None)
    }
}

/// The quantiles that are reported, by name.
const QUANTILES: [(&str, f64); 5] =
    [("least", 0.0), ("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("most", 1.0)];

/// [`QUANTILES`] of at least one number, and the mean.
fn quantiles(numbers: impl Iterator<Item = u64>) -> ([u64; QUANTILES.len()], f64) {
    let mut sorted: Vec<u64> = numbers.collect();
    sorted.sort_unstable();
    let last = (sorted.len() - 1) as f64;
    let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
    (QUANTILES.map(|(_, share)| sorted[(share * last).round() as usize]), mean)
}

/// The profile of one beam width, of at least one query, as JSON and as text.
pub fn report(beam_width: usize, profile: &Profile, peaks: Option<DevicePeaks>) -> Result<(Value, String)> {
    let copy = peaks.map(|peaks| peaks.bytes_per_second);
    let rate = profile.bytes_per_second();
    let mut json = json!({
        "beam_width": beam_width,
        // Bytes read per second by all queries.
        "bytes_per_second": rate,
        "operations_per_second": profile.operations_per_second(),
        // Bytes per second of a device-to-device copy, on a GPU.
        "copy_bytes_per_second": copy,
    });
    let title = format!("beam width {beam_width}");
    let [least, median, p90, p99, most, mean] = ["least", "median", "90%", "99%", "most", "mean"];
    let mut text = format!("\n{title:<16}{least:>11}{median:>11}{p90:>11}{p99:>11}{most:>11}{mean:>13}\n");
    let cost = || profile.costs.iter();
    for (key, name, (numbers, mean)) in [
        // Vertices expanded, distances computed, and bytes of vectors and edges read per query.
        ("hops", "hops", quantiles(cost().map(|cost| cost.hops))),
        ("distances", "distances", quantiles(cost().map(|cost| cost.distances))),
        ("bytes", "bytes read", quantiles(cost().map(|&cost| profile.bytes(cost)))),
    ] {
        json[key] = json!({ "mean": mean });
        write!(text, "{name:<16}")?;
        for ((quantile, _), number) in QUANTILES.iter().zip(numbers) {
            json[key][*quantile] = number.into();
            write!(text, "{:>11}", units::count(number as usize))?;
        }
        writeln!(text, "{:>13}", units::rate(mean))?;
    }
    let read = units::bytes(rate as u64);
    match copy {
        Some(copy) => {
            let (share, copy) = (100.0 * rate / copy, units::bytes(copy as u64));
            write!(text, "{read}/s read: {share:.0}% of the {copy}/s of a copy")?;
        }
        None => write!(text, "{read}/s read by all threads")?,
    }
    Ok((json, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_numbers() {
        assert_eq!(quantiles((0..=100).rev()), ([0, 50, 90, 99, 100], 50.0));
        assert_eq!(quantiles([7].into_iter()), ([7; 5], 7.0));
    }
}
