//! The table of quantized searches. A line is one way to read codes, and per frontier the kernel and how many blocks a
//! multiprocessor should hold at least; the last kernel is that of teams.

use cuda_std::prelude::*;

use super::super::buffered_list::BufferedList;
use super::super::quantized::{lane_per_row_query_bytes, tile_per_row_query_bytes};
use super::super::registers::Registers;
use super::super::score::{LanePerRow, TilePerRow};
use super::super::shared_layout::Needs;
use super::super::{QuantizedSearchArgs, solo, team};

macro_rules! entries {
    (
        $($scorer:ident $of:literal $query:ident:
            $one:ident $b1:tt, $two:ident $b2:tt, $four:ident $b4:tt, $wide:ident $bw:tt, $team:ident;)*
    ) => {
        $(
            entry!($one, 32, $b1, solo<Registers<1>>, $scorer<$of>, $query, false);
            entry!($two, 32, $b2, solo<Registers<2>>, $scorer<$of>, $query, false);
            entry!($four, 32, $b4, solo<Registers<4>>, $scorer<$of>, $query, false);
            entry!($wide, 32, $bw, solo<BufferedList>, $scorer<$of>, $query, true);
            entry!($team, 256, 1, team, $scorer<$of>, $query, true);
        )*

        /// The function of an entry.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(in crate::search) fn body(entry: &str) -> unsafe fn(QuantizedSearchArgs) {
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
        $scorer:ident<$of:literal>, $query:ident, $list:literal
    ) => {
        /// A quantized search, as its name says.
        ///
        /// # Safety
        /// The arguments are as [`QuantizedSearchArgs`] says, and the launch is the one planned for them.
        #[kernel(max_threads = $threads, min_blocks = $blocks)]
        pub unsafe fn $name(args: QuantizedSearchArgs) {
            let needs = Needs { query: $query(&args.codes), list: $list, team: $threads > 32 };
            // SAFETY: the caller's promise.
            unsafe { $who::search::<$($frontier,)? $scorer<$of>>(args.search, args.codes, needs) }
        }
    };
}

entries! {
    LanePerRow 2 lane_per_row_query_bytes: search_codes_b32_r1 24, search_codes_b32_r2 24, search_codes_b32_r4 20,
        search_codes_b32_wide 20, search_codes_b32_team;
    LanePerRow 4 lane_per_row_query_bytes: search_codes_b64_r1 20, search_codes_b64_r2 20, search_codes_b64_r4 16,
        search_codes_b64_wide 20, search_codes_b64_team;
    LanePerRow 5 lane_per_row_query_bytes: search_codes_b80_r1 16, search_codes_b80_r2 16, search_codes_b80_r4 16,
        search_codes_b80_wide 16, search_codes_b80_team;
    TilePerRow 4 tile_per_row_query_bytes: search_codes_w4_r1 12, search_codes_w4_r2 12, search_codes_w4_r4 12,
        search_codes_w4_wide 12, search_codes_w4_team;
    TilePerRow 8 tile_per_row_query_bytes: search_codes_w8_r1 12, search_codes_w8_r2 12, search_codes_w8_r4 12,
        search_codes_w8_wide 12, search_codes_w8_team;
}
