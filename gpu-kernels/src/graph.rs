//! A graph in device memory, as kernels read it.

#[cfg(feature = "kernels")]
use cuda_std::math;

use crate::In;

/// An id that names no row.
pub const NO_ROW: u32 = u32::MAX;

/// Where the parts of a graph lie. Slots are numbered as on the host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphArgs {
    /// `[slots][row_bytes]`: vectors padded to 16 bytes with zeros, at a multiple of 16.
    pub rows: In<u8>,
    /// `[slots][links_stride]`: the neighbours of each slot, then [`NO_ROW`]. At a multiple of 128.
    pub links: In<u32>,
    /// `[slots]`: squared lengths of the vectors. Nowhere unless the form needs them.
    pub squared_norms: In<f32>,
    /// `[slots]`: the first key of each live slot.
    pub keys: In<u64>,
    /// `[starts_len]`: where searches begin. Distinct.
    pub starts: In<u32>,
    /// Start points.
    pub starts_len: u32,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Places for neighbours of each slot, a multiple of 32.
    pub links_stride: u32,
    /// No row is longer: for inner products, where a prune's slack counts from it.
    pub largest_squared_norm: f32,
}

/// What is made of the sum over two vectors: the same steps as on the CPU, in the same order.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Squared L2 as it is.
    Plain,
    /// Half of squared L2 of unit vectors: 1 - cos.
    Half,
    /// A dot product, negated.
    Negated,
    /// A dot product over both lengths: 1 - cos of vectors of any length. Needs squared norms.
    Angle,
}

/// What is summed over the coordinates of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg(not(target_arch = "nvptx64"))]
pub enum Measure {
    /// Squared differences.
    SquaredL2,
    /// Products.
    Dot,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Measure {
    /// Both.
    pub const ALL: [Self; 2] = [Self::SquaredL2, Self::Dot];

    /// The sum that a distance of this form is made of.
    pub const fn of(form: Form) -> Self {
        match form {
            Form::Plain | Form::Half => Self::SquaredL2,
            Form::Negated | Form::Angle => Self::Dot,
        }
    }

    /// Its name inside the names of kernels.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SquaredL2 => "l2",
            Self::Dot => "dot",
        }
    }
}

#[cfg(feature = "kernels")]
impl Form {
    /// The distance that a sum over two vectors stands for, whose `squared_norms` count where the form needs them.
    #[inline(always)]
    pub(crate) fn distance(self, sum: f32, squared_norms: [f32; 2]) -> f32 {
        let [one, other] = squared_norms;
        match self {
            Self::Plain => sum,
            Self::Half => 0.5 * sum,
            Self::Negated => -sum,
            Self::Angle => 1.0 - sum / math::sqrt_f32(one * other),
        }
    }
}
