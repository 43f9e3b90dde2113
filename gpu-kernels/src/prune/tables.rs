//! The table of prune kernels.

/// Passes the rows that prunes are compiled for to the macro `$each`: element, term, bytes per row (0 for any), name,
/// and blocks per multiprocessor, which bounds the registers that the assembler may use. See [`crate::search`].
macro_rules! pruned_rows {
    ($each:ident) => {
        $each! {
            F32 SquaredL2 0 f32_l2 4;
            F16 SquaredL2 0 f16_l2 4;
            U8 SquaredL2 0 u8_l2 4;
            I8 SquaredL2 0 i8_l2 4;
            F32 Dot 0 f32_dot 4;
            F16 Dot 0 f16_dot 4;
            U8 Dot 0 u8_dot 4;
            I8 Dot 0 i8_dot 4;
            U8 SquaredL2 128 u8_l2_b128 5;
            I8 SquaredL2 96 i8_l2_b96 4;
            I8 Dot 208 i8_dot_b208 5;
            I8 SquaredL2 960 i8_l2_b960 4;
            I8 SquaredL2 1536 i8_l2_b1536 3;
            F16 SquaredL2 192 f16_l2_b192 4;
            F16 SquaredL2 1920 f16_l2_b1920 3;
            F16 SquaredL2 3072 f16_l2_b3072 4;
            F32 SquaredL2 384 f32_l2_b384 4;
            F32 SquaredL2 512 f32_l2_b512 4;
            F32 Dot 800 f32_dot_b800 4;
            F32 SquaredL2 3840 f32_l2_b3840 3;
            F32 SquaredL2 6144 f32_l2_b6144 3;
        }
    };
}
pub(super) use pruned_rows;
