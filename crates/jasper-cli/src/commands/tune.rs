//! `jasper tune`: finds the fastest search that reaches a recall.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use jasper::tune::{Goal, TuneQueries};
use serde_json::json;

use crate::args::{DeviceArgs, DistanceArgs};
use crate::command_files::Files;
use crate::error::Usage;
use crate::files::{name_index, name_input, open_index, read_queries, read_truth};
use crate::terminal::{Terminal, merge, timed};
use crate::tuned::{Tuned, table};
use crate::units;
use crate::update::Target;

/// Find the fastest search that reaches a recall, and store it in the index
///
/// Half of the queries select the search, the other half validates it. Without --queries, a seeded sample of the
/// indexed vectors is used: each is searched for as if it were not in the index, with true neighbors found by brute
/// force. This chooses a beam width that is slightly too wide; real queries give a better one.
///
/// `jasper search --recall` and `jasper eval --recall` use the result, and `jasper info` shows it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper tune vectors.jasper --recall 0.95 -k 10 --queries query.fbin")]
pub struct Args {
    /// The index file, or the folder of a durable index
    index: PathBuf,
    /// Mean recall@k to reach
    #[arg(long, value_name = "R", default_value_t = 0.95)]
    recall: f64,
    /// Results per query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Queries to tune with: a vector file of the index's dimension
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// True neighbors of the queries: ibin or ivecs, as written by `jasper groundtruth`; found by brute force if not
    /// given
    #[arg(long, value_name = "FILE", requires = "queries", alias = "groundtruth")]
    truth: Option<PathBuf>,
    /// Number of indexed vectors to tune with if no queries are given; at most a thirty-second of the index
    #[arg(long, value_name = "N", default_value_t = TuneQueries::SAMPLE, conflicts_with = "queries")]
    sample: usize,
    /// Seed of the sample
    #[arg(long, value_name = "SEED", default_value_t = 1, conflicts_with = "queries")]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Write the index to this file and leave the index file unchanged
    #[arg(long, value_name = "INDEX")]
    output: Option<PathBuf>,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::update(&self.index, &self.output).read(&self.queries).read(&self.truth)
    }

    /// Tunes and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.device.resolve()?;
        let goal = Goal { k: self.k, recall: self.recall };
        goal.check()?;
        let sample = self.sample;
        ensure!(sample >= 2, Usage(format!("--sample ({sample}) must be at least 2")));
        let target = Target::lock(&self.index, self.output, terminal)?;
        let index = self.device.open(&self.index, DistanceArgs::default(), terminal, open_index)?;
        let given = self.queries.as_ref().map(|queries| read_queries(queries, &index)).transpose()?;
        let count = given.as_ref().map_or(0, |given| given.view().len());
        let truth = self.truth.as_ref().map(|truth| read_truth(truth, count, self.k)).transpose()?;
        let (queries, kind) = match &given {
            Some(given) => (TuneQueries::Given { queries: given.view(), truth: truth.as_ref() }, "queries"),
            None => (TuneQueries::Sampled { count: self.sample, seed: self.seed }, "indexed vectors"),
        };
        let (report, seconds) = timed(|| index.with_progress(terminal.progress()).tune(goal, queries));
        let report = report.map_err(|error| {
            let queries = self.queries.as_ref().unwrap_or(&self.index);
            name_index(name_input(error.into(), queries, None), &self.index)
        })?;
        let saved = target.save(&index, terminal)?;
        let (output, queries) = (target.output().display(), report.queries);
        let fingerprint = report.searches.first().map_or(0, |search| search.fingerprint);
        let tuned = Tuned::list(report.searches, fingerprint);
        let json = json!({
            // Half for selection and half for validation.
            "queries": queries,
            // Whether these were sampled from the index.
            "sampled": given.is_none(),
            "seconds": seconds,
            "tuned": tuned,
            "output": output.to_string(),
        });
        let text = format!(
            "tuned    {}\nwith     {} {kind}, half for selection and half for validation; took {}\n{}",
            table(&tuned, 9)?,
            units::count(queries),
            units::seconds(seconds),
            units::saved(output, saved),
        );
        terminal.report(&merge(json, saved), text)
    }
}
