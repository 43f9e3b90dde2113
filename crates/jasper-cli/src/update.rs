//! What commands that update an index share: open it, update it, save it.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use jasper::{Device, Element, Index};
use serde::Serialize;

use crate::args::VectorStorageArgs;
use crate::files::open_index;
use crate::process;
use crate::terminal::Terminal;

/// The index to update, and where to save it. The file is replaced atomically at the end.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// The index file
    pub index: PathBuf,
    /// Write the updated index to this file and leave the index file unchanged
    #[arg(long, value_name = "INDEX", display_order = 90)]
    output: Option<PathBuf>,
    /// CPU threads; 0 means one per CPU
    #[arg(long, value_name = "N", default_value_t = 0, display_order = 91)]
    threads: usize,
}

/// [`OutputArgs`], and where to compute the update.
#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// Where to compute the update: auto, cpu, cuda or cuda:N. A GPU is worth it for large updates only, because the whole
    /// index is copied there and back
    #[arg(long, default_value_t = Device::Cpu, display_order = 92)]
    device: Device,
    #[command(flatten)]
    vectors: VectorStorageArgs,
}

/// The index after an update.
#[derive(Debug, Serialize)]
pub struct Updated {
    /// Keys that searches can return.
    pub vectors: usize,
    /// Deleted keys that can be restored.
    pub deleted: usize,
    /// Time of the update without opening and saving.
    pub seconds: f64,
    save_seconds: f64,
    /// Bytes of the index file.
    bytes: u64,
    peak_bytes: Option<u64>,
    output: PathBuf,
}

impl UpdateArgs {
    /// Opens the index, calls `update` on it, and saves it; if `update` fails, the file stays unchanged.
    pub fn update<T: Element, R>(
        self,
        terminal: Terminal,
        update: impl FnOnce(&Index<T>) -> Result<R>,
    ) -> Result<(R, Updated)> {
        self.device.find()?;
        self.output.update(terminal, |index| {
            self.vectors.apply(&index);
            let index = index.to_device(self.device)?;
            let start = Instant::now();
            let result = update(&index)?;
            let seconds = start.elapsed().as_secs_f64();
            Ok((result, seconds, index.to_host()?))
        })
    }
}

impl OutputArgs {
    /// Opens the index, calls `update` on it, which returns its result, its time in seconds and the index, and saves it; if
    /// `update` fails, the file stays unchanged.
    pub fn update<T: Element, R>(
        self,
        terminal: Terminal,
        update: impl FnOnce(Index<T>) -> Result<(R, f64, Index<T>)>,
    ) -> Result<(R, Updated)> {
        let (result, seconds, index) = update(open_index::<T>(&self.index, self.threads, terminal)?)?;
        let output = self.output.unwrap_or(self.index);
        let start = Instant::now();
        let saved = index.save_with(&output, &mut terminal.progress())?;
        let updated = Updated {
            vectors: index.len(),
            deleted: index.read_graph(|graph| graph.keys().deleted().len())?,
            seconds,
            save_seconds: start.elapsed().as_secs_f64(),
            bytes: saved.bytes,
            peak_bytes: process::peak_bytes(),
            output,
        };
        Ok((result, updated))
    }
}

impl std::fmt::Display for Updated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::units::{bytes, count, seconds};
        let (vectors, deleted, took) = (count(self.vectors), count(self.deleted), seconds(self.seconds));
        writeln!(
            f,
            "now      {vectors} vectors, and {deleted} deleted ones that can be restored; took {took}"
        )?;
        write!(f, "saved    {}, {}", self.output.display(), bytes(self.bytes))
    }
}
