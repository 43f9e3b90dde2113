//! Where an index lives.

use std::fmt;
use std::str::FromStr;

/// Where an index is built, and where it is searched and changed once [taken there](crate::Index::to_device).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The fastest there is: searches and changes run on the first CUDA device that can hold the index, if there is one; an
    /// index with codes may leave its vectors on the host, see [`Index::keep_vectors`](crate::Index::keep_vectors).
    /// Builds run on the processor, whose graph is the same on every machine.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The CUDA device of this number.
    Cuda(usize),
}

/// A device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The feature `cuda` was off when this crate was compiled.
    #[error(
        "device cuda:{0} cannot be used: this build of jasper has no CUDA; use cpu or auto, or build with the feature `cuda`"
    )]
    NotBuilt(usize),
    /// There is no such device, no driver for it, or no room in it; or it fails.
    #[cfg(feature = "cuda")]
    #[error("device cuda:{ordinal} cannot be used: {error}")]
    Cuda {
        /// Number of the device.
        ordinal: usize,
        /// What is wrong; names the libraries that were looked for, if there is no driver.
        #[source]
        error: jasper_cuda::Error,
    },
    /// Device memory was to be searched by an index that is on no CUDA device.
    #[error("the index is on the cpu, which cannot reach device memory; take it to a CUDA device")]
    OnProcessor,
}

impl Device {
    /// Whether the device is there. An index may still be too large for it.
    ///
    /// # Errors
    /// [`DeviceError`]: which of the things that CUDA takes is missing first.
    pub fn find(self) -> Result<(), DeviceError> {
        match self {
            Self::Auto | Self::Cpu => Ok(()),
            Self::Cuda(ordinal) => find(ordinal),
        }
    }
}

#[cfg(feature = "cuda")]
fn find(ordinal: usize) -> Result<(), DeviceError> {
    jasper_cuda::Device::get(ordinal).map(drop).map_err(|error| DeviceError::Cuda { ordinal, error })
}

#[cfg(not(feature = "cuda"))]
fn find(ordinal: usize) -> Result<(), DeviceError> {
    Err(DeviceError::NotBuilt(ordinal))
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(device) => write!(f, "cuda:{device}"),
        }
    }
}

/// A device's name was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device `{0}` is not known; use auto, cpu, cuda or cuda:N")]
pub struct ParseDeviceError(String);

impl FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let unknown = || ParseDeviceError(name.to_owned());
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => name.strip_prefix("cuda:").and_then(|n| n.parse().ok()).map(Self::Cuda).ok_or_else(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for device in [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(3)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert!("gpu".parse::<Device>().is_err() && "cuda:x".parse::<Device>().is_err());
    }

    #[test]
    fn a_refusal_names_the_device_and_the_way_out() {
        assert!(Device::Auto.find().is_ok() && Device::Cpu.find().is_ok());
        let error = Device::Cuda(999).find().unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("device cuda:999 cannot be used"), "{told}");
        #[cfg(not(feature = "cuda"))]
        assert!(told.contains("use cpu or auto"), "{told}");
        #[cfg(feature = "cuda")]
        if let Err(error) = Device::Cuda(0).find() {
            assert!(error.to_string().ends_with("use the cpu"), "{error}");
        }
    }
}
