//! Dot products of rows with the directions of a quantizer, each summed in the order of the coordinates.
//!
//! A block multiplies a tile of 64 rows by 64 directions, a thread 4 by 4 of them in registers. No sum is split, so the
//! results equal those of `jasper_quant` to the bit. Tensor cores would give other results, because they add in an
//! order of their own.

#[cfg(feature = "kernels")]
mod kernel;

use crate::{DevicePtr, DevicePtrMut};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{LaunchConfig, launch::kernels};

/// Arguments of [`Project`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProjectArgs {
    /// `[rows_len][stride]`: rows, padded with zeros. There is at least one.
    pub rows: DevicePtr<f32>,
    /// `[panels][dimension][32]`: 32 directions per panel, interleaved, padded with zeros.
    pub panels: DevicePtr<f32>,
    /// `[rows_len][out_stride]`: the products, padded with zeros.
    pub out: DevicePtrMut<f32>,
    /// Number of rows.
    pub rows_len: u32,
    /// Coordinates per row.
    pub dimension: u32,
    /// Floats from row to row, a multiple of 64.
    pub stride: u32,
    /// Number of panels.
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

#[cfg(not(target_arch = "nvptx64"))]
const _: () = assert!(PANEL as usize == jasper_quant::parameters::PANEL);

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// The projection.
    Project(ProjectArgs) = kernel::project, |args| {
        for stride in [args.stride, args.out_stride] {
            assert!(stride.is_multiple_of(TILE), "rows of {stride} floats must be a multiple of {TILE}");
        }
        let grid = (args.rows_len.div_ceil(TILE), args.out_stride / TILE);
        LaunchConfig { grid, block: THREADS, shared: 2 * DEPTH * TILE * size_of::<f32>() as u32 }
    };
}
