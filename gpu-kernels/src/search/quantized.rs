//! The kernels and arguments of quantized searches, and the shared memory of their queries.

use super::SearchArgs;
use crate::codes::CodeArgs;

/// Passes the kernels of quantized searches to the macro `$each`. The columns are how lanes read codes, the 16-byte
/// units of a code or the lanes of a tile, the name, and the launch bounds (minimum resident blocks per
/// multiprocessor, which limit the registers) for frontiers in one, two and four registers, and in shared memory.
macro_rules! quantized_searches {
    ($each:ident) => {
        $each! {
            LanePerRow 2 codes_b32 (24 24 20 20);
            LanePerRow 4 codes_b64 (20 20 16 20);
            LanePerRow 5 codes_b80 (16 16 16 16);
            TilePerRow 4 codes_w4 (12 12 12 12);
            TilePerRow 8 codes_w8 (12 12 12 12);
        }
    };
}
pub(super) use quantized_searches;

/// Arguments of every quantized search.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QuantizedSearchArgs {
    /// The arguments of every search. Rows, queries and squared norms are not read and may be null.
    pub search: SearchArgs,
    /// Codes of the rows and of the queries.
    pub codes: CodeArgs,
}

impl AsRef<SearchArgs> for QuantizedSearchArgs {
    fn as_ref(&self) -> &SearchArgs {
        &self.search
    }
}

/// A 16-byte load of levels must not straddle this many bytes. Planes of one and two bits are read from up to two words
/// further on to avoid it.
const ALIGN: u32 = 16;

/// Bytes of shared memory for a query if each lane reads a row.
pub(super) const fn lane_per_row_query_bytes(codes: &CodeArgs) -> u32 {
    (codes.shape.dimensions + ALIGN / 2).next_multiple_of(ALIGN)
}

/// Bytes of shared memory for a query if a tile of lanes reads a row.
pub(super) const fn tile_per_row_query_bytes(codes: &CodeArgs) -> u32 {
    codes.level_bytes * codes.shape.levels_words() * 4
}
