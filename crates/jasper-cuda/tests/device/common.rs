//! The device that tests run on, and test kernels.

use std::io::Write;
use std::ops::Deref;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use gpu_kernels::{DevicePtr, DevicePtrMut, LaunchConfig};
use jasper_core::sync;
use jasper_cuda::{Context, ErrorKind, Module, Result, Stream};

/// Test kernels of one parameter each; comments in the file describe them.
pub const PROBE: &str = include_str!("probe.ptx");

/// Ordinary tests share the device; those that measure time or memory hold it alone.
static DEVICE: RwLock<()> = RwLock::new(());

/// A context, and the share of the device that the test holds.
pub struct TestContext<G> {
    context: Context,
    _guard: G,
}

impl<G> Deref for TestContext<G> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// A context of the device that other tests use at the same time.
pub type SharedContext = TestContext<RwLockReadGuard<'static, ()>>;

/// The first device, shared with other tests. Without a device the test is skipped and a line says so, or fails if
/// `JASPER_REQUIRE_GPU=1`.
pub fn context() -> Option<SharedContext> {
    let guard = sync::read(&DEVICE);
    Some(TestContext { context: open()?, _guard: guard })
}

/// The first device, while no other test uses it.
pub fn exclusive_context() -> Option<TestContext<RwLockWriteGuard<'static, ()>>> {
    let guard = sync::write(&DEVICE);
    Some(TestContext { context: open()?, _guard: guard })
}

fn open() -> Option<Context> {
    match Context::open(0) {
        Ok(context) => Some(context),
        Err(error) if matches!(error.kind, ErrorKind::NoDriver(_) | ErrorKind::NoDevice) => {
            let required = std::env::var("JASPER_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "JASPER_REQUIRE_GPU=1, and {error}");
            let reason = if error.kind == ErrorKind::NoDevice { "no CUDA device" } else { "no CUDA driver" };
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
    unsafe { stream.launch_from(probe, "spin", LaunchConfig::linear(1, 1), &cycles) }
}
