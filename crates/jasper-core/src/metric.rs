//! How near two vectors are.

use std::fmt;
use std::str::FromStr;

/// How near two vectors are. A distance is smaller for a nearer vector, whatever the metric.
///
/// | metric | distance shown to the user | what a graph is built on |
/// | --- | --- | --- |
/// | `L2` | squared Euclidean distance | the same |
/// | `InnerProduct` | the negated inner product | the same |
/// | `Cosine` | 1 - cos, from 0 to 2 | the same, which is half the squared L2 of the unit vectors |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Squared Euclidean distance.
    L2,
    /// Largest inner product first.
    InnerProduct,
    /// Smallest angle first. A zero vector has no angle and is refused.
    Cosine,
}

impl Metric {
    /// All metrics, in the order of their codes in the index file.
    pub const ALL: [Self; 3] = [Self::L2, Self::InnerProduct, Self::Cosine];

    /// The name used on the command line: `l2`, `ip` or `cosine`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "ip",
            Self::Cosine => "cosine",
        }
    }

    /// The number that stands for the metric in the index file.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The metric with this code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A metric's name was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metric `{0}` is not known; use l2, ip or cosine")]
pub struct ParseMetricError(String);

impl FromStr for Metric {
    type Err = ParseMetricError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|metric| metric.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ParseMetricError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for metric in Metric::ALL {
            assert_eq!(metric.name().parse(), Ok(metric));
            assert_eq!(Metric::from_code(metric.code()), Some(metric));
        }
        assert_eq!(Metric::from_code(3), None);
        assert!("hamming".parse::<Metric>().unwrap_err().to_string().contains("use l2, ip or cosine"));
    }
}
