//! Codes in device memory: those of rows, and those of the queries compared with them.
//!
//! The layout of the bits is that of `jasper_quant::layout`, and estimates equal those of `jasper_quant::query` bit for
//! bit. Queries are encoded by the host or by a kernel.

#[cfg(not(target_arch = "nvptx64"))]
use jasper_quant::Layout;

use crate::DevicePtr;

/// Codes of vectors, and of queries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CodeArgs {
    /// `[slots][shape.words]`: a code per row. The address is a multiple of 16 bytes, and of the length of a code if
    /// that is at most 64 bytes.
    pub rows: DevicePtr<u32>,
    /// `[queries][level_bytes][shape.dimensions]`: levels, which are the coordinates of the query rounded to integers,
    /// in natural order, four bytes a word, most significant byte first.
    pub levels: DevicePtr<u32>,
    /// `[queries]`: the factors of each query.
    pub query_factors: DevicePtr<QueryFactors>,
    /// Bytes per level of a query: 1 or 2.
    pub level_bytes: u32,
    /// The layout of a row.
    pub shape: CodeShape,
}

/// The numbers of a query, besides its levels, that its estimates need. For a row with the factors `row.add`,
/// `row.rescale` and so on:
///
/// ```text
/// product  = sum over bytes of scale[byte] * (<levels of the row, that byte of the levels> + offset[byte])
/// row_add  = row.add, or, with four factors, row.add + row.add_low / 2048
/// estimate = (row_add * add_unit + add) + row.rescale * product
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct QueryFactors {
    /// Added to every estimate.
    pub add: f32,
    /// The unit of the `add` of a row.
    pub add_unit: f32,
    /// Scale of each byte of the levels, times the unit of `rescale` of a row; 0 for a byte that levels do not have.
    pub scale: [f32; 2],
    /// Offset of each byte of the levels.
    pub offset: [f32; 2],
}

/// The shape of a code row: at most one plane of each width.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeShape {
    /// The 8-bit plane; `dimensions` is 0 if it is absent.
    pub eight: PlaneShape,
    /// The 4-bit plane, or none.
    pub four: PlaneShape,
    /// The 2-bit plane, or none.
    pub two: PlaneShape,
    /// The 1-bit plane, or none.
    pub one: PlaneShape,
    /// Words of a row, a multiple of four.
    pub words: u32,
    /// Number of coded dimensions, a multiple of 8. A query has as many int8 numbers per byte of a level.
    pub dimensions: u32,
    /// f16 factors at the end of a row: 2 (`add`, `rescale`), or 4 (those, `error`, `add_low`).
    pub factors_len: u32,
}

/// The shape of a plane: some bits of some dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneShape {
    /// The weight of these bits is `2^shift`.
    pub shift: u32,
    /// First dimension of the plane.
    pub first_dimension: u32,
    /// Dimensions of the plane, a multiple of 32 / width.
    pub dimensions: u32,
    /// First word of the plane in a row.
    pub first_word: u32,
}

// By reference: a copy of four words stays in memory on the device.
impl PlaneShape {
    /// Words of the plane, at `bits` bits per dimension.
    pub(crate) const fn words(&self, bits: u32) -> u32 {
        self.dimensions * bits / 32
    }

    /// The first unit of the plane. A unit is four words, 16 bytes.
    pub(crate) const fn first_unit(&self) -> u32 {
        self.first_word / 4
    }

    /// Number of units with words of the plane.
    pub(crate) const fn units(&self, bits: u32) -> u32 {
        if self.dimensions == 0 {
            return 0;
        }
        (self.first_word + self.words(bits)).div_ceil(4) - self.first_unit()
    }

    /// Words of a query's levels for these units.
    pub(crate) const fn levels_words(&self, bits: u32) -> u32 {
        self.units(bits) * 4 * (8 / bits)
    }
}

impl CodeShape {
    /// Words of a query per byte of a level, in whole units of every plane.
    pub(crate) const fn levels_words(&self) -> u32 {
        self.eight.levels_words(8)
            + self.four.levels_words(4)
            + self.two.levels_words(2)
            + self.one.levels_words(1)
    }

    /// Bytes of a row: a multiple of 16.
    pub const fn row_bytes(&self) -> u32 {
        self.words * 4
    }

    /// The word in which factors begin.
    pub const fn factor_word(&self) -> u32 {
        self.words - self.factors_len / 2
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl From<&Layout> for CodeShape {
    fn from(layout: &Layout) -> Self {
        let plane = |width| {
            let plane = layout.planes().iter().find(|plane| plane.width == width);
            plane.map_or_else(PlaneShape::default, |plane| PlaneShape {
                shift: plane.shift,
                first_dimension: plane.first_dimension as u32,
                dimensions: plane.dimensions as u32,
                first_word: plane.first_word as u32,
            })
        };
        Self {
            eight: plane(8),
            four: plane(4),
            two: plane(2),
            one: plane(1),
            words: layout.words() as u32,
            dimensions: layout.dimensions() as u32,
            factors_len: layout.factors() as u32,
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl From<jasper_quant::QueryFactors> for QueryFactors {
    fn from(query_factors: jasper_quant::QueryFactors) -> Self {
        let jasper_quant::QueryFactors { add, add_unit, scale, offset, .. } = query_factors;
        Self { add, add_unit, scale, offset }
    }
}
