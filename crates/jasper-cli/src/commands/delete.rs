//! `jasper delete`: keys that searches return no more.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use jasper::{Element, Index, IndexInfo};
use jasper_data::read_keys;
use serde::Serialize;

use crate::change::{Changed, Target};
use crate::element::with_element;
use crate::human;
use crate::screen::Screen;

/// Delete keys from an index, or restore deleted ones
///
/// All of the keys must be there, and none twice; otherwise nothing changes. Deleted keys can be restored until the
/// index is consolidated.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper delete vectors.jasper --keys gone.txt")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Keys: text of one number a line, or npy of u64
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Restore the keys in place of deleting them
    #[arg(long)]
    undo: bool,
}

#[derive(Serialize)]
struct Report {
    /// Keys of the file.
    keys: usize,
    /// Whether they were restored in place of deleted.
    undo: bool,
    #[serde(flatten)]
    changed: Changed,
}

impl Args {
    /// Deletes or restores, and saves.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.target.copy.index)?;
        screen.report(&with_element!(info.element, T => self.delete::<T>(screen)?))
    }

    fn delete<T: Element>(self, screen: Screen) -> Result<Report> {
        let (keys, undo) = (read_keys(&self.keys)?, self.undo);
        let ((), changed) = self.target.change::<T, _>(screen, |index| {
            let change = if undo { Index::undelete } else { Index::delete };
            Ok(change(index, &keys)?)
        })?;
        Ok(Report { keys: keys.len(), undo, changed })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.undo { "restored" } else { "deleted " };
        write!(f, "{verb} {} keys\n{}", human::count(self.keys), self.changed)
    }
}
