//! Sets of CUDA devices, and how an index uses them.

use std::fmt;
use std::str::FromStr;

use crate::device::ParseDeviceError;
use crate::{DeviceError, backend};

/// Several CUDA devices of one host, for one index: see [`Spread`].
///
/// ```
/// use jasper::{CudaSet, Device};
///
/// let devices: Device = "cuda:0,1".parse()?;
/// assert_eq!(devices, Device::CudaSet(CudaSet::new(&[0, 1])?));
/// assert_eq!(Device::CudaSet(CudaSet::ALL).to_string(), "cuda:all");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSet(u64);

impl CudaSet {
    /// All CUDA devices of the host.
    pub const ALL: Self = Self(u64::MAX);

    /// The devices of these numbers.
    ///
    /// # Errors
    /// Returns [`ParseDeviceError`] if there is no number, one is given twice, or one is above 62.
    pub fn new(ordinals: &[usize]) -> Result<Self, ParseDeviceError> {
        let set = ordinals.iter().filter(|&&ordinal| ordinal < 63).fold(0, |set, ordinal| set | 1 << ordinal);
        if ordinals.is_empty() || u64::count_ones(set) as usize != ordinals.len() {
            return Err(ParseDeviceError(format!("cuda:{}", join(ordinals))));
        }
        Ok(Self(set))
    }

    /// The numbers of the devices, in ascending order.
    ///
    /// # Errors
    /// Returns [`DeviceError`] if one does not exist.
    pub fn ordinals(self) -> Result<Vec<usize>, DeviceError> {
        if self != Self::ALL {
            self.named().try_for_each(backend::check_device)?;
            return Ok(self.named().collect());
        }
        let all = backend::ordinals()?;
        // If there are none, the error says why.
        if all.is_empty() { backend::check_device(0).map(|()| all) } else { Ok(all) }
    }

    fn named(self) -> impl Iterator<Item = usize> {
        (0..63).filter(move |ordinal| self.0 >> ordinal & 1 == 1)
    }
}

/// The numbers, separated by commas, or `all`.
impl fmt::Display for CudaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        f.write_str(&join(&self.named().collect::<Vec<_>>()))
    }
}

/// The numbers, separated by commas.
fn join(ordinals: &[usize]) -> String {
    ordinals.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

impl CudaSet {
    /// The set that [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::ALL);
        }
        Self::new(&text.split(',').map(|ordinal| ordinal.parse().ok()).collect::<Option<Vec<_>>>()?).ok()
    }
}

/// How an index uses the devices of a [`CudaSet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spread {
    /// Every device holds the whole index. The devices share the queries, so there are more per second; every device
    /// makes every change. A device that faults is [left out](crate::Index::device_faults), and the others go on.
    ///
    /// The vectors, edges and keys are in host memory once per device. While a change is made, a search sees it or not
    /// depending on the device that answers; once the call has returned, every search sees it.
    #[default]
    Replicated,
    /// Every device holds a part of the vectors, a *shard*, chosen by a hash of their keys. All devices search for every
    /// query, and the answers are merged by (distance, key). The index may be as large as all devices together.
    /// Large sets are built faster than on one device, and it answers about as many queries per second as one device.
    Sharded,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replicated => "replicated",
            Self::Sharded => "sharded",
        })
    }
}

/// A text is not the name of a spread.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spread `{0}` is not known; use replicated or sharded")]
pub struct ParseSpreadError(String);

impl FromStr for Spread {
    type Err = ParseSpreadError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let spreads = [Self::Replicated, Self::Sharded];
        let found = spreads.into_iter().find(|spread| spread.to_string() == name);
        found.ok_or_else(|| ParseSpreadError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_device_once() {
        let set = CudaSet::new(&[3, 0]).unwrap();
        assert_eq!(set.to_string(), "0,3");
        assert_eq!(CudaSet::parse("3,0"), Some(set));
        for text in ["", "0,", "0,0", "0,63", "0,x", "0,99999999999"] {
            assert_eq!(CudaSet::parse(text), None, "{text}");
        }
        assert_eq!(CudaSet::new(&Vec::from_iter(0..63)).unwrap().named().count(), 63);
        let error = CudaSet::new(&[5, 63]).unwrap_err().to_string();
        assert!(error.starts_with("device `cuda:5,63` is not known"), "{error}");
        assert!(CudaSet::new(&[]).is_err());
    }

    #[test]
    fn spreads_round_trip() {
        for spread in [Spread::Replicated, Spread::Sharded] {
            assert_eq!(spread.to_string().parse(), Ok(spread));
        }
        assert!("copied".parse::<Spread>().unwrap_err().to_string().contains("use replicated"));
    }
}
