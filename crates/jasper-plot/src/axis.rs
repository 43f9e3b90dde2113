//! Axes with round ticks: recall by the logarithm of 1 - recall, rates and ratios logarithmic, steps linear.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis that starts and ends at a tick.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    ticks: Vec<f64>,
    scale: Scale,
}

/// The mapping from values to positions, and the format of ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Recall,
    Rate,
    Log2,
    Linear,
}

/// Ticks of a recall axis.
const RECALLS: [f64; 13] =
    [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999];
/// The exponent of the smallest tick of a log2 axis.
const MIN_EXPONENT: i32 = -6;
/// A recall of 1, which is at infinity, is drawn here.
const FULL: f64 = 0.99995;

impl Axis {
    /// A logarithmic axis of 1 - recall around `recalls`: each halving of the error takes the same room.
    pub fn recall(name: impl Into<String>, recalls: impl Iterator<Item = f64>) -> Self {
        Self::around(name, recalls, RECALLS.into_iter().chain([1.0]).collect(), Scale::Recall)
    }

    /// A logarithmic axis around `rates`, with ticks at 1, 2 and 5 times powers of ten.
    pub fn rate(name: impl Into<String>, rates: impl Iterator<Item = f64>) -> Self {
        let decades = (0..16).map(|power| 10_f64.powi(power));
        let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade)).collect();
        Self::around(name, rates, ticks, Scale::Rate)
    }

    /// A logarithmic axis around `numbers`, at least 1/64, with ticks at powers of two.
    pub fn log2(name: impl Into<String>, numbers: impl Iterator<Item = f64>) -> Self {
        Self::around(name, numbers, (MIN_EXPONENT..20).map(|power| 2_f64.powi(power)).collect(), Scale::Log2)
    }

    /// A linear axis from 0 to the largest of `steps`, up to 10 million.
    pub fn linear(name: impl Into<String>, steps: impl Iterator<Item = f64>) -> Self {
        let max = steps.fold(1.0, f64::max);
        let widths =
            (0..7).map(|power| 10_f64.powi(power)).flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * ten));
        let width = widths.into_iter().find(|width| max <= 10.0 * width).unwrap_or(1e7);
        let ticks = (0..=(max / width).ceil() as u32).map(|tick| f64::from(tick) * width).collect();
        Self { name: name.into(), ticks, scale: Scale::Linear }
    }

    /// The axis from the last of `ticks` at or below all `values` to the first at or above all.
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

    /// The name of the axis.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The label of a tick.
    pub(crate) fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Recall | Scale::Log2 | Scale::Linear => format!("{value}"),
            Scale::Rate => rate_label(value),
        }
    }

    fn position(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Recall => -(1.0 - value.min(FULL)).ln(),
            Scale::Rate => value.max(1.0).ln(),
            Scale::Log2 => value.max(2_f64.powi(MIN_EXPONENT)).ln(),
            Scale::Linear => value,
        }
    }
}

/// Formats a rate as `20 k` or `5 M`.
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
        let (start, end) = (self.position(start), self.position(end));
        let share = ((self.position(value) - start) / (end - start)).clamp(0.0, 1.0);
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
        Axis::recall("recall", values.into_iter())
    }

    #[test]
    fn axes_end_at_ticks_around_the_values() {
        assert_eq!(recalls([0.93, 0.992]).ticks, [0.9, 0.95, 0.98, 0.99, 0.995]);
        assert_eq!(recalls([1.0, 1.0]).ticks, [0.9999, 1.0]);
        assert_eq!(recalls([0.0, 0.3]).ticks, [0.0, 0.5]);
        let rates = |values: [f64; 2]| Axis::rate("rate", values.into_iter()).ticks;
        assert_eq!(rates([1_500.0, 42_000.0]), [1e3, 2e3, 5e3, 1e4, 2e4, 5e4]);
        assert_eq!(rates([2_000.0, 2_000.0]), [2e3, 5e3]);
        assert_eq!(Axis::log2("lanes", [3.0, 32.0].into_iter()).ticks, [2.0, 4.0, 8.0, 16.0, 32.0]);
        let steps = |most: f64| Axis::linear("step", [2.0, most].into_iter()).ticks;
        assert_eq!(steps(7.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(steps(43.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0]);
        assert_eq!(steps(700.0), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0]);
        assert_eq!(Axis::log2("ratio", [0.3, 0.9].into_iter()).ticks, [0.25, 0.5, 1.0]);
    }

    #[test]
    fn values_lie_between_the_ends() {
        let axis = recalls([0.9, 0.99]);
        assert_eq!([0.9, 0.99].map(|recall| axis.map(&recall, (100, 200))), [100, 200]);
        // Half the error: 0.301 of a decade.
        assert_eq!(axis.map(&0.95, (0, 1000)), 301);
        assert_eq!(axis.map(&0.95, (1000, 0)), 699);
        assert_eq!(axis.map(&2.0, (0, 1000)), 1000, "values outside are drawn at the end");
    }

    #[test]
    fn ticks_read_well() {
        assert_eq!([500.0, 2e3, 1e7, 5e13].map(rate_label), ["500", "2 k", "10 M", "50 T"]);
        assert_eq!(recalls([0.9, 0.995]).label(0.995), "0.995");
    }
}
