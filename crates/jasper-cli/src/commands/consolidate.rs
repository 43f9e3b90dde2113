//! `jasper consolidate`: deleted vectors out of the graph.

use std::fmt;

use anyhow::Result;
use jasper::{Element, IndexInfo};
use serde::Serialize;

use crate::change::{Changed, Target};
use crate::element::with_element;
use crate::human;
use crate::screen::Screen;

/// Take deleted vectors out of the graph
///
/// What led through them is mended, and their slots are free for inserts. Deleted keys cannot be restored afterwards.
/// Worth it when a tenth of the vectors is deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper consolidate vectors.jasper")]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct Report {
    /// Slots freed.
    freed: usize,
    /// Vertices that no path led to, and that were given an edge.
    reconnected: usize,
    #[serde(flatten)]
    changed: Changed,
}

impl Args {
    /// Consolidates and saves.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.target.copy.index)?;
        screen.report(&with_element!(info.element, T => self.consolidate::<T>(screen)?))
    }

    fn consolidate<T: Element>(self, screen: Screen) -> Result<Report> {
        let (report, changed) = self
            .target
            .change::<T, _>(screen, |index| Ok(index.consolidate_with(&mut screen.progress())?))?;
        Ok(Report { freed: report.freed, reconnected: report.reconnected, changed })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [freed, reconnected] = [self.freed, self.reconnected].map(human::count);
        write!(f, "freed    {freed} slots, and linked {reconnected} vertices again\n{}", self.changed)
    }
}
