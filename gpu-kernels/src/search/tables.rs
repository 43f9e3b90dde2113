//! The tables of search kernels. For each kind of rows or codes there is a kernel per frontier and one for teams; a
//! line ends with the least number of blocks per multiprocessor for frontiers of one, two and four registers, and in
//! shared memory, which bounds the registers that the assembler may use.

/// Passes the table of searches by exact distances to the macro `$each`: element, term, bytes per row (0 for any),
/// name.
///
/// Rows that have kernels of their own are bytes of dimension 128, halves of dimension 96, 200, 960 and 1536, floats of
/// dimension 96, 128, 200, 960 and 1536, and the signed bytes of quantized linking for floats of dimension 96, 200, 960
/// and
/// 1536. A known length needs no test for the end of a row, and has a shape of its own.
macro_rules! exact_searches {
    ($each:ident) => {
        $each! {
            F32 SquaredL2 0 f32_l2 (16 16 16 16);
            F32 Dot 0 f32_dot (16 16 16 16);
            F16 SquaredL2 0 f16_l2 (16 16 16 16);
            F16 Dot 0 f16_dot (16 16 16 16);
            U8 SquaredL2 0 u8_l2 (16 16 16 16);
            U8 Dot 0 u8_dot (16 16 16 16);
            I8 SquaredL2 0 i8_l2 (16 16 16 16);
            I8 Dot 0 i8_dot (16 16 16 16);
            U8 SquaredL2 128 u8_l2_b128 (24 24 20 20);
            I8 SquaredL2 96 i8_l2_b96 (24 24 20 20);
            I8 SquaredL2 960 i8_l2_b960 (16 16 16 16);
            I8 SquaredL2 1536 i8_l2_b1536 (16 16 16 16);
            I8 Dot 208 i8_dot_b208 (16 16 16 16);
            F16 SquaredL2 192 f16_l2_b192 (16 16 16 16);
            F16 SquaredL2 1920 f16_l2_b1920 (16 16 16 20);
            F16 SquaredL2 3072 f16_l2_b3072 (16 16 16 20);
            F16 Dot 400 f16_dot_b400 (16 16 16 20);
            F32 SquaredL2 384 f32_l2_b384 (20 20 16 20);
            F32 SquaredL2 512 f32_l2_b512 (20 16 16 20);
            F32 SquaredL2 3840 f32_l2_b3840 (16 16 16 16);
            F32 SquaredL2 6144 f32_l2_b6144 (16 16 16 16);
            F32 Dot 512 f32_dot_b512 (16 16 16 20);
            F32 Dot 800 f32_dot_b800 (16 16 16 20);
        }
    };
}
pub(super) use exact_searches;

/// Passes the table of quantized searches to the macro `$each`: how lanes read codes, the 16-byte chunks of a code or
/// the lanes of a tile, and the name.
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
