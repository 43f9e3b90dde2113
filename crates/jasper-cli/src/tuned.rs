//! Tuned searches, as a table and as search parameters.

use std::fmt;
use std::path::Path;

use anyhow::{Result, anyhow};
use jasper::tune::Goal;
use jasper::{Element, Index, SearchParams, TunedSearch};
use serde::Serialize;

use crate::units;

/// A tuned search.
#[derive(Debug, Serialize)]
pub struct Tuned {
    device: String,
    k: usize,
    /// Requested recall@k.
    target: f64,
    /// Queries per call.
    batch: usize,
    beam_width: usize,
    /// Measured recall@k.
    recall: f64,
    queries_per_second: f64,
    /// Launch parameters on a GPU.
    launch: Option<Launch>,
    /// Whether the index is unchanged since.
    current: bool,
}

#[derive(Debug, Serialize)]
struct Launch {
    warps: u32,
    expansions: u32,
    visited_slots: u32,
}

impl Tuned {
    /// From a search stored with an index whose state is `state`.
    pub fn new(search: &TunedSearch, state: u32) -> Self {
        Self {
            device: search.device.clone(),
            k: search.k,
            target: search.target,
            batch: search.batch,
            beam_width: search.beam_width,
            recall: search.recall,
            queries_per_second: search.queries_per_second,
            launch: search.launch.map(|launch| Launch {
                warps: launch.warps,
                expansions: launch.expansions,
                visited_slots: launch.visited_slots,
            }),
            current: search.state == state,
        }
    }
}

/// The tuned search that reaches `goal` in calls of this many queries; an error with the command to run if there is none.
pub fn params<T: Element>(
    index: &Index<T>,
    path: &Path,
    goal: Goal,
    queries: usize,
) -> Result<SearchParams<'static>> {
    let Goal { k, recall } = goal;
    index.tuned(goal, queries).ok_or_else(|| {
        let path = path.display();
        anyhow!("{path}: no search is tuned for recall@{k} of {recall}; run `jasper tune {path} --recall {recall} -k {k}`")
    })
}

/// Writes a table of searches, by device and goal, indented by `indent` spaces.
pub fn table(f: &mut fmt::Formatter<'_>, searches: &[Tuned], indent: usize) -> fmt::Result {
    let same = |a: &Tuned, b: &Tuned| (&a.device, a.k, a.target) == (&b.device, b.k, b.target);
    for (i, group) in searches.chunk_by(same).enumerate() {
        let Tuned { device, k, target, current, .. } = &group[0];
        let changed = if *current { "" } else { ", before the index changed" };
        if i > 0 {
            write!(f, "\n{:indent$}", "")?;
        }
        write!(f, "recall@{k} of {target} on {}{changed}", units::cut(device, 40))?;
        write!(f, "\n{:indent$}{:>9}{:>12}{:>9}{:>13}", "", "batch", "beam width", "recall", "queries/s")?;
        if group.iter().any(|search| search.launch.is_some()) {
            write!(f, "{:>7}{:>12}{:>14}", "warps", "expansions", "filter slots")?;
        }
        for search in group {
            let (batch, rate) = (units::count(search.batch), units::rate(search.queries_per_second));
            write!(f, "\n{:indent$}{batch:>9}{:>12}{:>9.4}{rate:>13}", "", search.beam_width, search.recall)?;
            if let Some(Launch { warps, expansions, visited_slots }) = search.launch {
                write!(f, "{warps:>7}{expansions:>12}{:>14}", units::count(visited_slots as usize))?;
            }
        }
    }
    Ok(())
}
