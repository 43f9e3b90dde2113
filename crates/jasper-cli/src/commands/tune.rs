//! `jasper tune`: finds the fastest search that reaches a recall.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use jasper::tune::{Goal, TuneError, TuneQueries};
use jasper::{Device, Element, IndexInfo, SearchError};
use serde::Serialize;

use crate::args::DeviceArgs;
use crate::element::with_element;
use crate::files::{open_index, read_queries, read_truth};
use crate::terminal::Terminal;
use crate::tuned::{Tuned, table};
use crate::units;

/// Find the fastest search that reaches a recall, and store it in the index file
///
/// Half of the queries select the search, the other half validates it. Without --queries, a seeded sample of the indexed
/// vectors is used: each is searched for as if it were not in the index, with true neighbors found by brute force. This
/// chooses a beam width that is slightly too wide; real queries give a better one.
///
/// `jasper search --recall` and `jasper eval --recall` use the result, and `jasper info` shows it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper tune vectors.jasper --recall 0.95 -k 10 --queries query.fbin --truth gt.ibin"
)]
pub struct Args {
    /// The index file
    index: PathBuf,
    /// Mean recall@k to reach
    #[arg(long, value_name = "R", default_value_t = 0.95)]
    recall: f64,
    /// Results per query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Queries to tune with: a vector file of the index's element
    #[arg(long, value_name = "FILE", requires = "truth")]
    queries: Option<PathBuf>,
    /// True neighbors of the queries: ibin or ivecs, as written by `jasper groundtruth`
    #[arg(long, value_name = "FILE", requires = "queries", alias = "groundtruth")]
    truth: Option<PathBuf>,
    /// Number of indexed vectors to tune with if no queries are given; at most a thirty-second of the index
    #[arg(long, value_name = "N", default_value_t = TuneQueries::<u8>::SAMPLE, conflicts_with = "queries")]
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

#[derive(Serialize)]
struct Report {
    /// Queries, half for selection and half for validation.
    queries: usize,
    /// Whether these were sampled from the index.
    sampled: bool,
    seconds: f64,
    tuned: Vec<Tuned>,
    /// Bytes of the index file.
    bytes: u64,
    output: PathBuf,
}

impl Args {
    /// Tunes and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        self.device.check()?;
        if self.k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if !(self.recall > 0.0 && self.recall <= 1.0) {
            return Err(TuneError::Recall(self.recall).into());
        }
        let info = IndexInfo::read(&self.index)?;
        terminal.report(&with_element!(info.element, T => self.tune::<T>(terminal)?))
    }

    fn tune<T: Element>(self, terminal: Terminal) -> Result<Report> {
        let DeviceArgs { threads, device, vectors } = self.device;
        let index = open_index::<T>(&self.index, threads, terminal)?;
        vectors.apply(&index);
        let index = index.to_device(device)?;
        if index.device() == Device::Cpu {
            // Exact searches on the CPU use sketches too.
            index.sketch()?;
        }
        let given = match (&self.queries, &self.truth) {
            (Some(queries), Some(truth)) => {
                let queries = read_queries::<T>(queries, index.dimension())?;
                let truth = read_truth(truth, queries.view().len(), self.k)?;
                Some((queries, truth))
            }
            _ => None,
        };
        let queries = match &given {
            Some((queries, truth)) => TuneQueries::Given { queries: queries.view(), truth },
            None => TuneQueries::Sampled { count: self.sample, seed: self.seed },
        };
        let goal = Goal { k: self.k, recall: self.recall };
        let start = Instant::now();
        let report = index.tune_with(goal, queries, &mut terminal.progress())?;
        let seconds = start.elapsed().as_secs_f64();
        let (state, output) = (index.read_graph(jasper::Graph::state)?, self.output.unwrap_or(self.index));
        let saved = index.save_with(&output, &mut terminal.progress())?;
        Ok(Report {
            queries: report.queries,
            sampled: given.is_none(),
            seconds,
            tuned: report.searches.iter().map(|search| Tuned::new(search, state)).collect(),
            bytes: saved.bytes,
            output,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tuned    ")?;
        table(f, &self.tuned, 9)?;
        let (queries, took) = (units::count(self.queries), units::seconds(self.seconds));
        let what = if self.sampled { "indexed vectors" } else { "queries" };
        writeln!(f, "\nwith     {queries} {what}, half for selection and half for validation; took {took}")?;
        write!(f, "saved    {}, {}", self.output.display(), units::bytes(self.bytes))
    }
}
