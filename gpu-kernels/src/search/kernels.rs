//! The kernels (PTX entry points): for each [row kind](crate::row_kind) and each way to read codes, one for each variant.
//! `r1`, `r2` and `r4` have the frontier in 1, 2 or 4 registers per lane, for frontiers of up to 32, 64 and 128 entries;
//! `wide` has it in shared memory; `team` searches with several warps. SQ4 vectors have no team: only searches for many
//! new vertices read them.

cfg_if! { if #[cfg(feature = "kernels")] {
    use super::buffered_list::BufferedList;
    use super::distances::{self, LanePerRow, TilePerRow};
    use super::register_list::RegisterList;
    use super::{one_warp, team};
    use crate::element::{Dot, F16, F32, I4, I8, SquaredL2, U8};
    use crate::row_shape::MAX_LOADS;

    /// Exact distances by one warp.
    type Exact<E, Op> = distances::Exact<E, Op, { MAX_LOADS as usize }>;
    /// Exact distances by a team. A lane of its sixteen warps has half of the registers that a search by one warp may use,
    /// and half of the loads in flight.
    type TeamExact<E, Op> = distances::Exact<E, Op, 8>;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    use super::launches::ReadMode;
    use super::variant::Variant::{self, FourRegisters, OneRegister, SharedMemory, Team, TwoRegisters};
    use crate::row_kind::{
        F16_DOT, F16_L2, F32_DOT, F32_L2, I8_DOT, I8_L2, RowKind, SQ4_DOT, SQ4_L2, U8_DOT, U8_L2,
    };
} }

use super::{QuantizedSearchArgs, SearchArgs};
use crate::entry::entry_table;

entry_table! {
    /// Searches by exact distances. The launch bounds are replaced when a kernel is loaded for a length of rows.
    exact EXACT: (RowKind, Variant) => SearchArgs;
    (F32_L2, OneRegister) => search_f32_l2_r1 = one_warp::search::<RegisterList<1>, Exact<F32, SquaredL2>>, max_threads 32, min_blocks 16;
    (F32_L2, TwoRegisters) => search_f32_l2_r2 = one_warp::search::<RegisterList<2>, Exact<F32, SquaredL2>>, max_threads 32, min_blocks 16;
    (F32_L2, FourRegisters) => search_f32_l2_r4 = one_warp::search::<RegisterList<4>, Exact<F32, SquaredL2>>, max_threads 32, min_blocks 16;
    (F32_L2, SharedMemory) => search_f32_l2_wide = one_warp::search::<BufferedList, Exact<F32, SquaredL2>>, max_threads 32, min_blocks 16;
    (F32_L2, Team) => search_f32_l2_team = team::search::<TeamExact<F32, SquaredL2>>, max_threads 512, min_blocks 1;
    (F32_DOT, OneRegister) => search_f32_dot_r1 = one_warp::search::<RegisterList<1>, Exact<F32, Dot>>, max_threads 32, min_blocks 16;
    (F32_DOT, TwoRegisters) => search_f32_dot_r2 = one_warp::search::<RegisterList<2>, Exact<F32, Dot>>, max_threads 32, min_blocks 16;
    (F32_DOT, FourRegisters) => search_f32_dot_r4 = one_warp::search::<RegisterList<4>, Exact<F32, Dot>>, max_threads 32, min_blocks 16;
    (F32_DOT, SharedMemory) => search_f32_dot_wide = one_warp::search::<BufferedList, Exact<F32, Dot>>, max_threads 32, min_blocks 16;
    (F32_DOT, Team) => search_f32_dot_team = team::search::<TeamExact<F32, Dot>>, max_threads 512, min_blocks 1;
    (F16_L2, OneRegister) => search_f16_l2_r1 = one_warp::search::<RegisterList<1>, Exact<F16, SquaredL2>>, max_threads 32, min_blocks 16;
    (F16_L2, TwoRegisters) => search_f16_l2_r2 = one_warp::search::<RegisterList<2>, Exact<F16, SquaredL2>>, max_threads 32, min_blocks 16;
    (F16_L2, FourRegisters) => search_f16_l2_r4 = one_warp::search::<RegisterList<4>, Exact<F16, SquaredL2>>, max_threads 32, min_blocks 16;
    (F16_L2, SharedMemory) => search_f16_l2_wide = one_warp::search::<BufferedList, Exact<F16, SquaredL2>>, max_threads 32, min_blocks 16;
    (F16_L2, Team) => search_f16_l2_team = team::search::<TeamExact<F16, SquaredL2>>, max_threads 512, min_blocks 1;
    (F16_DOT, OneRegister) => search_f16_dot_r1 = one_warp::search::<RegisterList<1>, Exact<F16, Dot>>, max_threads 32, min_blocks 16;
    (F16_DOT, TwoRegisters) => search_f16_dot_r2 = one_warp::search::<RegisterList<2>, Exact<F16, Dot>>, max_threads 32, min_blocks 16;
    (F16_DOT, FourRegisters) => search_f16_dot_r4 = one_warp::search::<RegisterList<4>, Exact<F16, Dot>>, max_threads 32, min_blocks 16;
    (F16_DOT, SharedMemory) => search_f16_dot_wide = one_warp::search::<BufferedList, Exact<F16, Dot>>, max_threads 32, min_blocks 16;
    (F16_DOT, Team) => search_f16_dot_team = team::search::<TeamExact<F16, Dot>>, max_threads 512, min_blocks 1;
    (U8_L2, OneRegister) => search_u8_l2_r1 = one_warp::search::<RegisterList<1>, Exact<U8, SquaredL2>>, max_threads 32, min_blocks 16;
    (U8_L2, TwoRegisters) => search_u8_l2_r2 = one_warp::search::<RegisterList<2>, Exact<U8, SquaredL2>>, max_threads 32, min_blocks 16;
    (U8_L2, FourRegisters) => search_u8_l2_r4 = one_warp::search::<RegisterList<4>, Exact<U8, SquaredL2>>, max_threads 32, min_blocks 16;
    (U8_L2, SharedMemory) => search_u8_l2_wide = one_warp::search::<BufferedList, Exact<U8, SquaredL2>>, max_threads 32, min_blocks 16;
    (U8_L2, Team) => search_u8_l2_team = team::search::<TeamExact<U8, SquaredL2>>, max_threads 512, min_blocks 1;
    (U8_DOT, OneRegister) => search_u8_dot_r1 = one_warp::search::<RegisterList<1>, Exact<U8, Dot>>, max_threads 32, min_blocks 16;
    (U8_DOT, TwoRegisters) => search_u8_dot_r2 = one_warp::search::<RegisterList<2>, Exact<U8, Dot>>, max_threads 32, min_blocks 16;
    (U8_DOT, FourRegisters) => search_u8_dot_r4 = one_warp::search::<RegisterList<4>, Exact<U8, Dot>>, max_threads 32, min_blocks 16;
    (U8_DOT, SharedMemory) => search_u8_dot_wide = one_warp::search::<BufferedList, Exact<U8, Dot>>, max_threads 32, min_blocks 16;
    (U8_DOT, Team) => search_u8_dot_team = team::search::<TeamExact<U8, Dot>>, max_threads 512, min_blocks 1;
    (I8_L2, OneRegister) => search_i8_l2_r1 = one_warp::search::<RegisterList<1>, Exact<I8, SquaredL2>>, max_threads 32, min_blocks 16;
    (I8_L2, TwoRegisters) => search_i8_l2_r2 = one_warp::search::<RegisterList<2>, Exact<I8, SquaredL2>>, max_threads 32, min_blocks 16;
    (I8_L2, FourRegisters) => search_i8_l2_r4 = one_warp::search::<RegisterList<4>, Exact<I8, SquaredL2>>, max_threads 32, min_blocks 16;
    (I8_L2, SharedMemory) => search_i8_l2_wide = one_warp::search::<BufferedList, Exact<I8, SquaredL2>>, max_threads 32, min_blocks 16;
    (I8_L2, Team) => search_i8_l2_team = team::search::<TeamExact<I8, SquaredL2>>, max_threads 512, min_blocks 1;
    (I8_DOT, OneRegister) => search_i8_dot_r1 = one_warp::search::<RegisterList<1>, Exact<I8, Dot>>, max_threads 32, min_blocks 16;
    (I8_DOT, TwoRegisters) => search_i8_dot_r2 = one_warp::search::<RegisterList<2>, Exact<I8, Dot>>, max_threads 32, min_blocks 16;
    (I8_DOT, FourRegisters) => search_i8_dot_r4 = one_warp::search::<RegisterList<4>, Exact<I8, Dot>>, max_threads 32, min_blocks 16;
    (I8_DOT, SharedMemory) => search_i8_dot_wide = one_warp::search::<BufferedList, Exact<I8, Dot>>, max_threads 32, min_blocks 16;
    (I8_DOT, Team) => search_i8_dot_team = team::search::<TeamExact<I8, Dot>>, max_threads 512, min_blocks 1;
    (SQ4_L2, OneRegister) => search_sq4_l2_r1 = one_warp::search::<RegisterList<1>, Exact<I4, SquaredL2>>, max_threads 32, min_blocks 16;
    (SQ4_L2, TwoRegisters) => search_sq4_l2_r2 = one_warp::search::<RegisterList<2>, Exact<I4, SquaredL2>>, max_threads 32, min_blocks 16;
    (SQ4_L2, FourRegisters) => search_sq4_l2_r4 = one_warp::search::<RegisterList<4>, Exact<I4, SquaredL2>>, max_threads 32, min_blocks 16;
    (SQ4_L2, SharedMemory) => search_sq4_l2_wide = one_warp::search::<BufferedList, Exact<I4, SquaredL2>>, max_threads 32, min_blocks 16;
    (SQ4_DOT, OneRegister) => search_sq4_dot_r1 = one_warp::search::<RegisterList<1>, Exact<I4, Dot>>, max_threads 32, min_blocks 16;
    (SQ4_DOT, TwoRegisters) => search_sq4_dot_r2 = one_warp::search::<RegisterList<2>, Exact<I4, Dot>>, max_threads 32, min_blocks 16;
    (SQ4_DOT, FourRegisters) => search_sq4_dot_r4 = one_warp::search::<RegisterList<4>, Exact<I4, Dot>>, max_threads 32, min_blocks 16;
    (SQ4_DOT, SharedMemory) => search_sq4_dot_wide = one_warp::search::<BufferedList, Exact<I4, Dot>>, max_threads 32, min_blocks 16;
}

entry_table! {
    /// Searches by codes. Their launch bounds limit the registers of a thread.
    quantized QUANTIZED: (ReadMode, Variant) => QuantizedSearchArgs;
    (ReadMode::LanePerRow(2), OneRegister) => search_codes_b32_r1 = one_warp::search::<RegisterList<1>, LanePerRow<2>>, max_threads 32, min_blocks 24;
    (ReadMode::LanePerRow(2), TwoRegisters) => search_codes_b32_r2 = one_warp::search::<RegisterList<2>, LanePerRow<2>>, max_threads 32, min_blocks 24;
    (ReadMode::LanePerRow(2), FourRegisters) => search_codes_b32_r4 = one_warp::search::<RegisterList<4>, LanePerRow<2>>, max_threads 32, min_blocks 20;
    (ReadMode::LanePerRow(2), SharedMemory) => search_codes_b32_wide = one_warp::search::<BufferedList, LanePerRow<2>>, max_threads 32, min_blocks 20;
    (ReadMode::LanePerRow(2), Team) => search_codes_b32_team = team::search::<LanePerRow<2>>, max_threads 256, min_blocks 1;
    (ReadMode::LanePerRow(4), OneRegister) => search_codes_b64_r1 = one_warp::search::<RegisterList<1>, LanePerRow<4>>, max_threads 32, min_blocks 20;
    (ReadMode::LanePerRow(4), TwoRegisters) => search_codes_b64_r2 = one_warp::search::<RegisterList<2>, LanePerRow<4>>, max_threads 32, min_blocks 20;
    (ReadMode::LanePerRow(4), FourRegisters) => search_codes_b64_r4 = one_warp::search::<RegisterList<4>, LanePerRow<4>>, max_threads 32, min_blocks 16;
    (ReadMode::LanePerRow(4), SharedMemory) => search_codes_b64_wide = one_warp::search::<BufferedList, LanePerRow<4>>, max_threads 32, min_blocks 20;
    (ReadMode::LanePerRow(4), Team) => search_codes_b64_team = team::search::<LanePerRow<4>>, max_threads 256, min_blocks 1;
    (ReadMode::LanePerRow(5), OneRegister) => search_codes_b80_r1 = one_warp::search::<RegisterList<1>, LanePerRow<5>>, max_threads 32, min_blocks 16;
    (ReadMode::LanePerRow(5), TwoRegisters) => search_codes_b80_r2 = one_warp::search::<RegisterList<2>, LanePerRow<5>>, max_threads 32, min_blocks 16;
    (ReadMode::LanePerRow(5), FourRegisters) => search_codes_b80_r4 = one_warp::search::<RegisterList<4>, LanePerRow<5>>, max_threads 32, min_blocks 16;
    (ReadMode::LanePerRow(5), SharedMemory) => search_codes_b80_wide = one_warp::search::<BufferedList, LanePerRow<5>>, max_threads 32, min_blocks 16;
    (ReadMode::LanePerRow(5), Team) => search_codes_b80_team = team::search::<LanePerRow<5>>, max_threads 256, min_blocks 1;
    (ReadMode::TilePerRow(4), OneRegister) => search_codes_w4_r1 = one_warp::search::<RegisterList<1>, TilePerRow<4>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(4), TwoRegisters) => search_codes_w4_r2 = one_warp::search::<RegisterList<2>, TilePerRow<4>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(4), FourRegisters) => search_codes_w4_r4 = one_warp::search::<RegisterList<4>, TilePerRow<4>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(4), SharedMemory) => search_codes_w4_wide = one_warp::search::<BufferedList, TilePerRow<4>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(4), Team) => search_codes_w4_team = team::search::<TilePerRow<4>>, max_threads 256, min_blocks 1;
    (ReadMode::TilePerRow(8), OneRegister) => search_codes_w8_r1 = one_warp::search::<RegisterList<1>, TilePerRow<8>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(8), TwoRegisters) => search_codes_w8_r2 = one_warp::search::<RegisterList<2>, TilePerRow<8>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(8), FourRegisters) => search_codes_w8_r4 = one_warp::search::<RegisterList<4>, TilePerRow<8>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(8), SharedMemory) => search_codes_w8_wide = one_warp::search::<BufferedList, TilePerRow<8>>, max_threads 32, min_blocks 12;
    (ReadMode::TilePerRow(8), Team) => search_codes_w8_team = team::search::<TilePerRow<8>>, max_threads 256, min_blocks 1;
}
