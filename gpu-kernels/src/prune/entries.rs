//! The table of kernels: element, term, bytes per row (0 for any), and blocks per multiprocessor, which bounds the
//! registers that the assembler may use.

use cuda_std::prelude::*;

use super::space::Rows;
use super::{BatchCandidatesArgs, LinkArgs, MergeArgs, RepairArgs};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::search::shape::shape;

macro_rules! entries {
    ($($element:ident $term:ident $bytes:literal $blocks:tt: $link:ident $merge:ident $candidates:ident $repair:ident;)*) => {
        entries! { families $(
            (entries!(space $element $term $bytes)):
            /// Links of new vertices.
            link LinkArgs $blocks $link,
            /// Reversed edges merged into rows.
            merge MergeArgs $blocks $merge,
            /// New vertices compared with each other.
            batch_candidates BatchCandidatesArgs $blocks $candidates,
            /// Rows repaired around deleted neighbors.
            ///
            /// It keeps more values live than the other families, so it gets more registers: 3 blocks per multiprocessor.
            repair RepairArgs 3 $repair;
        )* }
        entries! { bodies link_body LinkArgs $($link)* }
        entries! { bodies merge_body MergeArgs $($merge)* }
        entries! { bodies batch_candidates_body BatchCandidatesArgs $($candidates)* }
        entries! { bodies repair_body RepairArgs $($repair)* }
    };
    (families $(($space:ty): $($(#[$doc:meta])* $family:ident $Args:ident $blocks:tt $entry:ident),*;)*) => { $( $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are as the fields of their type say, and the launch is the one planned for them.
        #[kernel(max_threads = 128, min_blocks = $blocks)]
        pub unsafe fn $entry(args: $Args) {
            // SAFETY: the caller's promise.
            unsafe { super::$family::$family::<$space>(args) }
        }
    )* )* };
    (bodies $body:ident $Args:ident $($entry:ident)*) => {
        /// The function of an entry of the family.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn $body(entry: &str) -> unsafe fn($Args) {
            match entry {
                $(stringify!($entry) => $entry,)*
                _ => unreachable!("the table holds every kernel of the family, {entry} too"),
            }
        }
    };
    (space $element:ident $term:ident $bytes:literal) => {
        Rows<
            $element,
            $term,
            { shape($bytes).width },
            { $bytes / 16 },
            { shape($bytes).steps },
            { shape($bytes).rows },
        >
    };
}

entries! {
    F32 SquaredL2 0 4: link_f32_l2 merge_f32_l2 batch_candidates_f32_l2 repair_f32_l2;
    F16 SquaredL2 0 4: link_f16_l2 merge_f16_l2 batch_candidates_f16_l2 repair_f16_l2;
    U8 SquaredL2 0 4: link_u8_l2 merge_u8_l2 batch_candidates_u8_l2 repair_u8_l2;
    I8 SquaredL2 0 4: link_i8_l2 merge_i8_l2 batch_candidates_i8_l2 repair_i8_l2;
    F32 Dot 0 4: link_f32_dot merge_f32_dot batch_candidates_f32_dot repair_f32_dot;
    F16 Dot 0 4: link_f16_dot merge_f16_dot batch_candidates_f16_dot repair_f16_dot;
    U8 Dot 0 4: link_u8_dot merge_u8_dot batch_candidates_u8_dot repair_u8_dot;
    I8 Dot 0 4: link_i8_dot merge_i8_dot batch_candidates_i8_dot repair_i8_dot;
    U8 SquaredL2 128 5: link_u8_l2_b128 merge_u8_l2_b128 batch_candidates_u8_l2_b128 repair_u8_l2_b128;
    I8 SquaredL2 96 4: link_i8_l2_b96 merge_i8_l2_b96 batch_candidates_i8_l2_b96 repair_i8_l2_b96;
    I8 Dot 208 5: link_i8_dot_b208 merge_i8_dot_b208 batch_candidates_i8_dot_b208 repair_i8_dot_b208;
    I8 SquaredL2 960 4: link_i8_l2_b960 merge_i8_l2_b960 batch_candidates_i8_l2_b960 repair_i8_l2_b960;
    I8 SquaredL2 1536 3: link_i8_l2_b1536 merge_i8_l2_b1536 batch_candidates_i8_l2_b1536 repair_i8_l2_b1536;
    F16 SquaredL2 192 4: link_f16_l2_b192 merge_f16_l2_b192 batch_candidates_f16_l2_b192 repair_f16_l2_b192;
    F16 SquaredL2 1920 3: link_f16_l2_b1920 merge_f16_l2_b1920 batch_candidates_f16_l2_b1920 repair_f16_l2_b1920;
    F16 SquaredL2 3072 4: link_f16_l2_b3072 merge_f16_l2_b3072 batch_candidates_f16_l2_b3072 repair_f16_l2_b3072;
    F32 SquaredL2 384 4: link_f32_l2_b384 merge_f32_l2_b384 batch_candidates_f32_l2_b384 repair_f32_l2_b384;
    F32 SquaredL2 512 4: link_f32_l2_b512 merge_f32_l2_b512 batch_candidates_f32_l2_b512 repair_f32_l2_b512;
    F32 Dot 800 4: link_f32_dot_b800 merge_f32_dot_b800 batch_candidates_f32_dot_b800 repair_f32_dot_b800;
    F32 SquaredL2 3840 3: link_f32_l2_b3840 merge_f32_l2_b3840 batch_candidates_f32_l2_b3840 repair_f32_l2_b3840;
    F32 SquaredL2 6144 3: link_f32_l2_b6144 merge_f32_l2_b6144 batch_candidates_f32_l2_b6144 repair_f32_l2_b6144;
}
