//! `jasper devices`: lists the CPU and the CUDA devices.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use crate::terminal::Terminal;
use crate::{process, units};

/// List the CPU and the CUDA devices of this machine
///
/// The exit code is 0 with or without CUDA devices.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper devices --json")]
pub struct Args {}

#[derive(Serialize)]
struct Report {
    cpu: Cpu,
    cuda: Cuda,
}

#[derive(Serialize)]
struct Cpu {
    name: String,
    threads: usize,
}

#[derive(Default, Serialize)]
struct Cuda {
    /// CUDA version of the driver, if there is one.
    driver: Option<String>,
    devices: Vec<CudaDevice>,
    /// Why there are no devices.
    reason: Option<String>,
}

#[derive(Serialize)]
struct CudaDevice {
    /// Its name for `--device`.
    device: String,
    name: String,
    compute_capability: String,
    multiprocessors: u32,
    memory_bytes: u64,
    l2_cache_bytes: u64,
    /// Maximum per block.
    shared_bytes_per_block: u32,
    shared_bytes_per_multiprocessor: u32,
    registers_per_multiprocessor: u32,
    threads_per_block: u32,
    threads_per_multiprocessor: u32,
    copy_engines: u32,
}

impl Args {
    /// Lists the devices.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let cpu = Cpu { name: jasper::cpu_name(), threads: process::threads(0) };
        terminal.report(&Report { cpu, cuda: cuda() })
    }
}

#[cfg(feature = "cuda")]
fn cuda() -> Cuda {
    use jasper::cuda::{Device, driver_version};
    let driver = driver_version().ok().map(dotted);
    match Device::list() {
        Ok(devices) => {
            Cuda { driver, devices: devices.into_iter().map(CudaDevice::from).collect(), reason: None }
        }
        Err(error) => Cuda { driver, reason: Some(error.to_string()), ..Cuda::default() },
    }
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Cuda {
    Cuda { reason: Some("jasper was compiled without CUDA".into()), ..Cuda::default() }
}

#[cfg(feature = "cuda")]
fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

#[cfg(feature = "cuda")]
impl From<jasper::cuda::Device> for CudaDevice {
    fn from(device: jasper::cuda::Device) -> Self {
        Self {
            device: jasper::Device::Cuda(device.ordinal).to_string(),
            name: device.name,
            compute_capability: dotted(device.compute_capability),
            multiprocessors: device.multiprocessors,
            memory_bytes: device.memory as u64,
            l2_cache_bytes: device.l2_cache as u64,
            shared_bytes_per_block: device.shared_per_block,
            shared_bytes_per_multiprocessor: device.shared_per_multiprocessor,
            registers_per_multiprocessor: device.registers_per_multiprocessor,
            threads_per_block: device.threads_per_block,
            threads_per_multiprocessor: device.threads_per_multiprocessor,
            copy_engines: device.copy_engines,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cpu { name, threads } = &self.cpu;
        write!(f, "cpu      {name}, {threads} threads")?;
        for device in &self.cuda.devices {
            write!(f, "\n{device}")?;
        }
        if let Some(reason) = &self.cuda.reason {
            write!(f, "\ncuda     no devices: {reason}")?;
        }
        if let Some(driver) = &self.cuda.driver {
            write!(f, "\ndriver   for CUDA {driver}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, name, compute_capability, multiprocessors, .. } = self;
        let [memory, cache] = [self.memory_bytes, self.l2_cache_bytes].map(units::bytes);
        let [block, processor] = [self.shared_bytes_per_block, self.shared_bytes_per_multiprocessor]
            .map(|bytes| units::count(bytes as usize));
        writeln!(f, "{device:<8} {name}, compute capability {compute_capability}")?;
        writeln!(f, "         {memory} of memory, {cache} of L2 cache, {multiprocessors} multiprocessors")?;
        write!(f, "         shared memory: {block} bytes per block, {processor} per multiprocessor")
    }
}
