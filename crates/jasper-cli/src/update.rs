//! The common part of commands that update an index: open it, update it, save it.

use std::path::PathBuf;

use anyhow::Result;
use jasper::file::SaveStats;
use jasper::{AnyIndex, Device, OpenOptions};
use serde::Serialize;

use crate::args::{VectorStorageArgs, threads};
use crate::files::open_index;
use crate::process;
use crate::terminal::{Terminal, merge, timed};

/// The index to update, and where to save it. The file is replaced or appended to at the end, atomically.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// The index file
    index: PathBuf,
    /// Write the updated index to this file and leave the index file unchanged
    #[arg(long, value_name = "INDEX", display_order = 90)]
    output: Option<PathBuf>,
    /// CPU threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = threads, display_order = 91)]
    threads: Option<usize>,
}

/// The options of [`OutputArgs`], and where to compute the update.
#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// Where to compute the update: auto, cpu, cuda or cuda:N. A GPU is worth it for large updates only, because the
    /// whole index is copied there and back
    #[arg(long, default_value_t = Device::Cpu, display_order = 92)]
    device: Device,
    #[command(flatten)]
    vectors: VectorStorageArgs,
}

/// How a change on a GPU links float vectors.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LinkingArgs {
    /// On a GPU, link the vectors themselves, where they are floats; by default a large change links 8-bit copies, if a
    /// sample has the same nearest neighbors by these
    #[arg(long, display_order = 93)]
    exact_linking: bool,
}

/// The index after an update.
#[derive(Debug, Serialize)]
pub struct Updated {
    /// Keys that searches can return.
    vectors: usize,
    /// Deleted keys that can be restored.
    deleted: usize,
    /// Time of the update without opening and saving.
    pub seconds: f64,
    save_seconds: f64,
    #[serde(flatten)]
    saved: SaveStats,
    peak_bytes: Option<u64>,
    output: PathBuf,
}

impl UpdateArgs {
    /// Opens the index, calls `update` on it, and saves it; if `update` fails, the file stays unchanged.
    pub fn update<R>(
        self,
        LinkingArgs { exact_linking }: LinkingArgs,
        terminal: Terminal,
        update: impl FnOnce(&AnyIndex) -> Result<R>,
    ) -> Result<(R, Updated)> {
        let Self { output: OutputArgs { index, output, threads }, device, vectors } = self;
        device.check()?;
        let output = output.unwrap_or_else(|| index.clone());
        let options = OpenOptions::new().threads(threads).exact_linking(exact_linking);
        let index = open_index(&index, options.device(device, vectors.options()), terminal)?;
        let (result, seconds) = timed(|| update(&index));
        let result = result?;
        let index = index.to_host()?;
        let (saved, save_seconds) = timed(|| index.with_progress(&mut terminal.progress()).save(&output));
        let updated = Updated {
            vectors: index.len(),
            deleted: index.stats().deleted_keys,
            seconds,
            save_seconds,
            saved: saved?,
            peak_bytes: process::peak_bytes(),
            output,
        };
        Ok((result, updated))
    }
}

impl OutputArgs {
    /// Updates as [`UpdateArgs::update`] does, on the CPU.
    pub fn update<R>(
        self,
        terminal: Terminal,
        update: impl FnOnce(&AnyIndex) -> Result<R>,
    ) -> Result<(R, Updated)> {
        let args = UpdateArgs { output: self, device: Device::Cpu, vectors: VectorStorageArgs::default() };
        args.update(LinkingArgs::default(), terminal, update)
    }
}

impl Updated {
    /// Reports an update: `json` and `text` describe it, and are followed by the index.
    pub fn report(
        &self,
        terminal: Terminal,
        json: impl Serialize,
        text: impl std::fmt::Display,
    ) -> Result<()> {
        terminal.report(&merge(json, self), format_args!("{text}\n{self}"))
    }
}

impl std::fmt::Display for Updated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::units::{count, saved, seconds};
        let (vectors, deleted, took) = (count(self.vectors), count(self.deleted), seconds(self.seconds));
        writeln!(
            f,
            "now      {vectors} vectors, and {deleted} deleted ones that can be restored; took {took}"
        )?;
        write!(f, "saved    {}, {}", self.output.display(), saved(self.saved))
    }
}
