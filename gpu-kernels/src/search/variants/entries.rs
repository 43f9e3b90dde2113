//! The table of variants: rows of one kind, how many blocks of one warp a multiprocessor should hold at least, and the
//! names of its kernels, with the lanes of a tile, the queries of a block or the warps of a team.

use cuda_std::prelude::*;

use super::halves::Halves;
use super::unmarked::Unmarked;
use super::{CHUNKED_LOADS, TILED_LOADS, in_flight, persistent};
use crate::coordinates::{Coordinates, F16, F32, SquaredL2, U8};
use crate::search::layout::Needs;
use crate::search::registers::Registers;
use crate::search::score::Exact;
use crate::search::shape::shape;
use crate::search::{SearchArgs, solo, team};
use crate::tile::{Chunked, Tiled};

macro_rules! variants {
    ($(
        $element:ident $bytes:literal:
            tiled $($tiled:ident $tiled_width:literal $tiled_blocks:tt),*;
            chunked $($chunked:ident $chunked_width:literal $chunked_blocks:tt),*;
            queries $($queries:ident $query_threads:tt $query_blocks:tt),*;
            warps $($warps:ident $team_threads:tt),*;
            unmarked $($unmarked:ident $unmarked_blocks:tt),*;
            persistent $persistent:ident $persistent_blocks:tt;
            halves $($halves:ident $halves_blocks:tt),*;
    )*) => {
        $(
            $(variant!($tiled, $tiled_width, $tiled_blocks, $element $bytes, Tiled, $element::BYTES, TILED_LOADS);)*
            $(variant!($chunked, $chunked_width, $chunked_blocks, $element $bytes, Chunked, 16, CHUNKED_LOADS);)*
            $(variant!($queries, $query_threads, $query_blocks, $element $bytes, solo<Registers<4>>, false);)*
            $(variant!($warps, $team_threads, 1, $element $bytes, team, true);)*
            $(variant!($unmarked, 32, $unmarked_blocks, $element $bytes, solo<Unmarked<4>>, false);)*
            variant!($persistent, 32, $persistent_blocks, $element $bytes, persistent, false);
            $(variant!($halves, $halves_blocks, $element $bytes, Halves);)*
        )*

        /// The function behind an entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn body(entry: &str) -> unsafe fn(SearchArgs) {
            match entry {
                $(
                    $(stringify!($tiled) => $tiled,)*
                    $(stringify!($chunked) => $chunked,)*
                    $(stringify!($queries) => $queries,)*
                    $(stringify!($warps) => $warps,)*
                    $(stringify!($unmarked) => $unmarked,)*
                    stringify!($persistent) => $persistent,
                    $(stringify!($halves) => $halves,)*
                )*
                _ => unreachable!("the table holds every variant, {entry} too"),
            }
        }
    };
}

/// A kernel of one warp a query and block whose rows are read otherwise; one of other blocks, or another frontier; or one
/// that differs from the library's in what it does with what it reads.
macro_rules! variant {
    (
        $name:ident, $width:literal, $blocks:tt, $element:ident $bytes:literal,
        $read:ident, $unit:expr, $loads:ident
    ) => {
        variant! { $name, 32, $blocks, solo<Registers<4>>, false, {
            Exact<
                $element,
                SquaredL2,
                $read,
                $width,
                { $bytes / $unit },
                { in_flight($bytes / $unit, $width, $loads).0 },
                { in_flight($bytes / $unit, $width, $loads).1 },
            >
        } }
    };
    (
        $name:ident, $threads:tt, $blocks:tt, $element:ident $bytes:literal,
        $who:ident $(<$frontier:ty>)?, $team:literal
    ) => {
        variant! { $name, $threads, $blocks, $who $(<$frontier>)?, $team, { usual!($element $bytes, Chunked) } }
    };
    ($name:ident, $blocks:tt, $element:ident $bytes:literal, $read:ident) => {
        variant! { $name, 32, $blocks, solo<Registers<4>>, false, { usual!($element $bytes, $read) } }
    };
    ($name:ident, $threads:tt, $blocks:tt, $who:ident $(<$frontier:ty>)?, $team:literal, { $scorer:ty }) => {
        /// A search: its name says of what.
        ///
        /// # Safety
        /// The arguments are what [`SearchArgs`] says, and the launch is the one planned for them.
        #[kernel(max_threads = $threads, min_blocks = $blocks)]
        pub unsafe fn $name(args: SearchArgs) {
            let query = if <$scorer>::KEEPS_QUERY { 0 } else { args.graph.row_bytes };
            let needs = Needs { query, list: $team, team: $team };
            // SAFETY: the caller's promise.
            unsafe { $who::search::<$($frontier,)? $scorer>(args, (), needs) }
        }
    };
}

/// The scorer of the library, but for how it reads.
macro_rules! usual {
    ($element:ident $bytes:literal, $read:ident) => {
        Exact<
            $element,
            SquaredL2,
            $read,
            { shape($bytes).width },
            { $bytes / 16 },
            { shape($bytes).steps },
            { shape($bytes).rows },
        >
    };
}

variants! {
    U8 128:
        tiled variant_u8_b128_tiled8 8 20, variant_u8_b128_tiled32 32 20;
        chunked variant_u8_b128_chunked2 2 20, variant_u8_b128_chunked4 4 20,
            variant_u8_b128_chunked8 8 20, variant_u8_b128_chunked16 16 20,
            variant_u8_b128_chunked32 32 20;
        queries variant_u8_b128_q2 64 10, variant_u8_b128_q4 128 5, variant_u8_b128_q8 256 2;
        warps variant_u8_b128_t2 64, variant_u8_b128_t4 128;
        unmarked variant_u8_b128_unmarked 20;
        persistent variant_u8_b128_persistent 20;
        halves ;
    F32 384:
        tiled variant_f32_b384_tiled8 8 16, variant_f32_b384_tiled32 32 16;
        chunked variant_f32_b384_chunked2 2 16, variant_f32_b384_chunked4 4 16,
            variant_f32_b384_chunked8 8 16, variant_f32_b384_chunked16 16 16,
            variant_f32_b384_chunked32 32 16;
        queries variant_f32_b384_q2 64 8, variant_f32_b384_q4 128 4, variant_f32_b384_q8 256 2;
        warps variant_f32_b384_t2 64, variant_f32_b384_t4 128;
        unmarked variant_f32_b384_unmarked 16;
        persistent variant_f32_b384_persistent 16;
        halves ;
    F32 3840:
        tiled variant_f32_b3840_tiled8 8 14, variant_f32_b3840_tiled32 32 14;
        chunked variant_f32_b3840_chunked2 2 14, variant_f32_b3840_chunked4 4 14,
            variant_f32_b3840_chunked8 8 14, variant_f32_b3840_chunked16 16 12,
            variant_f32_b3840_chunked32 32 14;
        queries variant_f32_b3840_q2 64 7, variant_f32_b3840_q4 128 4, variant_f32_b3840_q8 256 2;
        warps variant_f32_b3840_t2 64, variant_f32_b3840_t4 128;
        unmarked variant_f32_b3840_unmarked 14;
        persistent variant_f32_b3840_persistent 14;
        halves ;
    F16 192:
        tiled ;
        chunked ;
        queries ;
        warps ;
        unmarked ;
        persistent variant_f16_b192_persistent 16;
        halves variant_f16_b192_halves 16;
    F16 1920:
        tiled ;
        chunked ;
        queries ;
        warps ;
        unmarked ;
        persistent variant_f16_b1920_persistent 16;
        halves variant_f16_b1920_halves 12;
}
