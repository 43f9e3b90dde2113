//! Products of rows with the directions of a quantizer, summed as on the CPU: in the order of the coordinates.
//!
//! A block takes a tile of rows and one of directions, a thread four by four products of them in registers. No sum is
//! ever split, so that its bits are those of `jasper_quant`'s projection; tensor cores, whose sums have an order of
//! their own, would not give them.
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

/// What a projection takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProjectArgs {
    /// `[rows_len][stride]`: rows, with zeros behind the last coordinate. At least one.
    pub rows: DevicePtr<f32>,
    /// `[panels][dimension][32]`: directions side by side, zeros where they run out.
    pub panels: DevicePtr<f32>,
    /// `[rows_len][out_stride]`: the products, and zeros behind them.
    pub out: DevicePtrMut<f32>,
    /// Rows.
    pub rows_len: u32,
    /// Coordinates of a row.
    pub dimension: u32,
    /// Floats from row to row, a multiple of 64.
    pub stride: u32,
    /// Panels.
    pub panels_len: u32,
    /// Floats from row to row of products, a multiple of 64, and no fewer than directions.
    pub out_stride: u32,
}

/// Rows, and directions, of a tile.
const TILE: u32 = 64;
/// Directions of a panel.
const PANEL: u32 = 32;
/// Coordinates that are in shared memory at once.
const DEPTH: u32 = 16;
/// Threads of a block.
const THREADS: u32 = 256;
