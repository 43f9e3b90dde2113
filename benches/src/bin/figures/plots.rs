//! SVG plots: one chart per set, Jasper in solid lines and other libraries dashed.

use anyhow::Result;
use jasper_plot::{Axis, Chart, Series, svg};
use serde_json::Value;

use crate::Plot;
use crate::lines::{Lines, Subject, distinct, number, text};
use crate::peers::Peers;

/// Points below this recall are not drawn.
const LEAST_RECALL: f64 = 0.8;

/// Recall@10 against queries per second, with the Pareto front of all other libraries.
///
/// # Errors
/// Those of the drawing library.
pub fn recall(lines: &Lines, peers: &Peers) -> Result<Option<Plot>> {
    let fronts: Vec<&Value> = lines.kind("front").into_iter().filter(|line| line["k"] == 10).collect();
    let charts = distinct(&fronts, "set").into_iter().map(|set| {
        let mut series = of_elements(&fronts, set);
        let set = set.as_str().unwrap_or_default();
        let of_peers = pairs(peers.front(set));
        if !of_peers.is_empty() {
            series.push(Series::line("best other library", of_peers).dashed());
        }
        chart(set, ("recall@10", Axis::recall), QUERIES, series)
    });
    let title = "Recall@10 and queries per second";
    sheet(
        title,
        &conditions(lines),
        charts.collect(),
        "recall@10 against queries per second, compared with the best other library",
    )
}

/// Queries a second by beam width.
///
/// # Errors
/// Those of the drawing library.
pub fn widths(lines: &Lines) -> Result<Option<Plot>> {
    let widths: Vec<&Value> = lines.kind("widths").into_iter().filter(|line| line["k"] == 10).collect();
    let charts = distinct(&widths, "set").into_iter().map(|set| {
        let name = set.as_str().unwrap_or_default();
        chart(name, ("beam width", Axis::log2), QUERIES, of_elements(&widths, set))
    });
    let title = "Beam width and queries per second";
    sheet(title, &conditions(lines), charts.collect(), "queries per second by beam width")
}

/// Bytes of rows read per second by their length, a chart per metric.
///
/// # Errors
/// Those of the drawing library.
pub fn row_lengths(lines: &Lines) -> Result<Option<Plot>> {
    let all = lines.kind("row_length");
    let charts = distinct(&all, "metric").into_iter().map(|metric| {
        let of_metric: Vec<&Value> = all.iter().copied().filter(|line| line["metric"] == *metric).collect();
        let series = distinct(&of_metric, "element").into_iter().map(|element| {
            let points = of_metric.iter().filter(|line| line["element"] == *element);
            let points = points.map(|line| (number(&line["row_bytes"]), number(&line["gb_per_s"])));
            Series::line(element.as_str().unwrap_or_default(), points.collect())
        });
        let lengths = of_metric.iter().map(|line| number(&line["row_bytes"]));
        Chart {
            title: metric.as_str().unwrap_or_default().into(),
            x: Axis::log2("bytes of a row", lengths),
            y: Axis::linear("GB/s of rows", (0..=5).map(|step| f64::from(step) * 1000.0)),
            series: series.collect(),
        }
    });
    let subtitle = format!("One {} · random graphs of up to a million rows · beam width 64", lines.device());
    sheet("Rows of any length", &subtitle, charts.collect(), "bytes of rows read per second by their length")
}

/// How fast an index is built, how fast it answers, and the memory that it takes, by the number of its vectors.
///
/// # Errors
/// Those of the drawing library.
pub fn scale(lines: &Lines) -> Result<Option<Plot>> {
    let all = lines.kind("scale");
    let Some(first) = all.first() else { return Ok(None) };
    let series = |name: &str, value: &dyn Fn(&Value) -> f64| {
        let points = all.iter().map(|line| (number(&line["vectors"]) / 1e6, value(line)));
        Series::line(name, points.filter(|point| point.1 > 0.0).collect())
    };
    let field = |name: &'static str| move |line: &Value| number(&line[name]);
    let rates = [series("by vectors", &field("exact")), series("by codes", &field("quantized"))];
    let build = [series("", &|line| number(&line["vectors"]) / number(&line["build_seconds"]))];
    let bytes = [("vectors and edges", "device_bytes"), ("and codes", "quantized_device_bytes")]
        .map(|(name, value)| series(name, &|line| number(&line[value]) / 1e9));
    let million: (&str, AxisKind) = ("million vectors", Axis::log2);
    let charts = vec![
        chart("build", million, ("vectors per second", Axis::rate), build.into()),
        chart("search, recall@10 of 0.95", million, QUERIES, rates.into()),
        chart("memory of the GPUs", million, ("GB", Axis::log2), bytes.into()),
    ];
    let shards = number(&first["shards"]);
    let subtitle =
        format!("{} · {shards} shards, one per GPU · 96 bytes per vector · 32 edges", text(first, "device"));
    sheet(
        "From a million to a billion vectors",
        &subtitle,
        charts,
        "build rate, queries per second and memory by size",
    )
}

/// The curves of a set, one per element type.
fn of_elements(lines: &[&Value], set: &Value) -> Vec<Series> {
    let of_set = lines.iter().filter(|line| line["set"] == *set);
    of_set.map(|line| Series::line(Subject::from_line(line).vectors(), pairs(&line["points"]))).collect()
}

/// A kind of axis, made from its name and the values along it.
pub type AxisKind = fn(String, std::vec::IntoIter<f64>) -> Axis;

/// A chart whose axes, given by name and kind, have room for all points.
pub fn chart(title: &str, x: (&str, AxisKind), y: (&str, AxisKind), series: Vec<Series>) -> Chart {
    let axis = |(name, kind): (&str, AxisKind), value: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = series.iter().flat_map(|series| series.points().iter().map(value)).collect();
        kind(name.into(), values.into_iter())
    };
    let (x, y) = (axis(x, |point| point.0), axis(y, |point| point.1));
    Chart { title: title.into(), x, y, series }
}

/// The vertical axis of most charts.
pub const QUERIES: (&str, AxisKind) = ("queries per second", Axis::rate);

/// The first two numbers of each point: recall or width, and queries per second. Points below [`LEAST_RECALL`] are left
/// out.
fn pairs(points: &Value) -> Vec<(f64, f64)> {
    let points = points.as_array().map(Vec::as_slice).unwrap_or_default();
    let pairs = points.iter().map(|point| (number(&point[0]), number(&point[1])));
    pairs.filter(|&(x, _)| x >= LEAST_RECALL).collect()
}

fn conditions(lines: &Lines) -> String {
    format!("One {} · batches of 10,000 queries on the device · 64 edges per vertex", lines.device())
}

/// Charts on one sheet, if there are any.
pub fn sheet(title: &str, subtitle: &str, charts: Vec<Chart>, shown: &str) -> Result<Option<Plot>> {
    if charts.is_empty() {
        return Ok(None);
    }
    Ok(Some(Plot { text: shown.into(), svg: svg(title, subtitle, &charts)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::sample;
    use crate::peers;

    fn says(plot: &Plot, what: &str) -> bool {
        plot.svg.lines().any(|line| line == what)
    }

    #[test]
    fn other_libraries_are_drawn_too() {
        let plot = recall(&sample(), &peers::sample()).unwrap().unwrap();
        for text in ["sift-1m", "deep-1m", "u8", "f16", "best other library", "recall@10", "0.95"] {
            assert!(says(&plot, text), "{text}");
        }
        assert!(!says(&plot, "0.5"), "too little recall is not shown");
    }

    #[test]
    fn lengths_have_a_chart_per_metric() {
        let plot = row_lengths(&sample()).unwrap().unwrap();
        for text in ["l2", "ip", "f16", "bytes of a row"] {
            assert!(says(&plot, text), "{text}");
        }
    }

    #[test]
    fn widths_are_doublings() {
        let plot = widths(&sample()).unwrap().unwrap();
        assert!(says(&plot, "1024") && says(&plot, "beam width"));
        assert_eq!(widths(&Lines::default()).unwrap(), None);
    }
}
