//! Kernels that differ from those of [`Search`](super::Search) in one choice: what else there is, to be measured.
//!
//! The paper's tables are made of them. They exist for a few kinds of rows, and take beams of up to
//! [`Variant::MOST_ENTRIES`].

#[cfg(feature = "kernels")]
mod entries;
#[cfg(feature = "kernels")]
mod halves;
#[cfg(feature = "kernels")]
mod persistent;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;
#[cfg(feature = "kernels")]
mod unmarked;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{Choice, Variant};

/// The steps of a row and the rows of a tile that are in flight together, for rows of `units` read by `width` lanes, of
/// which each has `loads` in flight.
const fn in_flight(units: u32, width: u32, loads: u32) -> (usize, usize) {
    let steps = units.div_ceil(width);
    if steps > loads {
        // Whole rounds, all of about the same length.
        return (steps.div_ceil(steps.div_ceil(loads)) as usize, 1);
    }
    // A tile has as many rows of 32 as it has lanes.
    let rows = if loads / steps < width { loads / steps } else { width };
    (steps as usize, rows as usize)
}

/// Loads of 16 bytes that a lane has in flight, and loads of one coordinate: the registers of a lane are as many.
const CHUNKED_LOADS: u32 = 8;
const TILED_LOADS: u32 = 16;
