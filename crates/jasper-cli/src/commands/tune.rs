//! `jasper tune`: the search that reaches a recall.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use jasper::tune::{Goal, TuneError, TuneQueries};
use jasper::{Device, Element, IndexInfo, SearchError};
use serde::Serialize;

use crate::element::with_element;
use crate::files::{open_index, read_queries, read_truth};
use crate::human;
use crate::place::Place;
use crate::screen::Screen;
use crate::tuned::{Tuned, table};

/// Find the fastest search that reaches a recall, and keep it in the index file
///
/// Half of the queries choose, the other half confirms. Without --queries they are rows of the index, a seeded sample,
/// each searched for without itself: its true neighbours are found by looking at every other row, and while tuning goes
/// on no edge leads away from it. That finds a beam width that is rather too wide; real queries find a better one.
///
/// `jasper search` and `jasper eval` use what was found with --recall, and `jasper info` shows it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper tune vectors.jasper --recall 0.95 -k 10 --queries query.fbin --truth gt.ibin"
)]
pub struct Args {
    /// The index file
    index: PathBuf,
    /// Recall@k to reach, on average over the queries
    #[arg(long, value_name = "R", default_value_t = 0.95)]
    recall: f64,
    /// Answers a query
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,
    /// Queries to tune with: a vector file of the index's element
    #[arg(long, value_name = "FILE", requires = "truth")]
    queries: Option<PathBuf>,
    /// True neighbours of the queries: ibin or ivecs, as `jasper groundtruth` writes
    #[arg(long, value_name = "FILE", requires = "queries", alias = "groundtruth")]
    truth: Option<PathBuf>,
    /// Rows of the index to tune with, where no queries are given; a thirty-second of them at most
    #[arg(long, value_name = "N", default_value_t = TuneQueries::<u8>::SAMPLE, conflicts_with = "queries")]
    sample: usize,
    /// Seed of the sample
    #[arg(long, value_name = "SEED", default_value_t = 1, conflicts_with = "queries")]
    seed: u64,
    #[command(flatten)]
    place: Place,
    /// Write the index here and leave the index file as it is
    #[arg(long, value_name = "INDEX")]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    /// Queries, of which half chose and half confirmed.
    queries: usize,
    /// Whether those were rows of the index.
    sampled: bool,
    seconds: f64,
    tuned: Vec<Tuned>,
    /// Bytes of the index file.
    bytes: u64,
    output: PathBuf,
}

impl Args {
    /// Tunes and saves.
    pub fn run(self, screen: Screen) -> Result<()> {
        self.place.check()?;
        if self.k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if !(self.recall > 0.0 && self.recall <= 1.0) {
            return Err(TuneError::Recall(self.recall).into());
        }
        let info = IndexInfo::read(&self.index)?;
        screen.report(&with_element!(info.element, T => self.tune::<T>(screen)?))
    }

    fn tune<T: Element>(self, screen: Screen) -> Result<Report> {
        let Place { threads, device, vectors } = self.place;
        let mut index = open_index::<T>(&self.index, threads, screen)?;
        vectors.tell(&mut index);
        let index = index.to_device(device)?;
        if index.device() == Device::Cpu {
            // As searches on the CPU will have it.
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
        let begun = Instant::now();
        let report = index.tune_with(goal, queries, &mut screen.progress())?;
        let seconds = begun.elapsed().as_secs_f64();
        let (state, output) = (index.read_graph(jasper::Graph::state)?, self.output.unwrap_or(self.index));
        let saved = index.save_with(&output, &mut screen.progress())?;
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
        let (queries, took) = (human::count(self.queries), human::seconds(self.seconds));
        let what = if self.sampled { "rows of the index" } else { "queries" };
        writeln!(f, "\nwith     {queries} {what}, half to choose and half to confirm; took {took}")?;
        write!(f, "saved    {}, {}", self.output.display(), human::bytes(self.bytes))
    }
}
