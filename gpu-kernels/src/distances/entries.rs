//! The table of entries: element, term, loads, and the bytes of a row (0 for any), by tile width.

use cuda_std::prelude::*;

use super::DistanceArgs;
use super::body::{distances, rows_in_flight, steps_in_flight};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};
// Rows are read once, and leave the first-level cache to others.
use crate::tile::{Read, Streamed as Chunked, Tiled};

macro_rules! entries {
    ($($element:ident $term:ident $loads:ident $bytes:literal: $($name:ident $width:literal),*;)*) => {
        $($(
            /// A kernel of the family: its name says which.
            ///
            /// # Safety
            /// The arguments are what [`DistanceArgs`] says, and the launch is the one planned for them.
            #[kernel(max_threads = 128, min_blocks = 5)]
            pub unsafe fn $name(args: DistanceArgs) {
                const UNITS: u32 = $bytes / <$loads as Read<$element>>::BYTES;
                // SAFETY: the caller's promise.
                unsafe {
                    distances::<
                        $element,
                        $term,
                        $loads,
                        $width,
                        UNITS,
                        { steps_in_flight(UNITS, $width) },
                        { rows_in_flight(UNITS, $width) },
                    >(args);
                }
            }
        )*)*

        /// The function behind an entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn body(entry: &str) -> unsafe fn(DistanceArgs) {
            match entry {
                $($(stringify!($name) => $name,)*)*
                _ => unreachable!("the table holds every kernel of the family, {entry} too"),
            }
        }
    };
}

entries! {
    F32 SquaredL2 Tiled 0:
        distances_f32_l2_tiled_w4 4, distances_f32_l2_tiled_w8 8,
        distances_f32_l2_tiled_w16 16, distances_f32_l2_tiled_w32 32;
    F32 SquaredL2 Chunked 0:
        distances_f32_l2_chunked_w4 4, distances_f32_l2_chunked_w8 8,
        distances_f32_l2_chunked_w16 16, distances_f32_l2_chunked_w32 32;
    F32 Dot Tiled 0:
        distances_f32_dot_tiled_w4 4, distances_f32_dot_tiled_w8 8,
        distances_f32_dot_tiled_w16 16, distances_f32_dot_tiled_w32 32;
    F32 Dot Chunked 0:
        distances_f32_dot_chunked_w4 4, distances_f32_dot_chunked_w8 8,
        distances_f32_dot_chunked_w16 16, distances_f32_dot_chunked_w32 32;
    F16 SquaredL2 Tiled 0:
        distances_f16_l2_tiled_w4 4, distances_f16_l2_tiled_w8 8,
        distances_f16_l2_tiled_w16 16, distances_f16_l2_tiled_w32 32;
    F16 SquaredL2 Chunked 0:
        distances_f16_l2_chunked_w4 4, distances_f16_l2_chunked_w8 8,
        distances_f16_l2_chunked_w16 16, distances_f16_l2_chunked_w32 32;
    F16 Dot Tiled 0:
        distances_f16_dot_tiled_w4 4, distances_f16_dot_tiled_w8 8,
        distances_f16_dot_tiled_w16 16, distances_f16_dot_tiled_w32 32;
    F16 Dot Chunked 0:
        distances_f16_dot_chunked_w4 4, distances_f16_dot_chunked_w8 8,
        distances_f16_dot_chunked_w16 16, distances_f16_dot_chunked_w32 32;
    U8 SquaredL2 Tiled 0:
        distances_u8_l2_tiled_w4 4, distances_u8_l2_tiled_w8 8,
        distances_u8_l2_tiled_w16 16, distances_u8_l2_tiled_w32 32;
    U8 SquaredL2 Chunked 0:
        distances_u8_l2_chunked_w4 4, distances_u8_l2_chunked_w8 8,
        distances_u8_l2_chunked_w16 16, distances_u8_l2_chunked_w32 32;
    U8 Dot Tiled 0:
        distances_u8_dot_tiled_w4 4, distances_u8_dot_tiled_w8 8,
        distances_u8_dot_tiled_w16 16, distances_u8_dot_tiled_w32 32;
    U8 Dot Chunked 0:
        distances_u8_dot_chunked_w4 4, distances_u8_dot_chunked_w8 8,
        distances_u8_dot_chunked_w16 16, distances_u8_dot_chunked_w32 32;
    I8 SquaredL2 Tiled 0:
        distances_i8_l2_tiled_w4 4, distances_i8_l2_tiled_w8 8,
        distances_i8_l2_tiled_w16 16, distances_i8_l2_tiled_w32 32;
    I8 SquaredL2 Chunked 0:
        distances_i8_l2_chunked_w4 4, distances_i8_l2_chunked_w8 8,
        distances_i8_l2_chunked_w16 16, distances_i8_l2_chunked_w32 32;
    I8 Dot Tiled 0:
        distances_i8_dot_tiled_w4 4, distances_i8_dot_tiled_w8 8,
        distances_i8_dot_tiled_w16 16, distances_i8_dot_tiled_w32 32;
    I8 Dot Chunked 0:
        distances_i8_dot_chunked_w4 4, distances_i8_dot_chunked_w8 8,
        distances_i8_dot_chunked_w16 16, distances_i8_dot_chunked_w32 32;
    F32 SquaredL2 Chunked 384:
        distances_f32_l2_chunked_w4_b384 4, distances_f32_l2_chunked_w8_b384 8,
        distances_f32_l2_chunked_w16_b384 16, distances_f32_l2_chunked_w32_b384 32;
    F32 Dot Chunked 384:
        distances_f32_dot_chunked_w4_b384 4, distances_f32_dot_chunked_w8_b384 8,
        distances_f32_dot_chunked_w16_b384 16, distances_f32_dot_chunked_w32_b384 32;
    F32 SquaredL2 Chunked 512:
        distances_f32_l2_chunked_w4_b512 4, distances_f32_l2_chunked_w8_b512 8,
        distances_f32_l2_chunked_w16_b512 16, distances_f32_l2_chunked_w32_b512 32;
    F32 Dot Chunked 512:
        distances_f32_dot_chunked_w4_b512 4, distances_f32_dot_chunked_w8_b512 8,
        distances_f32_dot_chunked_w16_b512 16, distances_f32_dot_chunked_w32_b512 32;
    F32 SquaredL2 Chunked 3840:
        distances_f32_l2_chunked_w4_b3840 4, distances_f32_l2_chunked_w8_b3840 8,
        distances_f32_l2_chunked_w16_b3840 16, distances_f32_l2_chunked_w32_b3840 32;
    F32 Dot Chunked 3840:
        distances_f32_dot_chunked_w4_b3840 4, distances_f32_dot_chunked_w8_b3840 8,
        distances_f32_dot_chunked_w16_b3840 16, distances_f32_dot_chunked_w32_b3840 32;
    U8 SquaredL2 Chunked 128:
        distances_u8_l2_chunked_w4_b128 4, distances_u8_l2_chunked_w8_b128 8,
        distances_u8_l2_chunked_w16_b128 16, distances_u8_l2_chunked_w32_b128 32;
    U8 Dot Chunked 128:
        distances_u8_dot_chunked_w4_b128 4, distances_u8_dot_chunked_w8_b128 8,
        distances_u8_dot_chunked_w16_b128 16, distances_u8_dot_chunked_w32_b128 32;
}
