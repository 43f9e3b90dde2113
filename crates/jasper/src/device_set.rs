//! Sets of CUDA devices, and how an index uses them.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// Several CUDA devices of one host, for one index: see [`Spread`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSet(u64);

impl CudaSet {
    /// The devices of these numbers. `None` if there is no number, one is given twice, or one is above 63.
    pub fn new(ordinals: &[usize]) -> Option<Self> {
        let bits =
            ordinals.iter().filter(|&&ordinal| ordinal < 64).fold(0, |set, ordinal| set | 1 << ordinal);
        (bits != 0 && u64::count_ones(bits) as usize == ordinals.len()).then_some(Self(bits))
    }

    /// The numbers of the devices, in ascending order.
    pub fn ordinals(self) -> Vec<usize> {
        (0..64).filter(|ordinal| self.0 >> ordinal & 1 == 1).collect()
    }
}

/// The numbers, separated by commas.
impl fmt::Display for CudaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ordinals().iter().map(usize::to_string).collect::<Vec<_>>().join(","))
    }
}

/// How an index uses the devices of a [`CudaSet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spread {
    /// Every device holds the whole index. The devices share the queries, so there are more per second; every device
    /// makes every change. A device that faults is [left out](crate::DeviceInfo::faults), and the others go on.
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
#[derive(Debug, thiserror::Error)]
#[error("spread `{0}` is not known; use replicated or sharded")]
struct ParseSpreadError(String);

impl FromStr for Spread {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let spreads = [Self::Replicated, Self::Sharded];
        let found = spreads.into_iter().find(|spread| spread.to_string() == name);
        found.ok_or_else(|| Error::new(ErrorKind::InvalidParameter, ParseSpreadError(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_each_device_once() {
        assert_eq!(CudaSet::new(&[3, 0]).unwrap().to_string(), "0,3");
        for ordinals in [&[][..], &[0, 0], &[5, 64]] {
            assert_eq!(CudaSet::new(ordinals), None);
        }
        let all = Vec::from_iter(0..64);
        assert_eq!(CudaSet::new(&all).unwrap().ordinals(), all);
    }

    #[test]
    fn spreads_round_trip() {
        for spread in [Spread::Replicated, Spread::Sharded] {
            assert_eq!(spread.to_string().parse::<Spread>().unwrap(), spread);
        }
        assert!("copied".parse::<Spread>().unwrap_err().to_string().contains("use replicated"));
    }
}
