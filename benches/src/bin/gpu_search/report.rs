//! Reports on a curve: queries per second at equal recall, and the cost of wider beams.

use jasper_benches::front::{Reached, fastest_at, front, rate_at};
use serde_json::{Value, json};

use super::curve::RECALLS;
use super::measure::{ONE_WARP, Point, merge, rounded};

/// The curve of a set.
pub struct Report<'a> {
    /// Results per query.
    pub k: usize,
    /// All points, in any order.
    pub points: &'a [Point],
    /// Bytes per second of a copy within the device.
    pub copy: f64,
}

impl Report<'_> {
    /// Names and fields of the lines: the front, the widths, and one for each of [`RECALLS`] that was reached.
    pub fn lines(&self) -> Vec<(&'static str, Value)> {
        let front = front(self.points);
        let front = front.iter().map(|p| json!([rounded(p.recall, 5), p.rate.round(), p.setting.beam_width]));
        let mut lines = vec![
            ("front", json!({"k": self.k, "points": front.collect::<Vec<_>>()})),
            ("widths", self.widths()),
        ];
        for recall in RECALLS {
            lines.extend(self.equal_recall(recall).map(|fields| ("equal_recall", fields)));
        }
        lines
    }

    /// `[beam width, queries/s, recall, hops, distances, GB/s, relative to a copy]` with one warp per query, by width.
    fn widths(&self) -> Value {
        let mut points: Vec<&Point> =
            self.points.iter().filter(|point| point.setting.launch == ONE_WARP).collect();
        points.sort_by_key(|point| point.setting.beam_width);
        let widest_recall = points.last().map_or(0.0, |point| rounded(point.recall, 5));
        let width = |&&Point { setting, recall, rate, hops, distances, bytes_per_second, .. }: &&Point| {
            json!([
                setting.beam_width,
                rate.round(),
                rounded(recall, 5),
                rounded(hops, 1),
                distances.round(),
                rounded(bytes_per_second / 1e9, 0),
                rounded(bytes_per_second / self.copy, 3)
            ])
        };
        let points: Vec<Value> = points.iter().map(width).collect();
        json!({"k": self.k, "points": points, "widest_recall": widest_recall})
    }

    fn equal_recall(&self, recall: f64) -> Option<Value> {
        let (reached, fastest) = rate_at(self.points, recall).zip(fastest_at(self.points, recall))?;
        let mut fields = fastest.fields(self.copy);
        let at_least = matches!(reached, Reached::AtLeast(_));
        let ours =
            json!({"recall": recall, "queries_per_second": reached.rate().round(), "at_least": at_least});
        merge(&mut fields, ours);
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Setting;
    use super::*;

    fn point(beam_width: usize, recall: f64, rate: f64) -> Point {
        let setting = Setting::new(10, beam_width);
        Point { setting, queries: 10_000, recall, rate, hops: 9.0, distances: 99.0, bytes_per_second: 2e12 }
    }

    #[test]
    fn a_curve_has_few_lines() {
        let points = [point(32, 0.96, 1e7), point(10, 0.93, 2e7), point(16, 0.94, 1e6)];
        let report = Report { k: 10, points: &points, copy: 4e12 };
        let (names, lines): (Vec<&str>, Vec<Value>) = report.lines().into_iter().unzip();
        assert_eq!(names, ["front", "widths", "equal_recall", "equal_recall"]);
        assert_eq!(lines[0]["points"], json!([[0.93, 2e7, 10], [0.96, 1e7, 32]]));
        assert_eq!(lines[1]["points"][0], json!([10, 2e7, 0.93, 9.0, 99.0, 2000.0, 0.5]));
        assert_eq!((&lines[2]["at_least"], &lines[3]["at_least"]), (&json!(true), &json!(false)));
        assert_eq!(lines[3]["beam_width"], json!(32));
        let rate = lines[3]["queries_per_second"].as_f64().unwrap();
        assert!((12.5e6..12.7e6).contains(&rate), "{rate}");
    }
}
