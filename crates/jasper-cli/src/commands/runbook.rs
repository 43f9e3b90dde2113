//! `jasper runbook`: runbooks of the usual shapes.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use jasper_data::{Operation, Runbook};
use serde::Serialize;

use crate::failure::Usage;
use crate::human;
use crate::screen::Screen;

/// Write a runbook for `jasper stream`, over any vector file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper runbook sliding-window --rows 100000 --rounds 20 --output runbook.yaml"
)]
pub struct Args {
    /// What happens in each round
    kind: Kind,
    /// Rows of the base, which come in their order
    #[arg(long, value_name = "N")]
    rows: u32,
    /// Rounds; each ends with a search
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u32,
    /// Share of the points that a round replaces
    #[arg(long, default_value_t = 0.05)]
    share: f64,
    /// Seed of what expires when
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Name of the data set in the file
    #[arg(long, value_name = "NAME", default_value = "rows")]
    dataset: String,
    /// The file to write
    #[arg(long, value_name = "FILE.yaml")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Half of the rows are there; then a part comes and the oldest goes
    SlidingWindow,
    /// A part comes and expires after a fifth of the rounds, or a half, or never
    ExpirationTime,
    /// A share of the points gets other vectors under the same tags
    Replace,
}

#[derive(Serialize)]
struct Report {
    steps: usize,
    searches: usize,
    /// Points in the index where it holds most.
    max_points: usize,
    output: PathBuf,
}

impl Args {
    /// Makes and writes.
    pub fn run(self, screen: Screen) -> Result<()> {
        let Self { rows, rounds, dataset, .. } = &self;
        let runbook = match self.kind {
            Kind::SlidingWindow => Runbook::sliding_window(dataset, *rows, *rounds),
            Kind::ExpirationTime => Runbook::expiration_time(dataset, *rows, *rounds, self.seed),
            Kind::Replace => Runbook::replacing(dataset, *rows, *rounds, self.share),
        };
        let runbook = runbook.map_err(|error| {
            Usage(format!("a runbook of {rows} rows in {rounds} rounds cannot be made: {error}"))
        })?;
        runbook.write(&self.output)?;
        let is_search = |step: &&jasper_data::Step| step.operation == Operation::Search;
        screen.report(&Report {
            steps: runbook.steps().len(),
            searches: runbook.steps().iter().filter(is_search).count(),
            max_points: runbook.max_points(),
            output: self.output,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [steps, searches, most] = [self.steps, self.searches, self.max_points].map(human::count);
        write!(f, "saved    {}: {steps} steps, {searches} of them searches, ", self.output.display())?;
        write!(f, "{most} points at once at most")
    }
}
