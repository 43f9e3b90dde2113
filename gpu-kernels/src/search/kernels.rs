//! The kernels (PTX entry points): five for each [row kind](crate::row_kind) and for each way to read codes, and four
//! for SQ4 vectors, which only searches for many new vertices read.

use cuda_std::prelude::*;

use super::buffered_list::BufferedList;
use super::distances::{Exact, LanePerRow, TilePerRow};
use super::quantized::quantized_searches;
use super::register_list::RegisterList;
#[cfg(not(target_arch = "nvptx64"))]
use super::variant::Variant;
use super::{QuantizedSearchArgs, SearchArgs, one_warp, team};
use crate::element::{Dot, F16, F32, I4, I8, SquaredL2, U8};
use crate::row_kind::{body, row_kinds};
use crate::row_shape::MAX_LOADS;

/// A kernel: a search by one warp or by a team, with a frontier, a distance computer, and launch bounds (threads per
/// block, and minimum resident blocks per multiprocessor).
macro_rules! kernel_fn {
    (
        $kind_name:ident $kernel:ident($Args:ty): $searcher:ident $(<$frontier:ty>)?, $computer:ty,
        max_threads $max_threads:tt, min_blocks $min_blocks:tt
    ) => {
        /// A beam search; its name gives the rows or codes, and the frontier or team.
        ///
        /// # Safety
        /// The arguments are as the docs of their fields say, and the launch is that of the kernel's `launch_config`
        /// for them.
        #[kernel(name = search_ $kind_name _ $kernel, max_threads = $max_threads, min_blocks = $min_blocks)]
        pub unsafe fn $kernel(args: $Args) {
            // SAFETY: upheld by the caller.
            unsafe { $searcher::search::<$($frontier,)? $computer>(args) }
        }
    };
}

/// The kernels of one row kind: `r1`, `r2` and `r4` have the frontier in 1, 2 or 4 registers per lane, for frontiers of
/// up to 32, 64 and 128 entries; `wide` has it in shared memory; `team`, if there is one, searches with several warps.
/// The numbers are the `min_blocks` of each, and the `max_threads` of the team.
macro_rules! kernels_of_rows {
    (
        $kind_name:ident($Args:ty): (r1 $r1:tt, r2 $r2:tt, r4 $r4:tt, wide $wide:tt), $computer:ty
        $(, $team:ident $team_threads:tt, $team_computer:ty)?
    ) => {
        mod $kind_name {
            use super::*;

            kernel_fn!($kind_name r1($Args): one_warp<RegisterList<1>>, $computer, max_threads 32, min_blocks $r1);
            kernel_fn!($kind_name r2($Args): one_warp<RegisterList<2>>, $computer, max_threads 32, min_blocks $r2);
            kernel_fn!($kind_name r4($Args): one_warp<RegisterList<4>>, $computer, max_threads 32, min_blocks $r4);
            kernel_fn!($kind_name wide($Args): one_warp<BufferedList>, $computer, max_threads 32, min_blocks $wide);
            $(kernel_fn!($kind_name $team($Args): team, $team_computer, max_threads $team_threads, min_blocks 1);)?

            #[cfg(not(target_arch = "nvptx64"))]
            pub fn body(variant: Variant) -> unsafe fn($Args) {
                match variant {
                    Variant::OneRegister => r1,
                    Variant::TwoRegisters => r2,
                    Variant::FourRegisters => r4,
                    Variant::SharedMemory => wide,
                    $(Variant::Team(_) => $team,)?
                    #[allow(unreachable_patterns, reason = "most kinds have a team")]
                    Variant::Team(_) => unreachable!("no team reads {}", stringify!($kind_name)),
                }
            }
        }
    };
}

/// Units that a lane of a team has in flight. A lane of its sixteen warps has half of the registers that a search by
/// one warp may use.
const TEAM_LOADS: usize = 8;

/// Kernels by exact distances. `Search::specialization` replaces the launch bounds below at load time, by row length.
macro_rules! exact_kernels {
    ($($element:ident $op:ident $kind_name:ident;)*) => {
        $(exact_kernels_of!($element $op $kind_name);)*
        body!(exact_body(variant: Variant) -> SearchArgs { $($kind_name => $kind_name::body(variant);)* });
    };
}

macro_rules! exact_kernels_of {
    (I4 $op:ident $kind_name:ident) => {
        kernels_of_rows!(
            $kind_name(SearchArgs): (r1 16, r2 16, r4 16, wide 16), Exact<I4, $op, { MAX_LOADS as usize }>
        );
    };
    ($element:ident $op:ident $kind_name:ident) => {
        kernels_of_rows!(
            $kind_name(SearchArgs): (r1 16, r2 16, r4 16, wide 16), Exact<$element, $op, { MAX_LOADS as usize }>,
            team 512, Exact<$element, $op, TEAM_LOADS>
        );
    };
}

row_kinds! { exact_kernels
    I4 SquaredL2 sq4_l2;
    I4 Dot sq4_dot;
}

macro_rules! quantized_kernels {
    ($($computer:ident $size:literal $kind_name:ident $min_blocks:tt;)*) => {
        $(kernels_of_rows!(
            $kind_name(QuantizedSearchArgs): $min_blocks, $computer<$size>, team 256, $computer<$size>
        );)*
        body!(quantized_body(variant: Variant) -> QuantizedSearchArgs { $($kind_name => $kind_name::body(variant);)* });
    };
}
quantized_searches!(quantized_kernels);
