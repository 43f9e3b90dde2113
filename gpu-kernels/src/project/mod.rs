//! Dot products of rows with the directions of a quantizer, each summed in the order of the coordinates.
//!
//! A block multiplies a tile of 64 rows by 64 directions, a thread 4 by 4 of them in registers. No sum is split, so the
//! results equal those of `jasper_quant` to the bit. Tensor cores add in an order of their own and would not.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | the kernel |
//! | `plan` | [`Project`]: its grid |

#[cfg(feature = "kernels")]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::Project;

use crate::{DevicePtr, DevicePtrMut};

/// Arguments of the projection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProjectArgs {
    /// `[rows_len][stride]`: rows, padded with zeros. At least one.
    pub rows: DevicePtr<f32>,
    /// `[panels][dimension][32]`: 32 directions per panel, interleaved, padded with zeros.
    pub panels: DevicePtr<f32>,
    /// `[rows_len][out_stride]`: the products, padded with zeros.
    pub out: DevicePtrMut<f32>,
    /// Rows.
    pub rows_len: u32,
    /// Coordinates per row.
    pub dimension: u32,
    /// Floats from row to row, a multiple of 64.
    pub stride: u32,
    /// Panels.
    pub panels_len: u32,
    /// Floats from row to row of products, a multiple of 64, at least the number of directions.
    pub out_stride: u32,
}

/// Rows, and directions, per tile.
const TILE: u32 = 64;
/// Directions per panel.
const PANEL: u32 = 32;
/// Coordinates in shared memory at once.
const DEPTH: u32 = 16;
/// Threads per block.
const THREADS: u32 = 256;
