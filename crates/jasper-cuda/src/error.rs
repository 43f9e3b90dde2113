//! What can go wrong with a device, and what to do about it.

use cust::error::CudaError;
use cust::sys::CUresult;
use gpu_kernels::Launch;
use jasper_driver::{Failure, LoadError, error_name, take_failure};
use jasper_vamana::{ConsolidateError, InsertError, PlanError, SearchError};

use crate::ptx::Requirement;

/// A device could not do what was asked.
///
/// All but [`Self::ContextLost`] leave the device and this process working.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no CUDA driver on this machine, or it cannot be opened.
    #[error("{0}; install the NVIDIA driver, or use the cpu")]
    NoDriver(#[from] LoadError),
    /// The driver is there and finds no device.
    #[error(
        "the CUDA driver finds no device; see what `nvidia-smi` lists and CUDA_VISIBLE_DEVICES hides, or use the cpu"
    )]
    NoDevice,
    /// There are devices, none of this number.
    #[error("device cuda:{ordinal} does not exist; the driver finds {count}, numbered from 0")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// Devices there are.
        count: usize,
    },
    /// Memory is exhausted. What was allocated before stays; a smaller request may succeed.
    #[error(
        "no memory for {what}: {free} of {total} bytes of the device are free; give some back, or take less at once"
    )]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Bytes of the device that are free now.
        free: usize,
        /// Bytes of the device.
        total: usize,
    },
    /// The system does not pin so much memory of the host, though it is free.
    #[error(
        "no {bytes} bytes of pinned host memory; raise the limit of locked memory (`ulimit -l`), or keep vectors on the \
         device"
    )]
    NotPinned {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A job needs more memory than there is; nothing of it was begun.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Rows are longer than a block has shared memory for; nothing was begun.
    #[error(
        "searches of rows of {row_bytes} bytes take {needed} bytes of shared memory a block, and this device has {most}; \
         use a smaller element, or the cpu"
    )]
    RowTooLong {
        /// Bytes of a row, with its padding.
        row_bytes: u32,
        /// Bytes of a block that searches.
        needed: u32,
        /// Bytes that a block of this device has.
        most: u32,
    },
    /// A parameter of a build is more than kernels are made for; nothing was begun.
    #[error("{name} ({value}) must be at most {most} on a device; lower it, or build on the cpu")]
    BuildParam {
        /// Name of the parameter.
        name: &'static str,
        /// What it is.
        value: String,
        /// Its bound.
        most: String,
    },
    /// The driver does not take the kernels.
    #[error("the driver does not take the kernels ({name}, {code}): {requirement}{}", told(.log))]
    Ptx {
        /// The driver's name for what is wrong.
        name: String,
        /// The driver's code for it.
        code: i32,
        /// What the kernels need and what is here.
        requirement: Requirement,
        /// What the driver's compiler said; may be empty.
        log: String,
    },
    /// A kernel that is not in the module.
    #[error("kernel {entry} is not in the PTX; compile it again with `cargo xtask ptx build`")]
    UnknownKernel {
        /// Name of the entry.
        entry: String,
    },
    /// A launch that the device cannot take; nothing ran.
    #[error("kernel {kernel} cannot be launched with {launch:?}: {limit}")]
    Launch {
        /// Name of the entry.
        kernel: String,
        /// What was asked for.
        launch: Launch,
        /// The bound that it passes.
        limit: LaunchLimit,
    },
    /// A kernel faulted, or the device failed. Nothing on the device can be used again by this process.
    #[error(
        "the CUDA context is lost ({name}, {code}, seen by {call}; {launched}): no device memory is left to use; \
         restart the process"
    )]
    ContextLost {
        /// The call that saw it: some call after the launch, not the launch itself.
        call: &'static str,
        /// The driver's code.
        code: i32,
        /// The driver's name for it.
        name: String,
        /// The last kernel that was launched on the device: it or one before it is at fault.
        launched: String,
    },
    /// Any other refusal of the driver.
    #[error("{call} failed: {name} ({code})")]
    Call {
        /// The function of the driver.
        call: &'static str,
        /// The driver's code.
        code: i32,
        /// The driver's name for it.
        name: String,
    },
}

/// A bound that a launch passes.
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

/// The result of anything done with a device.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The end of a message, if there is anything more to say.
fn told(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; its compiler says: {log}") }
}

/// Memory is exhausted; the allocation that met it says how much was asked for.
const OUT_OF_MEMORY: i32 = 2;
const NO_DEVICE: i32 = 100;

impl From<Error> for SearchError {
    fn from(error: Error) -> Self {
        Self::device(error)
    }
}

impl From<Error> for InsertError {
    fn from(error: Error) -> Self {
        Self::device(error)
    }
}

impl From<Error> for ConsolidateError {
    fn from(error: Error) -> Self {
        Self::Device(Box::new(error))
    }
}

impl Error {
    /// Whether no device is there, or it has no room: what another device, or the processor, can stand in for. All else is
    /// a parameter, or a defect of the device, its driver or the kernels.
    pub fn is_absence(&self) -> bool {
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

    /// What a failed call means. `memory` asks for free and total bytes of the device.
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
                let launched = "nothing is known of launches".to_owned();
                Self::ContextLost { call, code, name, launched }
            }
            _ => Self::Call { call, code, name },
        }
    }

    /// Says which launch was the last, if that is of interest.
    pub(crate) fn with_last_launch(self, last: impl FnOnce() -> String) -> Self {
        match self {
            Self::ContextLost { call, code, name, .. } => {
                Self::ContextLost { call, code, name, launched: last() }
            }
            other => other,
        }
    }

    /// Says what the memory was for that could not be had.
    pub(crate) fn with_purpose(self, what: impl FnOnce() -> String) -> Self {
        match self {
            Self::OutOfMemory { free, total, .. } => Self::OutOfMemory { what: what(), free, total },
            other => other,
        }
    }
}

/// Whether the device cannot be used after this: faults of kernels, and errors of memory that cannot be corrected.
fn loses_context(code: i32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719)
}

/// What failed, by the driver's note if that is of the same failure: the code there is the exact one.
pub(crate) fn failure_of(result: CUresult) -> Failure {
    explain(result as i32, result == CUresult::CUDA_ERROR_UNKNOWN)
}

/// As [`failure_of`], for an error of cust.
pub(crate) fn failure_of_cust(error: CudaError) -> Failure {
    explain(error as i32, error == CudaError::UnknownError)
}

/// A note that nobody took may be of an earlier call: it counts if the codes agree, or if the code was lost on the way.
fn explain(code: i32, lost: bool) -> Failure {
    let noted = take_failure().filter(|noted| noted.code == code || lost);
    noted.unwrap_or(Failure { call: "the CUDA driver", code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_what_they_mean() {
        let error = |code| Error::new(Failure { call: "cuTest", code }, || (5, 9));
        assert!(matches!(error(2), Error::OutOfMemory { free: 5, total: 9, .. }));
        assert_eq!(error(100), Error::NoDevice);
        for code in [700, 716, 719] {
            assert!(matches!(error(code), Error::ContextLost { call: "cuTest", .. }), "{code}");
            assert!(error(code).to_string().contains("restart the process"));
        }
        assert!(matches!(error(1), Error::Call { code: 1, .. }));
        assert!(matches!(error(12_345), Error::Call { code: 12_345, .. }));
        let told = error(2).with_purpose(|| "a buffer of 7 bytes".into()).to_string();
        assert!(told.starts_with("no memory for a buffer of 7 bytes: 5 of 9 bytes"), "{told}");
        assert_eq!(error(100).with_purpose(|| unreachable!()), Error::NoDevice);
    }

    #[test]
    fn the_log_of_the_compiler_is_told() {
        let told = |log: &str| {
            let requirement = Requirement::new(".version 7.4\n.target sm_80\n", (13, 0), (9, 0));
            Error::Ptx { name: "X".into(), code: 218, requirement, log: log.into() }.to_string()
        };
        assert!(told("line 3: what?").ends_with("; its compiler says: line 3: what?"));
        assert!(!told("").contains("compiler says"));
    }
}
