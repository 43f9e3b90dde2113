//! The cost of queries, as quantiles.

use std::fmt;

use jasper::bench::{DevicePeaks, Profile};
use serde::Serialize;

use crate::units;

/// The profile of one beam width.
#[derive(Debug, Serialize)]
pub struct Report {
    beam_width: usize,
    /// Vertices expanded per query.
    hops: Quantiles,
    /// Distances computed per query.
    distances: Quantiles,
    /// Bytes of vectors and edges read per query.
    bytes: Quantiles,
    /// Bytes read per second by all queries.
    bytes_per_second: f64,
    operations_per_second: f64,
    /// Bytes per second of a device-to-device copy, on a GPU.
    copy_bytes_per_second: Option<f64>,
}

/// Quantiles of a number over the queries.
#[derive(Debug, Serialize)]
struct Quantiles {
    least: u64,
    median: u64,
    p90: u64,
    p99: u64,
    most: u64,
    mean: f64,
}

impl Quantiles {
    /// Of at least one number.
    fn new(numbers: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = numbers.collect();
        sorted.sort_unstable();
        let last = sorted.len() - 1;
        let at = |share: f64| sorted[(share * last as f64).round() as usize];
        let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
        Self { least: at(0.0), median: at(0.5), p90: at(0.9), p99: at(0.99), most: at(1.0), mean }
    }
}

impl Report {
    /// From the profile of at least one query.
    pub fn new(beam_width: usize, profile: &Profile, peaks: Option<DevicePeaks>) -> Self {
        let cost = || profile.costs.iter();
        Self {
            beam_width,
            hops: Quantiles::new(cost().map(|cost| cost.hops)),
            distances: Quantiles::new(cost().map(|cost| cost.distances)),
            bytes: Quantiles::new(cost().map(|&cost| profile.bytes(cost))),
            bytes_per_second: profile.bytes_per_second(),
            operations_per_second: profile.operations_per_second(),
            copy_bytes_per_second: peaks.map(|peaks| peaks.bytes_per_second),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = format!("beam width {}", self.beam_width);
        writeln!(
            f,
            "\n{title:<16}{:>11}{:>11}{:>11}{:>11}{:>11}{:>13}",
            "least", "median", "90%", "99%", "most", "mean"
        )?;
        for (name, of) in [("hops", &self.hops), ("distances", &self.distances), ("bytes read", &self.bytes)]
        {
            write!(f, "{name:<16}")?;
            for number in [of.least, of.median, of.p90, of.p99, of.most] {
                write!(f, "{:>11}", units::count(number as usize))?;
            }
            writeln!(f, "{:>13}", units::count(of.mean.round() as usize))?;
        }
        let rate = units::bytes(self.bytes_per_second as u64);
        let Some(copy) = self.copy_bytes_per_second else {
            return write!(f, "{rate}/s read by all threads");
        };
        let (share, copy) = (100.0 * self.bytes_per_second / copy, units::bytes(copy as u64));
        write!(f, "{rate}/s read: {share:.0}% of the {copy}/s of a copy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_numbers() {
        let of = Quantiles::new((0..=100).rev());
        assert_eq!([of.least, of.median, of.p90, of.p99, of.most], [0, 50, 90, 99, 100]);
        assert_eq!(of.mean, 50.0);
        let one = Quantiles::new([7].into_iter());
        assert_eq!((one.least, one.p99, one.mean), (7, 7, 7.0));
    }
}
