//! The emulator as a [`Stream`]: every launch runs at once, and every access is checked.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::emulator::{self, Emulator, Fault};

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
}

/// An array of an emulated device. Host and device share one memory: arrays on the host differ in name only.
pub struct EmulatedBuffer<T> {
    array: emulator::Buffer<T>,
    on_host: bool,
}

impl<T> Deref for EmulatedBuffer<T> {
    type Target = emulator::Buffer<T>;

    fn deref(&self) -> &Self::Target {
        &self.array
    }
}

impl<T> DerefMut for EmulatedBuffer<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.array
    }
}

impl Stream for EmulatedStream {
    type Error = Fault;
    type Buffer<T: Pod> = EmulatedBuffer<T>;

    /// A small number, so that small tests have more blocks than multiprocessors.
    fn multiprocessors(&self) -> u32 {
        2
    }

    fn allocate<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Fault> {
        Ok(EmulatedBuffer { array: self.emulator.allocate(&name::<T>(len), len), on_host: false })
    }

    fn allocate_on_host<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Fault> {
        let name = format!("{} on the host", name::<T>(len));
        Ok(EmulatedBuffer { array: self.emulator.allocate(&name, len), on_host: true })
    }

    fn upload<T: Pod>(&self, values: &[T]) -> Result<Self::Buffer<T>, Fault> {
        let array = self.emulator.upload(&name::<T>(values.len()), values);
        Ok(EmulatedBuffer { array, on_host: false })
    }

    /// Writes in pieces of two granules, so that small tests have several pieces.
    fn write_range<T: Pod, E: From<Fault>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        within: Range<usize>,
        granule: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut values = vec![T::zeroed(); within.len()];
        let piece = 2 * granule.max(1);
        for (i, out) in values.chunks_mut(piece).enumerate() {
            let first = within.start + i * piece;
            fill(first..first + out.len(), out)?;
        }
        buffer.write_from(within.start, &values);
        Ok(())
    }

    fn copy<T: Pod>(
        &self,
        from: &Self::Buffer<T>,
        to: &mut Self::Buffer<T>,
        len: usize,
    ) -> Result<(), Fault> {
        to.copy(from, len);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Does nothing: launches run at once.
    fn wait_for(&self, _: &Self) -> Result<(), Fault> {
        Ok(())
    }

    fn synchronize_device(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn fill<T: Pod>(&self, buffer: &mut Self::Buffer<T>, byte: u8) -> Result<(), Fault> {
        buffer.fill(byte);
        Ok(())
    }

    fn download_range<T: Pod>(
        &self,
        buffer: &Self::Buffer<T>,
        within: Range<usize>,
    ) -> Result<Vec<T>, Fault> {
        buffer.read_range(within)
    }

    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<(), Fault> {
        let (body, launch) = (kernel.body(), kernel.launch(&args));
        // SAFETY: the caller's promise, which the emulator also checks at every access.
        let run = || unsafe { body(args) };
        self.emulator.launch(&kernel.entry(), launch.grid, launch.block, launch.shared, run)?;
        Ok(())
    }
}

/// The name of a buffer in faults.
fn name<T>(len: usize) -> String {
    format!("[{}; {len}]", std::any::type_name::<T>())
}

impl<T: Pod> Buffer<T> for EmulatedBuffer<T> {
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
