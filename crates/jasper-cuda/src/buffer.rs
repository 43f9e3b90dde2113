//! Arrays in device memory.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;
use cust::sys::{self, CUdeviceptr};
use gpu_kernels::{In, Out};

use crate::Stream;
use crate::error::{Error, Result};
use crate::mapped::Mapped;

/// An array in device memory, made by a stream and given back in the order of that stream: behind the work that was
/// queued there before the drop. That stream alone uploads, fills and downloads it; a launch in another stream has to
/// be put between [`Event`](crate::Event)s.
pub struct Buffer<T> {
    stream: Stream,
    address: CUdeviceptr,
    len: usize,
    /// Its memory, if that can grow; else it is of the stream's pool.
    mapped: Option<Mapped>,
    elements: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// An array that holds nothing yet.
    pub(crate) fn new(stream: &Stream, len: usize) -> Result<Self> {
        let (bytes, context) = (fitting::<T>(stream, len)?, stream.context());
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: `address` is writable.
            let allocated =
                context.call(|| unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw()) });
            allocated.map_err(|error| error.wanted_for(|| wanted(bytes)))?;
        }
        Ok(Self { stream: stream.clone(), address, len, mapped: None, elements: PhantomData })
    }

    /// An array that holds nothing yet, and can grow where it is; `None` where the device has no such memory.
    pub(crate) fn growing(stream: &Stream, len: usize) -> Result<Option<Self>> {
        let Some(mapped) = Mapped::new(stream.context())? else { return Ok(None) };
        let (address, mapped) = (mapped.address(), Some(mapped));
        let mut buffer = Self { stream: stream.clone(), address, len: 0, mapped, elements: PhantomData };
        buffer.extend(len)?;
        Ok(Some(buffer))
    }

    /// Makes it `len` elements long, if it can grow where it is; says whether it can.
    pub(crate) fn extend(&mut self, len: usize) -> Result<bool> {
        let Some(mapped) = &mut self.mapped else { return Ok(false) };
        let bytes = fitting::<T>(&self.stream, len)?;
        mapped.grow(bytes).map_err(|error| error.wanted_for(|| wanted(bytes)))?;
        self.len = len;
        Ok(true)
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

/// Bytes of `len` elements, if a device may have as many: the driver's answer to sizes that no device has depends on its
/// version.
fn fitting<T>(stream: &Stream, len: usize) -> Result<usize> {
    let (bytes, context) = (len.saturating_mul(size_of::<T>()), stream.context());
    let total = context.device().memory;
    if bytes > total {
        let free = context.free_memory()?.device as usize;
        return Err(Error::OutOfMemory { what: wanted(bytes), free, total });
    }
    Ok(bytes)
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
        if self.address != 0 && self.mapped.is_none() {
            let (address, stream) = (self.address, &self.stream);
            // SAFETY: it was allocated by this stream, and nobody has it after this.
            stream.context().release(|| unsafe { sys::cuMemFreeAsync(address, stream.raw()) });
        }
    }
}
