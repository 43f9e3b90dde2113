//! The table of kernels: element, sum, the bytes of a row, 0 for any, and the blocks of a multiprocessor, by which the
//! assembler knows what registers it may spend.

use cuda_std::prelude::*;

use super::space::Rows;
use super::{LinkArgs, MergeArgs};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::search::shape::shape;
use crate::tile::Chunked;

macro_rules! entries {
    ($($element:ident $term:ident $bytes:literal $blocks:tt: $link:ident $merge:ident;)*) => {
        $(
            /// Links of new vertices: its name says of what.
            ///
            /// # Safety
            /// The arguments are what [`LinkArgs`] says, and the launch is the one planned for them.
            #[kernel(max_threads = 128, min_blocks = $blocks)]
            pub unsafe fn $link(args: LinkArgs) {
                // SAFETY: the caller's promise.
                unsafe { super::link::link::<entries!(space $element $term $bytes)>(args) }
            }

            /// New edges merged into rows: its name says of what.
            ///
            /// # Safety
            /// The arguments are what [`MergeArgs`] says, and the launch is the one planned for them.
            #[kernel(max_threads = 128, min_blocks = $blocks)]
            pub unsafe fn $merge(args: MergeArgs) {
                // SAFETY: the caller's promise.
                unsafe { super::merge::merge::<entries!(space $element $term $bytes)>(args) }
            }
        )*

        /// The function behind an entry that links.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn link_body(entry: &str) -> unsafe fn(LinkArgs) {
            match entry {
                $(stringify!($link) => $link,)*
                _ => unreachable!("the table holds every kernel of the family, {entry} too"),
            }
        }

        /// The function behind an entry that merges.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn merge_body(entry: &str) -> unsafe fn(MergeArgs) {
            match entry {
                $(stringify!($merge) => $merge,)*
                _ => unreachable!("the table holds every kernel of the family, {entry} too"),
            }
        }
    };
    (space $element:ident $term:ident $bytes:literal) => {
        Rows<
            $element,
            $term,
            Chunked,
            { shape($bytes).width },
            { $bytes / 16 },
            { shape($bytes).steps },
            { shape($bytes).rows },
        >
    };
}

entries! {
    F32 SquaredL2 0 5: link_f32_l2 merge_f32_l2;
    F16 SquaredL2 0 4: link_f16_l2 merge_f16_l2;
    U8 SquaredL2 0 5: link_u8_l2 merge_u8_l2;
    I8 SquaredL2 0 5: link_i8_l2 merge_i8_l2;
    U8 Dot 0 5: link_u8_dot merge_u8_dot;
    I8 Dot 0 5: link_i8_dot merge_i8_dot;
    U8 SquaredL2 128 5: link_u8_l2_b128 merge_u8_l2_b128;
    F16 SquaredL2 192 4: link_f16_l2_b192 merge_f16_l2_b192;
    F16 SquaredL2 1920 3: link_f16_l2_b1920 merge_f16_l2_b1920;
    F16 SquaredL2 3072 6: link_f16_l2_b3072 merge_f16_l2_b3072;
    F32 SquaredL2 384 4: link_f32_l2_b384 merge_f32_l2_b384;
    F32 SquaredL2 512 4: link_f32_l2_b512 merge_f32_l2_b512;
    F32 SquaredL2 800 4: link_f32_l2_b800 merge_f32_l2_b800;
    F32 SquaredL2 3840 3: link_f32_l2_b3840 merge_f32_l2_b3840;
    F32 SquaredL2 6144 3: link_f32_l2_b6144 merge_f32_l2_b6144;
}
