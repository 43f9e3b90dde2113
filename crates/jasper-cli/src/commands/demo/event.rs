//! What the demonstration tells, as text of at most 100 columns or as JSON.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::dictionary::Entry;
use super::moment::K;
use crate::curve::Point;
use crate::human;

/// Something that happened.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The index was built.
    Build {
        points: usize,
        dimension: usize,
        seconds: f64,
        vectors_per_second: f64,
        mean_degree: f64,
        bytes: usize,
    },
    /// A phrase was answered.
    Answer(Answer),
    /// Everything was compared with everything.
    Exact { queries: usize, queries_per_second: f64 },
    /// A beam width was measured.
    Recall(Point),
    /// The index was changed.
    Change { what: String, points: usize, recall: f64, beam_width: usize, seconds: Option<f64> },
    /// The plot was drawn.
    Plot { path: PathBuf },
}

/// The answers to a phrase beside the exact ones.
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
            Self::Build { points, dimension, seconds, vectors_per_second, mean_degree, bytes } => {
                let (points, rate) = (human::count(*points), human::rate(*vectors_per_second));
                writeln!(
                    f,
                    "\nBuild      {points} dictionary entries as vectors of {dimension} f32, compared by cosine"
                )?;
                writeln!(f, "           {} for all of them: {rate} a second", human::seconds(*seconds))?;
                write!(f, "           {}, {mean_degree:.1} edges a vertex", human::bytes(*bytes as u64))
            }
            Self::Answer(answer) => answer.fmt(f),
            Self::Exact { queries, .. } => {
                writeln!(
                    f,
                    "\nRecall     of {} entries that are not in the index, {K} neighbours each",
                    human::count(*queries)
                )?;
                write!(f, "           {}", Point::header(K))
            }
            Self::Recall(point) => write!(f, "           {point}"),
            Self::Change { what, points, recall, seconds, .. } => {
                write!(f, "           {what:36}{:>8}  {recall:>9.4}", human::count(*points))?;
                seconds.map_or(Ok(()), |seconds| write!(f, "  {:>8}", human::seconds(seconds)))
            }
            Self::Plot { path } => write!(f, "\nPlot       {}", path.display()),
        }
    }
}

impl Event {
    /// Heads the changes.
    pub fn changes(beam_width: usize) -> String {
        let recall = format!("recall@{K}");
        format!(
            "\nChange     recall against the exact neighbours of that moment, beam width {beam_width}\n           {:36}{:>8}  {recall:>9}  {:>8}",
            "", "entries", "took"
        )
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (graph, exact) = (self.graph_seconds * 1e3, self.exact_seconds * 1e3);
        writeln!(f, "\nAsk        {}", self.phrase)?;
        writeln!(f, "           {graph:.2} ms through the graph, {exact:.1} ms by looking at every entry")?;
        write!(f, "           found  exact")?;
        for (found, exact) in self.found.iter().zip(&self.exact) {
            let (words, definition) =
                (human::cut(&found.words, COLUMNS.0), human::cut(&found.definition, COLUMNS.1));
            write!(f, "\n           {:.3}  {:.3}  {words:26}  {definition}", found.distance, exact.distance)?;
            if found.key != exact.key {
                write!(f, "\n                         exactly: {}", human::cut(&exact.words, COLUMNS.1))?;
            }
        }
        Ok(())
    }
}
