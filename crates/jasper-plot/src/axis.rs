//! Axes whose ticks are chosen numbers: recall by its distance from 1, steps as they are, all else by its logarithm.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis from one tick to another.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    ticks: Vec<f64>,
    scale: Scale,
}

/// Where a value lies, and how it reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Recall,
    Rate,
    Number,
    Step,
}

/// Recalls that a reader may want to find.
const RECALLS: [f64; 13] =
    [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999];
/// The least number of doublings: this power of two.
const LEAST: i32 = -6;
/// A recall of 1 lies at infinity; it is drawn here.
const FULL: f64 = 0.99995;

impl Axis {
    /// An axis that holds `recalls`: every halving of what is missed takes as much room.
    pub fn of_recall(name: impl Into<String>, recalls: impl Iterator<Item = f64>) -> Self {
        Self::around(name, recalls, RECALLS.into_iter().chain([1.0]).collect(), Scale::Recall)
    }

    /// An axis that holds `rates`: every doubling takes as much room.
    pub fn of_rate(name: impl Into<String>, rates: impl Iterator<Item = f64>) -> Self {
        let decades = (0..16).map(|power| 10_f64.powi(power));
        let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade)).collect();
        Self::around(name, rates, ticks, Scale::Rate)
    }

    /// An axis that holds `numbers` from 1/64 on, with ticks at powers of two: widths, warps, ratios.
    pub fn of_doublings(name: impl Into<String>, numbers: impl Iterator<Item = f64>) -> Self {
        Self::around(name, numbers, (LEAST..20).map(|power| 2_f64.powi(power)).collect(), Scale::Number)
    }

    /// An axis from 0 that holds `steps`, up to 10 million: every step takes as much room.
    pub fn of_steps(name: impl Into<String>, steps: impl Iterator<Item = f64>) -> Self {
        let most = steps.fold(1.0, f64::max);
        let widths =
            (0..7).map(|power| 10_f64.powi(power)).flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * ten));
        let width = widths.into_iter().find(|width| most <= 10.0 * width).unwrap_or(1e7);
        let ticks = (0..=(most / width).ceil() as u32).map(|tick| f64::from(tick) * width).collect();
        Self { name: name.into(), ticks, scale: Scale::Step }
    }

    /// From the last of `ticks` that no value lies below to the first that none lies above.
    fn around(
        name: impl Into<String>,
        values: impl Iterator<Item = f64>,
        mut ticks: Vec<f64>,
        scale: Scale,
    ) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
        let first = ticks.partition_point(|&tick| tick <= low).saturating_sub(1);
        let last = ticks.partition_point(|&tick| tick < high).max(first + 1).min(ticks.len() - 1);
        ticks.truncate(last + 1);
        ticks.drain(..first.min(last - 1));
        Self { name: name.into(), ticks, scale }
    }

    /// What its values are.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How a tick reads.
    pub(crate) fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Recall | Scale::Number | Scale::Step => format!("{value}"),
            Scale::Rate => rate_label(value),
        }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Recall => -(1.0 - value.min(FULL)).ln(),
            Scale::Rate => value.max(1.0).ln(),
            Scale::Number => value.max(2_f64.powi(LEAST)).ln(),
            Scale::Step => value,
        }
    }
}

/// `20 k`, `5 M`: ticks are round, so that nothing is lost.
fn rate_label(rate: f64) -> String {
    for (unit, name) in [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")] {
        if rate >= unit {
            return format!("{}{name}", rate / unit);
        }
    }
    format!("{rate}")
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, &value: &f64, (from, to): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        let (start, end) = (self.place(start), self.place(end));
        let share = ((self.place(value) - start) / (end - start)).clamp(0.0, 1.0);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.ticks[0]..self.ticks[self.ticks.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recalls<const N: usize>(values: [f64; N]) -> Axis {
        Axis::of_recall("recall", values.into_iter())
    }

    #[test]
    fn axes_end_at_ticks_around_the_values() {
        assert_eq!(recalls([0.93, 0.992]).ticks, [0.9, 0.95, 0.98, 0.99, 0.995]);
        assert_eq!(recalls([1.0, 1.0]).ticks, [0.9999, 1.0]);
        assert_eq!(recalls([0.0, 0.3]).ticks, [0.0, 0.5]);
        let rates = |values: [f64; 2]| Axis::of_rate("rate", values.into_iter()).ticks;
        assert_eq!(rates([1_500.0, 42_000.0]), [1e3, 2e3, 5e3, 1e4, 2e4, 5e4]);
        assert_eq!(rates([2_000.0, 2_000.0]), [2e3, 5e3]);
        assert_eq!(Axis::of_doublings("lanes", [3.0, 32.0].into_iter()).ticks, [2.0, 4.0, 8.0, 16.0, 32.0]);
        let steps = |most: f64| Axis::of_steps("step", [2.0, most].into_iter()).ticks;
        assert_eq!(steps(7.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(steps(43.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0]);
        assert_eq!(steps(700.0), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0]);
        assert_eq!(Axis::of_doublings("ratio", [0.3, 0.9].into_iter()).ticks, [0.25, 0.5, 1.0]);
    }

    #[test]
    fn values_lie_between_the_ends() {
        let axis = recalls([0.9, 0.99]);
        assert_eq!([0.9, 0.99].map(|recall| axis.map(&recall, (100, 200))), [100, 200]);
        // Half of what was missed is found: 0.301 of a decade.
        assert_eq!(axis.map(&0.95, (0, 1000)), 301);
        assert_eq!(axis.map(&0.95, (1000, 0)), 699);
        assert_eq!(axis.map(&2.0, (0, 1000)), 1000, "what lies outside is drawn at the end");
    }

    #[test]
    fn ticks_read_well() {
        assert_eq!([500.0, 2e3, 1e7, 5e13].map(rate_label), ["500", "2 k", "10 M", "50 T"]);
        assert_eq!(recalls([0.9, 0.995]).label(0.995), "0.995");
    }
}
