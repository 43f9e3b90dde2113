//! `jasper devices`: the processor and the CUDA devices of this machine.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use crate::screen::Screen;
use crate::{human, machine};

/// Show the processor and the CUDA devices of this machine
///
/// The exit code is 0 whether there are CUDA devices or not.
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
    /// The newest CUDA that the driver knows; nothing, if there is no driver.
    driver: Option<String>,
    devices: Vec<CudaDevice>,
    /// Why there are no devices.
    reason: Option<String>,
}

#[derive(Serialize)]
struct CudaDevice {
    /// What `--device` calls it.
    device: String,
    name: String,
    compute_capability: String,
    multiprocessors: u32,
    memory_bytes: u64,
    l2_cache_bytes: u64,
    /// Most that a block can have.
    shared_bytes_per_block: u32,
    shared_bytes_per_multiprocessor: u32,
    registers_per_multiprocessor: u32,
    threads_per_block: u32,
    threads_per_multiprocessor: u32,
    copy_engines: u32,
}

impl Args {
    /// Looks and shows.
    pub fn run(self, screen: Screen) -> Result<()> {
        let cpu = Cpu { name: jasper::cpu_name(), threads: machine::threads(0) };
        screen.report(&Report { cpu, cuda: cuda() })
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
    Cuda { reason: Some("this build of jasper has no CUDA".into()), ..Cuda::default() }
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
        let [memory, cache] = [self.memory_bytes, self.l2_cache_bytes].map(human::bytes);
        let [block, processor] = [self.shared_bytes_per_block, self.shared_bytes_per_multiprocessor]
            .map(|bytes| human::count(bytes as usize));
        writeln!(f, "{device:<8} {name}, compute capability {compute_capability}")?;
        writeln!(f, "         {memory} of memory, {cache} of L2 cache, {multiprocessors} multiprocessors")?;
        write!(f, "         shared memory: {block} bytes a block, {processor} a multiprocessor")
    }
}
