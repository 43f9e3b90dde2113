//! `jasper delete`: deletes or restores keys.

use std::path::PathBuf;

use anyhow::Result;
use jasper_data::read_keys;
use serde_json::json;

use crate::command_files::Files;
use crate::files::name_input;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{LinkingArgs, UpdateArgs};

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

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files().read([&self.keys])
    }

    /// Deletes or restores, and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let (keys, undo, path) = (read_keys(&self.keys)?, self.undo, self.keys);
        let ((), updated) = self.update.update(LinkingArgs::default(), terminal, |index| {
            let changed = if undo { index.undelete(&keys) } else { index.delete(&keys).map(drop) };
            changed.map_err(|error| name_input(error.into(), &path, Some(&path)))
        })?;
        let verb = if undo { "restored" } else { "deleted " };
        let text = format!("{verb} {}", units::counted(keys.len(), "key"));
        updated.report(terminal, json!({ "keys": keys.len(), "undo": undo }), text)
    }
}
