//! The output of the demonstration, as text of at most 100 columns or as JSON.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::dictionary::Entry;
use super::state::K;
use crate::curve::Point;
use crate::units;

/// A step of the demonstration.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The index was built.
    Build {
        vectors: usize,
        dimension: usize,
        seconds: f64,
        vectors_per_second: f64,
        mean_degree: f64,
        bytes: usize,
    },
    /// A phrase was searched for.
    Answer(Answer),
    /// The exact neighbors were computed.
    Exact { queries: usize, queries_per_second: f64 },
    /// A beam width was measured.
    Recall(Point),
    /// The index was updated.
    Update { what: String, vectors: usize, recall: f64, beam_width: usize, seconds: Option<f64> },
    /// The plot was drawn.
    Plot { path: PathBuf },
}

/// The results for a phrase next to the exact ones.
#[derive(Serialize)]
pub struct Answer {
    pub phrase: String,
    pub graph_seconds: f64,
    pub exact_seconds: f64,
    pub found: Vec<Found>,
    pub exact: Vec<Found>,
}

/// An entry that was found.
#[derive(Clone, PartialEq, Serialize)]
pub struct Found {
    pub key: u64,
    pub distance: f32,
    pub words: String,
    pub definition: String,
}

impl Found {
    /// The entry under `key`.
    pub fn new(key: u64, distance: f32, entry: &Entry) -> Self {
        Self { key, distance, words: entry.words.clone(), definition: entry.definition.clone() }
    }
}

/// Columns of the words of an entry, and of its definition.
const COLUMNS: (usize, usize) = (26, 47);

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build { vectors, dimension, seconds, vectors_per_second, mean_degree, bytes } => {
                let (vectors, rate) = (units::count(*vectors), units::rate(*vectors_per_second));
                writeln!(
                    f,
                    "\nBuild      {vectors} dictionary entries as vectors of {dimension} f32, cosine"
                )?;
                writeln!(f, "           {} in total: {rate} per second", units::seconds(*seconds))?;
                write!(f, "           {}, {mean_degree:.1} edges per vertex", units::bytes(*bytes as u64))
            }
            Self::Answer(answer) => answer.fmt(f),
            Self::Exact { queries, .. } => {
                writeln!(
                    f,
                    "\nRecall     of {} entries that are not in the index, {K} neighbors each",
                    units::count(*queries)
                )?;
                write!(f, "           {}", Point::header(K))
            }
            Self::Recall(point) => write!(f, "           {point}"),
            Self::Update { what, vectors, recall, seconds, .. } => {
                write!(f, "           {what:36}{:>8}  {recall:>9.4}", units::count(*vectors))?;
                seconds.map_or(Ok(()), |seconds| write!(f, "  {:>8}", units::seconds(seconds)))
            }
            Self::Plot { path } => write!(f, "\nPlot       {}", path.display()),
        }
    }
}

impl Event {
    /// The header of the updates.
    pub fn updates_header(beam_width: usize) -> String {
        let recall = format!("recall@{K}");
        format!(
            "\nUpdate     recall against the exact neighbors after each update, beam width {beam_width}\n           {:36}{:>8}  {recall:>9}  {:>8}",
            "", "entries", "took"
        )
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (graph, exact) = (self.graph_seconds * 1e3, self.exact_seconds * 1e3);
        writeln!(f, "\nAsk        {}", self.phrase)?;
        writeln!(f, "           {graph:.2} ms through the graph, {exact:.1} ms by brute force")?;
        write!(f, "           found  exact")?;
        for (found, exact) in self.found.iter().zip(&self.exact) {
            let (words, definition) =
                (units::cut(&found.words, COLUMNS.0), units::cut(&found.definition, COLUMNS.1));
            write!(f, "\n           {:.3}  {:.3}  {words:26}  {definition}", found.distance, exact.distance)?;
            if found.key != exact.key {
                write!(f, "\n                         exactly: {}", units::cut(&exact.words, COLUMNS.1))?;
            }
        }
        Ok(())
    }
}
