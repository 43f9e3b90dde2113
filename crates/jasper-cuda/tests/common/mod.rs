//! The device that tests run on, and kernels that provoke it.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::io::Write;

use gpu_kernels::{DevicePtr, DevicePtrMut, Launch};
use jasper_cuda::{Context, Error, Module, Result, Stream};

/// Kernels of one parameter each; what they do is written beside them.
pub const PROBE: &str = include_str!("probe.ptx");

/// The first device. Without one the test is skipped and a line says so, or fails if `JASPER_REQUIRE_GPU=1`.
pub fn context() -> Option<Context> {
    match Context::open(0) {
        Ok(context) => Some(context),
        Err(error @ (Error::NoDriver(_) | Error::NoDevice)) => {
            let required = std::env::var("JASPER_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "JASPER_REQUIRE_GPU=1, and {error}");
            let reason = if error == Error::NoDevice { "no CUDA device" } else { "no CUDA driver" };
            let line = format!("skipped {}: {reason}\n", std::thread::current().name().unwrap_or("a test"));
            // Past what the test harness captures.
            let _ = std::io::stderr().write_all(line.as_bytes());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The arguments of `copy` and `reverse`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Move {
    pub from: DevicePtr<u32>,
    pub to: DevicePtrMut<u32>,
    pub len: u64,
}

/// Queues `spin`: one thread, busy for `cycles`.
pub fn spin(stream: &Stream, probe: &Module, cycles: u64) -> Result<()> {
    // SAFETY: the kernel takes one number and touches no memory.
    unsafe { stream.launch_from(probe, "spin", Launch::linear(1, 1), &cycles) }
}
