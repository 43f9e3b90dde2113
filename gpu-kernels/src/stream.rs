//! Ordered work on a device, real or emulated.

use std::ops::Range;

use bytemuck::Pod;
use jasper_core::DeviceError;

use crate::{DevicePtr, DevicePtrMut, Kernel};

/// Elements per chunk of the default [`Stream::read_range`], rounded up to whole rows.
const CHUNK: usize = 1 << 12;

/// An ordered queue of work on one device.
///
/// Operations are written once over this trait, so a GPU runs the same launches as the emulator. Work runs in the order
/// of the calls. Only downloads and the synchronizing methods wait for it.
///
/// # Safety
/// Safe functions launch kernels in the memory of a stream, and trust that
/// - an allocated buffer has the asked length, and is distinct from every other live buffer;
/// - a dropped buffer is freed only after the work that was queued in the stream that allocated it;
/// - [`check_owner`](Self::check_owner) returns for buffers of this stream alone;
/// - work runs in the order of the calls, and a download returns what that work has written.
pub unsafe trait Stream: Send + Sync {
    /// What can go wrong on the device.
    type Error: std::error::Error + Into<DeviceError>;

    /// An array in device memory, or in host memory that the device can access. The implementation keeps it alive until
    /// all launches queued before it is dropped have run.
    type Buffer<T: Pod>: Buffer<T>;

    /// Another stream of the device, whose work runs beside that of this one.
    ///
    /// # Errors
    /// Of the device.
    fn another(&self) -> Result<Self, Self::Error>
    where
        Self: Sized;

    /// Number of multiprocessors of the device.
    fn multiprocessors(&self) -> u32;

    /// Bytes of device memory that can be allocated, if memory is limited.
    ///
    /// # Errors
    /// Of the device.
    fn free_bytes(&self) -> Result<u64, Self::Error> {
        Ok(u64::MAX)
    }

    /// Allocates an array of `len` uninitialized elements: a kernel must write them before one reads them.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn allocate<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error>;

    /// Allocates an array as [`Self::allocate`] does, but in host memory, which kernels access over PCIe: for large
    /// arrays that are seldom read. A stream with only one kind of memory allocates that kind.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn allocate_on_host<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error> {
        self.allocate(len)
    }

    /// Allocates an array with a copy of `values`.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn upload<T: Pod>(&self, values: &[T]) -> Result<Self::Buffer<T>, Self::Error>;

    /// Writes the elements `within` of `buffer`, in chunks. `fill` gets a range of elements, and host memory to write
    /// them to, which is copied to the device while the next chunk is filled. The length of a range is a multiple of
    /// `row_len`, the number of elements that must not be split, such as those of a row. An array in host memory may be
    /// written in place, after all work of this stream has finished.
    ///
    /// Returns when the last chunk is filled; it is copied in the order of this stream.
    ///
    /// # Errors
    /// Returns the device's error, or the first error of `fill`; nothing more is copied after it.
    ///
    /// # Panics
    /// Panics if `buffer` holds fewer elements, or a row is more than the stream copies at once.
    fn write_range<T: Pod, E: From<Self::Error>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        within: Range<usize>,
        row_len: usize,
        fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Writes the first `len` elements of `buffer` as [`Self::write_range`] does.
    ///
    /// # Errors
    /// The same as for [`Self::write_range`].
    fn write<T: Pod, E: From<Self::Error>>(
        &self,
        buffer: &mut Self::Buffer<T>,
        len: usize,
        row_len: usize,
        fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_range(buffer, 0..len, row_len, fill)
    }

    /// Copies the first `len` elements of one array to the beginning of another.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// Panics if either array holds fewer elements.
    fn copy<T: Pod>(
        &self,
        from: &Self::Buffer<T>,
        to: &mut Self::Buffer<T>,
        len: usize,
    ) -> Result<(), Self::Error>;

    /// Allocates an uninitialized array of a graph, which [`Self::grow`] may have to grow.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    fn allocate_table<T: Pod>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error> {
        self.allocate(len)
    }

    /// Grows `buffer` to at least `len` elements. Its elements are kept; its address may change, but it stays in host
    /// or device memory. New elements are uninitialized. Returns the array that it was moved from, if it was.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory; the buffer is as it was.
    fn grow<T: Pod>(
        &self,
        buffer: &mut Self::Buffer<T>,
        len: usize,
    ) -> Result<Option<Self::Buffer<T>>, Self::Error> {
        if len <= buffer.len() {
            return Ok(None);
        }
        let mut larger = if buffer.is_on_host() { self.allocate_on_host(len)? } else { self.allocate(len)? };
        self.copy(buffer, &mut larger, buffer.len())?;
        Ok(Some(std::mem::replace(buffer, larger)))
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

    /// Waits for all earlier work, and returns a copy of the elements `within` of `buffer`.
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

    /// Waits for all earlier work, and reads the elements `within` of `buffer` in chunks. `take` gets a range of
    /// elements, whose length is a multiple of `row_len`, and their values, while the next chunk is copied.
    ///
    /// # Errors
    /// Returns the device's error, including errors of earlier launches.
    ///
    /// # Panics
    /// Panics if `buffer` holds fewer elements, or a row is more than the stream copies at once.
    fn read_range<T: Pod>(
        &self,
        buffer: &Self::Buffer<T>,
        within: Range<usize>,
        row_len: usize,
        mut take: impl FnMut(Range<usize>, &[T]),
    ) -> Result<(), Self::Error> {
        let chunk = CHUNK.next_multiple_of(row_len.max(1));
        for first in within.clone().step_by(chunk) {
            let range = first..within.end.min(first + chunk);
            take(range.clone(), &self.download_range(buffer, range)?);
        }
        Ok(())
    }

    /// Downloads all elements as [`Self::download_range`] does.
    ///
    /// # Errors
    /// The same as for [`Self::download_range`].
    fn download<T: Pod>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>, Self::Error> {
        self.download_range(buffer, 0..buffer.len())
    }

    /// Panics unless this stream, or a clone of it, allocated the buffer. Memory is freed in the order of the stream
    /// that allocated it, so that only that stream can use it without further synchronization.
    fn check_owner<T: Pod>(&self, buffer: &Self::Buffer<T>);

    /// The pointer to an array of this stream, for a kernel that reads it.
    ///
    /// # Panics
    /// Panics if another stream allocated it. Launches that are ordered with that stream by other means take
    /// [`Buffer::input`].
    fn input<T: Pod>(&self, buffer: &Self::Buffer<T>) -> DevicePtr<T> {
        self.check_owner(buffer);
        buffer.input()
    }

    /// The pointer to an array of this stream, for a kernel that writes it.
    ///
    /// # Panics
    /// As [`Self::input`].
    fn output<T: Pod>(&self, buffer: &mut Self::Buffer<T>) -> DevicePtrMut<T> {
        self.check_owner(buffer);
        buffer.output()
    }

    /// Queues a kernel. A launch without blocks does nothing.
    ///
    /// # Errors
    /// Returns the device's error: it cannot run the launch, or an earlier launch failed.
    ///
    /// # Safety
    /// - Every address in `args` is that of a buffer of this stream's device that lives until the launch has run. The
    ///   buffer has the shape that the docs of the field give.
    /// - All memory that the kernel reads has been written, and nothing else writes it during the launch.
    unsafe fn launch<K: Kernel>(&self, kernel: &K, args: K::Args) -> Result<(), Self::Error>;
}

/// An array in memory that the device can access.
///
/// # Safety
/// Both pointers are to [`len`](Self::len) elements, aligned to 16 bytes, that kernels may access as long as the buffer
/// lives.
pub unsafe trait Buffer<T>: Send + Sync {
    /// Number of elements.
    fn len(&self) -> usize;

    /// Whether the array has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the array is in host memory, allocated by [`Stream::allocate_on_host`].
    fn is_on_host(&self) -> bool {
        false
    }

    /// The pointer for a kernel that reads it.
    fn input(&self) -> DevicePtr<T>;

    /// The pointer for a kernel that writes it.
    fn output(&mut self) -> DevicePtrMut<T>;
}
