//! The table of prune kernels.

/// Passes the rows that prunes are compiled for to the macro `$each`: element, term, name.
macro_rules! pruned_rows {
    ($each:ident) => {
        $each! {
            F32 SquaredL2 f32_l2;
            F16 SquaredL2 f16_l2;
            U8 SquaredL2 u8_l2;
            I8 SquaredL2 i8_l2;
            F32 Dot f32_dot;
            F16 Dot f16_dot;
            U8 Dot u8_dot;
            I8 Dot i8_dot;
        }
    };
}
pub(super) use pruned_rows;
