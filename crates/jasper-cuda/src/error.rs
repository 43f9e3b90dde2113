//! Errors of devices.

use gpu_kernels::LaunchConfig;
use gpu_kernels::search::MAX_BEAM_WIDTH;
use jasper_core::DeviceError;
use jasper_driver::{Failure, LoadError, error_name, take_failure};
use jasper_vamana::{PlanError, SearchError, UpdateError};

use crate::ptx::PtxRequirement;

/// An operation on a device failed.
///
/// After all errors but [`ErrorKind::ContextLost`] the device can still be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
#[non_exhaustive]
pub struct Error {
    /// Number of the device.
    pub device: usize,
    /// What failed.
    pub kind: ErrorKind,
}

/// How an operation on a device can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no CUDA driver on this machine, or it cannot be loaded.
    #[error("{0}; install the NVIDIA driver, or use the cpu")]
    NoDriver(LoadError),
    /// The driver finds no device.
    #[error(
        "the CUDA driver finds no device; see what `nvidia-smi` lists and CUDA_VISIBLE_DEVICES hides, or use the cpu"
    )]
    NoDevice,
    /// There is no device with this number.
    #[error("device cuda:{ordinal} does not exist; the driver finds {count}, numbered from 0")]
    NoSuchDevice {
        /// The number given.
        ordinal: usize,
        /// The number of devices.
        count: usize,
    },
    /// Device memory is exhausted. Existing allocations are unaffected; a smaller one may succeed.
    #[error(
        "no device memory for {what}: {free} of {total} bytes are free; free some, or use smaller batches"
    )]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Free bytes of the device.
        free: usize,
        /// Total bytes of the device.
        total: usize,
    },
    /// The operating system refuses to pin host memory.
    #[error(
        "cannot pin {bytes} bytes of host memory; raise the limit of locked memory (`ulimit -l`), or store the vectors on \
         the device"
    )]
    NotPinned {
        /// Bytes requested.
        bytes: usize,
    },
    /// An operation needs more memory than is free; it was not started.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Searches of rows of this length need more shared memory than a block has; nothing was started.
    #[error(
        "searches of rows of {row_bytes} bytes need {needed} bytes of shared memory per block, and this device has {available}; \
         use a smaller element type, or the cpu"
    )]
    RowTooLong {
        /// Bytes per row, with padding.
        row_bytes: u32,
        /// Bytes needed per block.
        needed: u32,
        /// Bytes available per block.
        available: u32,
    },
    /// The beam width of a build is larger than the kernels support; nothing was started.
    #[error(
        "build_beam_width ({0}) must be at most {MAX_BEAM_WIDTH} on a device; lower it, or build on the cpu"
    )]
    BuildBeamWidth(usize),
    /// A stream of another library belongs to another device, or to a context that is not the primary one.
    #[error("the stream belongs to another device or context; give a stream of the device of the index")]
    OtherStream,
    /// The driver cannot load the kernels.
    #[error("the driver cannot load the kernels ({name}, {code}): {requirement}{}", compiler_output(.log))]
    Ptx {
        /// The driver's name of the error.
        name: String,
        /// The driver's error code.
        code: i32,
        /// What the kernels require and what this machine has.
        requirement: PtxRequirement,
        /// The output of the driver's compiler; may be empty.
        log: String,
    },
    /// A kernel is not in the module.
    #[error("kernel {entry} is not in the PTX; compile it again with `cargo xtask ptx build`")]
    UnknownKernel {
        /// Name of the entry.
        entry: String,
    },
    /// A launch exceeds a limit of the device; nothing ran.
    #[error("kernel {kernel} cannot be launched with {launch:?}: {limit}")]
    Launch {
        /// Name of the entry.
        kernel: String,
        /// The launch.
        launch: LaunchConfig,
        /// The limit that it exceeds.
        limit: LaunchLimit,
    },
    /// A kernel faulted, or the device failed. This process can no longer use the device.
    #[error(
        "the CUDA context is lost ({name}, {code}, reported by {call}; {launched}): device memory can no longer be used; \
         restart the process"
    )]
    ContextLost {
        /// The call that reported it, after the launch that caused it.
        call: &'static str,
        /// The driver's error code.
        code: i32,
        /// The driver's name of the error.
        name: String,
        /// The last kernel launched on the device: the fault is in it or in one before.
        launched: String,
    },
    /// Any other error of the driver.
    #[error("{call} failed: {name} ({code})")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The driver's error code.
        code: i32,
        /// The driver's name of the error.
        name: String,
    },
}

/// The limit that a launch exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchLimit {
    /// Threads of a block.
    #[error("a block of this kernel has between 1 and {0} threads")]
    Threads(u32),
    /// Dynamic shared memory of a block.
    #[error("a block of this kernel has at most {0} bytes of dynamic shared memory on this device")]
    Shared(u32),
    /// Blocks in y.
    #[error("a grid has at most {0} blocks in y")]
    GridY(u32),
    /// Blocks in x.
    #[error("a grid has at most {0} blocks in x")]
    GridX(u32),
}

/// The result of an operation on a device.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The end of a message: the output of the compiler, if there is any.
fn compiler_output(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; its compiler says: {log}") }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_UNKNOWN`.
const UNKNOWN: i32 = 999;

impl From<Error> for DeviceError {
    fn from(error: Error) -> Self {
        let device = error.device;
        if error.kind.is_unavailable() {
            Self::Unavailable { device, source: Box::new(error) }
        } else {
            Self::Failed { device, source: Box::new(error) }
        }
    }
}

impl From<Error> for SearchError {
    fn from(error: Error) -> Self {
        Self::device(error)
    }
}

impl From<Error> for UpdateError {
    fn from(error: Error) -> Self {
        Self::device(error)
    }
}

impl ErrorKind {
    /// The error on a device.
    pub fn on(self, device: usize) -> Error {
        Error { device, kind: self }
    }

    /// Whether no device is available, or it has too little memory, so that another device or the CPU can be used
    /// instead. All other errors are invalid parameters, or defects of the device, its driver or the kernels.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::NoDriver(_)
                | Self::NoDevice
                | Self::NoSuchDevice { .. }
                | Self::OutOfMemory { .. }
                | Self::NotPinned { .. }
                | Self::Plan(_)
                | Self::RowTooLong { .. }
        )
    }

    /// Converts the failure of a driver call. `memory` returns the free and total bytes of the device.
    pub(crate) fn new(failure: Failure, memory: impl FnOnce() -> (usize, usize)) -> Self {
        let Failure { call, code } = failure;
        let name = error_name(code).unwrap_or("an error without a name").to_owned();
        match code {
            OUT_OF_MEMORY => {
                let (free, total) = memory();
                Self::OutOfMemory { what: call.to_owned(), free, total }
            }
            NO_DEVICE => Self::NoDevice,
            _ if loses_context(code) => {
                let launched = "the last launch is unknown".to_owned();
                Self::ContextLost { call, code, name, launched }
            }
            _ => Self::Call { call, code, name },
        }
    }

    /// Adds the last launch to [`Self::ContextLost`].
    pub(crate) fn with_last_launch(self, last: impl FnOnce() -> String) -> Self {
        match self {
            Self::ContextLost { call, code, name, .. } => {
                Self::ContextLost { call, code, name, launched: last() }
            }
            other => other,
        }
    }
}

impl Error {
    /// Adds to [`ErrorKind::OutOfMemory`] what the memory was for.
    pub(crate) fn with_purpose(mut self, purpose: impl FnOnce() -> String) -> Self {
        if let ErrorKind::OutOfMemory { what, .. } = &mut self.kind {
            *what = purpose();
        }
        self
    }
}

/// Whether the context is unusable after this error: a fault of a kernel, or an uncorrectable memory error.
fn loses_context(code: i32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719)
}

/// The failed call and its exact error code, as recorded by `jasper_driver` if the record is of the same failure. It
/// may be of an earlier call: it is used if the codes agree, or if `cust` lost the code.
pub(crate) fn failure_of(code: i32) -> Failure {
    let noted = take_failure().filter(|noted| noted.code == code || code == UNKNOWN);
    noted.unwrap_or(Failure { call: "the CUDA driver", code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_what_they_mean() {
        let error = |code| ErrorKind::new(Failure { call: "cuTest", code }, || (5, 9));
        assert!(matches!(error(2), ErrorKind::OutOfMemory { free: 5, total: 9, .. }));
        assert_eq!(error(100), ErrorKind::NoDevice);
        for code in [700, 716, 719] {
            assert!(matches!(error(code), ErrorKind::ContextLost { call: "cuTest", .. }), "{code}");
            assert!(error(code).to_string().contains("restart the process"));
        }
        assert!(matches!(error(1), ErrorKind::Call { code: 1, .. }));
        assert!(matches!(error(12_345), ErrorKind::Call { code: 12_345, .. }));
        let message = error(2).on(0).with_purpose(|| "a buffer of 7 bytes".into()).to_string();
        assert!(message.starts_with("no device memory for a buffer of 7 bytes: 5 of 9 bytes"), "{message}");
        assert_eq!(error(100).on(3).with_purpose(|| unreachable!()), ErrorKind::NoDevice.on(3));
    }

    #[test]
    fn the_log_of_the_compiler_is_shown() {
        let message = |log: &str| {
            let requirement = PtxRequirement::new(".version 7.4\n.target sm_80\n", (13, 0), (9, 0));
            ErrorKind::Ptx { name: "X".into(), code: 218, requirement, log: log.into() }.to_string()
        };
        assert!(message("line 3: what?").ends_with("; its compiler says: line 3: what?"));
        assert!(!message("").contains("compiler says"));
    }
}
