//! `jasper compact`: removes free slots from the file.

use std::fmt;

use anyhow::Result;
use jasper::{Element, IndexInfo};
use serde::Serialize;

use crate::element::with_element;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{UpdateArgs, Updated};

/// Shrink an index by moving vectors into free slots
///
/// Keys and results do not change. Consolidate first: only free slots are released.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper compact vectors.jasper")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
}

#[derive(Serialize)]
struct Report {
    /// Vertices moved to another slot.
    moved: usize,
    /// Slots released.
    freed: usize,
    #[serde(flatten)]
    updated: Updated,
}

impl Args {
    /// Compacts and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.update.output.index)?;
        terminal.report(&with_element!(info.element, T => self.compact::<T>(terminal)?))
    }

    fn compact<T: Element>(self, terminal: Terminal) -> Result<Report> {
        let (report, updated) = self.update.update::<T, _>(terminal, |index| Ok(index.compact()?))?;
        Ok(Report { moved: report.moved, freed: report.freed, updated })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [moved, freed] = [self.moved, self.freed].map(units::count);
        write!(f, "freed    {freed} slots, and moved {moved} vertices\n{}", self.updated)
    }
}
