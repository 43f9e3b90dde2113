//! Kernels that the driver has taken in.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use cust::function::FunctionAttribute;
use cust::sys::{self, CUfunction, CUfunction_attribute};
use gpu_kernels::Launch;

use crate::Context;
use crate::error::{Error, LaunchLimit, Result, failure_of_cust};
use crate::ptx::Requirement;

/// PTX of one's own, compiled for a device: for kernels that are not among those of `gpu_kernels`.
#[derive(Debug)]
pub struct Module {
    context: Context,
    loaded: Loaded,
}

impl Module {
    /// Has the driver compile `ptx`, or take it from its cache.
    ///
    /// # Errors
    /// [`Error::Ptx`] says what is wrong with it, or which driver or device it needs.
    pub fn load(context: &Context, ptx: &str) -> Result<Self> {
        Ok(Self { context: context.clone(), loaded: Loaded::new(context, ptx)? })
    }

    /// The context that it is loaded in.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

/// A module, and what is known of the kernels that were launched from it. Belongs to one context.
pub(crate) struct Loaded {
    module: cust::module::Module,
    functions: Mutex<HashMap<Box<str>, Function>>,
}

/// A kernel's handle and bounds.
#[derive(Clone, Copy)]
struct Function {
    raw: CUfunction,
    /// Threads of a block: the device's bound, or what the kernel's registers leave.
    threads: u32,
    /// Dynamic shared memory that the device has for it, and how much of that the driver was told to allow.
    most_shared: u32,
    allowed_shared: u32,
}

// SAFETY: the handle is a name for something in the driver, which takes calls from any thread.
unsafe impl Send for Function {}

/// Dynamic shared memory that every kernel may have without asking.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

impl Loaded {
    pub(crate) fn new(context: &Context, ptx: &str) -> Result<Self> {
        context.enter()?;
        let module = cust::module::Module::from_ptx(ptx, &[]).map_err(|error| {
            let failure = failure_of_cust(error);
            if !is_refusal(failure.code) {
                return context.error(failure);
            }
            Error::Ptx {
                name: jasper_driver::error_name(failure.code).unwrap_or("an error without a name").to_owned(),
                code: failure.code,
                requirement: Requirement::new(ptx, context.driver(), context.device().compute_capability),
                log: log_of(ptx),
            }
        })?;
        Ok(Self { module, functions: Mutex::default() })
    }

    /// The kernel `entry`, ready for `launch`.
    pub(crate) fn prepare(&self, context: &Context, entry: &str, launch: Launch) -> Result<CUfunction> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if !functions.contains_key(entry) {
            functions.insert(entry.into(), self.find(context, entry)?);
        }
        let function = functions.get_mut(entry).expect("was inserted above, if it was not there");
        let (x, y) = context.device().grid;
        let limit = if launch.block == 0 || launch.block > function.threads {
            Some(LaunchLimit::Threads(function.threads))
        } else if launch.shared > function.most_shared {
            Some(LaunchLimit::Shared(function.most_shared))
        } else if launch.grid.0 > x {
            Some(LaunchLimit::GridX(x))
        } else {
            (launch.grid.1 > y).then_some(LaunchLimit::GridY(y))
        };
        if let Some(limit) = limit {
            return Err(Error::Launch { kernel: entry.to_owned(), launch, limit });
        }
        if launch.shared > function.allowed_shared {
            let bytes = function.most_shared as i32;
            // SAFETY: the function is of this module, which is loaded.
            context.call(|| unsafe { sys::cuFuncSetAttribute(function.raw, MAX_DYNAMIC_SHARED, bytes) })?;
            function.allowed_shared = function.most_shared;
        }
        Ok(function.raw)
    }

    fn find(&self, context: &Context, entry: &str) -> Result<Function> {
        context.enter()?;
        let unknown = || Error::UnknownKernel { entry: entry.to_owned() };
        if entry.contains('\0') {
            return Err(unknown());
        }
        let function = self.module.get_function(entry).map_err(|error| match failure_of_cust(error) {
            failure if failure.code == NOT_FOUND => unknown(),
            failure => context.error(failure),
        })?;
        let get = |attribute| context.check(function.get_attribute(attribute)).map(i32::unsigned_abs);
        let fixed = get(FunctionAttribute::SharedMemorySizeBytes)?;
        let most_shared = context.device().shared_per_block.saturating_sub(fixed);
        Ok(Function {
            raw: function.to_raw(),
            threads: get(FunctionAttribute::MaxThreadsPerBlock)?,
            most_shared,
            allowed_shared: SHARED_WITHOUT_ASKING.saturating_sub(fixed).min(most_shared),
        })
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("module", &self.module).finish_non_exhaustive()
    }
}

const MAX_DYNAMIC_SHARED: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
const NOT_FOUND: i32 = 500;

/// Whether a code says that the text was refused: it is wrong, too new, or for another device.
fn is_refusal(code: i32) -> bool {
    matches!(code, 200 | 209 | 218 | 221..=223 | 300)
}

/// What the driver's compiler says of a text that was refused: asked again, with room for its words.
fn log_of(ptx: &str) -> String {
    use sys::CUjit_option::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut log = vec![0_u8; 8192];
    let text = [ptx.as_bytes(), b"\0"].concat();
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // Of these two, the second is a number in the place of a pointer.
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
        // SAFETY: it was loaded just now, and nobody else knows it.
        let _ = unsafe { sys::cuModuleUnload(module) };
    }
    // The failure is explained by its first telling.
    jasper_driver::take_failure();
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_owned()
}
