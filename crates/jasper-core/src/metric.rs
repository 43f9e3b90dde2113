//! Distance metrics.

use std::fmt;
use std::str::FromStr;

/// A distance metric. Distances are smaller for closer vectors under every metric.
///
/// | metric | distance |
/// | --- | --- |
/// | `L2` | squared Euclidean distance |
/// | `InnerProduct` | negated inner product |
/// | `Cosine` | 1 - cos, from 0 to 2: half the squared L2 distance of the normalized vectors |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Metric {
    /// Squared Euclidean distance.
    L2,
    /// Negated inner product: the largest product is nearest.
    #[cfg_attr(feature = "serde", serde(rename = "ip"))]
    InnerProduct,
    /// One minus the cosine of the angle. Zero vectors, which have no angle, are rejected.
    Cosine,
}

impl Metric {
    /// All metrics, in the order of their numbers in the index file.
    pub const ALL: [Self; 3] = [Self::L2, Self::InnerProduct, Self::Cosine];

    /// The name on command lines: `l2`, `ip` or `cosine`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::InnerProduct => "ip",
            Self::Cosine => "cosine",
        }
    }

    /// The distance within the bounds of the metric, which rounding may exceed: cosine distances are from 0 to 2.
    #[inline]
    pub fn clamp(self, distance: f32) -> f32 {
        if self == Self::Cosine { distance.clamp(0.0, 2.0) } else { distance }
    }

    /// The number of the metric in the index file.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The metric with this number in the index file.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of parsing a [`Metric`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown metric `{0}`; use l2, ip or cosine")]
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
    fn rounding_does_not_leave_the_bounds() {
        assert_eq!([-1e-7, 0.5, 2.000_000_2].map(|distance| Metric::Cosine.clamp(distance)), [0.0, 0.5, 2.0]);
        assert_eq!([-3.0, 5.0].map(|distance| Metric::InnerProduct.clamp(distance)), [-3.0, 5.0]);
    }

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
