//! The emulator as a [`Stream`]: every launch runs at once, and every access is checked.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::emulator::{self, Emulator, Fault};
use jasper_core::DeviceError;
use thiserror::Error;

use crate::{Buffer, DevicePtr, DevicePtrMut, Kernel, Stream};

/// A stream of an emulated device, for tests. Clones are the same stream.
#[derive(Clone)]
pub struct EmulatedStream {
    emulator: Arc<Emulator>,
}

impl EmulatedStream {
    /// A stream of `emulator`.
    pub fn new(emulator: Emulator) -> Self {
        Self { emulator: Arc::new(emulator) }
    }

    /// The emulator.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    fn buffer<T>(&self, array: emulator::Buffer<T>, on_host: bool) -> EmulatedBuffer<T> {
        EmulatedBuffer { array, emulator: Arc::clone(&self.emulator), on_host }
    }
}

/// An array of an emulated device. Host and device share one memory: arrays on the host differ in name only.
pub struct EmulatedBuffer<T> {
    /// The array, by which tests read it.
    pub array: emulator::Buffer<T>,
    emulator: Arc<Emulator>,
    on_host: bool,
}

/// A fault of an emulated device.
#[derive(Clone, Debug, Error)]
#[error(transparent)]
pub struct EmulatedFault(#[from] Fault);

impl From<EmulatedFault> for DeviceError {
    fn from(fault: EmulatedFault) -> Self {
        Self::Failed { device: 0, source: Box::new(fault) }
    }
}

// SAFETY: the emulator runs each launch before the call returns, and checks every access.
unsafe impl Stream for EmulatedStream {
    type Error = EmulatedFault;
    type Buffer<T: Pod> = EmulatedBuffer<T>;

    fn another(&self) -> Result<Self, EmulatedFault> {
        Ok(self.clone())
    }

    /// A small number, so that small tests have more blocks than multiprocessors.
    fn multiprocessors(&self) -> u32 {
        2
    }

    fn allocate<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, EmulatedFault> {
        Ok(self.buffer(self.emulator.allocate(&name::<T>(len), len), false))
    }

    fn allocate_on_host<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, EmulatedFault> {
        let name = format!("{} on the host", name::<T>(len));
        Ok(self.buffer(self.emulator.allocate(&name, len), true))
    }

    fn upload<T: Pod>(&self, values: &[T]) -> Result<Self::Buffer<T>, EmulatedFault> {
        Ok(self.buffer(self.emulator.upload(&name::<T>(values.len()), values), false))
    }

    /// In chunks of two rows, so that small tests have several.
    fn write_range<T: Pod, E: From<EmulatedFault>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        within: Range<usize>,
        row_len: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut values = vec![T::zeroed(); within.len()];
        let chunk = 2 * row_len.max(1);
        for (i, out) in values.chunks_mut(chunk).enumerate() {
            let first = within.start + i * chunk;
            fill(first..first + out.len(), out)?;
        }
        buffer.array.write_from(within.start, &values);
        Ok(())
    }

    fn copy<T: Pod>(
        &self,
        from: &Self::Buffer<T>,
        to: &mut Self::Buffer<T>,
        len: usize,
    ) -> Result<(), EmulatedFault> {
        to.array.copy(&from.array, len);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), EmulatedFault> {
        Ok(())
    }

    /// All work is done already.
    fn wait_for(&self, _: &Self) -> Result<(), EmulatedFault> {
        Ok(())
    }

    fn synchronize_device(&self) -> Result<(), EmulatedFault> {
        Ok(())
    }

    fn fill<T: Pod>(&self, buffer: &mut Self::Buffer<T>, byte: u8) -> Result<(), EmulatedFault> {
        buffer.array.fill(byte);
        Ok(())
    }

    fn download_range<T: Pod>(
        &self,
        buffer: &Self::Buffer<T>,
        within: Range<usize>,
    ) -> Result<Vec<T>, EmulatedFault> {
        Ok(buffer.array.read_range(within)?)
    }

    fn check_owner<T: Pod>(&self, buffer: &Self::Buffer<T>) {
        assert!(Arc::ptr_eq(&self.emulator, &buffer.emulator), "a buffer is used by the stream that made it");
    }

    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<(), EmulatedFault> {
        let (entry, launch) = (kernel.entry(), kernel.launch_config(&args));
        // SAFETY: upheld by the caller; the emulator also checks it at every access.
        let run = || unsafe { (entry.body)(args) };
        self.emulator.launch(entry.name, launch.grid, launch.block, launch.shared, run)?;
        Ok(())
    }
}

/// The name of a buffer in faults.
fn name<T>(len: usize) -> String {
    format!("[{}; {len}]", std::any::type_name::<T>())
}

// SAFETY: the array is memory of the emulator, aligned to 256 bytes, as long as it lives.
unsafe impl<T: Pod> Buffer<T> for EmulatedBuffer<T> {
    fn len(&self) -> usize {
        self.array.len()
    }

    fn is_on_host(&self) -> bool {
        self.on_host
    }

    fn input(&self) -> DevicePtr<T> {
        DevicePtr::new(self.array.as_ptr())
    }

    fn output(&mut self) -> DevicePtrMut<T> {
        DevicePtrMut::new(self.array.as_mut_ptr())
    }
}
