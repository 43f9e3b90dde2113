//! Where a command searches, and with how many threads.

use std::path::Path;

use anyhow::Result;
use jasper::{Device, Element, Index, VectorStorage};

use super::{DistanceArgs, VectorStorageArgs, storage_on_device, warn_pcie};
use crate::files::open_index;
use crate::process;
use crate::terminal::Terminal;

/// Where to search.
#[derive(Debug, clap::Args)]
pub struct DeviceArgs {
    /// CPU threads; 0 means one per CPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Where to search: auto, cpu, cuda or cuda:N; auto is the first CUDA device that can hold the index, or the CPU
    #[arg(long, default_value_t = Device::Auto)]
    pub device: Device,
    #[command(flatten)]
    pub vectors: VectorStorageArgs,
}

impl DeviceArgs {
    /// Checks that the device exists, before any file is read.
    pub fn check(&self) -> Result<()> {
        Ok(self.device.find()?)
    }

    /// Opens an index file for many searches. On the CPU, exact searches get sketches.
    pub fn open<T: Element>(
        &self,
        path: &Path,
        distances: DistanceArgs,
        terminal: Terminal,
    ) -> Result<Index<T>> {
        let index = open_index(path, self.threads, terminal)?;
        self.vectors.apply(&index);
        let index = index.to_device(self.device)?;
        if index.device() != Device::Cpu {
            warn_pcie(&index, distances.is_exact(), terminal)?;
        } else if distances.is_exact() || index.stats().quantization.is_none() {
            index.sketch()?;
        }
        Ok(index)
    }

    /// Describes the device to readers of a measurement.
    pub fn describe<T: Element>(&self, index: &Index<T>) -> String {
        let name = index.device_name();
        match storage_on_device(index) {
            _ if index.device() == Device::Cpu => on_threads(self.threads, &name),
            Some(VectorStorage::Host) => format!("{name}, vectors in host memory"),
            _ => name,
        }
    }
}

/// A CPU of this name, with the requested number of threads.
pub fn on_threads(threads: usize, cpu: &str) -> String {
    format!("{} threads of {cpu}", process::threads(threads))
}
