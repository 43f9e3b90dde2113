//! Where a command searches, with how many threads, and where vectors are stored on a GPU.

use std::error::Error as _;
use std::path::Path;

use anyhow::Result;
use jasper::{Device, Index, MemorySpace, OpenOptions, QuantizeMode};

use super::{DistanceArgs, threads};
use crate::process;
use crate::terminal::Terminal;

/// Where to search.
#[derive(Debug, clap::Args)]
pub struct DeviceArgs {
    /// CPU threads, at most one per CPU, which is the default
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Where to search: auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all; auto is the first CUDA device that can hold the
    /// index, or the CPU
    #[arg(long, default_value_t = Device::AUTO)]
    pub device: Device,
    #[command(flatten)]
    pub placement: PlacementArgs,
}

/// How GPUs hold the index.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct PlacementArgs {
    /// Where vectors are stored while the index is on a GPU: device, or host, which is pinned memory that the GPU reads
    /// over PCIe, for quantized indexes [default: device if everything fits there, else host if the index is quantized]
    #[arg(long, value_name = "STORAGE", display_order = 93)]
    vector_storage: Option<MemorySpace>,
    /// Have each of several GPUs hold a part of the index instead of all of it: room for more vectors, but not more
    /// queries per second. An index of one graph is built again
    #[arg(long, display_order = 93)]
    sharded: bool,
}

impl PlacementArgs {
    /// The device with these options.
    pub fn on(self, device: Device) -> Device {
        device.vector_storage(self.vector_storage).sharded(self.sharded)
    }
}

/// Notes which devices faulted, so that the others had to go on without them.
pub fn note_faults(index: &Index, terminal: Terminal) {
    for fault in index.device_info().faults {
        let reason = fault.source().map(|source| format!(": {source}")).unwrap_or_default();
        terminal.note(format_args!("{fault} and was left out{reason}"));
    }
}

impl DeviceArgs {
    /// Opens an index file with `open`, for many searches. On the CPU, exact searches get sketches. On a GPU, warns if exact
    /// searches will read every vector over PCIe.
    pub fn open(
        &self,
        path: &Path,
        distances: DistanceArgs,
        terminal: Terminal,
        open: fn(&Path, OpenOptions, Terminal) -> Result<Index>,
    ) -> Result<Index> {
        let options = OpenOptions::new().threads(self.threads).device(self.placement.on(self.device));
        let index = open(path, options, terminal)?;
        let is_exact = distances.is_exact() || index.stats().quantization.is_none();
        match storage_on_device(&index) {
            None if is_exact => drop(index.quantize(QuantizeMode::Sketches)?),
            Some(MemorySpace::Host) if is_exact => terminal.note(
                "this search is limited by PCIe bandwidth: exact distances, and vectors in host memory; quantize the index \
                 with `jasper quantize`, or store its vectors on the GPU with `--vector-storage device`",
            ),
            _ => {}
        }
        Ok(index)
    }

    /// Describes the device to readers of a measurement.
    pub fn describe(&self, index: &Index) -> String {
        let name = index.device_info().name;
        match storage_on_device(index) {
            None => on_threads(self.threads, &name),
            Some(MemorySpace::Host) => format!("{name}, vectors in host memory"),
            Some(MemorySpace::Device) => name,
        }
    }
}

/// Where searches on a GPU read vectors; `None` on the CPU.
pub fn storage_on_device(index: &Index) -> Option<MemorySpace> {
    (index.device() != Device::CPU).then(|| index.stats().vector_storage)
}

/// A CPU of this name, with the requested number of threads.
pub fn on_threads(threads: Option<usize>, cpu: &str) -> String {
    format!("{} threads of {cpu}", process::threads(threads))
}
