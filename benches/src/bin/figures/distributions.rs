//! Recall, rates and costs of indexes on many distributions, and recall after changes.

use anyhow::Result;
use jasper_benches::front::{Reached, front, rate_at};
use jasper_plot::{Axis, Series};
use serde_json::Value;

use crate::Plot;
use crate::lines::{Lines, distinct, number, text};
use crate::plots::{self, QUERIES};
use crate::tables::{table, thousands};

/// Beam widths that the table lists.
const WIDTHS: [f64; 4] = [32.0, 64.0, 128.0, 512.0];
/// Higher recalls are drawn here.
const HIGHEST: f64 = 0.999;
/// Series of a chart after which colors repeat.
const COLORS: usize = 6;
/// Recall that a change may lose and is not emphasized.
const TOLERATED: f64 = 0.01;

/// Measurements on one kind of device.
pub struct OnDevice<'a> {
    sets: Vec<&'a Value>,
    codes: Vec<&'a Value>,
    changes: Vec<&'a Value>,
    /// Settings of other systems on the same sets.
    systems: Vec<&'a Value>,
}

impl<'a> OnDevice<'a> {
    /// The measurements on CPUs, or on GPUs. Those of several systems on CPUs name their number of threads.
    pub fn new(lines: &'a Lines, on_cpu: bool) -> Self {
        let of_kind = |what| {
            let mut lines = lines.kind(what);
            lines.retain(|line| (line["device"] == "cpu") == on_cpu);
            lines
        };
        let mut systems = lines.systems();
        systems.retain(|line| line["threads"].is_number() == on_cpu);
        Self { sets: of_kind("distribution"), codes: of_kind("codes"), changes: of_kind("change"), systems }
    }

    /// Cost, recall by beam width, and queries per second at equal recall, with the ratio to the best other library.
    pub fn table(&self) -> String {
        let row = |line: &&Value| {
            let others = self.others(line);
            let highest = others.iter().flatten().map(|point| point.0).reduce(f64::max);
            [text(line, "set").to_owned(), vectors(line), format!("{:.1}", number(&line["build_seconds"]))]
                .into_iter()
                .chain([
                    format!("{:.0}", number(&line["mean_degree"])),
                    format!("{:.0}%", 100.0 * number(&line["thin"])),
                ])
                .chain(recalls(line))
                .chain(self.rates(line))
                .chain([of_copy(line).map_or("-".to_owned(), |share| format!("{share:.2}"))])
                .chain([highest.map_or("-".to_owned(), |recall| format!("{recall:.4}"))])
                .collect()
        };
        let head = format!("set | vectors | build s | degree | thin | {}of copy | best other", self.head());
        table(&head, self.sets.iter().map(row))
    }

    /// The codes that were chosen, the seconds that took, and searches by them.
    pub fn codes(&self) -> String {
        let row = |line: &&Value| {
            let chosen = line["codes"].as_str().unwrap_or("none");
            [text(line, "set").to_owned(), chosen.to_owned(), format!("{:.1}", number(&line["seconds"]))]
                .into_iter()
                .chain(recalls(line))
                .chain(self.rates(line))
                .collect()
        };
        let head = format!("set | codes | seconds | {}", self.head());
        table(head.trim_end_matches([' ', '|']), self.codes.iter().map(row))
    }

    /// The columns of [`recalls`] and of [`Self::rates`], each with its separator.
    fn head(&self) -> String {
        let at = self.sets.first().map(|line| rates(line)).unwrap_or_default();
        let columns = WIDTHS.into_iter().chain(at.into_iter().map(|(recall, ..)| recall));
        columns.map(|column| format!("{column} | ")).collect()
    }

    /// Queries per second at equal recall, with the ratio to the best other library.
    fn rates(&self, line: &Value) -> Vec<String> {
        let (own, others) = (self.curve(line, "jasper"), self.others(line));
        let cell = |(recall, rate, at_least): (f64, Option<f64>, bool)| {
            let Some(rate) = rate else { return "-".to_owned() };
            let of_run = rate_at(&own, recall).map_or(rate, Reached::rate);
            let other = others.iter().filter_map(|other| rate_at(other, recall)).map(Reached::rate);
            let ratio = other.reduce(f64::max).map(|other| format!(" ({:.2})", of_run / other));
            format!("{}{}{}", if at_least { ">" } else { "" }, short(rate), ratio.unwrap_or_default())
        };
        rates(line).into_iter().map(cell).collect()
    }

    /// Recall after changes at beam width 64, and the most that any width loses against a new index.
    pub fn changes(&self) -> String {
        let names = distinct(&self.changes, "change");
        let row = |set: &Value| {
            let cell = |name: &&Value| {
                let line = self.changes.iter().find(|line| line["set"] == *set && line["change"] == **name);
                let points = line.map(|line| points(line)).unwrap_or_default();
                let lost = points.iter().map(|point| number(&point[2]) - number(&point[1])).reduce(f64::max);
                let Some((lost, middle)) = lost.zip(points.get(1)) else { return "-".to_owned() };
                // Without a negative zero.
                let gained = 0.0 - (lost * 1e3).round() / 1e3;
                let cell = format!("{:.4} ({:+.3})", number(&middle[1]), gained);
                if lost > TOLERATED { format!("**{cell}**") } else { cell }
            };
            [set.as_str().unwrap_or_default().to_owned()].into_iter().chain(names.iter().map(cell)).collect()
        };
        let head: Vec<&str> = names.iter().filter_map(|name| name.as_str()).collect();
        table(&format!("set | {}", head.join(" | ")), distinct(&self.changes, "set").into_iter().map(row))
    }

    /// Recall@10 against queries per second, a chart per group of sets: the Pareto fronts.
    ///
    /// # Errors
    /// Those of the drawing library.
    pub fn plot(&self) -> Result<Option<Plot>> {
        let charts = distinct(&self.sets, "group").into_iter().map(|group| {
            let of_group = self.sets.iter().filter(|line| line["group"] == *group);
            let series = of_group.enumerate().map(|(number_in_group, line)| {
                let points = points(line).iter();
                let points = points.map(|point| (number(&point[1]).min(HIGHEST), number(&point[2])));
                let series = Series::line(text(line, "set"), front(&points.collect::<Vec<_>>()));
                if number_in_group < COLORS { series } else { series.dashed() }
            });
            plots::chart(
                group.as_str().unwrap_or_default(),
                ("recall@10", Axis::recall),
                QUERIES,
                series.collect(),
            )
        });
        let name = self.sets.first().map_or("", |line| text(line, "device_name"));
        let subtitle = format!("{name} · default builds · beam widths of 10 to 512");
        let shown = "recall@10 against queries per second, by kind of data";
        plots::sheet("Recall@10 and queries per second by kind of data", &subtitle, charts.collect(), shown)
    }

    /// The curves of other systems on the set of a line.
    fn others(&self, line: &Value) -> Vec<Vec<(f64, f64)>> {
        let of_set: Vec<&Value> =
            self.systems.iter().copied().filter(|other| other["set"] == line["set"]).collect();
        let names = distinct(&of_set, "system").into_iter().filter_map(|name| name.as_str());
        names.filter(|name| !name.starts_with("jasper")).map(|name| self.curve(line, name)).collect()
    }

    /// Recall and queries per second of a system on the set of a line.
    fn curve(&self, line: &Value, system: &str) -> Vec<(f64, f64)> {
        let is_point = |other: &&&Value| other["set"] == line["set"] && other["system"] == *system;
        let points = self.systems.iter().filter(is_point);
        points.map(|point| (number(&point["recall"]), number(&point["qps"]))).collect()
    }
}

/// `100,000 x 96 f32, l2`
fn vectors(line: &Value) -> String {
    let (rows, dimension) = (thousands(number(&line["rows"])), number(&line["dimension"]));
    format!("{rows} x {dimension} {}, {}", text(line, "element"), text(line, "metric"))
}

fn points(line: &Value) -> &[Value] {
    line["points"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Recall at each of [`WIDTHS`].
fn recalls(line: &Value) -> [String; WIDTHS.len()] {
    WIDTHS.map(|width| {
        let point = points(line).iter().find(|point| number(&point[0]) == width);
        point.map_or("-".to_owned(), |point| format!("{:.4}", number(&point[1])))
    })
}

/// What is read per second with the narrowest beam of a recall of at least 0.95, as a share of a copy.
fn of_copy(line: &Value) -> Option<f64> {
    points(line).iter().find(|point| number(&point[1]) >= 0.95)?[3].as_f64()
}

/// Recalls, the rate at each if it was reached, and whether that is only a lower bound.
fn rates(line: &Value) -> Vec<(f64, Option<f64>, bool)> {
    let rates = line["rates"].as_array().map(Vec::as_slice).unwrap_or_default();
    rates.iter().map(|rate| (number(&rate[0]), rate[1].as_f64(), rate[2] == true)).collect()
}

/// `1.23 M` or `45.6 k`
fn short(rate: f64) -> String {
    if rate >= 1e6 { format!("{:.2} M", rate / 1e6) } else { format!("{:.1} k", rate / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::sample;

    #[test]
    fn sets_are_beside_other_libraries() {
        let lines = sample();
        let table = OnDevice::new(&lines, true).table();
        let row = "| tight | 100,000 x 64 f32, l2 | 12.3 | 41 | 9% | 0.6742 | 0.8000 | - | 0.9945 | >2.7 k (3.00) | - | - | 0.9700 |";
        assert!(table.contains(row), "{table}");
        let gpu = OnDevice::new(&lines, false);
        assert!(gpu.table().contains("| 1.20 M (3.00) | - | 0.50 | 0.9700 |"));
        let codes = "| tight | mixed:1 | 0.3 | 0.9400 | 0.9700 | - | - | 1.60 M (4.00) | - |";
        assert!(gpu.codes().contains(codes), "{}", gpu.codes());
    }

    #[test]
    fn losses_are_bold() {
        let table = OnDevice::new(&sample(), true).changes();
        assert!(table.contains("| set | delete half | grow |"), "{table}");
        assert!(table.contains("| tight | **0.9000 (-0.050)** | 0.9500 (+0.000) |"), "{table}");
    }
}
