//! `jasper merge`: adds all vectors of one index to another.

use std::path::PathBuf;

use anyhow::Result;
use jasper::OpenOptions;
use serde_json::json;

use crate::command_files::Files;
use crate::files::{name_input, open_to_read};
use crate::terminal::{Terminal, merge};
use crate::units;
use crate::update::{LinkingArgs, UpdateArgs};

/// Add all vectors of another index, with their keys and attributes
///
/// The other index stays as it is. The cost is an insert of its vectors: merge the smaller index into the larger one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper merge vectors.jasper --from more.jasper")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
    /// The other index, of the same metric and dimension: an index file, or the folder of a durable index
    #[arg(long, value_name = "INDEX")]
    from: PathBuf,
    #[command(flatten)]
    linking: LinkingArgs,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files().read([&self.from])
    }

    /// Merges and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let other = open_to_read(&self.from, OpenOptions::new(), terminal)?;
        let (report, updated) = self.update.update(self.linking, terminal, |index| {
            let merged = index.with_progress(terminal.progress()).merge(&other);
            merged.map_err(|error| name_input(error.into(), &self.from, None))
        })?;
        let (count, rate) = (report.keys, report.keys as f64 / updated.seconds);
        let json = json!({ "merged": count, "vectors_per_second": rate });
        let text = format!("merged {}, {} per second", units::counted(count, "vector"), units::rate(rate));
        updated.report(terminal, merge(json, report), text)
    }
}
