//! The two kernels, as the host sees them.

use std::borrow::Cow;

use jasper_core::{ElementKind, Metric};

use super::{PENDING, RANK_THREADS, RankArgs, SCAN_THREADS, ScanArgs, TILE, TILE_WORDS};
use crate::{Kernel, Launch};

/// Shared memory of a block of the scan: two tiles of queries and two of rows, one of each in use while the other
/// is filled; squared lengths, also two; waiting entries, worst entries and counts.
const SCAN_SHARED: u32 = 4 * TILE_WORDS * 4 + 2 * TILE * 4 + TILE * PENDING * 8 + TILE * 8 + TILE * 4;
/// No more than the smallest of the GPUs that run this PTX has: 99 KiB.
const _: () = assert!(SCAN_SHARED <= 99 << 10);
/// Shared memory of a block of the ranking for each entry of a list: the best ones, and their distances.
const RANK_SHARED_AN_ENTRY: u32 = 8 + 8;

/// The best of each segment of the rows, for each query. Arguments: [`ScanArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// What rows and queries hold.
    pub element: ElementKind,
    /// What is near.
    pub metric: Metric,
}

impl Kernel for Scan {
    type Args = ScanArgs;

    fn entry(&self) -> Cow<'static, str> {
        format!("knn_scan_{}_{}", self.element, self.metric).into()
    }

    fn launch(&self, args: &ScanArgs) -> Launch {
        Launch {
            grid: (args.queries_len.div_ceil(TILE), args.rows_len.div_ceil(args.segment_rows)),
            block: SCAN_THREADS,
            shared: SCAN_SHARED,
        }
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ScanArgs) {
        super::entries::scan_body(&self.entry())
    }
}

/// The best of the lists of each query, in exact order. Arguments: [`RankArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    /// What rows and queries hold.
    pub element: ElementKind,
    /// What is near.
    pub metric: Metric,
}

impl Kernel for Rank {
    type Args = RankArgs;

    fn entry(&self) -> Cow<'static, str> {
        format!("knn_rank_{}_{}", self.element, self.metric).into()
    }

    fn launch(&self, args: &RankArgs) -> Launch {
        Launch::linear(args.queries_len, RANK_THREADS).with_shared(args.list_len * RANK_SHARED_AN_ENTRY)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RankArgs) {
        super::entries::rank_body(&self.entry())
    }
}
