//! The device's memory pool: retaining freed memory, trimming, and measuring peak use. Virtual GPUs may have none; arrays
//! are then allocated and freed one by one.

use cust::sys::CUmemPool_attribute::{CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_USED_MEM_HIGH};
use cust::sys::{self, CUmemPool_attribute, CUmemoryPool};

use crate::Context;
use crate::error::Result;

/// Keeps freed device memory in the pool of this process while this value lives, by raising the pool's release
/// threshold until then. Without it each synchronization returns unused memory to the driver, and allocating it again costs a
/// millisecond or two per 100 MB. Any number may exist per device. Without effect on a device that has no memory pools.
#[derive(Debug)]
pub struct PoolRetention {
    /// `None` if the device has no memory pools.
    pool: Option<MemoryPool>,
    keeps: Keeps,
}

/// How much memory a [`PoolRetention`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    All,
    /// [`SMALL`] bytes.
    Some,
}

/// Bytes that stay in the pool between two small changes. Memory plans count [more](crate::search::MAX_IDLE) for what
/// searches keep.
const SMALL: u64 = 64 << 20;

impl PoolRetention {
    /// Retains freed memory of the device from now on.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(context: &Context) -> Result<Self> {
        Self::of(context, Keeps::All)
    }

    /// Retains what small changes free, which the next takes again.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub(crate) fn small(context: &Context) -> Result<Self> {
        Self::of(context, Keeps::Some)
    }

    fn of(context: &Context, keeps: Keeps) -> Result<Self> {
        let Some(pool) = MemoryPool::new(context)? else { return Ok(Self { pool: None, keeps }) };
        let mut retentions = context.retentions();
        if retentions.all + retentions.some == 0 {
            retentions.threshold_before = pool.get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)?;
        }
        *retentions.count(keeps) += 1;
        let set = retentions.apply(&pool);
        if set.is_err() {
            *retentions.count(keeps) -= 1;
        }
        drop(retentions);
        set.map(|()| Self { pool: Some(pool), keeps })
    }
}

impl Drop for PoolRetention {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let mut retentions = pool.context.retentions();
        *retentions.count(self.keeps) -= 1;
        // The next synchronization or trim frees the memory. An error means that the context is lost.
        let _ = retentions.apply(pool);
    }
}

/// The values of [`PoolRetention`] that exist for a device.
#[derive(Debug, Default)]
pub(crate) struct Retentions {
    /// Those that keep all memory.
    all: usize,
    /// Those that keep some.
    some: usize,
    /// The release threshold that other users of the pool have set, or the driver.
    threshold_before: u64,
}

impl Retentions {
    fn count(&mut self, keeps: Keeps) -> &mut usize {
        match keeps {
            Keeps::All => &mut self.all,
            Keeps::Some => &mut self.some,
        }
    }

    /// Sets the threshold that these retentions need.
    fn apply(&self, pool: &MemoryPool) -> Result<()> {
        let threshold = match self {
            Self { all: 1.., .. } => u64::MAX,
            Self { some: 1.., .. } => self.threshold_before.max(SMALL),
            _ => self.threshold_before,
        };
        pool.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold)
    }
}

/// Returns unused memory of the pool to the driver.
pub(crate) fn trim(context: &Context) -> Result<()> {
    let Some(pool) = MemoryPool::new(context)? else { return Ok(()) };
    // SAFETY: the device's default pool is never destroyed; memory in use is not affected.
    context.call(|| unsafe { sys::cuMemPoolTrimTo(pool.raw, 0) })
}

/// Measures the peak device memory of the arrays of this process, which a [`MemoryPlan`](crate::MemoryPlan) predicts.
///
/// Arrays that have grown in place, unused memory of the pool, and memory of the driver do not count.
#[derive(Debug)]
pub struct PeakMemory(MemoryPool);

impl PeakMemory {
    /// Starts a measurement at the memory in use now; `None` if the device has no memory pool, which keeps the count.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(context: &Context) -> Result<Option<Self>> {
        let Some(pool) = MemoryPool::new(context)? else { return Ok(None) };
        pool.set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)?;
        Ok(Some(Self(pool)))
    }

    /// The maximum number of bytes in use at once since the start.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn bytes(&self) -> Result<u64> {
        self.0.get(CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    }
}

/// The default memory pool of a device, from which all streams allocate.
#[derive(Debug)]
struct MemoryPool {
    context: Context,
    raw: CUmemoryPool,
}

// SAFETY: the handle is that of a device's default pool, which is never destroyed, and the driver takes calls with it from
// any thread.
unsafe impl Send for MemoryPool {}
// SAFETY: as above.
unsafe impl Sync for MemoryPool {}

impl MemoryPool {
    /// `None` if the device has no memory pools.
    fn new(context: &Context) -> Result<Option<Self>> {
        if !context.has_memory_pool() {
            return Ok(None);
        }
        let device = context.device().raw()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is writable, and the device came from the driver.
        context.call(|| unsafe { sys::cuDeviceGetDefaultMemPool(&mut raw, device.as_raw()) })?;
        Ok(Some(Self { context: context.clone(), raw }))
    }

    /// Sets one of the two attributes that this module uses.
    fn set(&self, attribute: CUmemPool_attribute, mut value: u64) -> Result<()> {
        let value = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the device's default pool is never destroyed; both attributes are 64-bit numbers.
        self.context.call(|| unsafe { sys::cuMemPoolSetAttribute(self.raw, attribute, value) })
    }

    /// Gets one of the two attributes that this module uses.
    fn get(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        let mut value = 0_u64;
        let place = std::ptr::from_mut(&mut value).cast();
        // SAFETY: as above.
        self.context.call(|| unsafe { sys::cuMemPoolGetAttribute(self.raw, attribute, place) })?;
        Ok(value)
    }
}
