//! The kernels and arguments of quantized searches, and the shared memory of their queries.

use super::SearchArgs;
use crate::codes::CodeArgs;

/// Passes the kernels of quantized searches to the macro `$each`. The columns are the distance computer, its size
/// (units of a code, or lanes of a tile), the infix of the kernel names, and the launch bounds: the minimum number of
/// resident blocks per multiprocessor, which limits the registers of a thread, for each kind of frontier.
macro_rules! quantized_searches {
    ($each:ident) => {
        $each! {
            LanePerRow 2 codes_b32 (r1 24, r2 24, r4 20, wide 20);
            LanePerRow 4 codes_b64 (r1 20, r2 20, r4 16, wide 20);
            LanePerRow 5 codes_b80 (r1 16, r2 16, r4 16, wide 16);
            TilePerRow 4 codes_w4 (r1 12, r2 12, r4 12, wide 12);
            TilePerRow 8 codes_w8 (r1 12, r2 12, r4 12, wide 12);
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
