//! Building an index of a set and searching it.

use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::bench::Measure as _;
use jasper::data::GroundTruth;
use jasper::{Element, Index, SearchParams};
use jasper_benches::front::{Measured, Reached, rate_at};
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
pub fn measure<T: Element>(bench: &Bench, set: &Set<T>) -> Result<(Index<T>, Value)> {
    let truth = bench.truth(set)?;
    let begun = Instant::now();
    let index = set.build(bench.device)?;
    let seconds = begun.elapsed().as_secs_f64();
    index.warm_up()?;
    let points = WIDTHS.map(|width| -> Result<Point> {
        let params = SearchParams::new(K).beam_width(width);
        Ok(Point { width, recall: recall(&index, set, &truth, width)?, rate: rate(&index, set, params)? })
    });
    let points = points.into_iter().collect::<Result<Vec<_>>>()?;
    let rates = RECALLS.map(|recall| match rate_at(&points, recall) {
        Some(Reached::At(rate)) => json!([recall, rate.round(), false]),
        Some(Reached::AtLeast(rate)) => json!([recall, rate.round(), true]),
        None => json!([recall, null, false]),
    });
    let thin = index.read_graph(|graph| {
        let few = graph.params().max_degree() / 4;
        let degrees = graph.keys().live_slots().map(|slot| graph.adjacency().neighbors(slot).len());
        let (mut thin, mut all) = (0, 0);
        for degree in degrees {
            thin += usize::from(degree < few);
            all += 1;
        }
        f64::from(thin as u32) / f64::from(all)
    })?;
    let stats = index.stats();
    let points: Vec<Value> =
        points.iter().map(|point| json!([point.width, rounded(point.recall), point.rate.round()])).collect();
    let line = json!({
        "what": "distribution", "set": set.name, "rows": set.keys.len(), "dimension": set.dimension,
        "element": T::KIND.name(), "metric": set.metric.to_string(), "device": bench.device.to_string(),
        "device_name": index.device_name(), "queries": set.queries().len(),
        "build_seconds": (seconds * 1000.0).round() / 1000.0, "mean_degree": (stats.mean_degree * 100.0).round() / 100.0,
        "thin": rounded(thin), "points": points, "rates": rates,
    });
    Ok((index, line))
}

/// Mean recall with a beam width.
pub fn recall<T: Element>(index: &Index<T>, set: &Set<T>, truth: &GroundTruth, width: usize) -> Result<f64> {
    let found = index.search_batch(set.queries(), SearchParams::new(K).beam_width(width))?;
    Ok(set.recall(truth, found.keys()))
}

/// Queries per second: the median of some batches, on a GPU of launches with queries in its memory.
fn rate<T: Element>(index: &Index<T>, set: &Set<T>, params: SearchParams<'_>) -> Result<f64> {
    let mut times = Vec::new();
    let median = match index.device_time(set.queries(), params)? {
        Some(time) => time,
        None => {
            let begun = Instant::now();
            while times.len() < ROUNDS || begun.elapsed() < TIMED {
                let begun = Instant::now();
                index.search_batch(set.queries(), params)?;
                times.push(begun.elapsed());
            }
            times.sort_unstable();
            times[times.len() / 2]
        }
    };
    Ok(set.queries().len() as f64 / median.as_secs_f64())
}

/// Rounds a share to four decimals.
pub fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}
