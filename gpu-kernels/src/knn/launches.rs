//! The launches of the kernels: which kernel, and its grid.

use jasper_core::{ElementKind, Metric};

#[cfg(feature = "kernels")]
use super::candidates;
use super::kernels::{RANK, SCAN};
use super::{
    ListCandidatesArgs, MAX_PENDING, RANK_THREADS, RankArgs, SCAN_THREADS, ScanArgs, TILE, TILE_WORDS,
    list_len,
};
use crate::{Entry, Kernel, LaunchConfig, Specialization, entry, launch};

/// Shared memory of a block of the scan: two tiles of queries and two of rows, one of each in use while the other
/// is filled; squared lengths, also two; pending entries, worst entries and counts.
const SCAN_SHARED: u32 = 4 * TILE_WORDS * 4 + 2 * TILE * 4 + TILE * MAX_PENDING * 8 + TILE * 8 + TILE * 4;
/// No more than the smallest of the GPUs that run this PTX has: 99 KiB.
const _: () = assert!(SCAN_SHARED <= 99 << 10);
/// Shared memory of a block of the ranking for each entry of a list: the best ones, and their distances.
const RANK_SHARED_PER_ENTRY: u32 = 8 + 8;

/// The best of each segment of the rows, for each query. Arguments: [`ScanArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    pub(super) element: ElementKind,
    pub(super) metric: Metric,
    /// Whether distances are computed from products of f16.
    pub(super) by_products: bool,
}

/// The best of the lists of each query, in exact order. Arguments: [`RankArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    /// The element of rows and queries.
    pub element: ElementKind,
    /// The metric of distances.
    pub metric: Metric,
}

impl Scan {
    /// The kernel for rows and queries of `element`. `allows_products` says whether L2 distances of f16 may be computed
    /// from products, by tensor cores: many times as fast, but accurate to a millionth of the squared norms, and not of the
    /// distances.
    pub fn new(element: ElementKind, metric: Metric, allows_products: bool) -> Self {
        let by_products = allows_products && (element, metric) == (ElementKind::F16, Metric::L2);
        Self { element, metric, by_products }
    }

    /// Every kernel of the family.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        SCAN.iter().map(|(scan, _)| *scan)
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Scan {
    type Args = ScanArgs;

    fn entry(&self) -> Entry<ScanArgs> {
        entry::find(SCAN, self)
    }

    fn launch_config(&self, args: &ScanArgs) -> LaunchConfig {
        LaunchConfig {
            grid: (args.queries_len.div_ceil(TILE), args.rows_len.div_ceil(args.segment_rows)),
            block: SCAN_THREADS,
            shared: SCAN_SHARED,
        }
    }

    /// Gives the sums of floats all registers where those of two blocks do not fit. The kernels have no constants.
    fn specialization(&self) -> Option<Specialization> {
        let is_tight = match self.element {
            ElementKind::F32 => self.metric != Metric::Cosine,
            ElementKind::F16 => self.metric == Metric::L2 && !self.by_products,
            ElementKind::U8 | ElementKind::I8 => false,
        };
        is_tight.then_some(Specialization { constants: [0; 4], min_blocks: [1, 2, 1] })
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Rank {
    type Args = RankArgs;

    fn entry(&self) -> Entry<RankArgs> {
        entry::find(RANK, self)
    }

    fn launch_config(&self, args: &RankArgs) -> LaunchConfig {
        LaunchConfig::linear(args.queries_len, RANK_THREADS)
            .with_shared(list_len(args.wanted) * RANK_SHARED_PER_ENTRY)
    }
}

launch::kernels! {
    /// The slots of the best rows of all lists of each query.
    ListCandidates(ListCandidatesArgs) = candidates::knn_candidates, |args| {
        LaunchConfig::linear(args.queries_len, RANK_THREADS).with_shared(list_len(args.wanted) * size_of::<u64>() as u32)
    };
}
