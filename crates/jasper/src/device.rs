//! Where an index lives.

use std::fmt;
use std::str::FromStr;

/// Where an index is built and searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The fastest there is. Today that is the CPU: this release has no CUDA executor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The CUDA device of this number. Refused by this release, see [`Device::check`].
    Cuda(usize),
}

/// A device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This release has no executor for CUDA.
    #[error("device cuda:{0} cannot be used: this release of jasper has no CUDA executor; use cpu or auto")]
    NoCuda(usize),
}

impl Device {
    /// Whether this release runs on the device.
    ///
    /// # Errors
    /// [`DeviceError::NoCuda`].
    pub fn check(self) -> Result<(), DeviceError> {
        match self {
            Self::Auto | Self::Cpu => Ok(()),
            Self::Cuda(device) => Err(DeviceError::NoCuda(device)),
        }
    }
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
        assert!(Device::Auto.check().is_ok());
        assert!(Device::Cuda(1).check().unwrap_err().to_string().contains("use cpu or auto"));
    }
}
