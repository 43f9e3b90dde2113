//! `jasper insert`: the rows of a vector file into an index.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use jasper::{Element, IndexInfo, InsertReport, Key};
use jasper_data::read_keys;
use serde::Serialize;

use crate::change::{Changed, Target};
use crate::element::with_element;
use crate::files::open_rows;
use crate::human;
use crate::screen::Screen;

/// Add vectors to an index
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper insert vectors.jasper --base more.fbin")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Vectors of the index's element and dimension
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// A key for each row: text of one number a line, or npy of u64. If not given, keys go on from the largest there is
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Where a key is in the index already, replace its vector in place of refusing
    #[arg(long, requires = "keys")]
    upsert: bool,
}

#[derive(Serialize)]
struct Report {
    inserted: usize,
    /// Where keys were chosen by the index: the first; the others follow it.
    first_key: Option<Key>,
    /// Rows that share the vertex of an identical one, where keys were given.
    identical: Option<usize>,
    vectors_per_second: f64,
    #[serde(flatten)]
    changed: Changed,
}

impl Args {
    /// Inserts and saves.
    pub fn run(self, screen: Screen) -> Result<()> {
        let info = IndexInfo::read(&self.target.copy.index)?;
        screen.report(&with_element!(info.element, T => self.insert::<T>(info.dimension, screen)?))
    }

    fn insert<T: Element>(self, dimension: usize, screen: Screen) -> Result<Report> {
        let rows = open_rows::<T>(&self.base, dimension)?;
        let keys = self.keys.map(read_keys).transpose()?;
        let upsert = self.upsert;
        let ((first_key, identical), changed) = self.target.change::<T, _>(screen, |index| {
            let mut progress = screen.progress();
            let told = |report: InsertReport| (None, Some(report.identical));
            Ok(match &keys {
                None => (Some(index.insert_auto_with(&rows, &mut progress)?), None),
                Some(keys) if upsert => told(index.upsert(&rows, keys)?),
                Some(keys) => told(index.insert_with(&rows, keys, &mut progress)?),
            })
        })?;
        let inserted = rows.len();
        let vectors_per_second = inserted as f64 / changed.seconds;
        Ok(Report { inserted, first_key, identical, vectors_per_second, changed })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inserted, rate) = (human::count(self.inserted), human::rate(self.vectors_per_second));
        write!(f, "inserted {inserted} vectors, {rate} a second")?;
        if let Some(key) = self.first_key {
            write!(f, ", under keys from {key} on")?;
        }
        write!(f, "\n{}", self.changed)
    }
}
