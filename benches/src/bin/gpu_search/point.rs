//! A setting of the search, and its measurement.

use jasper_vamana::TunedLaunch;
use serde_json::{Value, json};

/// How a batch is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Results per query.
    pub k: u32,
    /// Entries of the frontier.
    pub beam_width: u32,
    /// How the work is shared out.
    pub launch: TunedLaunch,
}

/// What large batches get from the library: a warp a query, and a filter that fits beside the others of a
/// multiprocessor.
pub const SOLO: TunedLaunch = TunedLaunch { warps: 1, expansions: 1, visited_slots: 1024 };

/// What a setting gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What was asked for.
    pub setting: Setting,
    /// Queries of the batch.
    pub queries: usize,
    /// Recall@k, the mean over all queries; ties count as right.
    pub recall: f64,
    /// Queries per second: the batch over the median time of its launch.
    pub rate: f64,
    /// Vertices expanded per query.
    pub hops: f64,
    /// distances computed a query.
    pub distances: f64,
    /// Bytes of rows and edges asked for in a second, from whatever memory holds them.
    pub bytes_per_second: f64,
}

#[cfg(test)]
impl Setting {
    /// `k` answers with a frontier of `beam_width`, a warp a query.
    pub const fn new(k: u32, beam_width: u32) -> Self {
        Self { k, beam_width, launch: SOLO }
    }
}

/// A launch as fields of a line.
pub fn launch_line(launch: TunedLaunch) -> Value {
    let TunedLaunch { warps, expansions, visited_slots } = launch;
    json!({"warps": warps, "expansions": expansions, "visited_slots": visited_slots})
}

impl Point {
    /// The point as a line; `copy` is the rate of a copy within the device, in bytes a second.
    pub fn line(&self, copy: f64) -> Value {
        let Self { setting, queries, recall, rate, hops, distances, bytes_per_second } = *self;
        let mut line = json!({
            "k": setting.k, "beam_width": setting.beam_width, "queries": queries, "recall": rounded(recall, 5),
            "queries_per_second": rate.round(), "milliseconds": rounded(queries as f64 / rate * 1e3, 4),
            "hops": rounded(hops, 2), "distances": rounded(distances, 1),
            "gb_per_s": rounded(bytes_per_second / 1e9, 1), "of_copy": rounded(bytes_per_second / copy, 4),
        });
        merge(&mut line, launch_line(setting.launch));
        line
    }
}

/// Adds the fields of `more` to the object `line`.
pub fn merge(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}

/// A number with as many decimals as mean something.
pub fn rounded(number: f64, decimals: i32) -> f64 {
    let unit = 10_f64.powi(decimals);
    (number * unit).round() / unit
}
