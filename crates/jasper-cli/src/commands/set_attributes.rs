//! `jasper set-attributes`: sets attributes of keys.

use std::path::PathBuf;

use anyhow::Result;
use jasper::Key;
use jasper_data::read_keys;
use serde_json::json;

use crate::args::ColumnArgs;
use crate::command_files::Files;
use crate::files::{name_attributes, name_input};
use crate::terminal::Terminal;
use crate::units;
use crate::update::{LinkingArgs, UpdateArgs};

/// Set attributes of keys of an index, to filter searches by
///
/// Columns that the file does not have keep their values, and columns that the index does not have are added. Fails
/// without a change if a key is not in the index or given twice, or if a value does not fit its column.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  jasper set-attributes vectors.jasper --attributes attributes.jsonl --keys keys.txt"
)]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
    /// A JSON object per line for each key, in their order; compressed if the name ends in .gz
    #[arg(long, value_name = "FILE")]
    attributes: PathBuf,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Keys: text with one number per line, or npy of u64 [default: 0, 1, 2, ..., the keys of a build without --keys]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files().read([&self.attributes]).read(&self.keys)
    }

    /// Sets the attributes, and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let Self { update, attributes: path, columns, keys: keys_path } = self;
        let attributes = columns.read(&path)?;
        let keys = match &keys_path {
            Some(path) => read_keys(path)?,
            None => (0..attributes.len() as Key).collect(),
        };
        let ((), updated) = update.update(LinkingArgs::default(), terminal, |index| {
            index.set_attributes(&keys, &attributes).map_err(|error| {
                let keys_path = keys_path.as_deref().unwrap_or(&path);
                name_attributes(name_input(error.into(), &path, Some(keys_path)), Some(&path))
            })
        })?;
        let names: Vec<&str> = attributes.columns().map(|(name, _)| name).collect();
        let text = format!("set      {} of {}", names.join(", "), units::counted(keys.len(), "key"));
        updated.report(terminal, json!({ "keys": keys.len(), "columns": names }), text)
    }
}
