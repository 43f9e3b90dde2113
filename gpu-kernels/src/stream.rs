//! Ordered work on a device, real or emulated.

use std::ops::Range;

use bytemuck::Pod;

use crate::{DevicePtr, DevicePtrMut, Kernel};

/// Elements per piece of the default [`Stream::read_range`], rounded up to whole granules.
const PIECE: usize = 1 << 12;

/// An ordered queue of work on one device.
///
/// Operations are written once over this trait: a GPU runs the same launches as the emulator. Work runs in the order of
/// the calls; only downloads and `synchronize` wait for it.
pub trait Stream {
    /// What can go wrong on the device.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Device memory, or host memory that the device reaches. The implementation keeps it alive for all launches queued
    /// before it is dropped.
    type Buffer<T: Pod>: Buffer<T>;

    /// Multiprocessors of the device: how many blocks it takes to fill it.
    fn multiprocessors(&self) -> u32;

    /// Allocates an array of `len` uninitialized elements: a kernel must write them before one reads them.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn allocate<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error>;

    /// The same in host memory, which kernels access over the bus: for large arrays that are seldom read. A stream with
    /// one kind of memory allocates that.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn allocate_on_host<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error> {
        self.allocate(len)
    }

    /// An array with a copy of `values`.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn upload<T: Pod>(&self, values: &[T]) -> Result<Self::Buffer<T>, Self::Error>;

    /// Writes the elements `within` of `buffer`, in pieces. `fill` gets a range of elements, and host memory to write
    /// them to, which is copied to the device while the next piece is filled. The length of the range is a multiple of
    /// `granule`: the elements that must not be split, such as those of a row. An array on the host may be written in
    /// place, once all work of this stream is done.
    ///
    /// Returns when the last piece is filled; it is copied in the order of this stream.
    ///
    /// # Errors
    /// Of the device; the first of `fill`, after which nothing more is copied.
    ///
    /// # Panics
    /// Panics if `buffer` holds fewer elements, or a granule is more than the stream copies at once.
    fn write_range<T: Pod, E: From<Self::Error>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        within: Range<usize>,
        granule: usize,
        fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// [`Self::write_range`] of the first `len` elements.
    ///
    /// # Errors
    /// As there.
    fn write<T: Pod, E: From<Self::Error>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        len: usize,
        granule: usize,
        fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_range(buffer, 0..len, granule, fill)
    }

    /// Copies the first `len` elements of one array to the beginning of another.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// Panics if one of them holds fewer.
    fn copy<T: Pod>(
        &self,
        from: &Self::Buffer<T>,
        to: &mut Self::Buffer<T>,
        len: usize,
    ) -> Result<(), Self::Error>;

    /// Grows `buffer` to at least `len` elements. Its elements are kept; its address may change, but it stays on the
    /// host or on the device. New elements are uninitialized.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory; the buffer is as it was.
    fn grow<T: Pod>(&self, buffer: &mut Self::Buffer<T>, len: usize) -> Result<(), Self::Error> {
        if buffer.len() < len {
            let mut larger =
                if buffer.is_on_host() { self.allocate_on_host(len)? } else { self.allocate(len)? };
            self.copy(buffer, &mut larger, buffer.len())?;
            *buffer = larger;
        }
        Ok(())
    }

    /// Waits for all work of this stream so far.
    ///
    /// # Errors
    /// Returns the error of that work, if any.
    fn synchronize(&self) -> Result<(), Self::Error>;

    /// Makes later work wait for all work queued in `other` so far. The calling thread does not wait.
    ///
    /// # Errors
    /// Returns the device's error.
    fn wait_for(&self, other: &Self) -> Result<(), Self::Error>;

    /// Waits for all work of all streams of the device so far.
    ///
    /// # Errors
    /// Returns the error of that work, if any.
    fn synchronize_device(&self) -> Result<(), Self::Error>;

    /// Sets each byte of `buffer` to `byte`.
    ///
    /// # Errors
    /// Returns the device's error.
    fn fill<T: Pod>(&self, buffer: &mut Self::Buffer<T>, byte: u8) -> Result<(), Self::Error>;

    /// A copy of the elements `within` of `buffer`, after all work before.
    ///
    /// # Errors
    /// Returns the device's error, including errors of earlier launches.
    ///
    /// # Panics
    /// Panics if `buffer` holds fewer elements.
    fn download_range<T: Pod>(
        &self,
        buffer: &Self::Buffer<T>,
        within: Range<usize>,
    ) -> Result<Vec<T>, Self::Error>;

    /// Reads the elements `within` of `buffer`, after all work before, in pieces. `take` gets a range of elements, a
    /// multiple of `granule`, and their values, while the next piece is copied.
    ///
    /// # Errors
    /// Returns the device's error, including errors of earlier launches.
    ///
    /// # Panics
    /// Panics if `buffer` holds fewer elements, or a granule is more than the stream copies at once.
    fn read_range<T: Pod>(
        &self,
        buffer: &Self::Buffer<T>,
        within: Range<usize>,
        granule: usize,
        mut take: impl FnMut(Range<usize>, &[T]),
    ) -> Result<(), Self::Error> {
        let piece = PIECE.next_multiple_of(granule.max(1));
        for first in within.clone().step_by(piece) {
            let range = first..within.end.min(first + piece);
            take(range.clone(), &self.download_range(buffer, range)?);
        }
        Ok(())
    }

    /// [`Self::download_range`] of all elements.
    ///
    /// # Errors
    /// As there.
    fn download<T: Pod>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>, Self::Error> {
        self.download_range(buffer, 0..buffer.len())
    }

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

/// An array in memory that the device reaches.
pub trait Buffer<T> {
    /// Number of elements.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is in memory of the host, by [`Stream::allocate_on_host`].
    fn is_on_host(&self) -> bool {
        false
    }

    /// The pointer for a kernel that reads it.
    fn input(&self) -> DevicePtr<T>;

    /// The pointer for a kernel that writes it.
    fn output(&mut self) -> DevicePtrMut<T>;
}
