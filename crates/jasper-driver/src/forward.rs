//! What happens in a forwarded call: the result is cleaned, and a failure is noted.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

use cust::sys::CUresult;

use crate::library::symbol;

/// A call to the driver that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function, such as `cuMemAlloc_v2`.
    pub call: &'static str,
    /// The code as the driver gave it, known to cust or not.
    pub code: i32,
}

thread_local! {
    static LAST: Cell<Option<Failure>> = const { Cell::new(None) };
}

/// The last call of this thread that failed, once: the next call of this function gives nothing until another fails.
///
/// A failure that nobody looked at stays noted, so compare its code with the result that is to be explained.
pub fn take_failure() -> Option<Failure> {
    LAST.take()
}

/// The result as cust may see it.
#[inline]
pub(crate) fn finish(call: &'static str, code: i32) -> CUresult {
    if code == 0 { CUresult::CUDA_SUCCESS } else { failed(call, code) }
}

#[cold]
fn failed(call: &'static str, code: i32) -> CUresult {
    LAST.set(Some(Failure { call, code }));
    KNOWN.iter().copied().find(|&known| known as i32 == code).unwrap_or(CUresult::CUDA_ERROR_UNKNOWN)
}

/// The driver's own name for a code, such as `CUDA_ERROR_ILLEGAL_ADDRESS`, where it has one.
pub fn error_name(code: i32) -> Option<&'static str> {
    type F = unsafe extern "C" fn(i32, *mut *const c_char) -> i32;
    let function = symbol::<F>("cuGetErrorName\0").ok()?;
    let mut name = std::ptr::null();
    // SAFETY: the type is that of the driver's header, with the enum as the integer it is; `name` is writable.
    let found = unsafe { function(code, &mut name) } == 0 && !name.is_null();
    // SAFETY: the driver gave a string of its own, which ends with a zero and is never freed.
    found.then(|| unsafe { CStr::from_ptr(name) }.to_str().ok()).flatten()
}

/// Hides a function from other libraries of the process, which call the driver itself by the same name.
macro_rules! hide {
    ($name:ident) => {
        #[cfg(target_os = "linux")]
        std::arch::global_asm!(concat!(".hidden ", stringify!($name)));
    };
}
pub(crate) use hide;

hide!(cuGetErrorString);

/// The driver's message for an error code, or ours without a driver: cust's `Display` of an error panics if this fails.
///
/// # Safety
/// `out` must be writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, out: *mut *const c_char) -> CUresult {
    type F = unsafe extern "C" fn(i32, *mut *const c_char) -> i32;
    if let Ok(function) = symbol::<F>("cuGetErrorString\0") {
        // SAFETY: the type is that of the driver's header; what the caller promises is what it asks for.
        return finish("cuGetErrorString", unsafe { function(error as i32, out) });
    }
    // SAFETY: the caller promises that `out` is writable.
    unsafe { *out = c"the CUDA driver is not loaded".as_ptr() };
    CUresult::CUDA_SUCCESS
}

/// Writes `CUresult::CUDA_ERROR_...` for each name.
macro_rules! known {
    ($($name:ident)*) => {
        /// Every code that `CUresult` has a name for, but success.
        const KNOWN: &[CUresult] = &[$(CUresult::$name),*];
    };
}

known! {
    CUDA_ERROR_INVALID_VALUE CUDA_ERROR_OUT_OF_MEMORY CUDA_ERROR_NOT_INITIALIZED
    CUDA_ERROR_DEINITIALIZED CUDA_ERROR_PROFILER_DISABLED CUDA_ERROR_PROFILER_NOT_INITIALIZED
    CUDA_ERROR_PROFILER_ALREADY_STARTED CUDA_ERROR_PROFILER_ALREADY_STOPPED CUDA_ERROR_STUB_LIBRARY
    CUDA_ERROR_NO_DEVICE CUDA_ERROR_INVALID_DEVICE CUDA_ERROR_DEVICE_NOT_LICENSED
    CUDA_ERROR_INVALID_IMAGE CUDA_ERROR_INVALID_CONTEXT CUDA_ERROR_CONTEXT_ALREADY_CURRENT
    CUDA_ERROR_MAP_FAILED CUDA_ERROR_UNMAP_FAILED CUDA_ERROR_ARRAY_IS_MAPPED
    CUDA_ERROR_ALREADY_MAPPED CUDA_ERROR_NO_BINARY_FOR_GPU CUDA_ERROR_ALREADY_ACQUIRED
    CUDA_ERROR_NOT_MAPPED CUDA_ERROR_NOT_MAPPED_AS_ARRAY CUDA_ERROR_NOT_MAPPED_AS_POINTER
    CUDA_ERROR_ECC_UNCORRECTABLE CUDA_ERROR_UNSUPPORTED_LIMIT CUDA_ERROR_CONTEXT_ALREADY_IN_USE
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED CUDA_ERROR_INVALID_PTX CUDA_ERROR_INVALID_GRAPHICS_CONTEXT
    CUDA_ERROR_NVLINK_UNCORRECTABLE CUDA_ERROR_JIT_COMPILER_NOT_FOUND
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION CUDA_ERROR_JIT_COMPILATION_DISABLED
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY CUDA_ERROR_INVALID_SOURCE CUDA_ERROR_FILE_NOT_FOUND
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
    CUDA_ERROR_OPERATING_SYSTEM CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_ILLEGAL_STATE
    CUDA_ERROR_NOT_FOUND CUDA_ERROR_NOT_READY CUDA_ERROR_ILLEGAL_ADDRESS
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES CUDA_ERROR_LAUNCH_TIMEOUT
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE
    CUDA_ERROR_CONTEXT_IS_DESTROYED CUDA_ERROR_ASSERT CUDA_ERROR_TOO_MANY_PEERS
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
    CUDA_ERROR_HARDWARE_STACK_ERROR CUDA_ERROR_ILLEGAL_INSTRUCTION CUDA_ERROR_MISALIGNED_ADDRESS
    CUDA_ERROR_INVALID_ADDRESS_SPACE CUDA_ERROR_INVALID_PC CUDA_ERROR_LAUNCH_FAILED
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE CUDA_ERROR_NOT_PERMITTED CUDA_ERROR_NOT_SUPPORTED
    CUDA_ERROR_SYSTEM_NOT_READY CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE CUDA_ERROR_MPS_CONNECTION_FAILED
    CUDA_ERROR_MPS_RPC_FAILURE CUDA_ERROR_MPS_SERVER_NOT_READY CUDA_ERROR_MPS_MAX_CLIENTS_REACHED
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED CUDA_ERROR_STREAM_CAPTURE_MERGE
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED CUDA_ERROR_STREAM_CAPTURE_UNJOINED
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION CUDA_ERROR_STREAM_CAPTURE_IMPLICIT CUDA_ERROR_CAPTURED_EVENT
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD CUDA_ERROR_TIMEOUT CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
    CUDA_ERROR_EXTERNAL_DEVICE CUDA_ERROR_UNKNOWN
}
