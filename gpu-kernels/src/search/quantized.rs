//! The arguments of quantized searches, and the shared memory of their queries.

use super::SearchArgs;
use crate::codes::CodeArgs;

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
