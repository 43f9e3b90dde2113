//! `jasper devices`: lists the CPU and the CUDA devices.

use std::fmt::Write;

use anyhow::Result;
use jasper_vamana::cpu_name;
use serde_json::{Value, json};

use crate::command_files::Files;
use crate::process;
use crate::terminal::Terminal;

/// List the CPU and the CUDA devices of this machine
///
/// The exit code is 0 with or without CUDA devices.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  jasper devices --json")]
pub struct Args {}

impl Args {
    /// The files of the command.
    pub fn files(&self) -> Files {
        Files::new()
    }

    /// Lists the devices.
    pub fn run(self, terminal: Terminal) -> Result<()> {
        let (name, threads) = (cpu_name(), process::threads(None));
        let mut text = format!("cpu      {name}, {threads} threads");
        let cuda = cuda(&mut text)?;
        terminal.report(&json!({ "cpu": { "name": name, "threads": threads }, "cuda": cuda }), text)
    }
}

/// Adds the CUDA devices to `text`, and returns them as JSON.
#[cfg(feature = "cuda")]
fn cuda(text: &mut String) -> Result<Value> {
    use jasper::Device;

    use crate::units::{bytes, count};

    let dotted = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let driver = jasper_cuda::driver_version().ok().map(dotted);
    let (devices, reason) = match jasper_cuda::DeviceProperties::list() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let mut json = Vec::new();
    for device in devices {
        let (name, capability) = (&device.name, dotted(device.compute_capability));
        let id = Device::cuda(device.ordinal).to_string();
        let [memory, cache] = [device.memory, device.l2_cache].map(|size| bytes(size as u64));
        let [block, processor] =
            [device.shared_per_block, device.shared_per_multiprocessor].map(|size| count(size as usize));
        let multiprocessors = device.multiprocessors;
        write!(
            text,
            "\n{id:<8} {name}, compute capability {capability}\n         \
             {memory} of memory, {cache} of L2 cache, {multiprocessors} multiprocessors\n         \
             shared memory: {block} bytes per block, {processor} per multiprocessor"
        )?;
        json.push(json!({
            "device": id,
            "name": name,
            "compute_capability": capability,
            "multiprocessors": multiprocessors,
            "memory_bytes": device.memory,
            "l2_cache_bytes": device.l2_cache,
            "shared_bytes_per_block": device.shared_per_block,
            "shared_bytes_per_multiprocessor": device.shared_per_multiprocessor,
            "registers_per_multiprocessor": device.registers_per_multiprocessor,
            "threads_per_block": device.threads_per_block,
            "threads_per_multiprocessor": device.threads_per_multiprocessor,
            "copy_engines": device.copy_engines,
        }));
    }
    if let Some(reason) = &reason {
        write!(text, "\ncuda     no devices: {reason}")?;
    }
    if let Some(driver) = &driver {
        write!(text, "\ndriver   for CUDA {driver}")?;
    }
    Ok(json!({ "driver": driver, "devices": json, "reason": reason }))
}

#[cfg(not(feature = "cuda"))]
fn cuda(text: &mut String) -> Result<Value> {
    let reason = "jasper was compiled without CUDA";
    write!(text, "\ncuda     no devices: {reason}")?;
    Ok(json!({ "driver": null, "devices": [], "reason": reason }))
}
