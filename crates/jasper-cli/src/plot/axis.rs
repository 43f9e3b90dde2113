//! Axes whose ticks are chosen numbers: recall by its distance from 1, speed by its logarithm.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// An axis from one tick to another.
pub struct Axis {
    ticks: Vec<f64>,
    /// Where a value lies: any rising function.
    place: fn(f64) -> f64,
}

/// Recalls that a reader may want to find.
const RECALLS: [f64; 13] =
    [0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999];
/// A recall of 1 lies at infinity; it is drawn here.
const FULL: f64 = 0.99995;

impl Axis {
    /// An axis that holds `recalls`: every halving of what is missed takes as much room.
    pub fn of_recall(recalls: impl Iterator<Item = f64>) -> Self {
        Self::around(recalls, RECALLS.into_iter().chain([1.0]).collect(), |recall| {
            -(1.0 - recall.min(FULL)).ln()
        })
    }

    /// An axis that holds `rates`: every doubling takes as much room.
    pub fn of_rate(rates: impl Iterator<Item = f64>) -> Self {
        let decades = (0..10).map(|power| 10_f64.powi(power));
        let ticks = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade)).collect();
        Self::around(rates, ticks, |rate| rate.max(1.0).ln())
    }

    /// From the last of `ticks` that no value lies below to the first that none lies above.
    fn around(values: impl Iterator<Item = f64>, mut ticks: Vec<f64>, place: fn(f64) -> f64) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
        let first = ticks.partition_point(|&tick| tick <= low).saturating_sub(1);
        let last = ticks.partition_point(|&tick| tick < high).max(first + 1).min(ticks.len() - 1);
        ticks.truncate(last + 1);
        ticks.drain(..first.min(last - 1));
        Self { ticks, place }
    }

    /// How a tick of [`Self::of_recall`] reads.
    pub fn recall_label(&recall: &f64) -> String {
        format!("{recall}")
    }

    /// How a tick of [`Self::of_rate`] reads.
    pub fn rate_label(&rate: &f64) -> String {
        crate::human::rate(rate)
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, &value: &f64, (from, to): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        let (start, end) = ((self.place)(start), (self.place)(end));
        let share = (((self.place)(value) - start) / (end - start)).clamp(0.0, 1.0);
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

    #[test]
    fn axes_end_at_ticks_around_the_values() {
        assert_eq!(Axis::of_recall([0.93, 0.992].into_iter()).ticks, [0.9, 0.95, 0.98, 0.99, 0.995]);
        assert_eq!(Axis::of_recall([1.0, 1.0].into_iter()).ticks, [0.9999, 1.0]);
        assert_eq!(Axis::of_recall([0.0, 0.3].into_iter()).ticks, [0.0, 0.5]);
        assert_eq!(Axis::of_rate([1_500.0, 42_000.0].into_iter()).ticks, [1e3, 2e3, 5e3, 1e4, 2e4, 5e4]);
        assert_eq!(Axis::of_rate([2_000.0].into_iter()).ticks, [2e3, 5e3]);
    }

    #[test]
    fn values_lie_between_the_ends() {
        let axis = Axis::of_recall([0.9, 0.99].into_iter());
        assert_eq!([0.9, 0.99].map(|recall| axis.map(&recall, (100, 200))), [100, 200]);
        // Half of what was missed is found: 0.301 of a decade.
        assert_eq!(axis.map(&0.95, (0, 1000)), 301);
        assert_eq!(axis.map(&0.95, (1000, 0)), 699);
    }
}
