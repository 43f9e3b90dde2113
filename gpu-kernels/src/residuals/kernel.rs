//! Residuals; one warp per row.

use cuda_std::prelude::*;

use super::ResidualArgs;
use crate::DevicePtr;
use crate::collectives::row_of_warp;
use crate::coordinates::{F16, F32, I8, U8};
use crate::sums::{Sum, for_coordinates};

/// The conversion of an element to f32.
trait ToF32 {
    /// Coordinate `i` of a row.
    ///
    /// # Safety
    /// The coordinate exists, and it is not written during the launch.
    unsafe fn coordinate(row: DevicePtr<u8>, i: u32) -> f32;
}

macro_rules! to_f32 {
    ($($element:ident: $stored:ty, $convert:expr;)*) => { $(
        impl ToF32 for $element {
            #[inline(always)]
            unsafe fn coordinate(row: DevicePtr<u8>, i: u32) -> f32 {
                // SAFETY: the caller's promise.
                $convert(unsafe { global::load_readonly(row.cast::<$stored>().at(i as usize)) })
            }
        }
    )* };
}
to_f32! {
    F32: f32, |value| value;
    F16: u16, math::half_to_f32;
    U8: u8, f32::from;
    I8: i8, f32::from;
}

/// # Safety
/// The arguments are as the docs of their fields say.
#[inline(always)]
unsafe fn residuals<E: ToF32>(args: ResidualArgs) {
    let number = row_of_warp();
    if number >= args.selection.len as usize {
        return;
    }
    // SAFETY: the row exists; each lane accesses its own coordinates of the output; each warp is converged at the
    // collectives.
    unsafe {
        let row = args.rows.add(args.selection.slot(number) * args.row_bytes as usize);
        let coordinate = |i: u32| if i < args.dimension { E::coordinate(row, i) } else { 0.0 };
        let mut norm = 0.0;
        if args.unit != 0 {
            let mut square = Sum::ZERO;
            for_coordinates(args.dimension, |half, i| square.add(half, coordinate(i), coordinate(i)));
            norm = math::sqrt_f32(square.total());
        }
        let residuals = args.residuals.add(number * args.stride as usize);
        let (mut square, mut along) = (Sum::ZERO, Sum::ZERO);
        for_coordinates(args.stride, |half, i| {
            let mut residual = 0.0;
            if i < args.dimension {
                let x = E::coordinate(row, i);
                let x = if norm > 0.0 { x / norm } else { x };
                let center = global::load_readonly(args.center.at(i as usize));
                residual = x - center;
                square.add(half, residual, residual);
                along.add(half, residual, center);
            }
            global::store(residuals.at(i as usize), residual);
        });
        let sums = [square.total(), along.total()];
        if warp::lane_id() == 0 {
            global::store(args.sums.at(number), sums);
        }
    }
}

macro_rules! entries {
    ($($element:ident $name:ident),*) => {
        $(
            /// Residuals of rows of one element.
            ///
            /// # Safety
            /// The arguments are as the docs of their fields say.
            #[kernel(max_threads = 256)]
            pub unsafe fn $name(args: ResidualArgs) {
                // SAFETY: the caller's promise.
                unsafe { residuals::<$element>(args) }
            }
        )*

        /// The function of an entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn body(element: jasper_core::ElementKind) -> unsafe fn(ResidualArgs) {
            match element {
                $(jasper_core::ElementKind::$element => $name,)*
            }
        }
    };
}
entries!(F32 residuals_f32, F16 residuals_f16, U8 residuals_u8, I8 residuals_i8);
