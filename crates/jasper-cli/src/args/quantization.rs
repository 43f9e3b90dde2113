//! How a command quantizes vectors.

use std::fmt;
use std::str::FromStr;

use jasper::{Device, Quantization, QuantizeMode};
use jasper_quant::ParseQuantizationError;

/// How to quantize vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantizationChoice {
    /// The quantization that a trial finds best.
    Auto,
    /// Not at all.
    None,
    /// With this quantization.
    Fixed(Quantization),
}

impl QuantizationChoice {
    /// How an index is quantized, for searches on `device` if a trial decides.
    pub fn mode(self, device: Device, force: bool) -> QuantizeMode {
        match self {
            Self::Auto => QuantizeMode::Auto(device),
            Self::None => QuantizeMode::None,
            Self::Fixed(quantization) if force => QuantizeMode::Forced(quantization),
            Self::Fixed(quantization) => QuantizeMode::Checked(quantization),
        }
    }
}

impl FromStr for QuantizationChoice {
    type Err = ParseQuantizationError;

    fn from_str(name: &str) -> Result<Self, ParseQuantizationError> {
        match name {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            name => name.parse().map(Self::Fixed),
        }
    }
}

impl fmt::Display for QuantizationChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Fixed(quantization) => quantization.fmt(f),
        }
    }
}
