//! The pool that device memory comes from: kept for the next allocation, and metered.

use cust::sys::CUmemPool_attribute::{CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_USED_MEM_HIGH};
use cust::sys::{self, CUmemPool_attribute, CUmemoryPool};

use crate::error::Result;
use crate::{Context, Device};

/// While one of a device lives, memory that was given back there stays with this process. Otherwise each wait for the device
/// returns it to the driver, and work that allocates between waits pays for its memory anew, a millisecond or two for each
/// hundred megabytes.
#[derive(Debug)]
pub struct PoolRetention(Pool);

impl PoolRetention {
    /// Keeps the memory of this device from now on.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(context: &Context) -> Result<Self> {
        let pool = Pool::of(context)?;
        let mut keepers = context.keepers();
        pool.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX)?;
        *keepers += 1;
        drop(keepers);
        Ok(Self(pool))
    }
}

impl Drop for PoolRetention {
    fn drop(&mut self) {
        let mut keepers = self.0.context.keepers();
        *keepers -= 1;
        if *keepers == 0 {
            // What is kept goes back at the next wait for the device, or when somebody asks what is free. A failure means
            // that the context is lost.
            let _ = self.0.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
        }
    }
}

/// Has the driver take back what the pool holds for later and nobody uses: it does not count as free before.
pub(crate) fn give_back(context: &Context) -> Result<()> {
    let pool = Pool::of(context)?;
    // SAFETY: the device's own pool, which is never destroyed; what is in use stays.
    context.call(|| unsafe { sys::cuMemPoolTrimTo(pool.raw, 0) })
}

/// The most device memory that arrays of this process take at once: what plans say before.
///
/// Arrays that have grown where they are do not count, nor does what is kept without being used, or what the driver has for
/// itself.
#[derive(Debug)]
pub struct PeakMemory(Pool);

impl PeakMemory {
    /// Begins with what is in use now.
    ///
    /// # Errors
    /// What the driver says.
    pub fn begin(context: &Context) -> Result<Self> {
        let pool = Pool::of(context)?;
        pool.set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)?;
        Ok(Self(pool))
    }

    /// The most bytes that were in use at once since.
    ///
    /// # Errors
    /// What the driver says.
    pub fn bytes(&self) -> Result<u64> {
        self.0.get(CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    }
}

/// The pool of a device that all streams allocate from.
#[derive(Debug)]
struct Pool {
    context: Context,
    raw: CUmemoryPool,
}

impl Pool {
    fn of(context: &Context) -> Result<Self> {
        let device = Device::raw(context.device().ordinal)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is writable, and the device came from the driver.
        context.call(|| unsafe { sys::cuDeviceGetDefaultMemPool(&mut raw, device.as_raw()) })?;
        Ok(Self { context: context.clone(), raw })
    }

    /// Sets one of the two attributes that this module knows.
    fn set(&self, attribute: CUmemPool_attribute, mut value: u64) -> Result<()> {
        let value = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the device's own pool, which is never destroyed; both attributes are read from 64 bits.
        self.context.call(|| unsafe { sys::cuMemPoolSetAttribute(self.raw, attribute, value) })
    }

    /// One of the two attributes that this module knows.
    fn get(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        let mut value = 0_u64;
        let place = std::ptr::from_mut(&mut value).cast();
        // SAFETY: as above; both attributes are written to 64 bits.
        self.context.call(|| unsafe { sys::cuMemPoolGetAttribute(self.raw, attribute, place) })?;
        Ok(value)
    }
}
