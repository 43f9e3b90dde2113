//! `jasper insert`: adds the vectors of a file to an index.

use std::path::PathBuf;

use anyhow::Result;
use jasper::NewKeys;
use jasper_data::read_keys;
use serde_json::json;

use crate::args::ColumnArgs;
use crate::command_files::Files;
use crate::files::{name_attributes, name_input, open_vectors};
use crate::terminal::{Terminal, merge};
use crate::units;
use crate::update::{LinkingArgs, UpdateArgs};

/// Add vectors to an index
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper insert vectors.jasper --base more.fbin")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
    /// Vectors of the index's dimension; values are rounded to its element type
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Keys of the vectors: text with one number per line, or npy of u64 [default: continue from the largest key]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Attributes of the vectors, to filter searches by: a JSON object per line for each vector, in their order;
    /// compressed if the name ends in .gz
    #[arg(long, value_name = "FILE")]
    attributes: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Replace the vectors and attributes of keys that exist, instead of failing
    #[arg(long, requires = "keys")]
    upsert: bool,
    #[command(flatten)]
    linking: LinkingArgs,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files().read([&self.base]).read(&self.keys).read(&self.attributes)
    }

    /// Inserts and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let keys = self.keys.as_ref().map(read_keys).transpose()?;
        let attributes = self.attributes.as_ref().map(|path| self.columns.read(path)).transpose()?;
        let named = |error: jasper::Error| {
            let error = name_input(error.into(), &self.base, self.keys.as_deref());
            name_attributes(error, self.attributes.as_deref())
        };
        let (report, updated) = self.update.update(self.linking, terminal, |index| {
            let file = open_vectors(&self.base, index.dimension())?;
            let index = index.with_progress(terminal.progress());
            let entries = keys.as_ref().map_or(NewKeys::NEXT, NewKeys::from);
            let entries = entries.with_attributes(attributes.as_ref());
            let inserted =
                if self.upsert { index.upsert(&file, entries) } else { index.insert(&file, entries) };
            inserted.map_err(named)
        })?;
        let (count, rate) = (report.keys, report.keys as f64 / updated.seconds);
        let json = json!({ "inserted": count, "vectors_per_second": rate });
        let first_key = report.first_key.filter(|_| keys.is_none());
        let keys = first_key.map_or_else(String::new, |key| format!(", with keys from {key}"));
        let text =
            format!("inserted {}, {} per second{keys}", units::counted(count, "vector"), units::rate(rate));
        updated.report(terminal, merge(json, report), text)
    }
}
