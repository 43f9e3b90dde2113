//! The tables of search kernels. For each row kind, and each way to read codes, there is a kernel per frontier and one
//! for teams.

/// Passes the table of searches by exact distances to the macro `$each`: element, term, name.
macro_rules! exact_searches {
    ($each:ident) => {
        $each! {
            F32 SquaredL2 f32_l2;
            F32 Dot f32_dot;
            F16 SquaredL2 f16_l2;
            F16 Dot f16_dot;
            U8 SquaredL2 u8_l2;
            U8 Dot u8_dot;
            I8 SquaredL2 i8_l2;
            I8 Dot i8_dot;
        }
    };
}
pub(super) use exact_searches;

/// Passes the table of quantized searches to the macro `$each`. The columns are how lanes read codes, the 16-byte
/// chunks of a code or the lanes of a tile, the name, and the launch bounds (minimum resident blocks per
/// multiprocessor, which limit the registers) for frontiers in one, two and four registers, and in shared memory.
macro_rules! quantized_searches {
    ($each:ident) => {
        $each! {
            LanePerRow 2 codes_b32 (24 24 20 20);
            LanePerRow 4 codes_b64 (20 20 16 20);
            LanePerRow 5 codes_b80 (16 16 16 16);
            TilePerRow 4 codes_w4 (12 12 12 12);
            TilePerRow 8 codes_w8 (12 12 12 12);
        }
    };
}
pub(super) use quantized_searches;
