//! Where commands search: on which device, with how many threads.

use std::path::Path;

use anyhow::Result;
use jasper::{Device, Element, Index};

use crate::distances::By;
use crate::files::open_index;
use crate::keep::{OnDevice, note_bus, vectors_on};
use crate::machine;
use crate::screen::Screen;

/// Where to search.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// Threads of the processor; 0 means one for each processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Where to search: auto, cpu, cuda or cuda:N; auto is the first CUDA device that can hold the index, or the cpu
    #[arg(long, default_value_t = Device::Auto)]
    pub device: Device,
    #[command(flatten)]
    pub vectors: OnDevice,
}

impl Place {
    /// Whether the device is there, which is told before anything is read.
    pub fn check(&self) -> Result<()> {
        Ok(self.device.find()?)
    }

    /// Opens an index file to be searched many times: on a processor with sketches, which they earn, unless
    /// estimates find the way.
    pub fn open<T: Element>(&self, path: &Path, by: By, screen: Screen) -> Result<Index<T>> {
        let mut index = open_index(path, self.threads, screen)?;
        self.vectors.tell(&mut index);
        let index = index.to_device(self.device)?;
        if index.device() != Device::Cpu {
            note_bus(&index, by.is_exact(), screen)?;
            return Ok(index);
        }
        let index = index.to_host()?;
        if by.is_exact() || index.stats().quantization.is_none() {
            index.sketch()?;
        }
        Ok(index)
    }

    /// What searches there, for readers of a measurement.
    pub fn describe<T: Element>(&self, index: &Index<T>) -> String {
        let name = index.device_name();
        match vectors_on(index) {
            _ if index.device() == Device::Cpu => on_threads(self.threads, &name),
            Some(jasper::VectorStorage::Host) => format!("{name}, vectors on the host"),
            _ => name,
        }
    }
}

/// A processor of this name, with so many threads asked for.
pub fn on_threads(threads: usize, processor: &str) -> String {
    format!("{} threads of {processor}", machine::threads(threads))
}
