//! Reports of the steps of a runbook and of their sum.

use std::fmt;

use jasper::bench::runbook::{Event, Fresh, Moment};
use serde::Serialize;

use crate::{process, units};

/// A step, or a consolidation after it.
#[derive(Serialize)]
pub struct Line {
    step: usize,
    event: &'static str,
    /// Vectors, freed slots or queries.
    count: usize,
    /// Time of the step without computing true neighbors.
    seconds: f64,
    per_second: f64,
    /// Keys in the index.
    vectors: usize,
    /// Deleted vertices that are still traversed.
    tombstones: usize,
    /// Free slots.
    free: usize,
    /// Bytes of vectors and graph.
    bytes: usize,
    #[serde(flatten)]
    search: Option<Search>,
}

/// Results of a search.
#[derive(Serialize)]
struct Search {
    recall: f64,
    mean_hops: f64,
    mean_distances: f64,
    truth_seconds: f64,
}

/// An index rebuilt from the final vectors.
#[derive(Serialize)]
pub struct Rebuilt {
    build_seconds: f64,
    #[serde(flatten)]
    line: Line,
}

impl Rebuilt {
    /// From the measurement.
    pub fn new(fresh: &Fresh) -> Self {
        let line = Line { event: "rebuild", ..Line::new(&fresh.search) };
        Self { build_seconds: fresh.build_time.as_secs_f64(), line }
    }

    /// Its recall.
    pub fn recall(&self) -> f64 {
        self.line.search.as_ref().map_or(0.0, |search| search.recall)
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vectors, took) = (units::count(self.line.vectors), units::seconds(self.build_seconds));
        let recall = self.recall();
        write!(f, "rebuilt  recall {recall:.4} by an index built from the {vectors} final vectors in {took}")
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Insert => "insert",
        Event::Delete => "delete",
        Event::Replace => "replace",
        Event::Consolidate => "consolidate",
        Event::Search { .. } => "search",
    }
}

fn per_second(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds.max(f64::MIN_POSITIVE)
}

impl Line {
    /// From a step of the runbook.
    pub fn new(moment: &Moment) -> Self {
        let Moment { step, event, count, time, stats } = moment;
        let search = match event {
            Event::Search { recall, cost, truth_time } => Some(Search {
                recall: *recall,
                mean_hops: cost.hops as f64 / *count as f64,
                mean_distances: cost.distances as f64 / *count as f64,
                truth_seconds: truth_time.as_secs_f64(),
            }),
            _ => None,
        };
        let seconds = time.as_secs_f64();
        Self {
            step: *step,
            event: name(event),
            count: *count,
            seconds,
            per_second: per_second(*count, seconds),
            vectors: stats.keys,
            tombstones: stats.deleted,
            free: stats.free,
            bytes: stats.vector_bytes + stats.graph_bytes,
            search,
        }
    }

    /// The header of the columns.
    pub fn header(k: usize) -> String {
        format!(
            "{:>6}  {:12}{:>11}{:>11}{:>13}{:>13}{:>12}{:>12}",
            "step",
            "",
            "count",
            "took",
            "per second",
            "vectors",
            "tombstones",
            format!("recall@{k}")
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [count, vectors, tombstones] = [self.count, self.vectors, self.tombstones].map(units::count);
        let (took, rate) = (units::seconds(self.seconds), units::rate(self.per_second));
        let Self { step, event, .. } = self;
        write!(f, "{step:>6}  {event:12}{count:>11}{took:>11}{rate:>13}{vectors:>13}{tombstones:>12}")?;
        self.search.as_ref().map_or(Ok(()), |search| write!(f, "{:>12.4}", search.recall))
    }
}

/// All steps.
#[derive(Default, Serialize)]
pub struct Total {
    steps: usize,
    inserted: Sum,
    deleted: Sum,
    replaced: Sum,
    freed: Sum,
    queries: Sum,
    searches: usize,
    /// Mean over all searches.
    mean_recall: Option<f64>,
    /// Lowest recall, and its step.
    least_recall: Option<(f64, usize)>,
    peak_bytes: Option<u64>,
}

#[derive(Default, Serialize)]
struct Sum {
    count: usize,
    seconds: f64,
    per_second: f64,
}

impl Total {
    /// Adds a step of the runbook.
    pub fn add(&mut self, moment: &Moment) {
        let sum = match moment.event {
            Event::Insert => &mut self.inserted,
            Event::Delete => &mut self.deleted,
            Event::Replace => &mut self.replaced,
            Event::Consolidate => &mut self.freed,
            Event::Search { .. } => &mut self.queries,
        };
        sum.count += moment.count;
        sum.seconds += moment.time.as_secs_f64();
        sum.per_second = per_second(sum.count, sum.seconds);
        self.steps = moment.step;
        self.peak_bytes = process::peak_bytes();
        if let Event::Search { recall, .. } = moment.event {
            let before = self.mean_recall.unwrap_or_default() * self.searches as f64;
            self.searches += 1;
            self.mean_recall = Some((before + recall) / self.searches as f64);
            let least = self.least_recall.filter(|least| least.0 <= recall);
            self.least_recall = least.or(Some((recall, moment.step)));
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("inserted", &self.inserted, "vectors"),
            ("replaced", &self.replaced, "vectors"),
            ("deleted", &self.deleted, "vectors"),
            ("freed", &self.freed, "tombstones"),
            ("searched", &self.queries, "queries"),
        ];
        for (name, sum, of) in parts.into_iter().filter(|(_, sum, _)| sum.count > 0) {
            let (count, took) = (units::count(sum.count), units::seconds(sum.seconds));
            let rate = units::rate(sum.per_second);
            writeln!(f, "{name:9}{count} {of} in {took}: {rate} per second")?;
        }
        if let (Some(mean), Some((least, step))) = (self.mean_recall, self.least_recall) {
            writeln!(f, "recall   {mean:.4} on average, minimum {least:.4} in step {step}")?;
        }
        write!(f, "memory   {} peak", units::bytes(self.peak_bytes.unwrap_or_default()))
    }
}
