//! Plots as SVG: recall against speed, recall over a runbook, and the roofline.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use jasper_data::AtomicFile;
use jasper_plot::{Axis, Chart, Series, svg};

use crate::curve::Point;
use crate::units;

/// A plot and its captions.
pub struct Plot {
    /// The data set.
    pub title: String,
    /// The conditions of the measurement.
    pub subtitle: String,
    /// The measurements.
    pub chart: Chart,
}

impl Plot {
    /// Draws the plot and writes it atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        let svg = svg(&self.title, &self.subtitle, std::slice::from_ref(&self.chart))?;
        let write = || -> std::io::Result<()> {
            let mut file = AtomicFile::create(path)?;
            file.write_all(svg.as_bytes())?;
            Ok(file.commit()?)
        };
        write().with_context(|| path.display().to_string())
    }
}

/// Queries per second against recall, with brute force for comparison if it was measured.
pub fn recall_chart(points: &[Point], exact: Option<f64>) -> Chart {
    let k = points.first().map_or(0, |point| point.k);
    let recalls = points.iter().map(|point| point.recall);
    let rates = points.iter().map(|point| point.queries_per_second);
    let curve = recalls.clone().zip(rates.clone()).collect();
    let mut series =
        vec![Series::line("", curve).labelled(beam_widths(points.iter().map(|point| point.beam_width)))];
    let x = Axis::recall(format!("recall@{k}"), recalls.clone());
    if let Some(exact) = exact {
        let ends = recalls.fold((1.0, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
        let name = format!("brute force: {}", units::rate(exact));
        series.push(Series::line(name, vec![(ends.0, exact), (ends.1, exact)]).dashed());
    }
    Chart { title: String::new(), x, y: Axis::rate("queries per second", rates.chain(exact)), series }
}

/// Recall by step of a runbook, with that of a rebuilt index for comparison if it was measured.
pub fn stream_chart(k: usize, beam_width: usize, searches: &[(usize, f64)], rebuilt: Option<f64>) -> Chart {
    let points: Vec<(f64, f64)> = searches.iter().map(|&(step, recall)| (step as f64, recall)).collect();
    let last = points.last().map_or(0.0, |point| point.0);
    let rebuilt_series = rebuilt
        .map(|recall| Series::line("rebuilt at the end", vec![(0.0, recall), (last, recall)]).dashed());
    Chart {
        title: String::new(),
        x: Axis::linear("step", points.iter().map(|point| point.0)),
        y: Axis::recall(
            format!("recall@{k}, beam width {beam_width}"),
            points.iter().map(|point| point.1).chain(rebuilt),
        ),
        series: [Series::line("", points)].into_iter().chain(rebuilt_series).collect(),
    }
}

/// Operations per second against operations per byte read, under the roofline of a device with these peaks. Searches
/// are given as (beam width, bytes per second, operations per second).
pub fn roofline(searches: &[(usize, f64, f64)], bytes_per_second: f64, operations_per_second: f64) -> Chart {
    let curve: Vec<(f64, f64)> =
        searches.iter().map(|&(_, bytes, operations)| (operations / bytes, operations)).collect();
    let ridge = operations_per_second / bytes_per_second;
    // The roofline starts left of all measurements.
    let left = curve.iter().fold(ridge, |left, point| left.min(point.0)) / 2.0;
    let top = vec![
        (left, left * bytes_per_second),
        (ridge, operations_per_second),
        (2.0 * ridge, operations_per_second),
    ];
    let all = || curve.iter().chain(&top);
    let (x, y) = (all().map(|point| point.0), all().map(|point| point.1));
    // The points are close together: label the first and the last.
    let last = searches.len().saturating_sub(1);
    let labels = beam_widths(searches.iter().map(|&(width, ..)| width)).enumerate();
    let labels = labels.map(|(i, label)| if i == 0 || i == last { label } else { String::new() });
    let copy = units::bytes(bytes_per_second as u64);
    Chart {
        title: format!("roofline: device-to-device copy, {copy}/s, and peak f32"),
        x: Axis::log2("operations per byte read", x),
        y: Axis::rate("operations per second", y),
        series: vec![
            Series::line("", curve.clone()).labelled(labels),
            Series::line("", top.clone()).dashed(),
        ],
    }
}

/// Labels of the points; the first names the quantity.
fn beam_widths(widths: impl Iterator<Item = usize>) -> impl Iterator<Item = String> {
    widths
        .enumerate()
        .map(|(i, width)| if i == 0 { format!("beam width {width}") } else { width.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(chart: Chart) -> String {
        svg("title", "subtitle", &[chart]).unwrap()
    }

    #[test]
    fn a_roofline_shows_the_searches_below_the_roof() {
        // 100,000 queries of 10 rows of 256 bytes and 300 vectors of 384 bytes and 288 operations, in the given
        // seconds.
        let search = |width, seconds: f64| {
            let rate = 100_000.0 / seconds;
            (width, rate * (10.0 * 256.0 + 300.0 * 384.0), rate * 300.0 * 288.0)
        };
        let svg = drawn(roofline(&[search(16, 0.01), search(64, 0.004)], 4.2e12, 6.7e13));
        let roof = "roofline: device-to-device copy, 4.2 TB/s, and peak f32";
        for text in [roof, "beam width 16", "64", "0.5", "16", "50 T"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
    }
}
