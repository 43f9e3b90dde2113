//! Residuals of vectors, and their fast rotation: the input of the encoder of queries.
//!
//! The results equal those of `jasper_quant` to the bit. A warp processes one row, and each lane every 32nd coordinate.
//! Sums are therefore added in the order of the CPU (`sums`), and all but five steps of a Hadamard transform stay
//! within a lane.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | residuals of vectors of any element |
//! | `hadamard` | the fast rotation, in place |
//! | `launches` | [`Residuals`] and [`Rotate`]: their grids |

#[cfg(feature = "kernels")]
mod hadamard;
#[cfg(feature = "kernels")]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod launches;

#[cfg(not(target_arch = "nvptx64"))]
pub use launches::{Residuals, Rotate};

#[cfg(not(target_arch = "nvptx64"))]
use jasper_core::ElementKind;

#[cfg(feature = "kernels")]
use crate::element::{F16, F32, I8, U8};

use crate::entry::entry_table;
use crate::{DevicePtr, DevicePtrMut};

entry_table! {
    /// Residuals of rows of each element.
    of_elements RESIDUALS: ElementKind => ResidualArgs;
    ElementKind::F32 => residuals_f32 = kernel::residuals::<F32>, max_threads 256;
    ElementKind::F16 => residuals_f16 = kernel::residuals::<F16>, max_threads 256;
    ElementKind::U8 => residuals_u8 = kernel::residuals::<U8>, max_threads 256;
    ElementKind::I8 => residuals_i8 = kernel::residuals::<I8>, max_threads 256;
}

/// Arguments of the kernels that compute residuals.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ResidualArgs {
    /// `[rows_len][row_bytes]`: vectors.
    pub rows: DevicePtr<u8>,
    /// `[dimension]`: the center, which is subtracted.
    pub center: DevicePtr<f32>,
    /// `[rows_len][stride]`: residuals, padded with zeros.
    pub residuals: DevicePtrMut<f32>,
    /// `[rows_len]`: the squared length of each residual, and its dot product with the center.
    pub sums: DevicePtrMut<[f32; 2]>,
    /// Number of vectors.
    pub rows_len: u32,
    /// Bytes from row to row.
    pub row_bytes: u32,
    /// Coordinates per vector.
    pub dimension: u32,
    /// Floats from residual to residual, a multiple of 64.
    pub stride: u32,
    /// 1 if vectors are normalized first, else 0.
    pub normalizes: u32,
}

/// Arguments of the fast rotation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RotateArgs {
    /// `[rows][dimension]`: the rows, rotated in place.
    pub values: DevicePtrMut<f32>,
    /// `[4][dimension]`: the factors of each round.
    pub factors: DevicePtr<f32>,
    /// Number of rows.
    pub rows_len: u32,
    /// Coordinates per row, a multiple of 64.
    pub dimension: u32,
}
