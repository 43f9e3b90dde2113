//! Host memory that the device copies from at full speed.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use cust::sys;
use gpu_kernels::{In, Out};

use crate::Context;
use crate::error::Result;

/// Pages of the host that stay where they are, so that the device copies them by itself: several times as fast as
/// other memory, and beside kernels. Scarce: the system cannot use them for anything else.
pub struct Pinned<T: Pod> {
    context: Context,
    first: *mut T,
    len: usize,
}

// SAFETY: it owns its memory as a box does.
unsafe impl<T: Pod + Send> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Sync> Sync for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// `len` zeros. Takes some milliseconds for each ten megabytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory): the system has no pages to give.
    pub fn zeroed(context: &Context, len: usize) -> Result<Self> {
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes == 0 {
            return Ok(Self { context: context.clone(), first: std::ptr::dangling_mut(), len });
        }
        let mut memory = std::ptr::null_mut();
        // SAFETY: `memory` is writable.
        let allocated = context.call(|| unsafe { sys::cuMemHostAlloc(&mut memory, bytes, 0) });
        allocated.map_err(|error| error.wanted_for(|| format!("{bytes} bytes of pinned host memory")))?;
        let first = memory.cast::<T>();
        // SAFETY: the driver gave that many bytes, aligned to pages.
        unsafe { first.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { context: context.clone(), first, len })
    }
}

/// Kernels reach it by the address that the host has, over the bus: for what each reads or writes once. The device is
/// waited for before the host looks.
impl<T: Pod> gpu_kernels::Buffer<T> for Pinned<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn input(&self) -> In<T> {
        In::new(self.first)
    }

    fn output(&mut self) -> Out<T> {
        Out::new(self.first)
    }
}

impl<T: Pod> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `zeroed` made that many elements, of bytes that are set; they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T: Pod> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T: Pod> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} elements of {} bytes)", self.len, size_of::<T>())
    }
}

impl<T: Pod> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.len * size_of::<T>() > 0 {
            // SAFETY: the driver gave it, and nobody has it after this.
            self.context.release(|| unsafe { sys::cuMemFreeHost(self.first.cast()) });
        }
    }
}
