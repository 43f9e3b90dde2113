//! Ordered work on one device, real or emulated.

use std::ops::Range;

use bytemuck::Pod;

use crate::{In, Kernel, Out};

/// An ordered queue of work on one device.
///
/// What an operation does is written once over this trait: a GPU runs the same sequence of launches as the emulator.
/// Everything happens in the order of the calls; `download` alone waits for it.
pub trait Stream {
    /// What can go wrong on the device.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Device memory. It outlives the launches before its drop: the implementor sees to that.
    type Buffer<T: Pod>: Buffer<T>;

    /// Multiprocessors of the device: how many blocks it takes to fill it.
    fn multiprocessors(&self) -> u32;

    /// An array of `len` elements that hold nothing yet: a kernel must write them before one reads them.
    ///
    /// # Errors
    /// When there is not that much memory.
    fn allocate<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error>;

    /// An array with a copy of `values`.
    ///
    /// # Errors
    /// When there is not that much memory.
    fn upload<T: Pod>(&self, values: &[T]) -> Result<Self::Buffer<T>, Self::Error>;

    /// Writes the first `len` elements of `buffer`, by pieces: `fill` is given a range of elements, some whole number
    /// of `granule`, and host memory to write them to, which is copied to the device while the next piece is filled.
    ///
    /// Returns when the last piece is filled; it is copied in the order of this stream.
    ///
    /// # Errors
    /// Of the device; the first of `fill`, after which nothing more is copied.
    ///
    /// # Panics
    /// If `len` is more than `buffer` holds, or a granule is more than the stream copies at once.
    fn write<T: Pod, E: From<Self::Error>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        len: usize,
        granule: usize,
        fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Sets each byte of `buffer` to `byte`.
    ///
    /// # Errors
    /// Of the device.
    fn fill<T: Pod>(&self, buffer: &mut Self::Buffer<T>, byte: u8) -> Result<(), Self::Error>;

    /// A copy of `buffer`, after all work before.
    ///
    /// # Errors
    /// Of the device, those of the launches before included.
    fn download<T: Pod>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>, Self::Error>;

    /// Queues a kernel. A launch without blocks does nothing.
    ///
    /// # Errors
    /// Of the device: a launch that it cannot take, or what an earlier launch did wrong.
    ///
    /// # Safety
    /// - Every address in `args` is of a buffer of this stream's device that lives until the launch has run, with the
    ///   shape that the arguments say.
    /// - What the kernel reads has been written, and nothing else writes it meanwhile.
    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<(), Self::Error>;
}

/// An array in device memory.
pub trait Buffer<T> {
    /// Elements.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its address, for a kernel that reads it.
    fn input(&self) -> In<T>;

    /// Its address, for a kernel that writes it.
    fn output(&mut self) -> Out<T>;
}
