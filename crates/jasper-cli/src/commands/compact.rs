//! `jasper compact`: removes free slots from the file.

use anyhow::Result;

use crate::command_files::Files;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{LinkingArgs, UpdateArgs};

/// Shrink an index by moving vectors into free slots
///
/// Keys and results do not change. Consolidate first: only free slots are released.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper compact vectors.jasper")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files()
    }

    /// Compacts and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let (report, updated) = self.update.update(LinkingArgs::default(), terminal, |index| {
            Ok(index.with_progress(terminal.progress()).compact()?)
        })?;
        let [moved, freed] = [report.moved, report.freed].map(units::count);
        let text = format!("freed    {freed} slots, and moved {moved} vertices");
        updated.report(terminal, report, text)
    }
}
