//! CUDA devices and their limits.

use std::fmt;
use std::sync::OnceLock;

use cust::device::DeviceAttribute;
use cust::error::CudaError;
use cust::sys::{self, CUdevice_attribute};

use crate::error::{ErrorKind, Result, failure_of};

/// A CUDA device: its name and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Its number, as in `cuda:0`.
    pub ordinal: usize,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Highest clock rate of a multiprocessor, in Hz.
    pub clock: u64,
    /// Bytes of its memory.
    pub memory: usize,
    /// Bytes of its L2 cache.
    pub l2_cache: usize,
    /// Most bytes of shared memory per block, for kernels that opt in to more than 48 KiB.
    pub shared_per_block: u32,
    /// Bytes of shared memory per multiprocessor.
    pub shared_per_multiprocessor: u32,
    /// 32-bit registers per multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Most threads of a block.
    pub threads_per_block: u32,
    /// Most threads on a multiprocessor at once.
    pub threads_per_multiprocessor: u32,
    /// Most blocks of a grid, in x and in y.
    pub grid: (u32, u32),
    /// Copies that can overlap with kernels.
    pub copy_engines: u32,
}

impl DeviceProperties {
    /// All devices, in the order of their numbers. Opens none of them; loads the driver.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NoDriver`] and [`ErrorKind::NoDevice`]: the list is never empty.
    pub fn list() -> Result<Vec<Self>> {
        (0..count().map_err(|kind| kind.on(0))?).map(Self::get).collect()
    }

    /// The device of this number.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NoDriver`], [`ErrorKind::NoDevice`], [`ErrorKind::NoSuchDevice`].
    pub fn get(ordinal: usize) -> Result<Self> {
        Self::read(ordinal).map_err(|kind| kind.on(ordinal))
    }

    /// Whether the device supports virtual memory management.
    pub(crate) fn maps_memory(&self) -> Result<bool> {
        self.supports(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)
    }

    /// Whether the device supports memory pools. Virtual GPUs may not.
    pub(crate) fn has_memory_pools(&self) -> Result<bool> {
        self.supports(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
    }

    fn supports(&self, wanted: CUdevice_attribute) -> Result<bool> {
        let value = raw(self.ordinal).and_then(|device| attribute(device, wanted));
        value.map(|value| value != 0).map_err(|kind| kind.on(self.ordinal))
    }

    fn read(ordinal: usize) -> Result<Self, ErrorKind> {
        let count = count()?;
        if ordinal >= count {
            return Err(ErrorKind::NoSuchDevice { ordinal, count });
        }
        let device = raw(ordinal)?;
        let get = |attribute| check(device.get_attribute(attribute)).map(unsigned);
        let opt_in = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(Self {
            ordinal,
            name: check(device.name())?,
            compute_capability: (
                get(DeviceAttribute::ComputeCapabilityMajor)?,
                get(DeviceAttribute::ComputeCapabilityMinor)?,
            ),
            multiprocessors: get(DeviceAttribute::MultiprocessorCount)?,
            // The driver reports kilohertz.
            clock: u64::from(get(DeviceAttribute::ClockRate)?) * 1000,
            memory: check(device.total_memory())?,
            l2_cache: get(DeviceAttribute::L2CacheSize)? as usize,
            shared_per_block: attribute(device, opt_in)?,
            shared_per_multiprocessor: get(DeviceAttribute::MaxSharedMemoryPerMultiprocessor)?,
            registers_per_multiprocessor: get(DeviceAttribute::MaxRegistersPerMultiprocessor)?,
            threads_per_block: get(DeviceAttribute::MaxThreadsPerBlock)?,
            threads_per_multiprocessor: get(DeviceAttribute::MaxThreadsPerMultiprocessor)?,
            grid: (get(DeviceAttribute::MaxGridDimX)?, get(DeviceAttribute::MaxGridDimY)?),
            copy_engines: get(DeviceAttribute::AsyncEngineCount)?,
        })
    }

    /// Peak f32 operations per second: one fused multiply-add, two operations, per core and cycle.
    pub fn peak_f32(&self) -> f64 {
        let lanes = match self.compute_capability {
            (7, _) | (8, 0) => 64,
            _ => 128,
        };
        2.0 * f64::from(lanes) * f64::from(self.multiprocessors) * self.clock as f64
    }

    /// The device of `cust` with this number.
    pub(crate) fn raw(&self) -> Result<cust::device::Device> {
        raw(self.ordinal).map_err(|kind| kind.on(self.ordinal))
    }
}

impl fmt::Display for DeviceProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.name)
    }
}

/// The number of the device that an address is on, as other libraries of the process allocate memory; `None` if it is not
/// device memory.
///
/// # Errors
/// Returns [`ErrorKind::NoDriver`].
pub fn device_of(address: u64) -> Result<Option<usize>> {
    initialize().map_err(|kind| kind.on(0))?;
    let mut ordinal = -1;
    let wanted = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is an int, which is writable; the driver looks the address up and does not read from it.
    let found = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), wanted, address) };
    Ok((found == sys::CUresult::CUDA_SUCCESS).then(|| usize::try_from(ordinal).ok()).flatten())
}

/// The newest CUDA version that the driver supports, major and minor, as `nvidia-smi` shows it.
///
/// # Errors
/// Returns [`ErrorKind::NoDriver`].
pub fn driver_version() -> Result<(u32, u32)> {
    let version = load().and_then(|()| check(cust::CudaApiVersion::get())).map_err(|kind| kind.on(0))?;
    Ok((unsigned(version.major()), unsigned(version.minor())))
}

fn raw(ordinal: usize) -> Result<cust::device::Device, ErrorKind> {
    check(cust::device::Device::get_device(u32::try_from(ordinal).unwrap_or(u32::MAX)))
}

fn load() -> Result<(), ErrorKind> {
    jasper_driver::load().map_err(|error| ErrorKind::NoDriver(error.clone()))
}

/// Loads and initializes the driver, once.
fn initialize() -> Result<(), ErrorKind> {
    load()?;
    static DONE: OnceLock<Result<(), ErrorKind>> = OnceLock::new();
    DONE.get_or_init(|| check(cust::init(cust::CudaFlags::empty()))).clone()
}

/// The number of devices, at least one.
fn count() -> Result<usize, ErrorKind> {
    initialize()?;
    match check(cust::device::Device::num_devices())? {
        0 => Err(ErrorKind::NoDevice),
        count => Ok(count as usize),
    }
}

/// An attribute that `cust` does not define.
fn attribute(device: cust::device::Device, attribute: CUdevice_attribute) -> Result<u32, ErrorKind> {
    let mut value = 0;
    // SAFETY: `value` is writable, and `device` came from the driver.
    match unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device.as_raw()) } {
        sys::CUresult::CUDA_SUCCESS => Ok(unsigned(value)),
        failed => Err(error_kind(failed as i32)),
    }
}

/// Converts the result of a call of `cust` without a context.
fn check<T>(result: Result<T, CudaError>) -> Result<T, ErrorKind> {
    result.map_err(|error| error_kind(error as i32))
}

/// The error of a call without a context, and hence without the free memory.
fn error_kind(code: i32) -> ErrorKind {
    ErrorKind::new(failure_of(code), || (0, 0))
}

/// Counts and sizes are never negative.
fn unsigned(value: i32) -> u32 {
    value.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_device_the_error_says_which_kind() {
        match DeviceProperties::list() {
            Ok(devices) => {
                let past = DeviceProperties::get(devices.len()).unwrap_err();
                assert!(matches!(past.kind, ErrorKind::NoSuchDevice { .. }), "{past}");
                assert_eq!(DeviceProperties::get(0).as_ref(), Ok(&devices[0]));
            }
            Err(error) => match &error.kind {
                ErrorKind::NoDriver(cause) => {
                    assert!(!cause.attempts.is_empty());
                    assert_eq!(driver_version(), Err(error));
                }
                kind => assert_eq!(*kind, ErrorKind::NoDevice),
            },
        }
    }
}
