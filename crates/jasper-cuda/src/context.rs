//! CUDA contexts: the state that all threads of the process share per device.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use cust::context::CurrentContext;
use cust::error::CudaError;
use cust::sys::{self, CUcontext, CUresult};
use gpu_kernels::Kernel;
use gpu_kernels::rows::CopyRows;
use jasper_core::sync::lock;
use jasper_driver::Failure;
use jasper_vamana::free_host_memory;

use crate::error::{Error, ErrorKind, Result, failure_of};
use crate::kernels::Kernels;
use crate::memory_pool::{self, Retentions};
use crate::{Bytes, DeviceProperties};

/// The primary context of a device, and the kernels loaded in it. Clones, and contexts opened for the same device,
/// share both.
///
/// Methods may be called from any thread. Once a kernel has faulted, every call fails with [`ErrorKind::ContextLost`]:
/// the driver cannot recover the context, so only a new process can use the device again.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    device: DeviceProperties,
    driver: (u32, u32),
    /// Whether streams allocate from a memory pool.
    has_memory_pool: bool,
    /// The loaded kernels.
    kernels: Kernels,
    primary: cust::context::Context,
    /// The names of the functions that were found, to report the last with a fault.
    launch_names: Mutex<Vec<Box<str>>>,
    /// The launch id of the function launched last; past the end of the names if there is none.
    last_launch: AtomicUsize,
    /// The number of [`memory_pool::PoolRetention`]s.
    retentions: Mutex<Retentions>,
    /// The error that made the context unusable.
    lost: OnceLock<Error>,
}

/// Calls `work`, and then makes the calling thread's current CUDA context what it was before. Calls of this crate
/// change it to that of their device, which is also the current device of the CUDA runtime and of libraries above it:
/// use this where a thread calls such libraries as well.
///
/// ```
/// assert_eq!(jasper_cuda::with_current_context_kept(|| 7), 7);
/// ```
pub fn with_current_context_kept<R>(work: impl FnOnce() -> R) -> R {
    let mut before = std::ptr::null_mut();
    // SAFETY: `before` is writable. Without a driver or a context the call fails, and there is nothing to restore.
    let found = unsafe { sys::cuCtxGetCurrent(&mut before) } == CUresult::CUDA_SUCCESS;
    let result = work();
    if found {
        // SAFETY: the context was current, so it exists, or is null, which means none. Primary contexts live as long as
        // a library holds them, and another library that holds this one made it current.
        let _ = unsafe { sys::cuCtxSetCurrent(before) };
    }
    result
}

/// The contexts that were opened, by device. As those of the CUDA runtime, they stay open until the process ends, with
/// the kernels that were loaded: a build and then searches, or one index after another, would each open the device
/// anew.
static OPEN: Mutex<BTreeMap<usize, Arc<OpenedContext>>> = Mutex::new(BTreeMap::new());

/// A context, once it is open. Opening it blocks only other callers that want the same device.
type OpenedContext = Mutex<Option<Context>>;

impl Context {
    /// Opens a device. The first call takes some tenths of a second, in which the driver initializes the device, which
    /// stays open until the process ends.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceProperties::get`], and the driver's error.
    pub fn open(ordinal: usize) -> Result<Self> {
        let opened = Arc::clone(lock(&OPEN).entry(ordinal).or_default());
        match &mut *lock(&opened) {
            Some(context) => Ok(context.clone()),
            none => Ok(none.insert(Self::new(ordinal)?).clone()),
        }
    }

    fn new(ordinal: usize) -> Result<Self> {
        let device = DeviceProperties::get(ordinal)?;
        let driver = crate::device::driver_version()?;
        let has_memory_pool = device.has_memory_pools()?;
        let primary = cust::context::Context::new(device.raw()?)
            .map_err(|error| ErrorKind::new(failure_of(error as i32), || (0, device.memory)).on(ordinal))?;
        let inner = Inner {
            device,
            driver,
            has_memory_pool,
            kernels: Kernels::default(),
            primary,
            launch_names: Mutex::default(),
            last_launch: AtomicUsize::new(usize::MAX),
            retentions: Mutex::default(),
            lost: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The device.
    pub fn device(&self) -> &DeviceProperties {
        &self.inner.device
    }

    /// Whether streams allocate from a memory pool, which a virtual GPU may not have.
    pub(crate) fn has_memory_pool(&self) -> bool {
        self.inner.has_memory_pool
    }

    /// The number of [`memory_pool::PoolRetention`]s of this device.
    pub(crate) fn retentions(&self) -> MutexGuard<'_, Retentions> {
        lock(&self.inner.retentions)
    }

    /// The newest CUDA version that the driver supports.
    pub(crate) fn driver(&self) -> (u32, u32) {
        self.inner.driver
    }

    /// The free memory of the device and of the host, in bytes. Synchronizes the device and trims its memory pool,
    /// whose unused memory does not count as free otherwise.
    ///
    /// # Errors
    /// Returns [`ErrorKind::ContextLost`].
    pub fn free_memory(&self) -> Result<Bytes> {
        self.synchronize()?;
        memory_pool::trim(self)?;
        let (free, _) = self.check(cust::memory::mem_get_info())?;
        Ok(Bytes { device: free as u64, host: free_host_memory() })
    }

    /// Blocks the calling thread until all work on the device is complete.
    ///
    /// # Errors
    /// Returns the error of that work, if any.
    pub fn synchronize(&self) -> Result<()> {
        self.make_current()?;
        self.check(CurrentContext::synchronize())
    }

    /// Loads a kernel ahead of its first launch. The driver compiles the kernel for the device unless its cache has it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Ptx`], [`ErrorKind::UnknownKernel`].
    pub fn warm_up(&self, kernel: &impl Kernel) -> Result<()> {
        self.inner.kernels.function(self, kernel).map(drop)
    }

    /// Loads a small kernel. The first that a process compiles takes a tenth of a second more than others.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Ptx`]: the device or its driver is too old for the kernels.
    pub fn check_kernels(&self) -> Result<()> {
        self.warm_up(&CopyRows)
    }

    /// The embedded kernels.
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.inner.kernels
    }

    /// Makes this the current context of the calling thread, as the driver's functions require and the other methods of
    /// this crate do. See [`with_current_context_kept`].
    ///
    /// # Errors
    /// Returns [`ErrorKind::ContextLost`].
    pub fn make_current(&self) -> Result<()> {
        match self.inner.lost.get() {
            Some(lost) => Err(lost.clone()),
            None => self.check(CurrentContext::set_current(&self.inner.primary)),
        }
    }

    /// Calls a driver function with this context current.
    pub(crate) fn call(&self, call: impl FnOnce() -> CUresult) -> Result<()> {
        self.make_current()?;
        match call() {
            CUresult::CUDA_SUCCESS => Ok(()),
            failed => Err(self.error(failure_of(failed as i32))),
        }
    }

    /// Whether `raw` is this context.
    pub(crate) fn is_primary(&self, raw: CUcontext) -> bool {
        self.inner.primary.as_raw() == raw
    }

    /// Converts the result of a call of `cust` made since [`Self::enter`].
    pub(crate) fn check<T>(&self, result: std::result::Result<T, CudaError>) -> Result<T> {
        result.map_err(|error| self.error(failure_of(error as i32)))
    }

    /// Converts a failure. One that makes the context unusable is stored and returned by all later calls.
    pub(crate) fn error(&self, failure: Failure) -> Error {
        let memory = || cust::memory::mem_get_info().unwrap_or((0, self.inner.device.memory));
        let kind = ErrorKind::new(failure, memory);
        if matches!(kind, ErrorKind::ContextLost { .. }) {
            // The first error is the cause; later ones follow from it.
            let error = || self.fail(kind.with_last_launch(|| self.last_launch()));
            return self.inner.lost.get_or_init(error).clone();
        }
        self.fail(kind)
    }

    /// An error on this device.
    pub(crate) fn fail(&self, kind: impl Into<ErrorKind>) -> Error {
        kind.into().on(self.inner.device.ordinal)
    }

    /// The id by which [`Self::note_launch`] knows the function `entry`.
    pub(crate) fn launch_id(&self, entry: &str) -> usize {
        let mut names = lock(&self.inner.launch_names);
        names.iter().position(|name| **name == *entry).unwrap_or_else(|| {
            names.push(entry.into());
            names.len() - 1
        })
    }

    /// Stores which function is launched.
    pub(crate) fn note_launch(&self, launch_id: usize) {
        self.inner.last_launch.store(launch_id, Relaxed);
    }

    fn last_launch(&self) -> String {
        match lock(&self.inner.launch_names).get(self.inner.last_launch.load(Relaxed)) {
            Some(last) => format!("the last launch was {last}"),
            None => "nothing was launched".into(),
        }
    }

    /// Calls a driver function that frees a resource, ignoring errors: they follow from the loss of the context, and
    /// the process frees everything at its end.
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
