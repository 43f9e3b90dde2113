//! Attributes of vectors or keys, in a file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use jasper::attributes::{ColumnKind, Frame};

/// Columns of a file of attributes whose types JSON does not have.
#[derive(Clone, Debug, clap::Args)]
pub struct ColumnArgs {
    /// Make the strings of COLUMN ids, each of one key only. An index has at most one such column
    #[arg(long, value_name = "COLUMN", requires = "attributes")]
    id: Option<String>,
    /// Make the strings of COLUMN timestamps, such as 2024-03-01 or 2024-03-01T12:00:00Z; may be repeated
    #[arg(long, value_name = "COLUMN", requires = "attributes")]
    timestamp: Vec<String>,
}

impl ColumnArgs {
    /// Reads a file of attributes: a JSON object per line, compressed if its name ends in `.gz`.
    pub fn read(&self, path: &Path) -> Result<Frame> {
        self.read_file(path).with_context(|| path.display().to_string())
    }

    fn read_file(&self, path: &Path) -> Result<Frame> {
        let file = BufReader::new(File::open(path)?);
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let mut reader: Box<dyn BufRead> = match is_compressed {
            true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
            false => Box::new(file),
        };
        let mut frame = Frame::from_json_lines(&mut reader)?;
        let ids = self.id.iter().map(|name| (name, ColumnKind::Id));
        let times = self.timestamp.iter().map(|name| (name, ColumnKind::Timestamp));
        for (name, kind) in ids.chain(times) {
            if frame.columns().all(|(column, _)| column != name) {
                let columns: Vec<_> = frame.columns().map(|(column, _)| format!("{column:?}")).collect();
                bail!("has no column {name:?} to convert; its columns are {}", columns.join(", "));
            }
            frame = frame.convert(name, kind)?;
        }
        Ok(frame)
    }
}
