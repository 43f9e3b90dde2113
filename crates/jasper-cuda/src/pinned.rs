//! Pinned (page-locked) host memory.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::Pod;
use cust::sys;
use gpu_kernels::{DevicePtr, DevicePtrMut};

use crate::Context;
use crate::error::{ErrorKind, Result};

/// Alignment of the dangling pointer of an empty allocation, as the driver aligns.
const ALIGNMENT: usize = 256;

/// An array in page-locked host memory, mapped into every context at its host address. The device copies it by DMA,
/// several times as fast as pageable memory and concurrently with kernels, and kernels can access it directly. Pinned
/// memory is a limited resource, because the system cannot page it out.
pub struct Pinned<T: Pod> {
    context: Context,
    first: *mut T,
    len: usize,
}

// SAFETY: it owns its memory as a box does, and elements are plain bytes, which any thread may read (`Pod`).
unsafe impl<T: Pod> Send for Pinned<T> {}
// SAFETY: as above; `Pod` excludes interior mutability.
unsafe impl<T: Pod> Sync for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// Allocates `len` elements with arbitrary values: the contents of the memory that the operating system provides.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NotPinned`] if the operating system refuses.
    pub(crate) fn allocate(context: &Context, len: usize) -> Result<Self> {
        let mut first = std::ptr::without_provenance_mut(ALIGNMENT);
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes > 0 {
            let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: `first` is writable.
            let allocated = context.call(|| unsafe { sys::cuMemHostAlloc(&mut first, bytes, flags) });
            allocated.map_err(|error| match error.kind {
                ErrorKind::OutOfMemory { .. } => context.fail(ErrorKind::NotPinned { bytes }),
                _ => error,
            })?;
        }
        Ok(Self { context: context.clone(), first: first.cast(), len })
    }

    /// Allocates `len` zeros. Takes some milliseconds per 10 MB.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NotPinned`] if the operating system refuses.
    pub fn zeroed(context: &Context, len: usize) -> Result<Self> {
        let pinned = Self::allocate(context, len)?;
        // SAFETY: the driver allocated that many elements, which may be zero.
        unsafe { pinned.first.write_bytes(0, len) };
        Ok(pinned)
    }

    /// An element that the device may be writing: each aligned word of it is as before, or as written.
    ///
    /// # Panics
    /// Panics if there is no such element, or if elements are not made of aligned words of 32 bits.
    pub(crate) fn load(&self, index: usize) -> T {
        assert!(index < self.len, "element {index} of {}", self.len);
        let mut value = T::zeroed();
        let first = self.first.wrapping_add(index).cast::<u32>();
        for (i, word) in bytemuck::cast_slice_mut(std::slice::from_mut(&mut value)).iter_mut().enumerate() {
            // SAFETY: `T` has this word, as the cast has checked, in the element that is there, as asserted. The
            // device writes words, and the host only loads them while it may.
            *word = unsafe { AtomicU32::from_ptr(first.add(i)) }.load(Ordering::Relaxed);
        }
        value
    }
}

impl<T: Pod> Drop for Pinned<T> {
    fn drop(&mut self) {
        if size_of_val::<[T]>(self) > 0 {
            // SAFETY: the driver allocated it, and this is its only owner.
            self.context.release(|| unsafe { sys::cuMemFreeHost(self.first.cast()) });
        }
    }
}

/// Kernels access the array at its host address, over PCIe, which suits data that a kernel reads or writes once. The
/// host must synchronize with the device before it reads.
// SAFETY: the driver allocated the elements, page-aligned, and frees them at the drop.
unsafe impl<T: Pod> gpu_kernels::Buffer<T> for Pinned<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn input(&self) -> DevicePtr<T> {
        DevicePtr::new(self.first)
    }

    fn output(&mut self) -> DevicePtrMut<T> {
        DevicePtrMut::new(self.first)
    }
}

impl<T: Pod> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `allocate` allocated that many page-aligned elements, which the system initializes; any bytes are a
        // valid `T`, and they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T: Pod> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T: Pod> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} elements of {} bytes)", self.len, size_of::<T>())
    }
}
