//! Host memory that the device copies from at full speed.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use cust::sys;
use gpu_kernels::{DevicePtr, DevicePtrMut};

use crate::Context;
use crate::error::{Error, Result};

/// What empty memory is aligned to, as the driver aligns.
const ALIGNMENT: usize = 256;

/// Pages of the host that stay where they are. In every context they have the address that the host has.
pub(crate) struct Pages {
    context: Context,
    first: *mut u8,
    bytes: usize,
}

// SAFETY: it owns its memory as a box does.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages for so many bytes, which hold whatever they hold.
    ///
    /// # Errors
    /// [`Error::NotPinned`]: the system has no pages to give.
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

    /// How many they are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the driver gave it, and nobody has it after this.
            self.context.release(|| unsafe { sys::cuMemFreeHost(self.first.cast()) });
        }
    }
}

/// Pages of the host that stay where they are, so that the device copies them by itself: several times as fast as
/// other memory, and beside kernels. Scarce: the system cannot use them for anything else.
pub struct Pinned<T: Pod> {
    pages: Pages,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Pinned<T> {
    /// `len` zeros. Takes some milliseconds for each ten megabytes.
    ///
    /// # Errors
    /// [`Error::NotPinned`]: the system has no pages to give.
    pub fn zeroed(context: &Context, len: usize) -> Result<Self> {
        let pages = Pages::new(context, len.saturating_mul(size_of::<T>()))?;
        // SAFETY: the driver gave that many bytes.
        unsafe { pages.first().write_bytes(0, pages.bytes()) };
        Ok(Self { pages, len, elements: PhantomData })
    }

    fn first(&self) -> *mut T {
        self.pages.first().cast()
    }
}

/// Kernels reach it by the address that the host has, over the bus: for what each reads or writes once. The device is
/// waited for before the host looks.
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
        // SAFETY: `zeroed` made that many elements, aligned as pages are, of bytes that are set; they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl<T: Pod> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

impl<T: Pod> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} elements of {} bytes)", self.len, size_of::<T>())
    }
}
