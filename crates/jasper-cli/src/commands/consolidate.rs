//! `jasper consolidate`: removes deleted vectors from the graph.

use anyhow::Result;

use crate::command_files::Files;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{LinkingArgs, UpdateArgs};

/// Remove deleted vectors from the graph
///
/// Repairs the edges that led through them and frees their slots for inserts. Deleted keys cannot be restored
/// afterwards. Worthwhile when a tenth of the vectors is deleted. Also makes every key reachable again, should
/// `jasper check` list some that are not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper consolidate vectors.jasper")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
    #[command(flatten)]
    linking: LinkingArgs,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files()
    }

    /// Consolidates and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let (report, updated) = self.update.update(self.linking, terminal, |index| {
            Ok(index.with_progress(terminal.progress()).consolidate()?)
        })?;
        let [freed, reconnected] = [report.freed, report.reconnected].map(units::count);
        let text = format!("freed    {freed} slots, and reconnected {reconnected} vertices");
        updated.report(terminal, report, text)
    }
}
