//! The arguments of searches by estimates, and what a query of theirs takes.

use super::SearchArgs;
use crate::codes::CodeArgs;

/// Arguments of every search by estimates.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QuantizedSearchArgs {
    /// What is searched, and how. Rows, queries, squared norms and the form are of no meaning: they may be null.
    pub search: SearchArgs,
    /// Codes of the rows and of the queries.
    pub codes: CodeArgs,
}

/// Levels that broadcasts must not cross, and what moves them there: two words.
const ALIGN: u32 = 16;

/// Bytes that the levels of a query take in shared memory where a lane reads a row.
#[inline(always)]
pub(super) const fn lane_per_row_query_bytes(codes: &CodeArgs) -> u32 {
    (codes.shape.dimensions + ALIGN / 2).next_multiple_of(ALIGN)
}

/// The same where a tile of lanes does.
#[inline(always)]
pub(super) const fn tile_per_row_query_bytes(codes: &CodeArgs) -> u32 {
    codes.limbs * codes.shape.levels_words() * 4
}
