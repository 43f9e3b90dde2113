//! The kernels (PTX entry points): five for each [row kind](crate::row_kind), and for each way to read codes.

use cuda_std::prelude::*;

use super::buffered_list::BufferedList;
use super::quantized::quantized_searches;
use super::register_list::RegisterList;
use super::score::{Exact, LanePerRow, TilePerRow};
#[cfg(not(target_arch = "nvptx64"))]
use super::variant::Variant;
use super::{QuantizedSearchArgs, SearchArgs, one_warp, team};
use crate::element::{Dot, F16, F32, I8, SquaredL2, U8};
use crate::row_kind::row_kinds;
use crate::row_shape::MAX_LOADS;

/// A kernel: a search by one warp or by a team, with a frontier and a scorer.
macro_rules! kernel_fn {
    (
        $rows:ident $kernel:ident($Args:ty): $searcher:ident $(<$frontier:ty>)?, $scorer:ty,
        $threads:tt threads, $blocks:tt blocks
    ) => {
        /// A beam search; its name gives the rows or codes, and the frontier or team.
        ///
        /// # Safety
        /// The arguments are as the docs of their fields say, and the launch is the one planned for them.
        #[kernel(name = search_ $rows _ $kernel, max_threads = $threads, min_blocks = $blocks)]
        pub unsafe fn $kernel(args: $Args) {
            // SAFETY: the caller's promise.
            unsafe { $searcher::search::<$($frontier,)? $scorer>(args) }
        }
    };
}

/// The kernels of one row kind: `r1`, `r2` and `r4` have the frontier in 1, 2 or 4 registers per lane, for beams of up
/// to 32, 64 and 128; `wide` has it in shared memory; `team` searches with several warps. `$b1` to `$wide` are the
/// launch bounds, in resident blocks per multiprocessor.
macro_rules! kernels_of_rows {
    ($rows:ident($Args:ty): $b1:tt $b2:tt $b4:tt $wide:tt, team $threads:tt, $scorer:ty, $team_scorer:ty) => {
        mod $rows {
            use super::*;

            kernel_fn!($rows r1($Args): one_warp<RegisterList<1>>, $scorer, 32 threads, $b1 blocks);
            kernel_fn!($rows r2($Args): one_warp<RegisterList<2>>, $scorer, 32 threads, $b2 blocks);
            kernel_fn!($rows r4($Args): one_warp<RegisterList<4>>, $scorer, 32 threads, $b4 blocks);
            kernel_fn!($rows wide($Args): one_warp<BufferedList>, $scorer, 32 threads, $wide blocks);
            kernel_fn!($rows team($Args): team, $team_scorer, $threads threads, 1 blocks);

            #[cfg(not(target_arch = "nvptx64"))]
            pub fn body(variant: Variant) -> unsafe fn($Args) {
                match variant {
                    Variant::OneRegister => r1,
                    Variant::TwoRegisters => r2,
                    Variant::FourRegisters => r4,
                    Variant::SharedMemory => wide,
                    Variant::Team(_) => team,
                }
            }
        }
    };
}

/// The functions of the kernels, for the emulator.
macro_rules! body {
    ($body:ident($Args:ty): $($rows:ident)*) => {
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn $body(rows: &str, variant: Variant) -> unsafe fn($Args) {
            match rows {
                $(stringify!($rows) => $rows::body(variant),)*
                _ => unreachable!("the table holds every kernel of the family, those of {rows} too"),
            }
        }
    };
}

/// Loads in flight per lane of a team. A lane of its sixteen warps has half of the registers that a search by one warp
/// may use.
const TEAM_LOADS: usize = 8;

macro_rules! exact_kernels {
    ($($element:ident $op:ident $rows:ident;)*) => {
        $(kernels_of_rows!(
            $rows(SearchArgs): 16 16 16 16, team 512,
            Exact<$element, $op, { MAX_LOADS as usize }>, Exact<$element, $op, TEAM_LOADS>
        );)*
        body!(exact_body(SearchArgs): $($rows)*);
    };
}
row_kinds!(exact_kernels);

macro_rules! quantized_kernels {
    ($($scorer:ident $size:literal $rows:ident ($b1:tt $b2:tt $b4:tt $wide:tt);)*) => {
        $(kernels_of_rows!(
            $rows(QuantizedSearchArgs): $b1 $b2 $b4 $wide, team 256, $scorer<$size>, $scorer<$size>
        );)*
        body!(quantized_body(QuantizedSearchArgs): $($rows)*);
    };
}
quantized_searches!(quantized_kernels);
