//! The times of a build's progress reports, and so of its stages.

use std::ops::ControlFlow;
use std::time::Instant;

use jasper_core::{Progress, Stage};
use serde_json::{Value, json};

/// First and last report of each stage, in seconds since the build began.
pub struct Stages {
    begun: Instant,
    seen: Vec<(Stage, f64, f64)>,
}

impl Stages {
    /// The build begins now.
    pub fn new() -> Self {
        Self { begun: Instant::now(), seen: Vec::new() }
    }

    /// Notes a report.
    pub fn note(&mut self, progress: Progress) -> ControlFlow<()> {
        let now = self.begun.elapsed().as_secs_f64();
        match self.seen.last_mut() {
            Some((stage, _, last)) if *stage == progress.stage => *last = now,
            _ => self.seen.push((progress.stage, now, now)),
        }
        ControlFlow::Continue(())
    }

    /// The first and the last report of a stage.
    pub fn of(&self, stage: Stage) -> Option<(f64, f64)> {
        self.seen.iter().find(|seen| seen.0 == stage).map(|&(_, first, last)| (first, last))
    }

    /// Seconds of the parts of a build that linked from `began` to `ended`, and took `all`.
    ///
    /// Where nothing is reconnected, the walk that looks for it counts as reading links.
    pub fn parts(&self, (began, ended): (f64, f64), all: f64) -> Value {
        let read = self.of(Stage::Reading).map_or(0.0, |stage| stage.1);
        let (first, last) = self.of(Stage::Linking).unwrap_or((began, began));
        let reconnected = self.of(Stage::Reconnecting).map_or(last, |stage| stage.1);
        json!({
            "read_rows": read, "start_and_order": began - read, "upload": first - began, "link": last - first,
            "repair": reconnected - last, "read_links": ended - reconnected, "end": all - ended,
        })
    }
}
