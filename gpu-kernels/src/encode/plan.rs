//! The grids of what makes codes.

use std::borrow::Cow;

use super::{CodeQueriesArgs, EncodeArgs, MixedArgs, RabitqArgs, level_bytes};
use crate::rows::warp_per_row;
use crate::{Kernel, Launch};

/// Rows of a block, a warp each, at most.
const ROWS_A_BLOCK: u32 = 8;
/// Shared memory of a block: what every device gives unasked. No row has more levels.
const SHARED_BYTES: u32 = 48 << 10;
/// Lanes of a warp.
const WARP: u32 = 32;

/// A warp a row, with shared memory for its levels.
fn encoding(args: &EncodeArgs) -> Launch {
    let bytes = level_bytes(&args.shape);
    let rows = ROWS_A_BLOCK.min(SHARED_BYTES / bytes);
    Launch::linear(args.chosen.len.div_ceil(rows), rows * WARP).with_shared(rows * bytes)
}

/// Codes of equal bits. Arguments: [`RabitqArgs`].
#[derive(Clone, Copy, Debug)]
pub struct EncodeRabitq;

impl Kernel for EncodeRabitq {
    type Args = RabitqArgs;

    fn entry(&self) -> Cow<'static, str> {
        "encode_rabitq".into()
    }

    fn launch(&self, args: &RabitqArgs) -> Launch {
        encoding(&args.rows)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RabitqArgs) {
        super::rabitq::encode_rabitq
    }
}

/// Codes of bits by variance. Arguments: [`MixedArgs`].
#[derive(Clone, Copy, Debug)]
pub struct EncodeMixed;

impl Kernel for EncodeMixed {
    type Args = MixedArgs;

    fn entry(&self) -> Cow<'static, str> {
        "encode_mixed".into()
    }

    fn launch(&self, args: &MixedArgs) -> Launch {
        encoding(&args.rows)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(MixedArgs) {
        super::mixed::encode_mixed
    }
}

/// Levels and terms of queries. Arguments: [`CodeQueriesArgs`].
#[derive(Clone, Copy, Debug)]
pub struct CodeQueries;

impl Kernel for CodeQueries {
    type Args = CodeQueriesArgs;

    fn entry(&self) -> Cow<'static, str> {
        "code_queries".into()
    }

    fn launch(&self, args: &CodeQueriesArgs) -> Launch {
        warp_per_row(args.queries)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(CodeQueriesArgs) {
        super::query::code_queries
    }
}
