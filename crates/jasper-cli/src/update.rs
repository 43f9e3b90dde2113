//! The common part of commands that update an index: lock it, open it, update it, save it.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jasper::{Device, Index, OpenOptions, SaveStats, StoredIndex};
use jasper_data::FileLock;
use serde::Serialize;

use crate::args::{PlacementArgs, note_faults, threads};
use crate::command_files::{Files, is_same_file};
use crate::files::{name_index, open_index};
use crate::process;
use crate::terminal::{Terminal, merge, timed};

/// The index to update, and where to save it. The file is replaced or appended to at the end, atomically; a durable
/// index has the update in its journal.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// The index file, or the folder of a durable index
    index: PathBuf,
    /// Write the updated index to this file and leave the index file unchanged
    #[arg(long, value_name = "INDEX", display_order = 90)]
    output: Option<PathBuf>,
    /// CPU threads, at most one per CPU, which is the default
    #[arg(long, value_name = "N", value_parser = threads, display_order = 91)]
    threads: Option<usize>,
}

/// The options of [`OutputArgs`], and where to compute the update.
#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// Where to compute the update: auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all. A GPU is worth it for large updates
    /// only, because the whole index is copied there and back
    #[arg(long, default_value_t = Device::CPU, display_order = 92)]
    device: Device,
    #[command(flatten)]
    placement: PlacementArgs,
}

/// By what distances a change on a GPU chooses edges of float vectors.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LinkingArgs {
    /// On a GPU, choose edges by exact distances, where vectors are floats; by default a large change compares 8-bit
    /// copies, if a sample has the same nearest neighbors by these
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
    /// None if the update is in the journal of a durable index.
    #[serde(flatten)]
    saved: Option<SaveStats>,
    peak_bytes: Option<u64>,
    output: String,
}

/// An index that one command at a time reads, changes and saves.
pub struct Target {
    output: PathBuf,
    /// Whether the index is durable: its changes are saved already.
    is_durable: bool,
    /// Held if the index file is changed, with what the file was when the lock was taken.
    lock: Option<(FileLock, Metadata)>,
}

/// Time between attempts to take a lock.
const POLL: Duration = Duration::from_millis(20);

impl Target {
    /// Prepares to read `index`, which is to be saved to `output`, or where it is. In that case waits until no other
    /// command changes it. A durable index is changed where it is.
    pub fn lock(index: &Path, output: Option<PathBuf>, terminal: Terminal) -> Result<Self> {
        let is_durable = StoredIndex::is_durable(index);
        let output = match output {
            Some(output) if !is_same_file(index, &output) => {
                ensure!(
                    !is_durable,
                    "{}: is a durable index, which is changed in place; leave --output out",
                    index.display()
                );
                return Ok(Self { output, is_durable, lock: None });
            }
            output => output.unwrap_or_else(|| index.to_owned()),
        };
        let name = || output.display().to_string();
        let mut is_noted = false;
        let lock = loop {
            if let Some(lock) = FileLock::try_acquire(&output).with_context(name)? {
                break lock;
            }
            if !is_noted {
                terminal.note(format_args!("{}: waiting for another command that changes it", name()));
                is_noted = true;
            }
            sleep(POLL);
        };
        let found = fs::metadata(&output).with_context(name)?;
        Ok(Self { output, is_durable, lock: Some((lock, found)) })
    }

    /// Saves the index, unless a program that does not take the lock has changed the file. `None` if it is durable.
    pub fn save(&self, index: &Index, terminal: Terminal) -> Result<Option<SaveStats>> {
        if self.is_durable {
            return Ok(None);
        }
        if let Some((_lock, found)) = &self.lock {
            let is_unchanged = fs::metadata(&self.output).is_ok_and(|now| version(&now) == version(found));
            ensure!(
                is_unchanged,
                "{}: was changed by another program meanwhile, and is left as it is now; run the command again",
                self.output.display()
            );
        }
        Ok(Some(index.with_progress(terminal.progress()).save(&self.output)?))
    }

    /// The file that the index is saved to.
    pub fn output(&self) -> &Path {
        &self.output
    }
}

/// What changes with every change of a file.
fn version(data: &Metadata) -> impl PartialEq {
    #[cfg(unix)]
    let identity = (std::os::unix::fs::MetadataExt::dev(data), std::os::unix::fs::MetadataExt::ino(data));
    #[cfg(not(unix))]
    let identity = ();
    (identity, data.len(), data.modified().ok())
}

impl UpdateArgs {
    /// The index and where it is saved.
    pub fn files(&self) -> Files {
        self.output.files()
    }

    /// Opens the index, calls `update` on it, and saves it; if `update` fails, the file stays unchanged.
    pub fn update<R>(
        self,
        LinkingArgs { exact_linking }: LinkingArgs,
        terminal: Terminal,
        update: impl FnOnce(&Index) -> Result<R>,
    ) -> Result<(R, Updated)> {
        let Self { output: OutputArgs { index, output, threads }, device, placement } = self;
        device.resolve()?;
        let target = Target::lock(&index, output, terminal)?;
        let options = OpenOptions::new().threads(threads).exact_linking(exact_linking);
        let path = index;
        let index = open_index(&path, options.device(placement.on(device)), terminal)?;
        let (result, seconds) = timed(|| update(&index));
        let result = result.map_err(|error| name_index(error, &path))?;
        note_faults(&index, terminal);
        let index = index.to_device(Device::CPU)?;
        let (saved, save_seconds) = timed(|| target.save(&index, terminal));
        let updated = Updated {
            vectors: index.len(),
            deleted: index.stats().deleted_keys,
            seconds,
            save_seconds,
            saved: saved?,
            peak_bytes: process::peak_bytes(),
            output: target.output().display().to_string(),
        };
        Ok((result, updated))
    }
}

impl OutputArgs {
    /// The index and where it is saved.
    pub fn files(&self) -> Files {
        Files::update(&self.index, &self.output)
    }

    /// Updates as [`UpdateArgs::update`] does, on the CPU.
    pub fn update<R>(
        self,
        terminal: Terminal,
        update: impl FnOnce(&Index) -> Result<R>,
    ) -> Result<(R, Updated)> {
        let args = UpdateArgs { output: self, device: Device::CPU, placement: PlacementArgs::default() };
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
        use crate::units::{counted, saved, seconds};
        let (vectors, took) = (counted(self.vectors, "vector"), seconds(self.seconds));
        let deleted = counted(self.deleted, "deleted key");
        writeln!(f, "now      {vectors}, and {deleted} that can be restored; took {took}")?;
        f.write_str(&saved(&self.output, self.saved))
    }
}

#[cfg(test)]
mod tests {
    use jasper::{IndexBuilder, MatrixView, Metric};

    use super::*;

    #[test]
    fn a_file_that_another_program_changed_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jasper");
        let built =
            IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2).unwrap()).unwrap();
        built.save(&path).unwrap();
        let terminal = Terminal::default();
        let change = || {
            let target = Target::lock(&path, None, terminal).unwrap();
            let index = open_index(&path, OpenOptions::new(), terminal).unwrap();
            (target, index)
        };
        let (target, index) = change();
        built.insert(&[5_u8, 6], &[7]).unwrap();
        built.save(&path).unwrap();
        let theirs = fs::read(&path).unwrap();
        let error = target.save(&index, terminal).unwrap_err().to_string();
        assert!(error.contains("x.jasper: was changed by another program"), "{error}");
        assert!(fs::read(&path).unwrap() == theirs);
        drop(target);
        let (target, index) = change();
        target.save(&index, terminal).unwrap();
    }
}
