//! What each query took, as quantiles, and how fast its bytes came.

use std::fmt;

use jasper::bench::{DevicePeaks, Profile};
use serde::Serialize;

use crate::human;

/// The profile of one beam width.
#[derive(Debug, Serialize)]
pub struct Report {
    beam_width: usize,
    /// Vertices expanded by a query.
    hops: Quantiles,
    /// Distances worked out by a query.
    distances: Quantiles,
    /// Bytes that a query asked for: vectors and edges.
    bytes: Quantiles,
    /// Bytes that all queries asked for, a second.
    bytes_per_second: f64,
    operations_per_second: f64,
    /// Bytes a second of a copy within the device's memory, where there is a device.
    copy_bytes_per_second: Option<f64>,
}

/// A number of each query, from the query that took least to the one that took most.
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
    /// Of some numbers, at least one.
    fn of(numbers: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = numbers.collect();
        sorted.sort_unstable();
        let last = sorted.len() - 1;
        let at = |share: f64| sorted[(share * last as f64).round() as usize];
        let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
        Self { least: at(0.0), median: at(0.5), p90: at(0.9), p99: at(0.99), most: at(1.0), mean }
    }
}

impl Report {
    /// Of a profile of one query or more.
    pub fn new(beam_width: usize, profile: &Profile, roof: Option<DevicePeaks>) -> Self {
        let cost = || profile.costs.iter();
        Self {
            beam_width,
            hops: Quantiles::of(cost().map(|cost| cost.hops)),
            distances: Quantiles::of(cost().map(|cost| cost.distances)),
            bytes: Quantiles::of(cost().map(|&cost| profile.bytes(cost))),
            bytes_per_second: profile.bytes_per_second(),
            operations_per_second: profile.operations_per_second(),
            copy_bytes_per_second: roof.map(|roof| roof.bytes_per_second),
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
        for (name, of) in
            [("hops", &self.hops), ("distances", &self.distances), ("bytes asked for", &self.bytes)]
        {
            write!(f, "{name:<16}")?;
            for number in [of.least, of.median, of.p90, of.p99, of.most] {
                write!(f, "{:>11}", human::count(number as usize))?;
            }
            writeln!(f, "{:>13}", human::count(of.mean.round() as usize))?;
        }
        let rate = human::bytes(self.bytes_per_second as u64);
        let Some(copy) = self.copy_bytes_per_second else {
            return write!(f, "{rate} asked for a second, by all threads");
        };
        let (share, copy) = (100.0 * self.bytes_per_second / copy, human::bytes(copy as u64));
        write!(f, "{rate} asked for a second: {share:.0}% of the {copy} of a copy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_where_they_should() {
        let of = Quantiles::of((0..=100).rev());
        assert_eq!([of.least, of.median, of.p90, of.p99, of.most], [0, 50, 90, 99, 100]);
        assert_eq!(of.mean, 50.0);
        let one = Quantiles::of([7].into_iter());
        assert_eq!((one.least, one.p99, one.mean), (7, 7, 7.0));
    }
}
