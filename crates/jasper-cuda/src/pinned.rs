//! Pinned (page-locked) host memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use cust::sys;
use gpu_kernels::{DevicePtr, DevicePtrMut};

use crate::Context;
use crate::error::{Error, Result};

/// Alignment of the dangling pointer of an empty allocation, as the driver aligns.
const ALIGNMENT: usize = 256;

/// Page-locked host memory, mapped into every context at its host address.
pub(crate) struct PinnedPages {
    context: Context,
    first: *mut u8,
    bytes: usize,
}

// SAFETY: it owns its memory as a box does.
unsafe impl Send for PinnedPages {}
// SAFETY: as above.
unsafe impl Sync for PinnedPages {}

impl PinnedPages {
    /// Allocates `bytes` bytes, uninitialized.
    ///
    /// # Errors
    /// [`Error::NotPinned`]: the operating system refuses.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self> {
        let mut first = std::ptr::without_provenance_mut(ALIGNMENT);
        if bytes > 0 {
            let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: `first` is writable.
            let allocated = context.call(|| unsafe { sys::cuMemHostAlloc(&mut first, bytes, flags) });
            allocated.map_err(|error| match error {
                Error::OutOfMemory { .. } => Error::NotPinned { bytes },
                other => other,
            })?;
        }
        Ok(Self { context: context.clone(), first: first.cast(), bytes })
    }

    /// The first byte.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// Their size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for PinnedPages {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the driver allocated it, and this is its only owner.
            self.context.release(|| unsafe { sys::cuMemFreeHost(self.first.cast()) });
        }
    }
}

/// An array in page-locked host memory. The device copies it by DMA, several times as fast as pageable memory and
/// concurrently with kernels, and kernels can access it directly. A limited resource: the system cannot page it out.
pub struct Pinned<T: Pod> {
    pages: PinnedPages,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Pinned<T> {
    /// Allocates `len` zeros. Cost: some milliseconds per 10 MB.
    ///
    /// # Errors
    /// [`Error::NotPinned`]: the operating system refuses.
    pub fn zeroed(context: &Context, len: usize) -> Result<Self> {
        let pages = PinnedPages::new(context, len.saturating_mul(size_of::<T>()))?;
        // SAFETY: the driver allocated that many bytes.
        unsafe { pages.first().write_bytes(0, pages.bytes()) };
        Ok(Self { pages, len, elements: PhantomData })
    }

    fn first(&self) -> *mut T {
        self.pages.first().cast()
    }
}

/// Kernels access it at its host address, over PCIe: suitable for what a kernel reads or writes once. The host
/// synchronizes with the device before it reads.
impl<T: Pod> gpu_kernels::Buffer<T> for Pinned<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn input(&self) -> DevicePtr<T> {
        DevicePtr::new(self.first())
    }

    fn output(&mut self) -> DevicePtrMut<T> {
        DevicePtrMut::new(self.first())
    }
}

impl<T: Pod> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `zeroed` allocated and initialized that many page-aligned elements, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl<T: Pod> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

impl<T: Pod> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} elements of {} bytes)", self.len, size_of::<T>())
    }
}
