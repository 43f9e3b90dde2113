//! Device memory that this process keeps for its next allocation.

use cust::sys::{self, CUmemPool_attribute, CUmemoryPool};

use crate::error::Result;
use crate::{Context, Device};

/// While it lives, memory that was given back stays with this process. Otherwise each wait for the device returns it to
/// the driver, and work that allocates between waits pays for its memory anew, a millisecond or two for each hundred
/// megabytes.
#[derive(Debug)]
pub struct KeptMemory {
    context: Context,
    pool: CUmemoryPool,
}

impl KeptMemory {
    /// Keeps the memory of this device from now on.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(context: &Context) -> Result<Self> {
        let device = Device::raw(context.device().ordinal)?;
        let mut pool = std::ptr::null_mut();
        // SAFETY: `pool` is writable, and the device came from the driver.
        context.call(|| unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, device.as_raw()) })?;
        let kept = Self { context: context.clone(), pool };
        kept.keep(u64::MAX)?;
        Ok(kept)
    }

    /// Keeps up to `bytes` that nobody uses.
    fn keep(&self, mut bytes: u64) -> Result<()> {
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the device's own pool, which is never destroyed; this attribute is read from 64 bits.
        self.context.call(|| unsafe {
            sys::cuMemPoolSetAttribute(self.pool, attribute, std::ptr::from_mut(&mut bytes).cast())
        })
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        // What is kept goes back at the next wait for the device. A failure means that the context is lost.
        let _ = self.keep(0);
    }
}
