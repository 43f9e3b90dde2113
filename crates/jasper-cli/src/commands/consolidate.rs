//! `jasper consolidate`: removes deleted vectors from the graph.

use std::fmt;

use anyhow::Result;
use jasper::{Element, IndexInfo};
use serde::Serialize;

use crate::element::with_element;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{UpdateArgs, Updated};

/// Remove deleted vectors from the graph
///
/// Repairs the edges that led through them and frees their slots for inserts. Deleted keys cannot be restored
/// afterwards. Worthwhile when a tenth of the vectors is deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper consolidate vectors.jasper")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
}

#[derive(Serialize)]
struct Report {
    /// Slots freed.
    freed: usize,
    /// Unreachable vertices that were given an edge.
    reconnected: usize,
    #[serde(flatten)]
    updated: Updated,
}

impl Args {
    /// Consolidates and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.update.output.index)?;
        terminal.report(&with_element!(info.element, T => self.consolidate::<T>(terminal)?))
    }

    fn consolidate<T: Element>(self, terminal: Terminal) -> Result<Report> {
        let (report, updated) = self
            .update
            .update::<T, _>(terminal, |index| Ok(index.consolidate_with(&mut terminal.progress())?))?;
        Ok(Report { freed: report.freed, reconnected: report.reconnected, updated })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [freed, reconnected] = [self.freed, self.reconnected].map(units::count);
        write!(f, "freed    {freed} slots, and reconnected {reconnected} vertices\n{}", self.updated)
    }
}
