//! `jasper insert`: adds the vectors of a file to an index.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use jasper::{Element, IndexInfo, InsertReport, Key};
use jasper_data::read_keys;
use serde::Serialize;

use crate::element::with_element;
use crate::files::open_vectors;
use crate::terminal::Terminal;
use crate::units;
use crate::update::{UpdateArgs, Updated};

/// Add vectors to an index
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper insert vectors.jasper --base more.fbin")]
pub struct Args {
    #[command(flatten)]
    update: UpdateArgs,
    /// Vectors of the index's element and dimension
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// Keys of the vectors: text with one number per line, or npy of u64 [default: continue from the largest key]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Replace the vectors of keys that exist, instead of failing
    #[arg(long, requires = "keys")]
    upsert: bool,
}

#[derive(Serialize)]
struct Report {
    inserted: usize,
    /// First of the keys assigned by the index; the others follow it.
    first_key: Option<Key>,
    /// Vectors that share the vertex of an identical one, if keys were given.
    identical: Option<usize>,
    vectors_per_second: f64,
    #[serde(flatten)]
    updated: Updated,
}

impl Args {
    /// Inserts and saves.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let info = IndexInfo::read(&self.update.output.index)?;
        terminal.report(&with_element!(info.element, T => self.insert::<T>(info.dimension, terminal)?))
    }

    fn insert<T: Element>(self, dimension: usize, terminal: Terminal) -> Result<Report> {
        let rows = open_vectors::<T>(&self.base, dimension)?;
        let keys = self.keys.map(read_keys).transpose()?;
        let upsert = self.upsert;
        let ((first_key, identical), updated) = self.update.update::<T, _>(terminal, |index| {
            let mut progress = terminal.progress();
            let given = |report: InsertReport| (None, Some(report.identical));
            Ok(match &keys {
                None => (Some(index.insert_auto_with(&rows, &mut progress)?), None),
                Some(keys) if upsert => given(index.upsert(&rows, keys)?),
                Some(keys) => given(index.insert_with(&rows, keys, &mut progress)?),
            })
        })?;
        let inserted = rows.len();
        let vectors_per_second = inserted as f64 / updated.seconds;
        Ok(Report { inserted, first_key, identical, vectors_per_second, updated })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inserted, rate) = (units::count(self.inserted), units::rate(self.vectors_per_second));
        write!(f, "inserted {inserted} vectors, {rate} per second")?;
        if let Some(key) = self.first_key {
            write!(f, ", with keys from {key}")?;
        }
        write!(f, "\n{}", self.updated)
    }
}
