//! Devices: where an index is built, searched and changed.

use std::fmt;
use std::str::FromStr;

use jasper_core::DeviceError;
use jasper_vamana::MemorySpace;

#[cfg(doc)]
use crate::Index;
use crate::error::Result;
use crate::{CudaSet, Error, ErrorKind, Spread, backend};

/// Where an index is: what [`Index::device`] returns. Written as `cpu`, `cuda:1` or `cuda:0,1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The CPU. A graph built here is the same on every machine.
    Cpu,
    /// The CUDA device of this number.
    Cuda(usize),
    /// Several CUDA devices together: see [`Spread`](crate::Spread).
    CudaSet(CudaSet),
}

/// Where a caller wants an index to be built, or to be [moved](Index::to_device). Methods that take one also take a
/// [`Device`]. Its names are `auto`, `cuda:all`, and those of devices; `cuda` is `cuda:0`.
///
/// ```
/// use jasper::{CudaSet, Device, DeviceChoice};
///
/// assert_eq!("cuda:1".parse::<DeviceChoice>()?, Device::Cuda(1).into());
/// let set = CudaSet::new(&[0, 1]).expect("two different numbers");
/// assert_eq!("cuda:0,1".parse::<DeviceChoice>()?, Device::CudaSet(set).into());
/// assert_eq!(DeviceChoice::AllCuda.to_string(), "cuda:all");
/// # Ok::<(), jasper::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device with room for the work, or the CPU if there is none or the feature `cuda` is off.
    #[default]
    Auto,
    /// All CUDA devices of the host, at most the first 64.
    AllCuda,
    /// This device.
    Device(Device),
}

impl From<Device> for DeviceChoice {
    fn from(device: Device) -> Self {
        Self::Device(device)
    }
}

impl DeviceChoice {
    /// The chosen device. `None` for [`Self::Auto`], which depends on the work.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`] if the device does not exist; the [source](std::error::Error::source) says what
    /// is missing. An index may still be too large for a device that exists.
    pub fn resolve(self) -> Result<Option<Device>> {
        Ok(self.find()?)
    }

    pub(crate) fn find(self) -> Result<Option<Device>, DeviceError> {
        match self {
            Self::Auto => Ok(None),
            Self::AllCuda => {
                let all = backend::ordinals()?;
                if all.is_empty() {
                    // The error says why there are none.
                    backend::check_device(0)?;
                }
                Ok(Some(Device::several(all.into_iter().take(64).map(Device::Cuda))))
            }
            Self::Device(device) => {
                device.cuda_ordinals().into_iter().try_for_each(backend::check_device)?;
                Ok(Some(Device::several([device])))
            }
        }
    }
}

/// Where an index is to be, and how a CUDA device holds it: see [`Index::to_device`]. A [`Device`] or a [`DeviceChoice`] has
/// the default options, which do nothing on the CPU.
///
/// ```
/// use jasper::{DeviceChoice, DeviceOptions, IndexBuilder, MatrixView, MemorySpace, Metric, Quantization, SearchParams};
/// use jasper_core::synthetic::Clusters;
///
/// let vectors: Vec<f32> = Clusters::new(32, 7).rows(2000, 0);
/// let builder = IndexBuilder::new(Metric::L2).quantize(Quantization::Rabitq { bits: 4 });
/// let index = builder.build(MatrixView::new(&vectors, 32)?)?;
/// let index = index.to_device(DeviceOptions::new(DeviceChoice::Auto).vector_storage(MemorySpace::Host))?;
/// assert_eq!(index.stats().vector_storage, MemorySpace::Host);
/// assert_eq!(index.search(&vectors[..32], SearchParams::new(10))?[0].key, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "options do nothing until `Index::to_device`"]
pub struct DeviceOptions {
    pub(crate) device: DeviceChoice,
    pub(crate) vector_storage: Option<MemorySpace>,
    pub(crate) spread: Spread,
}

impl DeviceOptions {
    /// The default options for this device.
    pub fn new(device: impl Into<DeviceChoice>) -> Self {
        Self { device: device.into(), vector_storage: None, spread: Spread::default() }
    }

    /// Where vectors are stored: in device memory, or in pinned host memory, which kernels read over PCIe. `None`, the
    /// default, stores them on the device if all of the index fits there, else on the host if the index is
    /// [quantized](Index::quantize). The choice is not saved.
    ///
    /// Host storage is meant for quantized indexes, whose searches read only the reranked vectors over PCIe. Exact
    /// searches, inserts and consolidation read all their vectors over PCIe, at a fraction of the speed.
    pub fn vector_storage(mut self, storage: impl Into<Option<MemorySpace>>) -> Self {
        self.vector_storage = storage.into();
        self
    }

    /// How several devices hold the index; [`Spread::Replicated`] by default. With [`Spread::Sharded`], an index of one
    /// graph is built again, one shard per device; deleted keys can then not be restored. An index that has
    /// [several shards](crate::IndexBuilder::shards) keeps them, and the devices get them in turn.
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }
}

impl From<DeviceChoice> for DeviceOptions {
    fn from(device: DeviceChoice) -> Self {
        Self::new(device)
    }
}

impl From<Device> for DeviceOptions {
    fn from(device: Device) -> Self {
        Self::new(device)
    }
}

/// The device that an index is on: what [`Index::device_info`] returns.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device, without those that are left out because of their [faults](Self::faults).
    pub device: Device,
    /// Name of the CPU or GPU.
    pub name: String,
    /// Bytes of device memory that the index takes; 0 on the CPU.
    pub bytes: u64,
    /// The widest beam of searches: 1024 on a CUDA device, `usize::MAX` on the CPU.
    pub max_beam_width: usize,
    /// The errors of devices that faulted and are left out, where [several](Spread::Replicated) hold the index. The others
    /// answer all searches.
    pub faults: Vec<Error>,
}

/// An index could not be moved to a device or back. It is in host memory if it had to leave its device.
#[derive(Debug)]
pub(crate) struct MoveError<I> {
    index: Box<I>,
    source: DeviceError,
}

impl<I> MoveError<I> {
    pub(crate) fn new(index: I, source: DeviceError) -> Self {
        Self { index: Box::new(index), source }
    }

    pub(crate) fn into_parts(self) -> (I, DeviceError) {
        (*self.index, self.source)
    }

    pub(crate) fn map<J>(self, change: impl FnOnce(I) -> J) -> MoveError<J> {
        MoveError { index: Box::new(change(*self.index)), source: self.source }
    }
}

impl<I> From<MoveError<I>> for DeviceError {
    fn from(error: MoveError<I>) -> Self {
        error.source
    }
}

impl Device {
    /// The numbers of its CUDA devices, in ascending order; none for the CPU.
    pub fn cuda_ordinals(self) -> Vec<usize> {
        match self {
            Self::Cpu => Vec::new(),
            Self::Cuda(ordinal) => vec![ordinal],
            Self::CudaSet(set) => set.ordinals(),
        }
    }

    /// The CUDA devices among some devices as one, or the CPU if there is none.
    pub(crate) fn several(devices: impl IntoIterator<Item = Self>) -> Self {
        let mut ordinals: Vec<usize> = devices.into_iter().flat_map(Self::cuda_ordinals).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        match ordinals[..] {
            [] => Self::Cpu,
            [ordinal] => Self::Cuda(ordinal),
            _ => Self::CudaSet(CudaSet::new(&ordinals).expect("numbers of a set")),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Device {
    /// Serializes the device as its name: `cpu`, `cuda:N` or `cuda:N,M`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(device) => write!(f, "cuda:{device}"),
            Self::CudaSet(devices) => write!(f, "cuda:{devices}"),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::AllCuda => f.write_str("cuda:all"),
            Self::Device(device) => device.fmt(f),
        }
    }
}

/// A text is not the name of a [`DeviceChoice`].
#[derive(Debug, thiserror::Error)]
#[error(
    "device `{0}` is not known; use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all, with different numbers below 64"
)]
struct ParseDeviceError(String);

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let set = |numbers: &str| {
            let ordinals = numbers.split(',').map(|ordinal| ordinal.parse().ok());
            Some(Device::CudaSet(CudaSet::new(&ordinals.collect::<Option<Vec<_>>>()?)?))
        };
        let device = match name {
            "auto" => return Ok(Self::Auto),
            "cuda:all" => return Ok(Self::AllCuda),
            "cpu" => Some(Device::Cpu),
            "cuda" => Some(Device::Cuda(0)),
            _ => name.strip_prefix("cuda:").and_then(|numbers| match numbers.parse() {
                Ok(ordinal) => Some(Device::Cuda(ordinal)),
                Err(_) => set(numbers),
            }),
        };
        device
            .map(Self::Device)
            .ok_or_else(|| Error::new(ErrorKind::InvalidParameter, ParseDeviceError(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let set = Device::several([Device::Cuda(3), Device::Cuda(1)]);
        let devices = [Device::Cpu, Device::Cuda(0), Device::Cuda(3), set].map(DeviceChoice::Device);
        for choice in [DeviceChoice::Auto, DeviceChoice::AllCuda].into_iter().chain(devices) {
            assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
        }
        assert_eq!(set.to_string(), "cuda:1,3");
        assert_eq!("cuda:3,1".parse::<DeviceChoice>().unwrap(), set.into());
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), Device::Cuda(0).into());
        assert_eq!(Device::several([Device::Cuda(2), Device::Cpu, Device::Cuda(2)]), Device::Cuda(2));
        for name in [
            "gpu",
            "cuda:x",
            "cuda:",
            "cuda:0,",
            "cuda:0,0",
            "cuda:0,64",
            "cuda:0,99999999999999999999",
            "cuda:0,x",
        ] {
            assert!(name.parse::<DeviceChoice>().is_err(), "{name}");
        }
    }
}
