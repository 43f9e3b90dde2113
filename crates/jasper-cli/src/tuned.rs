//! Tuned searches, as a table and as search parameters.

use std::fmt::{self, Write};
use std::path::Path;

use anyhow::{Result, anyhow};
use jasper::tune::{Goal, TunedSearch};
use jasper::{Index, LaunchParams, SearchParams};
use serde::Serialize;

use crate::units;

/// A tuned search.
#[derive(Debug, Serialize)]
pub struct Tuned {
    #[serde(flatten)]
    search: TunedSearch,
    /// Whether the index has not changed since.
    current: bool,
}

impl Tuned {
    /// Converts searches stored with an index whose fingerprint is `fingerprint`.
    pub fn list(searches: Vec<TunedSearch>, fingerprint: u32) -> Vec<Self> {
        searches
            .into_iter()
            .map(|search| Self { current: search.fingerprint == fingerprint, search })
            .collect()
    }
}

/// The tuned search that reaches `goal` in calls of this many queries; an error with the command to run if there is
/// none.
pub fn params(index: &Index, path: &Path, goal: Goal, queries: usize) -> Result<SearchParams<'static>> {
    let Goal { k, recall } = goal;
    index.tuned().params(goal, queries).ok_or_else(|| {
        let path = path.display();
        anyhow!("{path}: no search is tuned for recall@{k} of {recall}; run `jasper tune {path} --recall {recall} -k {k}`")
    })
}

/// A table of searches, by device and goal, indented by `indent` spaces.
pub fn table(searches: &[Tuned], indent: usize) -> Result<String, fmt::Error> {
    let goal = |tuned: &Tuned| (tuned.search.device.clone(), tuned.search.k, tuned.search.target);
    let mut text = String::new();
    for (i, group) in searches.chunk_by(|a, b| goal(a) == goal(b)).enumerate() {
        let (device, k, target) = goal(&group[0]);
        let changed = if group[0].current { "" } else { ", before the index changed" };
        if i > 0 {
            write!(text, "\n{:indent$}", "")?;
        }
        write!(text, "recall@{k} of {target} on {}{changed}", units::cut(&device, 40))?;
        write!(text, "\n{:indent$}{:>9}{:>12}{:>9}{:>13}", "", "batch", "beam width", "recall", "queries/s")?;
        if group.iter().any(|tuned| tuned.search.launch.is_some()) {
            write!(text, "{:>7}{:>12}{:>14}", "warps", "expansions", "cache entries")?;
        }
        for Tuned { search, .. } in group {
            let (batch, rate) = (units::count(search.batch), units::rate(search.queries_per_second));
            let TunedSearch { beam_width, recall, .. } = search;
            write!(text, "\n{:indent$}{batch:>9}{beam_width:>12}{recall:>9.4}{rate:>13}", "")?;
            if let Some(LaunchParams { warps, expansions, visited_buckets }) = search.launch {
                write!(text, "{warps:>7}{expansions:>12}{:>14}", units::count(visited_buckets as usize))?;
            }
        }
    }
    Ok(text)
}
