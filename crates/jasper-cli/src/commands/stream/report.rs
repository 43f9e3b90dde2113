//! What a step of a stream was, and what all of them were together.

use std::fmt;

use jasper::bench::runbook::{Event, Fresh, Moment};
use serde::Serialize;

use crate::{human, machine};

/// One step, or the mending of the graph after it.
#[derive(Serialize)]
pub struct Line {
    step: usize,
    event: &'static str,
    /// Vectors, freed slots or queries.
    count: usize,
    /// Of the event alone; looking for true neighbours is apart.
    seconds: f64,
    per_second: f64,
    /// Keys that can be found now.
    points: usize,
    /// Deleted vertices that are walked through yet.
    tombstones: usize,
    /// Slots that the next inserts use.
    free: usize,
    /// Bytes of vectors and graph.
    bytes: usize,
    #[serde(flatten)]
    search: Option<Search>,
}

/// What a search found.
#[derive(Serialize)]
struct Search {
    recall: f64,
    mean_hops: f64,
    mean_distances: f64,
    truth_seconds: f64,
}

/// An index built anew over what the last step leaves.
#[derive(Serialize)]
pub struct Rebuilt {
    build_seconds: f64,
    #[serde(flatten)]
    line: Line,
}

impl Rebuilt {
    /// Of what was measured.
    pub fn new(fresh: &Fresh) -> Self {
        let line = Line { event: "fresh", ..Line::new(&fresh.search) };
        Self { build_seconds: fresh.build_time.as_secs_f64(), line }
    }

    /// What it finds.
    pub fn recall(&self) -> f64 {
        self.line.search.as_ref().map_or(0.0, |search| search.recall)
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (points, took) = (human::count(self.line.points), human::seconds(self.build_seconds));
        let recall = self.recall();
        write!(f, "fresh    {recall:.4} by an index built anew over the {points} points left, in {took}")
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
    /// Of a moment of the stream.
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
            points: stats.keys,
            tombstones: stats.deleted,
            free: stats.free,
            bytes: stats.vector_bytes + stats.graph_bytes,
            search,
        }
    }

    /// Heads the columns.
    pub fn header(k: usize) -> String {
        format!(
            "{:>6}  {:12}{:>11}{:>11}{:>13}{:>13}{:>12}{:>12}",
            "step",
            "",
            "count",
            "took",
            "a second",
            "points",
            "tombstones",
            format!("recall@{k}")
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [count, points, tombstones] = [self.count, self.points, self.tombstones].map(human::count);
        let (took, rate) = (human::seconds(self.seconds), human::rate(self.per_second));
        let Self { step, event, .. } = self;
        write!(f, "{step:>6}  {event:12}{count:>11}{took:>11}{rate:>13}{points:>13}{tombstones:>12}")?;
        self.search.as_ref().map_or(Ok(()), |search| write!(f, "{:>12.4}", search.recall))
    }
}

/// All steps together.
#[derive(Default, Serialize)]
pub struct Total {
    steps: usize,
    inserted: Sum,
    deleted: Sum,
    replaced: Sum,
    freed: Sum,
    queries: Sum,
    searches: usize,
    /// Of all searches.
    mean_recall: Option<f64>,
    /// Of the search that found least, and its step.
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
    /// Adds a moment of the stream.
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
        self.peak_bytes = machine::peak_bytes();
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
            ("mended", &self.freed, "tombstones"),
            ("asked", &self.queries, "queries"),
        ];
        for (name, sum, of) in parts.into_iter().filter(|(_, sum, _)| sum.count > 0) {
            let (count, took) = (human::count(sum.count), human::seconds(sum.seconds));
            let rate = human::rate(sum.per_second);
            writeln!(f, "{name:9}{count} {of} in {took}: {rate} a second")?;
        }
        if let (Some(mean), Some((least, step))) = (self.mean_recall, self.least_recall) {
            writeln!(f, "recall   {mean:.4} on average, {least:.4} at the least, in step {step}")?;
        }
        write!(f, "memory   {} at the peak", human::bytes(self.peak_bytes.unwrap_or_default()))
    }
}
