//! Arrays in device memory, or in memory of the host that kernels reach.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;
use cust::sys::{self, CUdeviceptr};
use gpu_kernels::{DevicePtr, DevicePtrMut};

use crate::Stream;
use crate::error::{Error, Result};
use crate::pinned::Pages;
use crate::virtual_memory::VirtualAllocation;
use crate::{MemoryPlan, MemorySpace};

/// An array that kernels read and write by its address, made by a stream and given back in the order of that stream: behind
/// the work that was queued there before the drop. That stream alone uploads, fills and downloads it; a launch in another
/// stream has to be put between [`Event`](crate::Event)s.
///
/// It is in device memory or, by [`allocate_on_host`](gpu_kernels::Stream::allocate_on_host), in pinned memory of the host:
/// there kernels reach it over the bus, a drop waits for the stream, and so does whoever writes or reads it from the host,
/// which is then done in place, without a copy.
pub struct Buffer<T> {
    stream: Stream,
    address: CUdeviceptr,
    len: usize,
    memory: Memory,
    elements: PhantomData<T>,
}

/// What memory an array is in.
enum Memory {
    /// That of the device, out of the stream's pool.
    Pool,
    /// That of the device, and can grow where it is.
    Virtual(VirtualAllocation),
    /// That of the host.
    Host(Pages),
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
        Ok(Self { stream: stream.clone(), address, len, memory: Memory::Pool, elements: PhantomData })
    }

    /// An array on the host that holds nothing yet.
    pub(crate) fn on_host(stream: &Stream, len: usize) -> Result<Self> {
        let (bytes, context) = (len.saturating_mul(size_of::<T>()), stream.context());
        // The system may end a process that pins more than there is, and not refuse.
        let plan =
            MemoryPlan::new("an array on the host").part(MemorySpace::Host, "pinned memory", bytes as u64);
        plan.check(context.free_memory()?)?;
        let pages = Pages::new(context, bytes)?;
        let address = if bytes > 0 { pages.first().addr() as CUdeviceptr } else { 0 };
        let memory = Memory::Host(pages);
        Ok(Self { stream: stream.clone(), address, len, memory, elements: PhantomData })
    }

    /// An array that holds nothing yet, and can grow where it is; `None` where the device has no such memory.
    pub(crate) fn growing(stream: &Stream, len: usize) -> Result<Option<Self>> {
        let Some(mapped) = VirtualAllocation::new(stream.context())? else { return Ok(None) };
        let (address, memory) = (mapped.address(), Memory::Virtual(mapped));
        let mut buffer = Self { stream: stream.clone(), address, len: 0, memory, elements: PhantomData };
        buffer.extend(len)?;
        Ok(Some(buffer))
    }

    /// Makes it `len` elements long, if it can grow where it is; says whether it can.
    pub(crate) fn extend(&mut self, len: usize) -> Result<bool> {
        let Memory::Virtual(mapped) = &mut self.memory else { return Ok(false) };
        let bytes = fitting::<T>(&self.stream, len)?;
        mapped.grow(bytes).map_err(|error| error.wanted_for(|| wanted(bytes)))?;
        self.len = len;
        Ok(true)
    }

    /// The stream that made it.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Its elements, if they are on the host, once all work of its stream is done.
    pub(crate) fn host(&self) -> Result<Option<&[T]>> {
        let Memory::Host(pages) = &self.memory else { return Ok(None) };
        self.stream.synchronize()?;
        // SAFETY: `on_host` asked for pages for that many elements, aligned as pages are; the system gives none without
        // bytes, and any bytes are a `T`. They live as long as `self`.
        Ok(Some(unsafe { std::slice::from_raw_parts(pages.first().cast(), self.len) }))
    }

    /// The same, to be written.
    pub(crate) fn host_mut(&mut self) -> Result<Option<&mut [T]>> {
        let Memory::Host(pages) = &self.memory else { return Ok(None) };
        self.stream.synchronize()?;
        // SAFETY: as above, and `self` is borrowed alone.
        Ok(Some(unsafe { std::slice::from_raw_parts_mut(pages.first().cast(), self.len) }))
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

    fn is_on_host(&self) -> bool {
        matches!(self.memory, Memory::Host(_))
    }

    fn input(&self) -> DevicePtr<T> {
        DevicePtr::new(std::ptr::without_provenance(self.address as usize))
    }

    fn output(&mut self) -> DevicePtrMut<T> {
        DevicePtrMut::new(std::ptr::without_provenance_mut(self.address as usize))
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} elements of {} bytes on {:?})", self.len, size_of::<T>(), self.stream)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let (address, stream) = (self.address, &self.stream);
        match self.memory {
            _ if address == 0 => {}
            Memory::Pool => {
                // SAFETY: it was allocated by this stream, and nobody has it after this.
                stream.context().release(|| unsafe { sys::cuMemFreeAsync(address, stream.raw()) });
            }
            Memory::Virtual(_) => {}
            // Work that is queued may still use it; a failure means that it no longer does.
            Memory::Host(_) => {
                let _ = stream.synchronize();
            }
        }
    }
}
