//! Building an index of a set and searching it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result};
use jasper::{Index, Profile, QuantizeMode, SearchParams};
use jasper_benches::front::{Measured, Reached, rate_at};
use jasper_data::GroundTruth;
use serde_json::{Value, json};

use crate::set::{Bench, K, Set};

/// Beam widths of a curve.
const WIDTHS: [usize; 7] = [10, 16, 32, 64, 128, 256, 512];
/// Recalls at which rates are compared.
const RECALLS: [f64; 3] = [0.95, 0.98, 0.99];
/// A batch is repeated on a CPU for at least as long, and at least as often.
const TIMED: Duration = Duration::from_millis(200);
const ROUNDS: usize = 3;

/// Recall and queries per second at a beam width.
#[derive(Clone, Copy)]
struct Point {
    width: usize,
    recall: f64,
    rate: f64,
    /// On a GPU, what searches by vectors read per second, as a share of a copy.
    of_copy: Option<f64>,
}

impl Measured for Point {
    fn recall(&self) -> f64 {
        self.recall
    }

    fn rate(&self) -> f64 {
        self.rate
    }
}

/// Builds an index, searches it, and returns it with the line of the set.
pub fn measure(bench: &Bench, set: &Set) -> Result<(Index, Value)> {
    let truth = bench.truth(set)?;
    let (index, seconds) = set.build(bench.device)?;
    let (points, rates) = curve(bench, &index, set, &truth)?;
    let report = index.stats().build.context("a new index has a report")?;
    let line = json!({
        "what": "distribution", "set": set.name, "group": set.group, "rows": set.keys.len(), "dimension": set.dimension,
        "element": set.element.name(), "metric": set.metric.to_string(), "device": bench.device.to_string(),
        "device_name": index.device_info().name, "queries": set.queries().len(),
        "build_seconds": (seconds * 1000.0).round() / 1000.0, "mean_degree": (report.mean_degree * 100.0).round() / 100.0,
        "thin": rounded(thin(&index)?), "build_beam_width": report.build_beam_width,
        "missed_neighbors": report.missed_neighbors, "points": points, "rates": rates,
    });
    Ok((index, line))
}

/// Chooses codes for an index, searches it by them, and returns the line.
pub fn measure_codes(bench: &Bench, set: &Set, index: &Index) -> Result<Value> {
    let begun = Instant::now();
    let report = index.quantize(QuantizeMode::Auto(bench.device))?;
    let seconds = begun.elapsed().as_secs_f64();
    let (points, rates) = curve(bench, index, set, &bench.truth(set)?)?;
    Ok(json!({
        "what": "codes", "set": set.name, "rows": set.keys.len(), "device": bench.device.to_string(),
        "codes": report.quantization.map(|codes| codes.to_string()), "seconds": rounded(seconds), "points": points,
        "rates": rates,
    }))
}

/// Recall and rate by beam width, and the rates at some recalls.
fn curve(bench: &Bench, index: &Index, set: &Set, truth: &GroundTruth) -> Result<(Vec<Value>, [Value; 3])> {
    index.warm_up()?;
    let copy = bench.copy.filter(|_| index.stats().quantization.is_none());
    let points = WIDTHS.map(|width| -> Result<Point> {
        let (recall, rate) = (set.recall(index, truth, width)?, rate(index, set, width)?);
        let read = |copy| Ok::<_, Error>(bytes_per_second(index, set, width)? / copy);
        let of_copy = copy.map(read).transpose()?;
        Ok(Point { width, recall, rate, of_copy })
    });
    let points = points.into_iter().collect::<Result<Vec<_>>>()?;
    let rates = RECALLS.map(|recall| match rate_at(&points, recall) {
        Some(Reached::At(rate)) => json!([recall, rate.round(), false]),
        Some(Reached::AtLeast(rate)) => json!([recall, rate.round(), true]),
        None => json!([recall, null, false]),
    });
    let points = points.iter().map(|&Point { width, recall, rate, of_copy }| {
        json!([width, rounded(recall), rate.round(), of_copy.map(rounded)])
    });
    Ok((points.collect(), rates))
}

/// The share of vertices with less than a quarter of the edges that they could have.
fn thin(index: &Index) -> Result<f64> {
    Ok(index.read_graph(|graph| {
        let few = graph.params().max_degree() / 4;
        let is_thin = |slot| graph.adjacency().neighbors(slot).len() < few;
        graph.keys().live_slots().filter(|&slot| is_thin(slot)).count() as f64 / graph.keys().live() as f64
    })?)
}

/// Queries per second: the median of some batches, on a GPU of launches with queries in its memory.
fn rate(index: &Index, set: &Set, beam_width: usize) -> Result<f64> {
    let params = SearchParams::new(K).beam_width(beam_width);
    let median = set.in_element(set.queries(), |queries| -> Result<Duration> {
        if let Some(time) = Profile::device_time(index, queries, params)? {
            return Ok(time);
        }
        let (mut times, begun) = (Vec::new(), Instant::now());
        while times.len() < ROUNDS || begun.elapsed() < TIMED {
            let begun = Instant::now();
            index.search_batch(queries, params)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    })?;
    Ok(set.queries().len() as f64 / median.as_secs_f64())
}

/// Bytes per second that searches by vectors read on a GPU.
fn bytes_per_second(index: &Index, set: &Set, beam_width: usize) -> Result<f64> {
    let params = SearchParams::new(K).beam_width(beam_width);
    let profile = set.in_element(set.queries(), |queries| Ok(Profile::measure(index, queries, params)?))?;
    Ok(profile.bytes_per_second())
}

/// Rounds a share to four decimals.
pub fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}
