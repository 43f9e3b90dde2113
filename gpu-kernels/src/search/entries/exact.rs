//! The table of searches by exact distances. A line is one kind of rows, with its length in bytes (0 for any), and per
//! frontier the kernel and how many blocks a multiprocessor should hold at least; the last kernel is that of teams.

use cuda_std::prelude::*;

use super::super::buffered_list::BufferedList;
use super::super::registers::Registers;
use super::super::score::Exact;
use super::super::shape::{Shape, shape, shape_of_wide_beams};
use super::super::shared_layout::Needs;
use super::super::{SearchArgs, solo, team};
use crate::coordinates::{Dot, F16, F32, I8, SquaredL2, U8};

macro_rules! entries {
    (
        $($element:ident $term:ident $bytes:literal:
            $one:ident $b1:tt, $two:ident $b2:tt, $four:ident $b4:tt, $wide:ident $bw:tt, $team:ident;)*
    ) => {
        $(
            entry!($one, 32, $b1, solo<Registers<1>>, $element $term $bytes shape, false);
            entry!($two, 32, $b2, solo<Registers<2>>, $element $term $bytes shape, false);
            entry!($four, 32, $b4, solo<Registers<4>>, $element $term $bytes shape_of_wide_beams, false);
            entry!($wide, 32, $bw, solo<BufferedList>, $element $term $bytes shape, true);
            entry!($team, 512, 1, team, $element $term $bytes shape, true);
        )*

        /// The function of an entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(in crate::search) fn body(entry: &str) -> unsafe fn(SearchArgs) {
            match entry {
                $(
                    stringify!($one) => $one,
                    stringify!($two) => $two,
                    stringify!($four) => $four,
                    stringify!($wide) => $wide,
                    stringify!($team) => $team,
                )*
                _ => unreachable!("the table holds every kernel of the family, {entry} too"),
            }
        }
    };
}

macro_rules! entry {
    (
        $name:ident, $threads:tt, $blocks:tt, $who:ident $(<$frontier:ty>)?,
        $element:ident $term:ident $bytes:literal $shape:ident, $list:literal
    ) => {
        /// A search, as its name says.
        ///
        /// # Safety
        /// The arguments are as [`SearchArgs`] says, and the launch is the one planned for them.
        #[kernel(max_threads = $threads, min_blocks = $blocks)]
        pub unsafe fn $name(args: SearchArgs) {
            const SHAPE: Shape = $shape($bytes);
            type Scorer = Exact<
                $element,
                $term,
                { SHAPE.width },
                { $bytes / 16 },
                { SHAPE.steps },
                { SHAPE.rows },
            >;
            let query = if Scorer::KEEPS_QUERY { 0 } else { args.graph.row_bytes };
            let needs = Needs { query, list: $list, team: $threads > 32 };
            // SAFETY: the caller's promise.
            unsafe { $who::search::<$($frontier,)? Scorer>(args, (), needs) }
        }
    };
}

entries! {
    F32 SquaredL2 0: search_f32_l2_r1 16, search_f32_l2_r2 16, search_f32_l2_r4 16,
        search_f32_l2_wide 16, search_f32_l2_team;
    F32 Dot 0: search_f32_dot_r1 16, search_f32_dot_r2 16, search_f32_dot_r4 16,
        search_f32_dot_wide 16, search_f32_dot_team;
    F16 SquaredL2 0: search_f16_l2_r1 16, search_f16_l2_r2 16, search_f16_l2_r4 16,
        search_f16_l2_wide 16, search_f16_l2_team;
    F16 Dot 0: search_f16_dot_r1 16, search_f16_dot_r2 16, search_f16_dot_r4 16,
        search_f16_dot_wide 16, search_f16_dot_team;
    U8 SquaredL2 0: search_u8_l2_r1 16, search_u8_l2_r2 16, search_u8_l2_r4 16,
        search_u8_l2_wide 16, search_u8_l2_team;
    U8 Dot 0: search_u8_dot_r1 16, search_u8_dot_r2 16, search_u8_dot_r4 16,
        search_u8_dot_wide 16, search_u8_dot_team;
    I8 SquaredL2 0: search_i8_l2_r1 16, search_i8_l2_r2 16, search_i8_l2_r4 16,
        search_i8_l2_wide 16, search_i8_l2_team;
    I8 Dot 0: search_i8_dot_r1 16, search_i8_dot_r2 16, search_i8_dot_r4 16,
        search_i8_dot_wide 16, search_i8_dot_team;
    U8 SquaredL2 128: search_u8_l2_b128_r1 24, search_u8_l2_b128_r2 24, search_u8_l2_b128_r4 20,
        search_u8_l2_b128_wide 20, search_u8_l2_b128_team;
    I8 SquaredL2 96: search_i8_l2_b96_r1 24, search_i8_l2_b96_r2 24, search_i8_l2_b96_r4 20,
        search_i8_l2_b96_wide 20, search_i8_l2_b96_team;
    I8 SquaredL2 960: search_i8_l2_b960_r1 16, search_i8_l2_b960_r2 16, search_i8_l2_b960_r4 16,
        search_i8_l2_b960_wide 16, search_i8_l2_b960_team;
    I8 SquaredL2 1536: search_i8_l2_b1536_r1 16, search_i8_l2_b1536_r2 16, search_i8_l2_b1536_r4 16,
        search_i8_l2_b1536_wide 16, search_i8_l2_b1536_team;
    I8 Dot 208: search_i8_dot_b208_r1 16, search_i8_dot_b208_r2 16, search_i8_dot_b208_r4 16,
        search_i8_dot_b208_wide 16, search_i8_dot_b208_team;
    F16 SquaredL2 192: search_f16_l2_b192_r1 16, search_f16_l2_b192_r2 16, search_f16_l2_b192_r4 16,
        search_f16_l2_b192_wide 16, search_f16_l2_b192_team;
    F16 SquaredL2 1920: search_f16_l2_b1920_r1 16, search_f16_l2_b1920_r2 16, search_f16_l2_b1920_r4 16,
        search_f16_l2_b1920_wide 20, search_f16_l2_b1920_team;
    F16 SquaredL2 3072: search_f16_l2_b3072_r1 16, search_f16_l2_b3072_r2 16, search_f16_l2_b3072_r4 16,
        search_f16_l2_b3072_wide 20, search_f16_l2_b3072_team;
    F16 Dot 400: search_f16_dot_b400_r1 16, search_f16_dot_b400_r2 16, search_f16_dot_b400_r4 16,
        search_f16_dot_b400_wide 20, search_f16_dot_b400_team;
    F32 SquaredL2 384: search_f32_l2_b384_r1 20, search_f32_l2_b384_r2 20, search_f32_l2_b384_r4 16,
        search_f32_l2_b384_wide 20, search_f32_l2_b384_team;
    F32 SquaredL2 512: search_f32_l2_b512_r1 20, search_f32_l2_b512_r2 16, search_f32_l2_b512_r4 16,
        search_f32_l2_b512_wide 20, search_f32_l2_b512_team;
    F32 SquaredL2 3840: search_f32_l2_b3840_r1 16, search_f32_l2_b3840_r2 16, search_f32_l2_b3840_r4 16,
        search_f32_l2_b3840_wide 16, search_f32_l2_b3840_team;
    F32 SquaredL2 6144: search_f32_l2_b6144_r1 16, search_f32_l2_b6144_r2 16, search_f32_l2_b6144_r4 16,
        search_f32_l2_b6144_wide 16, search_f32_l2_b6144_team;
    F32 Dot 512: search_f32_dot_b512_r1 16, search_f32_dot_b512_r2 16, search_f32_dot_b512_r4 16,
        search_f32_dot_b512_wide 20, search_f32_dot_b512_team;
    F32 Dot 800: search_f32_dot_b800_r1 16, search_f32_dot_b800_r2 16, search_f32_dot_b800_r4 16,
        search_f32_dot_b800_wide 20, search_f32_dot_b800_team;
}
