//! Reports on a curve: queries per second at equal recall compared with the best other system, and the cost of wider beams.

use jasper_core::ElementKind;
use serde_json::{Value, json};

use super::curve::RECALLS;
use super::front::{Reached, fastest_at, front, rate_at, steepest};
use super::peers::Peers;
use super::point::{Point, SOLO, merge, rounded};

/// The curve of a set held in some element.
pub struct Report<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// What its rows are stored as.
    pub element: ElementKind,
    /// The codes that searches went by, if they did.
    pub codes: Option<&'a str>,
    /// Results per query.
    pub k: u32,
    /// Everything that was measured, in any order.
    pub points: &'a [Point],
    /// Bytes per second of a copy within the device.
    pub copy: f64,
}

impl Report<'_> {
    /// The lines: the front, the widths, and one for each of [`RECALLS`] that was reached.
    pub fn lines(&self, peers: &Peers) -> Vec<Value> {
        let mut lines = Vec::new();
        let front: Vec<Value> = front(self.points)
            .iter()
            .map(|point| json!([rounded(point.recall, 5), point.rate.round(), point.setting.beam_width]))
            .collect();
        if front.is_empty() {
            return lines;
        }
        lines.push(self.line("front", json!({"points": front})));
        lines.extend(self.widths());
        lines.extend(RECALLS.into_iter().filter_map(|recall| self.equal_recall(recall, peers)));
        lines
    }

    /// The same for a reader, in one row: rates in millions, in brackets the ratio to the best peer.
    pub fn row(&self, peers: &Peers) -> String {
        let Self { set, element, k, points, .. } = *self;
        let mut row = format!("{set:<11} {:<4} @{k:<4}", element.name());
        for recall in RECALLS {
            let cell = rate_at(points, recall).map_or("-".into(), |reached| {
                let ratio = peers.best(set, k, recall);
                let ratio =
                    ratio.map_or(String::new(), |best| format!(" ({:.2})", reached.rate() / best.rate));
                let mark = if matches!(reached, Reached::AtLeast(_)) { ">" } else { "" };
                format!("{mark}{:.3}{ratio}", reached.rate() / 1e6)
            });
            row += &format!(" {cell:>16}");
        }
        let best = points.iter().map(|point| point.recall).fold(0.0, f64::max);
        let step = steepest(&self.by_one_warp())
            .map_or(String::new(), |(width, factor)| format!("{factor:.2} at {width}"));
        row + &format!("  {best:.4}  {step}")
    }

    /// What stands over the rows.
    pub fn header() -> String {
        let recalls: String = RECALLS.iter().map(|recall| format!(" {recall:>16}")).collect();
        format!(
            "million queries/s (x best peer) at recalls; the most recall; the steepest step over its width\n\
             {:<11} {:<4} {:<5}{recalls}  {:<6}  steepest",
            "set", "", "", "most"
        )
    }

    /// The points of one warp a query, by rising width.
    fn by_one_warp(&self) -> Vec<Point> {
        let mut points: Vec<Point> =
            self.points.iter().filter(|point| point.setting.launch == SOLO).copied().collect();
        points.sort_by_key(|point| point.setting.beam_width);
        points
    }

    /// How fast each width is by one warp a query, and the width that costs most over the one before.
    fn widths(&self) -> Option<Value> {
        let points = self.by_one_warp();
        let widest = *points.last()?;
        let (width, factor) = steepest(&points)?;
        let points: Vec<Value> = points.iter().map(|point| self.width(point)).collect();
        Some(self.line(
            "widths",
            json!({
                "points": points, "steepest_width": width, "steepest": rounded(factor, 3),
                "widest": widest.setting.beam_width, "widest_recall": rounded(widest.recall, 5),
            }),
        ))
    }

    /// `[beam width, queries/s, recall, hops, distances, GB/s, share of the copy]`
    fn width(&self, point: &Point) -> Value {
        let Point { setting, recall, rate, hops, distances, bytes_per_second, .. } = *point;
        json!([
            setting.beam_width,
            rate.round(),
            rounded(recall, 5),
            rounded(hops, 1),
            rounded(distances, 0),
            rounded(bytes_per_second / 1e9, 0),
            rounded(bytes_per_second / self.copy, 3)
        ])
    }

    fn equal_recall(&self, recall: f64, peers: &Peers) -> Option<Value> {
        let reached = rate_at(self.points, recall)?;
        let setting = fastest_at(self.points, recall)?;
        let mut line = self.line("equal_recall", setting.line(self.copy));
        merge(
            &mut line,
            json!({
                "recall": recall, "queries_per_second": reached.rate().round(),
                "at_least": matches!(reached, Reached::AtLeast(_)),
            }),
        );
        if let Some(best) = peers.best(self.set, self.k, recall) {
            let ratio = rounded(reached.rate() / best.rate, 3);
            merge(
                &mut line,
                json!({"peer": best.system, "peer_queries_per_second": best.rate, "ratio": ratio}),
            );
        }
        Some(line)
    }

    fn line(&self, what: &str, fields: Value) -> Value {
        let mut line = json!({
            "what": what, "set": self.set, "element": self.element.name(), "codes": self.codes, "k": self.k,
        });
        merge(&mut line, fields);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::super::point::Setting;
    use super::*;

    fn report(points: &[Point]) -> Report<'_> {
        Report { set: "sift-1m", element: ElementKind::U8, codes: None, k: 10, points, copy: 4e12 }
    }

    fn point(beam_width: u32, recall: f64, rate: f64) -> Point {
        let setting = Setting::new(10, beam_width);
        Point { setting, queries: 10_000, recall, rate, hops: 9.0, distances: 99.0, bytes_per_second: 2e12 }
    }

    #[test]
    fn a_curve_is_told_in_few_lines() {
        let points = [point(32, 0.96, 1e7), point(10, 0.93, 2e7), point(16, 0.94, 1e6)];
        let lines = report(&points).lines(&Peers::read().unwrap());
        let whats: Vec<&str> = lines.iter().filter_map(|line| line["what"].as_str()).collect();
        assert_eq!(whats, ["front", "widths", "equal_recall", "equal_recall"]);
        assert_eq!(lines[0]["points"], json!([[0.93, 2e7, 10], [0.96, 1e7, 32]]));
        assert_eq!(lines[1]["points"][0], json!([10, 2e7, 0.93, 9.0, 99.0, 2000.0, 0.5]));
        // From 10 to 16: twenty times slower, for 1.6 times the width.
        assert_eq!((&lines[1]["steepest_width"], &lines[1]["steepest"]), (&json!(16), &json!(12.5)));
        assert_eq!((&lines[2]["at_least"], &lines[3]["at_least"]), (&json!(true), &json!(false)));
        assert_eq!((&lines[3]["peer"], &lines[3]["beam_width"]), (&json!("CAGRA u8 nnd32"), &json!(32)));
        let ratio = lines[3]["ratio"].as_f64().unwrap();
        assert!((3.70..3.71).contains(&ratio), "{ratio}: 12.6 M over 3.4 M");
    }

    #[test]
    fn a_row_marks_what_is_only_a_bound() {
        let points = [point(10, 0.93, 2e7), point(32, 0.96, 1e7)];
        let row = report(&points).row(&Peers::read().unwrap());
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "sift-1m", "u8", "@10", ">20.000", "(3.19)", "12.599", "(3.71)", "-", "-", "0.9600", "0.62",
                "at", "32"
            ]
        );
        assert!(report(&[]).lines(&Peers::read().unwrap()).is_empty());
    }
}
