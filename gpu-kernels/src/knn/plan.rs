//! The kernels, as the host sees them.

use std::borrow::Cow;

use jasper_core::{ElementKind, Metric};

#[cfg(feature = "kernels")]
use super::candidates;
use super::{CandidateArgs, MAX_PENDING, RANK_THREADS, RankArgs, SCAN_THREADS, ScanArgs, TILE, TILE_WORDS};
use crate::{Kernel, LaunchConfig, launch};

/// Shared memory of a block of the scan: two tiles of queries and two of rows, one of each in use while the other
/// is filled; squared lengths, also two; pending entries, worst entries and counts.
const SCAN_SHARED: u32 = 4 * TILE_WORDS * 4 + 2 * TILE * 4 + TILE * MAX_PENDING * 8 + TILE * 8 + TILE * 4;
/// No more than the smallest of the GPUs that run this PTX has: 99 KiB.
const _: () = assert!(SCAN_SHARED <= 99 << 10);
/// Shared memory of a block of the ranking for each entry of a list: the best ones, and their distances.
const RANK_SHARED_PER_ENTRY: u32 = 8 + 8;

macro_rules! kernels {
    ($($(#[$doc:meta])* $Kernel:ident($Args:ident), $step:ident $body:tt, |$args:ident| $launch:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $Kernel {
            /// The element of rows and queries.
            pub element: ElementKind,
            /// The metric of distances.
            pub metric: Metric,
        }

        impl Kernel for $Kernel {
            type Args = $Args;

            fn entry(&self) -> Cow<'static, str> {
                format!("knn_{}_{}_{}", stringify!($step), self.element, self.metric).into()
            }

            fn launch_config(&self, $args: &$Args) -> LaunchConfig {
                $launch
            }

            #[cfg(feature = "kernels")]
            fn body(&self) -> unsafe fn($Args) {
                super::entries::bodies(&format!("{}_{}", self.element, self.metric)).$body
            }
        }
    )* };
}
kernels! {
    /// The best of each segment of the rows, for each query. Arguments: [`ScanArgs`].
    Scan(ScanArgs), scan 0, |args| LaunchConfig {
        grid: (args.queries_len.div_ceil(TILE), args.rows_len.div_ceil(args.segment_rows)),
        block: SCAN_THREADS,
        shared: SCAN_SHARED,
    };
    /// The best of the lists of each query, in exact order. Arguments: [`RankArgs`].
    Rank(RankArgs), rank 1, |args| {
        LaunchConfig::linear(args.queries_len, RANK_THREADS).with_shared(args.list_len * RANK_SHARED_PER_ENTRY)
    };
}

launch::kernels! {
    /// The slots of the best rows of all lists of each query.
    ListCandidates(CandidateArgs) = candidates::knn_candidates, |args| {
        LaunchConfig::linear(args.queries_len, RANK_THREADS).with_shared(args.list_len * size_of::<u64>() as u32)
    };
}
