//! What all commands that change an index do: open it, change it, save it in its own place or another.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use jasper::{Device, Element, Index};
use serde::Serialize;

use crate::files::open_index;
use crate::keep::OnDevice;
use crate::machine;
use crate::screen::Screen;

/// Which index is changed, and where it goes. The file is replaced all at once when all is done.
#[derive(Debug, clap::Args)]
pub struct Copy {
    /// The index file
    pub index: PathBuf,
    /// Write the changed index here and leave the index file as it is
    #[arg(long, value_name = "INDEX", display_order = 90)]
    output: Option<PathBuf>,
    /// Threads; 0 means one for each processor
    #[arg(long, value_name = "N", default_value_t = 0, display_order = 91)]
    threads: usize,
}

/// The same, and where the change is worked out.
#[derive(Debug, clap::Args)]
pub struct Target {
    #[command(flatten)]
    pub copy: Copy,
    /// Where to work: auto, cpu, cuda or cuda:N. A GPU pays for much at once: the index goes there and comes back
    #[arg(long, default_value_t = Device::Cpu, display_order = 92)]
    device: Device,
    #[command(flatten)]
    vectors: OnDevice,
}

/// The index after a change.
#[derive(Debug, Serialize)]
pub struct Changed {
    /// Keys that can be found.
    pub points: usize,
    /// Deleted keys that can be restored.
    pub deleted: usize,
    /// The change alone; opening and saving are apart.
    pub seconds: f64,
    save_seconds: f64,
    /// Bytes of the index file.
    bytes: u64,
    peak_bytes: Option<u64>,
    output: PathBuf,
}

impl Target {
    /// Opens the index, lets `change` work on it, and saves it; an error of `change` leaves the file as it is.
    pub fn change<T: Element, R>(
        self,
        screen: Screen,
        change: impl FnOnce(&Index<T>) -> Result<R>,
    ) -> Result<(R, Changed)> {
        self.device.find()?;
        self.copy.change(screen, |mut index| {
            self.vectors.tell(&mut index);
            let index = index.to_device(self.device)?;
            let begun = Instant::now();
            let result = change(&index)?;
            let seconds = begun.elapsed().as_secs_f64();
            Ok((result, seconds, index.to_host()?))
        })
    }
}

impl Copy {
    /// Opens the index, lets `change` work on it and tell how many seconds that took, and saves it; an error of `change`
    /// leaves the file as it is.
    pub fn change<T: Element, R>(
        self,
        screen: Screen,
        change: impl FnOnce(Index<T>) -> Result<(R, f64, Index<T>)>,
    ) -> Result<(R, Changed)> {
        let (result, seconds, index) = change(open_index::<T>(&self.index, self.threads, screen)?)?;
        let output = self.output.unwrap_or(self.index);
        let begun = Instant::now();
        let saved = index.save_with(&output, &mut screen.progress())?;
        let changed = Changed {
            points: index.len(),
            deleted: index.read_graph(|graph| graph.keys().deleted().len())?,
            seconds,
            save_seconds: begun.elapsed().as_secs_f64(),
            bytes: saved.bytes,
            peak_bytes: machine::peak_bytes(),
            output,
        };
        Ok((result, changed))
    }
}

impl std::fmt::Display for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::human::{bytes, count, seconds};
        let (points, deleted, took) = (count(self.points), count(self.deleted), seconds(self.seconds));
        writeln!(f, "now      {points} keys, and {deleted} deleted that can be restored; took {took}")?;
        write!(f, "saved    {}, {}", self.output.display(), bytes(self.bytes))
    }
}
