//! The table of kernels: element, sum, the bytes of a row, 0 for any, and the blocks of a multiprocessor, by which the
//! assembler knows what registers it may spend.

use cuda_std::prelude::*;

use super::space::Rows;
use super::{BypassArgs, JoinArgs, LinkArgs, MergeArgs};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::search::shape::shape;

macro_rules! entries {
    ($($element:ident $term:ident $bytes:literal $blocks:tt: $link:ident $merge:ident $join:ident $bypass:ident;)*) => {
        entries! { families $(
            (entries!(space $element $term $bytes)):
            /// Links of new vertices: its name says of what.
            link LinkArgs $blocks $link,
            /// New edges merged into rows: its name says of what.
            merge MergeArgs $blocks $merge,
            /// New vertices compared with each other: its name says of what.
            join JoinArgs $blocks $join,
            /// Hidden neighbours taken out of rows: its name says of what.
            ///
            /// It holds more at once than the others, and has the registers for it.
            bypass BypassArgs 3 $bypass;
        )* }
        entries! { bodies link_body LinkArgs $($link)* }
        entries! { bodies merge_body MergeArgs $($merge)* }
        entries! { bodies join_body JoinArgs $($join)* }
        entries! { bodies bypass_body BypassArgs $($bypass)* }
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
        /// The function behind an entry of the family.
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
    F32 SquaredL2 0 4: link_f32_l2 merge_f32_l2 join_f32_l2 bypass_f32_l2;
    F16 SquaredL2 0 4: link_f16_l2 merge_f16_l2 join_f16_l2 bypass_f16_l2;
    U8 SquaredL2 0 4: link_u8_l2 merge_u8_l2 join_u8_l2 bypass_u8_l2;
    I8 SquaredL2 0 4: link_i8_l2 merge_i8_l2 join_i8_l2 bypass_i8_l2;
    F32 Dot 0 4: link_f32_dot merge_f32_dot join_f32_dot bypass_f32_dot;
    F16 Dot 0 4: link_f16_dot merge_f16_dot join_f16_dot bypass_f16_dot;
    U8 Dot 0 4: link_u8_dot merge_u8_dot join_u8_dot bypass_u8_dot;
    I8 Dot 0 4: link_i8_dot merge_i8_dot join_i8_dot bypass_i8_dot;
    U8 SquaredL2 128 5: link_u8_l2_b128 merge_u8_l2_b128 join_u8_l2_b128 bypass_u8_l2_b128;
    I8 SquaredL2 96 4: link_i8_l2_b96 merge_i8_l2_b96 join_i8_l2_b96 bypass_i8_l2_b96;
    I8 Dot 208 5: link_i8_dot_b208 merge_i8_dot_b208 join_i8_dot_b208 bypass_i8_dot_b208;
    I8 SquaredL2 960 4: link_i8_l2_b960 merge_i8_l2_b960 join_i8_l2_b960 bypass_i8_l2_b960;
    I8 SquaredL2 1536 3: link_i8_l2_b1536 merge_i8_l2_b1536 join_i8_l2_b1536 bypass_i8_l2_b1536;
    F16 SquaredL2 192 4: link_f16_l2_b192 merge_f16_l2_b192 join_f16_l2_b192 bypass_f16_l2_b192;
    F16 SquaredL2 1920 3: link_f16_l2_b1920 merge_f16_l2_b1920 join_f16_l2_b1920 bypass_f16_l2_b1920;
    F16 SquaredL2 3072 4: link_f16_l2_b3072 merge_f16_l2_b3072 join_f16_l2_b3072 bypass_f16_l2_b3072;
    F32 SquaredL2 384 4: link_f32_l2_b384 merge_f32_l2_b384 join_f32_l2_b384 bypass_f32_l2_b384;
    F32 SquaredL2 512 4: link_f32_l2_b512 merge_f32_l2_b512 join_f32_l2_b512 bypass_f32_l2_b512;
    F32 Dot 800 4: link_f32_dot_b800 merge_f32_dot_b800 join_f32_dot_b800 bypass_f32_dot_b800;
    F32 SquaredL2 3840 3: link_f32_l2_b3840 merge_f32_l2_b3840 join_f32_l2_b3840 bypass_f32_l2_b3840;
    F32 SquaredL2 6144 3: link_f32_l2_b6144 merge_f32_l2_b6144 join_f32_l2_b6144 bypass_f32_l2_b6144;
}
