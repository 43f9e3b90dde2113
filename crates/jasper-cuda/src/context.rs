//! A device in use: what all threads of this process share of it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cust::context::CurrentContext;
use cust::error::CudaError;
use cust::sys::CUresult;
use gpu_kernels::{Kernel, Launch};
use jasper_driver::Failure;
use jasper_vamana::free_host_memory;

use crate::error::{Error, Result, failure_of, failure_of_cust};
use crate::kernels::Kernels;
use crate::memory_pool;
use crate::{Bytes, Device};

/// A device in use. Clones, and other openings of the same device, share one context, its kernels and its fate.
///
/// Calls may come from any thread. Once a kernel has faulted every call gives [`Error::ContextLost`]: the driver
/// keeps no way back, so only a new process can use the device again.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    driver: (u32, u32),
    /// Before `primary`, so that they go first.
    kernels: Kernels,
    primary: cust::context::Context,
    /// The kernel launched last, for who looks for a fault.
    launched: Mutex<String>,
    /// How many [`memory_pool::PoolRetention`] there are.
    keepers: Mutex<usize>,
    /// What ended the use of this context.
    lost: OnceLock<Error>,
}

/// The contexts that are open: one a device.
static OPEN: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

impl Context {
    /// Opens a device. The first time takes some tenths of a second: the driver sets the device up.
    ///
    /// # Errors
    /// Those of [`Device::get`], and what the driver says.
    pub fn open(ordinal: usize) -> Result<Self> {
        let device = Device::get(ordinal)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|context| context.strong_count() > 0);
        let shared = open.iter().filter_map(Weak::upgrade).find(|inner| inner.device.ordinal == ordinal);
        if let Some(inner) = shared {
            return Ok(Self { inner });
        }
        let driver = crate::device::driver_version()?;
        let primary = cust::context::Context::new(Device::raw(ordinal)?)
            .map_err(|error| Error::new(failure_of_cust(error), || (0, device.memory)))?;
        let inner = Arc::new(Inner {
            device,
            driver,
            kernels: Kernels::default(),
            primary,
            launched: Mutex::default(),
            keepers: Mutex::default(),
            lost: OnceLock::new(),
        });
        open.push(Arc::downgrade(&inner));
        Ok(Self { inner })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// How many [`memory_pool::PoolRetention`] of this device there are.
    pub(crate) fn keepers(&self) -> MutexGuard<'_, usize> {
        self.inner.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest CUDA that the driver knows.
    pub(crate) fn driver(&self) -> (u32, u32) {
        self.inner.driver
    }

    /// What is free now: on the device, and on the host beside it. Waits for all work on the device, and has the driver take
    /// back what was kept for other work and is in no use.
    ///
    /// # Errors
    /// [`Error::ContextLost`].
    pub fn free_memory(&self) -> Result<Bytes> {
        self.synchronize()?;
        memory_pool::give_back(self)?;
        let (free, _) = self.of_cust(cust::memory::mem_get_info())?;
        Ok(Bytes { device: free as u64, host: free_host_memory() })
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        self.of_cust(CurrentContext::synchronize())
    }

    /// Loads a kernel now, which its first launch would do: for who measures, or would rather wait here. The driver
    /// compiles it for the device, once in the life of its cache.
    ///
    /// # Errors
    /// [`Error::Ptx`], [`Error::UnknownKernel`].
    pub fn warm_up(&self, kernel: &impl Kernel) -> Result<()> {
        let launch = Launch::linear(1, 1);
        self.inner.kernels.prepare(self, &kernel.entry(), launch).map(drop)
    }

    /// Searches a second archive for kernels, in the form of [`gpu_kernels::PTX`]: for kernels that the library does not
    /// use itself.
    pub fn add_kernels(&self, archive: &'static [u8]) {
        self.inner.kernels.add(archive);
    }

    /// The embedded kernels.
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.inner.kernels
    }

    /// Makes this context that of the calling thread, as calls of the driver want it.
    pub(crate) fn enter(&self) -> Result<()> {
        match self.inner.lost.get() {
            Some(lost) => Err(lost.clone()),
            None => self.of_cust(CurrentContext::set_current(&self.inner.primary)),
        }
    }

    /// Calls the driver within this context.
    pub(crate) fn call(&self, call: impl FnOnce() -> CUresult) -> Result<()> {
        self.enter()?;
        match call() {
            CUresult::CUDA_SUCCESS => Ok(()),
            failed => Err(self.failed(failure_of(failed))),
        }
    }

    /// The result of a call of cust, made since [`Self::enter`].
    pub(crate) fn of_cust<T>(&self, result: std::result::Result<T, CudaError>) -> Result<T> {
        result.map_err(|error| self.failed(failure_of_cust(error)))
    }

    /// What a failure means here. One that loses the context is remembered.
    pub(crate) fn failed(&self, failure: Failure) -> Error {
        let error =
            Error::new(failure, || cust::memory::mem_get_info().unwrap_or((0, self.inner.device.memory)));
        if matches!(error, Error::ContextLost { .. }) {
            // The first is the cause; later ones are its echo.
            return self.inner.lost.get_or_init(|| error.launched(|| self.last_launch())).clone();
        }
        error
    }

    /// Remembers that `entry` is launched.
    pub(crate) fn note_launch(&self, entry: &str) {
        let mut launched = self.inner.launched.lock().unwrap_or_else(PoisonError::into_inner);
        launched.clear();
        launched.push_str(entry);
    }

    fn last_launch(&self) -> String {
        let launched = self.inner.launched.lock().unwrap_or_else(PoisonError::into_inner);
        if launched.is_empty() {
            "nothing was launched".into()
        } else {
            format!("the last launch was {launched}")
        }
    }

    /// Calls the driver to give something back. Nothing can be done about a failure: after the loss of the context
    /// all of them fail, and all is gone with the process.
    pub(crate) fn release(&self, call: impl FnOnce() -> CUresult) {
        if CurrentContext::set_current(&self.inner.primary).is_ok() {
            let _ = call();
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({})", self.inner.device)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The kernels are given back next, by the context that is current.
        let _ = CurrentContext::set_current(&self.primary);
    }
}
