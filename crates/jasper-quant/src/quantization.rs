//! The choice of a quantizer.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jasper_core::{Element, MatrixView, Metric};

use crate::factors::UNIT_ROWS;
use crate::rotation;
use crate::{MAX_SECTORS, Mixed, MixedParams, Quantizer, Rabitq, RabitqParams, SECTOR_BYTES, TrainError};

/// A quantizer and its size, written as `rabitq:4` or `mixed:1`.
///
/// ```
/// use jasper_quant::Quantization;
/// assert_eq!("mixed:2".parse(), Ok(Quantization::Mixed { sectors: 2 }));
/// assert_eq!(Quantization::Rabitq { bits: 4 }.to_string(), "rabitq:4");
/// assert!("rabitq:9".parse::<Quantization>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// [`Rabitq`]: a random rotation, and the same bits for every coordinate.
    Rabitq {
        /// Bits per coordinate, 1 to 8.
        bits: u32,
    },
    /// [`Mixed`]: principal components, with more bits for the leading ones.
    Mixed {
        /// Sectors of 32 bytes per code, 1 to [`MAX_SECTORS`].
        sectors: u32,
    },
}

/// The error of parsing a [`Quantization`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown quantization `{0}`; use rabitq:BITS with 1 to 8 bits, or mixed:SECTORS with 1 to {MAX_SECTORS} sectors of 32 bytes"
)]
pub struct ParseQuantizationError(String);

impl Quantization {
    /// Trains this quantizer on `rows`, a sample or all vectors, on the threads of `pool`. Other parameters have their
    /// defaults.
    ///
    /// # Errors
    /// Returns the errors of [`Rabitq::train`] and [`Mixed::train`].
    pub fn train<T: Element>(
        self,
        metric: Metric,
        rows: MatrixView<'_, T>,
        pool: &rayon::ThreadPool,
    ) -> Result<Arc<dyn Quantizer>, TrainError> {
        Ok(match self {
            Self::Rabitq { bits } => Arc::new(Rabitq::train(rows, &RabitqParams::new(metric, bits))?),
            Self::Mixed { sectors } => {
                Arc::new(Mixed::train(rows, &MixedParams { metric, sectors, seed: 0 }, pool)?)
            }
        })
    }

    /// Checks the size.
    ///
    /// # Errors
    /// Returns [`TrainError::Bits`] or [`TrainError::Sectors`] if it is out of range.
    pub fn check(self) -> Result<(), TrainError> {
        match self {
            Self::Rabitq { bits } if !(1..=8).contains(&bits) => Err(TrainError::Bits(bits)),
            Self::Mixed { sectors } if !(1..=MAX_SECTORS).contains(&sectors) => {
                Err(TrainError::Sectors(sectors))
            }
            _ => Ok(()),
        }
    }

    /// Size in bytes of the code of a vector of `dimension` coordinates, factors included.
    ///
    /// # Panics
    /// Panics if the size is [invalid](Self::check).
    pub fn bytes(self, dimension: usize) -> usize {
        self.check().expect("a valid size");
        match self {
            Self::Rabitq { bits } => Rabitq::layout_of(dimension, bits).bytes(),
            Self::Mixed { sectors } => sectors as usize * SECTOR_BYTES,
        }
    }

    /// Maximum size in bytes of the trained quantizer for vectors of `dimension` coordinates, without a header of less
    /// than 64 bytes. The data determine how many directions a mixed quantizer has.
    ///
    /// # Panics
    /// Panics if the size is [invalid](Self::check).
    pub fn quantizer_bytes(self, dimension: usize) -> usize {
        self.check().expect("a valid size");
        let floats = match self {
            Self::Rabitq { .. } => rotation::max_floats(dimension),
            Self::Mixed { sectors } => Mixed::max_floats(dimension, sectors),
        };
        // The center is added.
        (dimension + floats) * size_of::<f32>()
    }

    /// Maximum memory in bytes that [`Self::train`] takes for `rows` vectors of `dimension` coordinates, without these
    /// and without the quantizer.
    ///
    /// # Panics
    /// Panics if the size is [invalid](Self::check).
    pub fn training_bytes(self, rows: usize, dimension: usize) -> usize {
        self.check().expect("a valid size");
        match self {
            Self::Rabitq { .. } => rows.min(UNIT_ROWS) * dimension * size_of::<f32>(),
            Self::Mixed { sectors } => Mixed::training_bytes(rows, dimension, sectors),
        }
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rabitq { bits } => write!(f, "rabitq:{bits}"),
            Self::Mixed { sectors } => write!(f, "mixed:{sectors}"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Quantization {
    /// Serializes the quantization as its name, `rabitq:4` or `mixed:1`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Quantization {
    type Err = ParseQuantizationError;

    fn from_str(name: &str) -> Result<Self, ParseQuantizationError> {
        let number = |max| move |text: &str| text.parse().ok().filter(|number| (1..=max).contains(number));
        let quantization = match name.split_once(':') {
            Some(("rabitq", bits)) => number(8)(bits).map(|bits| Self::Rabitq { bits }),
            Some(("mixed", sectors)) => number(MAX_SECTORS)(sectors).map(|sectors| Self::Mixed { sectors }),
            _ => None,
        };
        quantization.ok_or_else(|| ParseQuantizationError(name.to_owned()))
    }
}
