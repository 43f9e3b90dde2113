//! A graph in device memory, as kernels read it.

#[cfg(feature = "kernels")]
use cuda_std::math;
#[cfg(not(target_arch = "nvptx64"))]
use jasper_core::Metric;

use crate::{DevicePtr, RowShape};

/// Stands for no vertex, in place of a slot.
pub const NO_SLOT: u32 = u32::MAX;

/// The tables of a graph. A *slot* names a vertex: it is the index of its row in each table, here and on the host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GraphArgs {
    /// `[slots][row_bytes]`: vectors padded with zeros to a multiple of 16 bytes. The address is a multiple of 16.
    pub vectors: DevicePtr<u8>,
    /// `[slots][edges_stride]`: the neighbors of each slot, then [`NO_SLOT`]. The address is a multiple of 128. Rows may
    /// be written while they are searched: a search gets some old neighbors and some new ones, maybe twice, with
    /// [`NO_SLOT`] between them.
    pub edges: DevicePtr<u32>,
    /// `[slots]`: the term of each vector: a number that some forms need beside the sum. Null unless the form needs it.
    pub terms: DevicePtr<f32>,
    /// `[slots]`: the first key of each live vertex; identical vectors share a vertex, so it may have more, which the
    /// host looks up.
    pub keys: DevicePtr<u64>,
    /// `[start_points_len]`: start points of searches, distinct.
    pub start_points: DevicePtr<u32>,
    /// Number of start points.
    pub start_points_len: u32,
    /// The length of a row, and how lanes share it.
    pub shape: RowShape,
    /// Places for neighbors of each slot, a multiple of 32.
    pub edges_stride: u32,
    /// Number of slots that all tables have room for. A search ignores neighbors in higher slots: vertices that were
    /// added since, for which tables were moved.
    pub capacity: u32,
    /// Where the products of vertices start from.
    pub origins: Origins,
}

/// Under inner products, where the products of a vertex start from when its edges are chosen: from zero or from the
/// center, as `jasper_graph::Center` says. Only [`DistanceForm::NegatedDotFromOrigin`] needs them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins {
    /// The origin of vertices with a larger term is zero, that of others the center.
    pub zero_above: f32,
    /// From zero and from the center: the weight of two terms in a distance.
    pub term_weights: [f32; 2],
    /// From zero and from the center: what prunes add to distances before they multiply them by alpha.
    pub alpha_offsets: [f32; 2],
}

#[cfg(feature = "kernels")]
impl Origins {
    /// The weight of terms for a vertex with this term.
    pub(crate) fn term_weight(&self, term: f32) -> f32 {
        let [zero, center] = self.term_weights;
        if term > self.zero_above { zero } else { center }
    }

    /// The offset of alpha for a vertex with this term.
    pub(crate) fn alpha_offset(&self, term: f32) -> f32 {
        let [zero, center] = self.alpha_offsets;
        if term > self.zero_above { zero } else { center }
    }
}

/// How a distance follows from the sum over two vectors. The steps and their order are those of the CPU.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DistanceForm {
    /// Squared L2.
    SquaredL2,
    /// Half of squared L2 of unit vectors, which is 1 - cos.
    HalfSquaredL2,
    /// A dot product, negated.
    NegatedDot,
    /// A dot product of vectors from some origin, negated: the sum of their terms, times its weight, less the dot product.
    NegatedDotFromOrigin,
    /// One minus a dot product divided by both lengths, which is 1 - cos of vectors of any length. Terms are their squared
    /// lengths.
    Cosine,
}

/// What is summed over the coordinates of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg(not(target_arch = "nvptx64"))]
pub enum DistanceOpKind {
    /// Squared differences.
    SquaredL2,
    /// Products.
    Dot,
}

impl DistanceForm {
    /// The form of a metric for queries. `is_exact` is whether the element is an integer, whose sums are exact.
    #[cfg(not(target_arch = "nvptx64"))]
    pub const fn new(metric: Metric, is_exact: bool) -> Self {
        match (metric, is_exact) {
            (Metric::L2, _) => Self::SquaredL2,
            (Metric::InnerProduct, _) => Self::NegatedDot,
            (Metric::Cosine, false) => Self::HalfSquaredL2,
            (Metric::Cosine, true) => Self::Cosine,
        }
    }

    /// The form of a metric by which edges are chosen, and vertices searched for.
    #[cfg(not(target_arch = "nvptx64"))]
    pub const fn between_vertices(metric: Metric, is_exact: bool) -> Self {
        match Self::new(metric, is_exact) {
            Self::NegatedDot => Self::NegatedDotFromOrigin,
            form => form,
        }
    }

    /// Whether distances need a term of each vector.
    #[cfg(feature = "kernels")]
    pub(crate) fn needs_terms(self) -> bool {
        matches!(self, Self::NegatedDotFromOrigin | Self::Cosine)
    }

    /// What is summed over two vectors for this form.
    #[cfg(not(target_arch = "nvptx64"))]
    pub const fn op(self) -> DistanceOpKind {
        match self {
            Self::SquaredL2 | Self::HalfSquaredL2 => DistanceOpKind::SquaredL2,
            Self::NegatedDot | Self::NegatedDotFromOrigin | Self::Cosine => DistanceOpKind::Dot,
        }
    }

    /// The distance of two vectors with this sum and these terms.
    #[cfg(feature = "kernels")]
    pub(crate) fn distance(self, sum: f32, terms: [f32; 2], term_weight: f32) -> f32 {
        let [one, other] = terms;
        match self {
            Self::SquaredL2 => sum,
            Self::HalfSquaredL2 => 0.5 * sum,
            Self::NegatedDot => -sum,
            Self::NegatedDotFromOrigin => term_weight * (one + other) - sum,
            Self::Cosine => 1.0 - sum / math::sqrt_f32(one * other),
        }
    }
}
