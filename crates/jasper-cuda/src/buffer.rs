//! Arrays in device memory.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;
use cust::sys::{self, CUdeviceptr};
use gpu_kernels::{In, Out};

use crate::Stream;
use crate::error::{Error, Result};

/// An array in device memory, made by a stream and given back in the order of that stream: behind the work that was
/// queued there before the drop. That stream alone uploads, fills and downloads it; a launch in another stream has to
/// be put between [`Event`](crate::Event)s.
pub struct Buffer<T> {
    stream: Stream,
    address: CUdeviceptr,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// An array that holds nothing yet.
    pub(crate) fn new(stream: &Stream, len: usize) -> Result<Self> {
        let (bytes, context) = (len.saturating_mul(size_of::<T>()), stream.context());
        let mut address = 0;
        if bytes > context.device().memory {
            // The driver's answer to sizes that no device has depends on its version.
            let (free, total) = (context.free_memory()?.device as usize, context.device().memory);
            return Err(Error::OutOfMemory { what: wanted(bytes), free, total });
        }
        if bytes > 0 {
            // SAFETY: `address` is writable.
            let allocated =
                context.call(|| unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw()) });
            allocated.map_err(|error| error.wanted_for(|| wanted(bytes)))?;
        }
        Ok(Self { stream: stream.clone(), address, len, elements: PhantomData })
    }

    /// The stream that made it.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Its first byte; 0, which nothing may use, if it has none.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

/// What memory was wanted for, in errors.
fn wanted(bytes: usize) -> String {
    format!("a buffer of {bytes} bytes")
}

impl<T: Pod> gpu_kernels::Buffer<T> for Buffer<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn input(&self) -> In<T> {
        In::new(std::ptr::without_provenance(self.address as usize))
    }

    fn output(&mut self) -> Out<T> {
        Out::new(std::ptr::without_provenance_mut(self.address as usize))
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} elements of {} bytes on {:?})", self.len, size_of::<T>(), self.stream)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.address != 0 {
            let (address, stream) = (self.address, &self.stream);
            // SAFETY: it was allocated by this stream, and nobody has it after this.
            stream.context().release(|| unsafe { sys::cuMemFreeAsync(address, stream.raw()) });
        }
    }
}
