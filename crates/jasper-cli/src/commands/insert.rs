//! `jasper insert`: adds the vectors of a file to an index.

use std::path::PathBuf;

use anyhow::Result;
use jasper::NewKeys;
use jasper::UpdateError;
use jasper_data::read_keys;
use serde_json::json;

use crate::command_files::Files;
use crate::files::{name_input, open_vectors};
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
    /// Replace the vectors of keys that exist, instead of failing
    #[arg(long, requires = "keys")]
    upsert: bool,
    #[command(flatten)]
    linking: LinkingArgs,
}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        self.update.files().read([&self.base]).read(&self.keys)
    }

    /// Inserts and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let keys = self.keys.as_ref().map(read_keys).transpose()?;
        let named = |error: UpdateError| name_input(error.into(), &self.base, self.keys.as_deref());
        let (report, updated) = self.update.update(self.linking, terminal, |index| {
            let file = open_vectors(&self.base, index.dimension())?;
            let index = index.with_progress(terminal.progress());
            let inserted = match &keys {
                Some(keys) if self.upsert => index.upsert(&file, keys),
                keys => index.insert(&file, keys.as_ref().map_or(NewKeys::Next, NewKeys::from)),
            };
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
