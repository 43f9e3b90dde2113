//! `jasper delete`: deletes or restores keys.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use jasper::{Element, Index, IndexInfo};
use jasper_data::read_keys;
use serde::Serialize;

use crate::element::with_element;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{UpdateArgs, Updated};

/// Delete keys from an index, or restore deleted ones
///
/// Fails without a change if a key is unknown or given twice. Deleted keys can be restored until the index is
/// consolidated.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper delete vectors.jasper --keys gone.txt")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
    /// Keys: text with one number per line, or npy of u64
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Restore the keys instead of deleting them
    #[arg(long)]
    undo: bool,
}

#[derive(Serialize)]
struct Report {
    /// Keys of the file.
    keys: usize,
    /// Whether they were restored instead of deleted.
    undo: bool,
    #[serde(flatten)]
    updated: Updated,
}

impl Args {
    /// Deletes or restores, and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.update.output.index)?;
        terminal.report(&with_element!(info.element, T => self.delete::<T>(terminal)?))
    }

    fn delete<T: Element>(self, terminal: Terminal) -> Result<Report> {
        let (keys, undo) = (read_keys(&self.keys)?, self.undo);
        let ((), updated) = self.update.update::<T, _>(terminal, |index| {
            let change = if undo { Index::undelete } else { Index::delete };
            Ok(change(index, &keys)?)
        })?;
        Ok(Report { keys: keys.len(), undo, updated })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.undo { "restored" } else { "deleted " };
        write!(f, "{verb} {} keys\n{}", units::count(self.keys), self.updated)
    }
}
