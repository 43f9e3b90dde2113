//! Devices: where an index is built, searched and changed.

use std::fmt;
use std::str::FromStr;

use jasper_core::DeviceError;
use jasper_vamana::MemorySpace;

#[cfg(doc)]
use crate::Index;
use crate::error::Result;
use crate::{Error, ErrorKind, backend};

/// Where an index is built and kept: on the CPU, on a CUDA device, or on several together.
///
/// Its names are `auto`, `cpu`, `cuda:1`, `cuda:0,1` and `cuda:all`; `cuda` is `cuda:0`. The options
/// [`sharded`](Self::sharded) and [`vector_storage`](Self::vector_storage) are not part of the name, but comparisons
/// include them.
///
/// ```
/// use jasper::{Device, IndexBuilder, MatrixView, MemorySpace, Metric, Quantization, SearchParams};
/// use jasper_core::synthetic::Clusters;
///
/// assert_eq!("cuda:0,1".parse::<Device>()?, Device::cuda_set(&[0, 1])?);
/// assert_eq!(Device::ALL_CUDA.sharded(true).to_string(), "cuda:all");
///
/// let vectors: Vec<f32> = Clusters::new(32, 7).rows(2000, 0);
/// let builder = IndexBuilder::new(Metric::L2).quantize(Quantization::Rabitq { bits: 4 });
/// let index = builder.build(MatrixView::new(&vectors, 32)?)?;
/// let index = index.to_device(Device::AUTO.vector_storage(MemorySpace::Host))?;
/// assert_eq!(index.stats().vector_storage, MemorySpace::Host);
/// assert_eq!(index.search(&vectors[..32], SearchParams::new(10))?[0].key, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    which: Which,
    pub(crate) is_sharded: bool,
    pub(crate) vector_storage: Option<MemorySpace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Auto,
    Cpu,
    Cuda(usize),
    /// The devices whose bits are set: two at least.
    CudaSet(u64),
    AllCuda,
}

impl Which {
    /// The CUDA devices of these numbers, each of which counts once, or the CPU if there is none.
    fn of(mut ordinals: Vec<usize>) -> Self {
        ordinals.sort_unstable();
        ordinals.dedup();
        match ordinals[..] {
            [] => Self::Cpu,
            [ordinal] => Self::Cuda(ordinal),
            _ => Self::CudaSet(ordinals.iter().fold(0, |set, ordinal| set | 1 << ordinal)),
        }
    }
}

/// Ordinals above are in no set.
const MAX_SET_ORDINAL: usize = u64::BITS as usize - 1;

impl Device {
    /// The first CUDA device with room for the work, or the CPU if there is none or the feature `cuda` is off.
    pub const AUTO: Self = Self::new(Which::Auto);

    /// The CPU. A graph built here is the same on every machine.
    pub const CPU: Self = Self::new(Which::Cpu);

    /// All CUDA devices of the host, at most the first 64.
    pub const ALL_CUDA: Self = Self::new(Which::AllCuda);

    const fn new(which: Which) -> Self {
        Self { which, is_sharded: false, vector_storage: None }
    }

    /// The CUDA device of this number, which need not exist yet.
    pub const fn cuda(ordinal: usize) -> Self {
        Self::new(Which::Cuda(ordinal))
    }

    /// The CUDA devices of these numbers together.
    ///
    /// Unless they are [sharded](Self::sharded), every device holds the whole index. The devices share the queries, so
    /// there are more per second; every device makes every change. A device that faults is
    /// [left out](DeviceInfo::faults), and the others go on.
    ///
    /// The vectors, edges and keys are in host memory once per device. While a change is made, a search sees it or not
    /// depending on the device that answers; once the call has returned, every search sees it.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidParameter`] if there is no number, one is given twice, or one is above 63.
    pub fn cuda_set(ordinals: &[usize]) -> Result<Self> {
        let device = Self::new(Which::of(
            ordinals.iter().copied().filter(|&ordinal| ordinal <= MAX_SET_ORDINAL).collect(),
        ));
        if ordinals.is_empty() || device.cuda_ordinals().len() != ordinals.len() {
            return Err(Error::new(ErrorKind::InvalidParameter, DeviceSetError(ordinals.to_vec())));
        }
        Ok(device)
    }

    /// Whether each of several devices holds one *shard* of the index: the vectors of some keys, chosen by a hash. False
    /// by default.
    ///
    /// All devices search for every query, and the answers are merged by (distance, key). The index may be as large as
    /// all devices together. Large sets are built faster than on one device, and it answers about as many queries per
    /// second as one device.
    ///
    /// An index of one graph that is moved there is built again; deleted keys can then not be restored. An index that
    /// has [several shards](crate::IndexBuilder::shards) keeps them in any case, and the devices get them in turn.
    #[must_use]
    pub fn sharded(mut self, sharded: bool) -> Self {
        self.is_sharded = sharded;
        self
    }

    /// Where the device stores vectors: in its own memory, or in pinned host memory, which kernels read over PCIe.
    /// `None`, the default, stores them on the device if all of the index fits there, else on the host if the index is
    /// [quantized](Index::quantize). The choice is not saved, and is without effect on the CPU.
    ///
    /// Host storage is meant for quantized indexes, whose searches read only the reranked vectors over PCIe. Exact
    /// searches, inserts and consolidation read all their vectors over PCIe, at a fraction of the speed.
    #[must_use]
    pub fn vector_storage(mut self, storage: impl Into<Option<MemorySpace>>) -> Self {
        self.vector_storage = storage.into();
        self
    }

    /// The device with [`Self::ALL_CUDA`] replaced by those that there are. `None` for [`Self::AUTO`], which depends on
    /// the work.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Device`] if the device does not exist; the [source](std::error::Error::source) says what
    /// is missing. An index may still be too large for a device that exists.
    pub fn resolve(self) -> Result<Option<Self>> {
        Ok(self.find()?.map(|ordinals| Self { which: Which::of(ordinals), ..self }))
    }

    /// The numbers of its CUDA devices, in ascending order. Empty for [`Self::CPU`], for [`Self::AUTO`], and for
    /// [`Self::ALL_CUDA`] before it is [resolved](Self::resolve).
    pub fn cuda_ordinals(self) -> Vec<usize> {
        match self.which {
            Which::Auto | Which::Cpu | Which::AllCuda => Vec::new(),
            Which::Cuda(ordinal) => vec![ordinal],
            Which::CudaSet(set) => (0..=MAX_SET_ORDINAL).filter(|ordinal| set >> ordinal & 1 == 1).collect(),
        }
    }

    /// The numbers of its CUDA devices, all of which exist. `None` if the device depends on the work.
    pub(crate) fn find(self) -> Result<Option<Vec<usize>>, DeviceError> {
        let ordinals = match self.which {
            Which::Auto => return Ok(None),
            Which::AllCuda => {
                let all = backend::ordinals()?;
                if all.is_empty() {
                    // The error says why there are none.
                    backend::check_device(0)?;
                }
                all.into_iter().take(MAX_SET_ORDINAL + 1).collect()
            }
            Which::Cpu | Which::Cuda(_) | Which::CudaSet(_) => {
                let ordinals = self.cuda_ordinals();
                ordinals.iter().try_for_each(|&ordinal| backend::check_device(ordinal))?;
                ordinals
            }
        };
        Ok(Some(ordinals))
    }

    /// The CUDA devices among some devices as one, or the CPU if there is none.
    pub(crate) fn several(devices: impl IntoIterator<Item = Self>) -> Self {
        Self::new(Which::of(devices.into_iter().flat_map(Self::cuda_ordinals).collect()))
    }

    /// Whether this is the CPU, whatever its options, which a comparison with [`Self::CPU`] includes.
    pub(crate) fn is_cpu(self) -> bool {
        self.which == Which::Cpu
    }

    /// Whether the device depends on the work.
    pub(crate) fn is_auto(self) -> bool {
        self.which == Which::Auto
    }
}

/// Numbers do not make a set of CUDA devices.
#[derive(Debug, thiserror::Error)]
#[error("CUDA devices {0:?} are not a set; use different numbers from 0 to {MAX_SET_ORDINAL}, at least one")]
struct DeviceSetError(Vec<usize>);

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
    /// The errors of devices that faulted and are left out, where [several](Device::cuda_set) hold the index. The
    /// others answer all searches.
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

#[cfg(feature = "serde")]
impl serde::Serialize for Device {
    /// Serializes the device as its name.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The name of the device, without its options.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.which {
            Which::Auto => f.write_str("auto"),
            Which::Cpu => f.write_str("cpu"),
            Which::AllCuda => f.write_str("cuda:all"),
            Which::Cuda(_) | Which::CudaSet(_) => {
                let ordinals: Vec<String> = self.cuda_ordinals().iter().map(usize::to_string).collect();
                write!(f, "cuda:{}", ordinals.join(","))
            }
        }
    }
}

/// A text is not the name of a [`Device`].
#[derive(Debug, thiserror::Error)]
#[error(
    "device `{0}` is not known; use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all, with different numbers below 64"
)]
struct ParseDeviceError(String);

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let cuda = |numbers: &str| match numbers.parse() {
            Ok(ordinal) => Some(Self::cuda(ordinal)),
            Err(_) => {
                let ordinals = numbers.split(',').map(|ordinal| ordinal.parse().ok());
                Self::cuda_set(&ordinals.collect::<Option<Vec<_>>>()?).ok()
            }
        };
        let device = match name {
            "auto" => Some(Self::AUTO),
            "cpu" => Some(Self::CPU),
            "cuda" => Some(Self::cuda(0)),
            "cuda:all" => Some(Self::ALL_CUDA),
            _ => name.strip_prefix("cuda:").and_then(cuda),
        };
        device.ok_or_else(|| Error::new(ErrorKind::InvalidParameter, ParseDeviceError(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let set = Device::several([Device::cuda(3), Device::cuda(1)]);
        let devices = [Device::AUTO, Device::ALL_CUDA, Device::CPU, Device::cuda(0), Device::cuda(3), set];
        for device in devices {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!(set.to_string(), "cuda:1,3");
        assert_eq!("cuda:3,1".parse::<Device>().unwrap(), set);
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::cuda(0));
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
            assert!(name.parse::<Device>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_set_has_each_device_once() {
        assert_eq!(Device::cuda_set(&[3, 0]).unwrap().cuda_ordinals(), [0, 3]);
        assert_eq!(Device::cuda_set(&[2]).unwrap(), Device::cuda(2));
        assert_eq!(Device::several([Device::cuda(2), Device::CPU, Device::cuda(2)]), Device::cuda(2));
        let all = Vec::from_iter(0..64);
        assert_eq!(Device::cuda_set(&all).unwrap().cuda_ordinals(), all);
        for ordinals in [&[][..], &[0, 0], &[5, 64]] {
            let error = Device::cuda_set(ordinals).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParameter);
            assert!(error.to_string().contains("from 0 to 63"), "{error}");
        }
    }

    #[test]
    fn options_are_kept_but_not_named() {
        let device = Device::CPU.sharded(true).vector_storage(MemorySpace::Host);
        assert_eq!(device.to_string(), "cpu");
        assert_eq!(device.resolve().unwrap(), Some(device));
        assert_ne!(device, Device::CPU);
        assert!(device.is_cpu() && device.is_sharded && device.vector_storage == Some(MemorySpace::Host));
        assert_eq!(device.sharded(false).vector_storage(None), Device::CPU);
    }
}
