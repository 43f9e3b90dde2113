//! Residuals of rows: what codes are made of, and rotated by the fast rotation.
//!
//! `jasper_quant` has the definition, and these kernels its bits: a warp a row, a lane every 32nd coordinate of it, so
//! that sums are those of the CPU (`sums`), and of a Hadamard matrix all steps but five stay within a
//! lane.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | residuals of rows of any element |
//! | `hadamard` | the fast rotation, in place |
//! | `plan` | [`Residuals`] and [`Rotate`]: their grids |

#[cfg(feature = "kernels")]
mod hadamard;
#[cfg(feature = "kernels")]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{Residuals, Rotate, RotateIn};

use crate::{DevicePtr, DevicePtrMut};

/// What residuals take.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ResidualArgs {
    /// `[slots][row_bytes]`: rows of the element.
    pub rows: DevicePtr<u8>,
    /// Whose residuals.
    pub chosen: ChosenRows,
    /// `[dimension]`: what is subtracted.
    pub centre: DevicePtr<f32>,
    /// `[chosen.len][stride]`: residuals, with zeros behind the last coordinate.
    pub residuals: DevicePtrMut<f32>,
    /// `[chosen.len]`: the squared length of a residual, and its product with the centre.
    pub sums: DevicePtrMut<[f32; 2]>,
    /// Bytes from row to row.
    pub row_bytes: u32,
    /// Coordinates of a row.
    pub dimension: u32,
    /// Floats from residual to residual, a multiple of 64.
    pub stride: u32,
    /// 1 where rows are brought to length 1 before, 0 elsewhere.
    pub unit: u32,
}

/// Some rows of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChosenRows {
    /// `[len]`: their slots; null for neighbours, from `first` on.
    pub slots: DevicePtr<u32>,
    /// Slot of the first, where there is no list.
    pub first: u32,
    /// How many.
    pub len: u32,
}

impl ChosenRows {
    /// The slot of row `number`.
    ///
    /// # Safety
    /// `number` is below `len`, and the list is that long if there is one.
    #[cfg(feature = "kernels")]
    #[inline(always)]
    pub(crate) unsafe fn slot(&self, number: usize) -> usize {
        if self.slots.is_null() {
            self.first as usize + number
        } else {
            // SAFETY: the caller's promise.
            unsafe { cuda_std::global::load_readonly(self.slots.at(number)) as usize }
        }
    }
}

/// What the fast rotation takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RotateArgs {
    /// `[rows][dimension]`: rotated in place.
    pub values: DevicePtrMut<f32>,
    /// `[4][dimension]`: what each round multiplies coordinates with.
    pub factors: DevicePtr<f32>,
    /// Rows.
    pub rows: u32,
    /// Coordinates of a row, a multiple of 64.
    pub dimension: u32,
}
