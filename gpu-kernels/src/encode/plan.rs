//! The grids of the encoders.

use std::borrow::Cow;

use super::{CodeQueriesArgs, EncodeArgs, MixedArgs, RabitqArgs, level_bytes};
use crate::rows::warp_per_row;
use crate::{Kernel, Launch};

/// The most rows per block, a warp each.
const ROWS_A_BLOCK: u32 = 8;
/// Shared memory per block that every device has without opting in. No row has more levels.
const SHARED_BYTES: u32 = 48 << 10;
/// Lanes of a warp.
const WARP: u32 = 32;

/// One warp per row, with shared memory for its levels.
fn encoding(args: &EncodeArgs) -> Launch {
    let bytes = level_bytes(&args.shape);
    let rows = ROWS_A_BLOCK.min(SHARED_BYTES / bytes);
    Launch::linear(args.chosen.len.div_ceil(rows), rows * WARP).with_shared(rows * bytes)
}

/// The encoder of RaBitQ codes. Arguments: [`RabitqArgs`].
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

/// The encoder of mixed codes. Arguments: [`MixedArgs`].
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

/// The encoder of queries. Arguments: [`CodeQueriesArgs`].
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
