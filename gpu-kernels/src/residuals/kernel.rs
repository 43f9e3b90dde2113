//! Residuals; one warp per row.

use cuda_std::prelude::*;

use super::ResidualArgs;
use crate::DevicePtr;
use crate::coordinates::{F16, F32, I8, U8};
use crate::rows::row_of_warp;
use crate::sums::{Sum, for_coordinates};

/// The conversion of an element to f32.
trait Widen {
    /// Coordinate `i` of a row.
    ///
    /// # Safety
    /// There is such a coordinate, and it is not written during the launch.
    unsafe fn coordinate(row: DevicePtr<u8>, i: u32) -> f32;
}

macro_rules! widen {
    ($($element:ident: $stored:ty, $widen:expr;)*) => { $(
        impl Widen for $element {
            #[inline(always)]
            unsafe fn coordinate(row: DevicePtr<u8>, i: u32) -> f32 {
                // SAFETY: the caller's promise.
                $widen(unsafe { global::load_readonly(row.cast::<$stored>().at(i as usize)) })
            }
        }
    )* };
}
widen! {
    F32: f32, |value| value;
    F16: u16, math::half_to_f32;
    U8: u8, f32::from;
    I8: i8, f32::from;
}

/// # Safety
/// As the fields of the arguments say.
#[inline(always)]
unsafe fn residuals<E: Widen>(args: ResidualArgs) {
    let number = row_of_warp();
    if number >= args.chosen.len as usize {
        return;
    }
    // SAFETY: there is such a row; each lane accesses its own coordinates of the output; whole warps call the collectives.
    unsafe {
        let row = args.rows.add(args.chosen.slot(number) * args.row_bytes as usize);
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
                let centre = global::load_readonly(args.centre.at(i as usize));
                residual = x - centre;
                square.add(half, residual, residual);
                along.add(half, residual, centre);
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
    ($($name:ident $element:ident;)*) => {
        $(
            /// Residuals of rows of one element.
            ///
            /// # Safety
            /// As the fields of the arguments say.
            #[kernel(max_threads = 256)]
            pub unsafe fn $name(args: ResidualArgs) {
                // SAFETY: the caller's promise.
                unsafe { residuals::<$element>(args) }
            }
        )*

        /// The function of an entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn body(entry: &str) -> unsafe fn(ResidualArgs) {
            match entry {
                $(stringify!($name) => $name,)*
                _ => unreachable!("the table holds a kernel for each element, {entry} too"),
            }
        }
    };
}

entries! {
    residuals_f32 F32;
    residuals_f16 F16;
    residuals_u8 U8;
    residuals_i8 I8;
}
