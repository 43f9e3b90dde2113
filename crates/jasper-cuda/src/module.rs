//! PTX modules loaded into the driver.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use cust::error::CudaResult;
use cust::function::FunctionAttribute;
use cust::link::Linker;
use cust::sys::{self, CUfunction, CUfunction_attribute};
use gpu_kernels::{LaunchConfig, MAX_SHARED_BYTES};
use jasper_core::sync::lock;

use crate::Context;
use crate::error::{ErrorKind, LaunchLimit, Result, failure_of};
use crate::ptx::PtxRequirement;

/// A PTX module of the caller, for kernels that are not part of `gpu_kernels`.
#[derive(Debug)]
pub struct Module {
    /// Declared before `context`, so that it is dropped first.
    pub(crate) loaded: LoadedModule,
    /// The context of the module.
    pub(crate) context: Context,
}

impl Module {
    /// Compiles `ptx` for the device, or takes the machine code from the driver's cache.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Ptx`], which says what is wrong, or which driver or device is required.
    pub fn load(context: &Context, ptx: &str) -> Result<Self> {
        Ok(Self { loaded: LoadedModule::new(context, ptx)?, context: context.clone() })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // The module is unloaded next, in the current context. In a lost context there is nothing to unload.
        let _ = self.context.make_current();
    }
}

/// A module loaded in one context, and the functions that were launched from it. Unloaded in the current context.
pub(crate) struct LoadedModule {
    module: cust::module::Module,
    functions: Mutex<HashMap<Box<str>, Arc<Function>>>,
}

/// A kernel's handle and limits.
pub(crate) struct Function {
    raw: CUfunction,
    /// See [`Context::launch_id`].
    launch_id: usize,
    entry: Box<str>,
    /// Maximum threads per block, given the kernel's registers.
    threads: u32,
    /// Maximum dynamic shared memory, and how much of it is enabled.
    max_shared: u32,
    enabled_shared: AtomicU32,
}

// SAFETY: the handle identifies a function of the driver, which accepts calls from any thread.
unsafe impl Send for Function {}
// SAFETY: as above; the other fields are `Sync`.
unsafe impl Sync for Function {}

impl Function {
    /// The handle, ready for `launch`.
    pub(crate) fn prepare(&self, context: &Context, launch: LaunchConfig) -> Result<CUfunction> {
        let (x, y) = context.device().grid;
        let limit = if launch.block == 0 || launch.block > self.threads {
            Some(LaunchLimit::Threads(self.threads))
        } else if launch.shared > self.max_shared {
            Some(LaunchLimit::Shared(self.max_shared))
        } else if launch.grid.0 > x {
            Some(LaunchLimit::GridX(x))
        } else {
            (launch.grid.1 > y).then_some(LaunchLimit::GridY(y))
        };
        if let Some(limit) = limit {
            let kernel = self.entry.clone().into_string();
            return Err(context.fail(ErrorKind::Launch { kernel, launch, limit }));
        }
        if launch.shared > self.enabled_shared.load(Relaxed) {
            let bytes = self.max_shared as i32;
            // SAFETY: the caller holds the module of this function, or the context whose kernels include it.
            context.call(|| unsafe { sys::cuFuncSetAttribute(self.raw, MAX_DYNAMIC_SHARED, bytes) })?;
            self.enabled_shared.store(self.max_shared, Relaxed);
        }
        context.note_launch(self.launch_id);
        Ok(self.raw)
    }
}

impl LoadedModule {
    pub(crate) fn new(context: &Context, ptx: &str) -> Result<Self> {
        context.make_current()?;
        let module = compile(ptx).and_then(|code| cust::module::Module::from_cubin(code, &[]));
        let module = module.map_err(|error| {
            let failure = failure_of(error as i32);
            if !is_rejection(failure.code) {
                return context.error(failure);
            }
            context.fail(ErrorKind::Ptx {
                name: jasper_driver::error_name(failure.code).unwrap_or("an error without a name").to_owned(),
                code: failure.code,
                requirement: PtxRequirement::new(ptx, context.driver(), context.device().compute_capability),
                log: log_of(ptx),
            })
        })?;
        Ok(Self { module, functions: Mutex::default() })
    }

    /// The kernel `entry`.
    pub(crate) fn function(&self, context: &Context, entry: &str) -> Result<Arc<Function>> {
        let mut functions = lock(&self.functions);
        if let Some(function) = functions.get(entry) {
            return Ok(Arc::clone(function));
        }
        let function = Arc::new(self.find(context, entry)?);
        functions.insert(entry.into(), Arc::clone(&function));
        Ok(function)
    }

    fn find(&self, context: &Context, entry: &str) -> Result<Function> {
        context.make_current()?;
        let unknown = || context.fail(ErrorKind::UnknownKernel { entry: entry.to_owned() });
        if entry.contains('\0') {
            return Err(unknown());
        }
        let function = self.module.get_function(entry).map_err(|error| match failure_of(error as i32) {
            failure if failure.code == NOT_FOUND => unknown(),
            failure => context.error(failure),
        })?;
        let get = |attribute| context.check(function.get_attribute(attribute)).map(i32::unsigned_abs);
        let fixed = get(FunctionAttribute::SharedMemorySizeBytes)?;
        let max_shared = context.device().shared_per_block.saturating_sub(fixed);
        Ok(Function {
            raw: function.to_raw(),
            launch_id: context.launch_id(entry),
            entry: entry.into(),
            threads: get(FunctionAttribute::MaxThreadsPerBlock)?,
            max_shared,
            enabled_shared: MAX_SHARED_BYTES.saturating_sub(fixed).min(max_shared).into(),
        })
    }
}

impl std::fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedModule").field("module", &self.module).finish_non_exhaustive()
    }
}

/// Compiles PTX to machine code in the current context, or takes it from the driver's cache. A module made of PTX would
/// be compiled as well, but all launches of the process would wait for that
/// (docs/notebook/experiments.md#gpu-kernels-compiled-while-others-run).
fn compile(ptx: &str) -> CudaResult<Vec<u8>> {
    let mut linker = Linker::new()?;
    // The driver reads up to a zero.
    linker.add_ptx([ptx, "\0"].concat())?;
    linker.complete()
}

const MAX_DYNAMIC_SHARED: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
const NOT_FOUND: i32 = 500;

/// Whether an error code means that the PTX was rejected: invalid, too new, or for another device.
fn is_rejection(code: i32) -> bool {
    matches!(code, 200 | 209 | 218 | 221..=223 | 300)
}

/// The log of the driver's compiler for rejected PTX. Compiles the PTX again to get the log.
fn log_of(ptx: &str) -> String {
    use sys::CUjit_option::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut log = vec![0_u8; 8192];
    let text = [ptx.as_bytes(), b"\0"].concat();
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The second option is an integer passed as a pointer.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(log.len())];
    let mut module = std::ptr::null_mut();
    // SAFETY: the text ends with a zero; both arrays have two entries, and they and the log outlive the call.
    let result = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if result == sys::CUresult::CUDA_SUCCESS {
        // SAFETY: it was loaded above, and no other code has its handle.
        let _ = unsafe { sys::cuModuleUnload(module) };
    }
    // The first attempt reported this failure.
    jasper_driver::take_failure();
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_owned()
}
