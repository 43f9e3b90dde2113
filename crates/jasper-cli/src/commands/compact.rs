//! `jasper compact`: free slots out of the file.

use std::fmt;

use anyhow::Result;
use jasper::{Element, IndexInfo};
use serde::Serialize;

use crate::change::{Changed, Target};
use crate::element::with_element;
use crate::human;
use crate::screen::Screen;

/// Move vectors into free slots, so that the index shrinks
///
/// Keys and answers stay as they are. Consolidate first: only slots that are free already are given back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper compact vectors.jasper")]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct Report {
    /// Vertices that changed their slot.
    moved: usize,
    /// Slots given back.
    freed: usize,
    #[serde(flatten)]
    changed: Changed,
}

impl Args {
    /// Compacts and saves.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.target.copy.index)?;
        screen.report(&with_element!(info.element, T => self.compact::<T>(screen)?))
    }

    fn compact<T: Element>(self, screen: Screen) -> Result<Report> {
        let (report, changed) = self.target.change::<T, _>(screen, |index| Ok(index.compact()?))?;
        Ok(Report { moved: report.moved, freed: report.freed, changed })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [moved, freed] = [self.moved, self.freed].map(human::count);
        write!(f, "freed    {freed} slots, and moved {moved} vertices\n{}", self.changed)
    }
}
