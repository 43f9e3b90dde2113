//! Which code, as users name it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jasper_core::{Element, MatrixView, Metric};

use crate::{
    MAX_SECTORS, Mixed, MixedParams, Quantizer, Rabitq, RabitqParams, Rotation, SECTOR_BYTES, TrainError,
};

/// A kind of code and its size. Written as `rabitq:4` or `mixed:1`.
///
/// ```
/// use jasper_quant::Quantization;
/// assert_eq!("mixed:2".parse(), Ok(Quantization::Mixed { sectors: 2 }));
/// assert_eq!(Quantization::Rabitq { bits: 4 }.to_string(), "rabitq:4");
/// assert!("rabitq:9".parse::<Quantization>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// [`Rabitq`] with so many bits a coordinate.
    Rabitq {
        /// 1 to 8.
        bits: u32,
    },
    /// [`Mixed`] in so many sectors of 32 bytes.
    Mixed {
        /// 1 to [`MAX_SECTORS`].
        sectors: u32,
    },
}

/// No name of a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no code; use rabitq:BITS with 1 to 8 bits, or mixed:SECTORS with 1 to {MAX_SECTORS} sectors of 32 bytes"
)]
pub struct ParseQuantizationError(String);

impl Quantization {
    /// A quantizer of this kind for rows like `rows`, learnt on the threads of `pool`, with defaults for what is not said.
    ///
    /// # Errors
    /// [`TrainError`], as [`Rabitq::train`] and [`Mixed::train`].
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
}

impl Quantization {
    /// Whether there is such a code.
    ///
    /// # Errors
    /// [`TrainError::Bits`], [`TrainError::Sectors`].
    pub fn check(self) -> Result<(), TrainError> {
        match self {
            Self::Rabitq { bits } if !(1..=8).contains(&bits) => Err(TrainError::Bits(bits)),
            Self::Mixed { sectors } if !(1..=MAX_SECTORS).contains(&sectors) => {
                Err(TrainError::Sectors(sectors))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of the code of a row of `dimension` coordinates, its factors included.
    ///
    /// # Panics
    /// If there is [no such code](Self::check).
    pub fn bytes(self, dimension: usize) -> usize {
        self.check().expect("there is such a code");
        match self {
            Self::Rabitq { bits } => Rabitq::layout_of(dimension, bits).bytes(),
            Self::Mixed { sectors } => sectors as usize * SECTOR_BYTES,
        }
    }

    /// Bytes of a quantizer of this kind for rows of `dimension` coordinates, but for a header of some dozens, at most:
    /// data decide how many directions a mixed code has.
    ///
    /// # Panics
    /// If there is [no such code](Self::check).
    pub fn quantizer_bytes(self, dimension: usize) -> usize {
        self.check().expect("there is such a code");
        let floats = match self {
            Self::Rabitq { .. } => Rotation::most_floats(dimension),
            Self::Mixed { sectors } => Mixed::most_floats(dimension, sectors),
        };
        // Beside these there is the centre.
        (dimension + floats) * size_of::<f32>()
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

impl FromStr for Quantization {
    type Err = ParseQuantizationError;

    fn from_str(name: &str) -> Result<Self, ParseQuantizationError> {
        let number = |most| move |text: &str| text.parse().ok().filter(|number| (1..=most).contains(number));
        let code = match name.split_once(':') {
            Some(("rabitq", bits)) => number(8)(bits).map(|bits| Self::Rabitq { bits }),
            Some(("mixed", sectors)) => number(MAX_SECTORS)(sectors).map(|sectors| Self::Mixed { sectors }),
            _ => None,
        };
        code.ok_or_else(|| ParseQuantizationError(name.to_owned()))
    }
}
