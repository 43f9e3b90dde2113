//! `jasper runbook`: generates runbooks.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use jasper_runbook::{Operation, Runbook};
use serde_json::json;

use crate::command_files::{Content, Files};
use crate::error::Usage;
use crate::terminal::Terminal;
use crate::units;

/// Generate a runbook for `jasper stream`, for any vector file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper runbook sliding-window --rows 100000 --rounds 20 --output runbook.yaml"
)]
pub struct Args {
    /// What happens in each round
    kind: Kind,
    /// Number of vectors in the base, which are inserted in order
    #[arg(long, value_name = "N")]
    rows: u32,
    /// Rounds, at most 10000; each ends with a search
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: u32,
    /// Share of the vectors that a round replaces, above 0 and at most 1
    #[arg(long, default_value_t = 0.05)]
    share: f64,
    /// Seed of the expiration times
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
    /// Half of the vectors are present; each round inserts new ones and deletes the oldest
    SlidingWindow,
    /// Inserted vectors expire after a fifth of the rounds, after half of them, or never
    ExpirationTime,
    /// Each round replaces the vectors of a share of the tags
    Replace,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::new().write([&self.output], Content::Runbook)
    }

    /// Generates and writes the runbook.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let Self { rows, rounds, dataset, .. } = &self;
        let runbook = match self.kind {
            Kind::SlidingWindow => Runbook::sliding_window(dataset, *rows, *rounds),
            Kind::ExpirationTime => Runbook::expiration_time(dataset, *rows, *rounds, self.seed),
            Kind::Replace => Runbook::replacing(dataset, *rows, *rounds, self.share),
        };
        let runbook = runbook.map_err(|error| {
            Usage(format!("cannot generate a runbook of {rows} vectors in {rounds} rounds: {error}"))
        })?;
        runbook.write(&self.output)?;
        let searches = runbook.steps().iter().filter(|step| step.operation == Operation::Search).count();
        let (steps, max_vectors, output) =
            (runbook.steps().len(), runbook.max_points(), self.output.display());
        let json = json!({
            "steps": steps,
            "searches": searches,
            // Maximum number of vectors in the index.
            "max_vectors": max_vectors,
            "output": output.to_string(),
        });
        let [steps, searches, max_vectors] = [steps, searches, max_vectors].map(units::count);
        let text = format!(
            "saved    {output}: {steps} steps, {searches} of them searches, at most {max_vectors} vectors at once"
        );
        terminal.report(&json, text)
    }
}
