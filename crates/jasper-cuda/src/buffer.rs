//! Arrays in device memory, or in pinned host memory that kernels access.

use std::fmt;

use bytemuck::Pod;
use cust::sys::{self, CUdeviceptr};
use gpu_kernels::{DevicePtr, DevicePtrMut};

use crate::error::{ErrorKind, Result};
use crate::virtual_memory::VirtualAllocation;
use crate::{MemoryPlan, MemorySpace, Pinned, Stream};

/// An array that kernels read and write by its address. The stream that allocated it also frees it, in stream order:
/// after the work that was queued there before the drop. Only that stream uploads, fills and downloads it. A launch in
/// another stream must be ordered with [`Event`](crate::Event)s.
///
/// The array is in device memory or, when allocated by [`allocate_on_host`](gpu_kernels::Stream::allocate_on_host), in
/// pinned host memory, which kernels access over PCIe. Reads and writes from the host then synchronize the stream and
/// access the memory in place; so does the drop.
pub struct Buffer<T: Pod> {
    stream: Stream,
    address: CUdeviceptr,
    len: usize,
    memory: Memory<T>,
}

/// Where an array is allocated.
enum Memory<T: Pod> {
    /// In the device's memory pool, in stream order.
    Pool,
    /// In an allocation of its own, on a device without memory pools.
    Single,
    /// In a reserved range of device addresses, in which the array can grow.
    Virtual(VirtualAllocation),
    /// In pinned host memory.
    Host(Pinned<T>),
    /// In memory of another library.
    Borrowed,
}

impl<T: Pod> Buffer<T> {
    /// Allocates an uninitialized array in the memory pool, if the device has one.
    pub(crate) fn new(stream: &Stream, len: usize) -> Result<Self> {
        let (bytes, context) = (checked_bytes::<T>(stream, len)?, stream.context());
        let (mut address, has_pool) = (0, context.has_memory_pool());
        if bytes > 0 {
            let allocated = context.call(|| match has_pool {
                // SAFETY: `address` is writable.
                true => unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw()) },
                // SAFETY: as above.
                false => unsafe { sys::cuMemAlloc_v2(&mut address, bytes) },
            });
            allocated.map_err(|error| error.with_purpose(|| purpose(bytes)))?;
        }
        let memory = if has_pool { Memory::Pool } else { Memory::Single };
        Ok(Self { stream: stream.clone(), address, len, memory })
    }

    /// Allocates an uninitialized array in pinned host memory.
    pub(crate) fn on_host(stream: &Stream, len: usize) -> Result<Self> {
        let (bytes, context) = (len.saturating_mul(size_of::<T>()), stream.context());
        // The operating system may kill a process that pins too much memory instead of refusing the call.
        let plan =
            MemoryPlan::new("an array on the host").part(MemorySpace::Host, "pinned memory", bytes as u64);
        plan.check(context.free_memory()?).map_err(|error| context.fail(error))?;
        let pinned = Pinned::<T>::allocate(context, len)?;
        let address = if bytes > 0 { pinned.as_ptr().addr() as CUdeviceptr } else { 0 };
        Ok(Self { stream: stream.clone(), address, len, memory: Memory::Host(pinned) })
    }

    /// Allocates an uninitialized array that can grow in place; `None` if the device has no virtual memory management.
    pub(crate) fn growing(stream: &Stream, len: usize) -> Result<Option<Self>> {
        let Some(allocation) = VirtualAllocation::new(stream.context())? else { return Ok(None) };
        let (address, memory) = (allocation.address(), Memory::Virtual(allocation));
        let mut buffer = Self { stream: stream.clone(), address, len: 0, memory };
        buffer.extend(len)?;
        Ok(Some(buffer))
    }

    /// Borrows an array of another library, such as a tensor of PyTorch. It is not freed at the end.
    ///
    /// # Safety
    /// `address` is that of `len` elements in memory of the stream's device, aligned for `T` and, where kernels read
    /// rows, to 16 bytes. Until the work that uses the array in `stream` is complete, it is neither freed nor written
    /// to, unless in the order of `stream`.
    pub unsafe fn borrow(stream: &Stream, address: u64, len: usize) -> Self {
        Self { stream: stream.clone(), address, len, memory: Memory::Borrowed }
    }

    /// Grows the array to `len` elements in place. Returns false if its memory cannot grow.
    pub(crate) fn extend(&mut self, len: usize) -> Result<bool> {
        let Memory::Virtual(allocation) = &mut self.memory else { return Ok(false) };
        let bytes = checked_bytes::<T>(&self.stream, len)?;
        allocation.grow(bytes).map_err(|error| error.with_purpose(|| purpose(bytes)))?;
        self.len = len;
        Ok(true)
    }

    /// The stream that allocated the array.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Waits for all work of the stream, and returns the elements of an array in host memory; `None` for device memory.
    pub(crate) fn host(&self) -> Result<Option<&[T]>> {
        let Memory::Host(pinned) = &self.memory else { return Ok(None) };
        self.stream.synchronize()?;
        Ok(Some(pinned))
    }

    /// As [`Self::host`], mutably.
    pub(crate) fn host_mut(&mut self) -> Result<Option<&mut [T]>> {
        let Memory::Host(pinned) = &mut self.memory else { return Ok(None) };
        self.stream.synchronize()?;
        Ok(Some(pinned))
    }

    /// The device address of the array; 0 if it is empty.
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// The size of the array in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

/// Bytes of `len` elements, if that is at most the memory of the device. For larger sizes the driver's error would
/// depend on its version.
fn checked_bytes<T>(stream: &Stream, len: usize) -> Result<usize> {
    let (bytes, context) = (len.saturating_mul(size_of::<T>()), stream.context());
    let total = context.device().memory;
    if bytes > total {
        let free = context.free_memory()?.device as usize;
        return Err(context.fail(ErrorKind::OutOfMemory { what: purpose(bytes), free, total }));
    }
    Ok(bytes)
}

/// The purpose of the memory, for error messages.
fn purpose(bytes: usize) -> String {
    format!("a buffer of {bytes} bytes")
}

// SAFETY: the driver allocated the elements, at a multiple of 256 bytes, or they are as `borrow` asks for.
unsafe impl<T: Pod> gpu_kernels::Buffer<T> for Buffer<T> {
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

impl<T: Pod> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} elements of {} bytes on {:?})", self.len, size_of::<T>(), self.stream)
    }
}

impl<T: Pod> Drop for Buffer<T> {
    fn drop(&mut self) {
        let (address, stream) = (self.address, &self.stream);
        match self.memory {
            _ if address == 0 => {}
            Memory::Pool => {
                // SAFETY: this stream allocated the address, and this is its only owner.
                stream.context().release(|| unsafe { sys::cuMemFreeAsync(address, stream.raw()) });
            }
            Memory::Single => {
                // Queued work may still use it. After a failure it no longer runs.
                let _ = stream.synchronize();
                // SAFETY: the driver allocated the address, and this is its only owner.
                stream.context().release(|| unsafe { sys::cuMemFree_v2(address) });
            }
            Memory::Virtual(_) | Memory::Borrowed => {}
            // Queued work may still use the pages. After a failure it no longer runs.
            Memory::Host(_) => {
                let _ = stream.synchronize();
            }
        }
    }
}
