//! The launches of the kernels: which kernel, and its grid.

use std::borrow::Cow;

use jasper_core::{ElementKind, Metric};

#[cfg(feature = "kernels")]
use super::candidates;
use super::{
    ListCandidatesArgs, MAX_PENDING, RANK_THREADS, RankArgs, SCAN_THREADS, ScanArgs, TILE, TILE_WORDS,
    list_len,
};
use crate::{Kernel, LaunchConfig, Specialization, launch};

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
    /// The element of rows and queries.
    pub element: ElementKind,
    /// The metric of distances.
    pub metric: Metric,
    /// Whether L2 distances of f16 may be computed from products, by tensor cores: many times as fast, but accurate to
    /// a millionth of the squared norms, and not of the distances.
    pub allows_products: bool,
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
    /// Every kernel of the family but that of products.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let of = |element| Metric::ALL.map(|metric| Self { element, metric, allows_products: false });
        ElementKind::ALL.into_iter().flat_map(of)
    }

    fn rows(self) -> String {
        let Self { element, metric, allows_products } = self;
        let is_product = allows_products && (element, metric) == (ElementKind::F16, Metric::L2);
        format!("{element}_{metric}{}", if is_product { "_product" } else { "" })
    }
}

impl Rank {
    fn rows(self) -> String {
        format!("{}_{}", self.element, self.metric)
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Scan {
    type Args = ScanArgs;

    fn entry_point(&self) -> Cow<'static, str> {
        format!("knn_scan_{}", self.rows()).into()
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
        let is_tight = matches!(&*self.rows(), "f32_l2" | "f32_ip" | "f16_l2");
        is_tight.then_some(Specialization { constants: [0; 4], min_blocks: [1, 2, 1] })
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ScanArgs) {
        super::kernels::scan_body(&self.rows())
    }
}

// SAFETY: the entry points take these arguments, and the grid covers them.
unsafe impl Kernel for Rank {
    type Args = RankArgs;

    fn entry_point(&self) -> Cow<'static, str> {
        format!("knn_rank_{}", self.rows()).into()
    }

    fn launch_config(&self, args: &RankArgs) -> LaunchConfig {
        LaunchConfig::linear(args.queries_len, RANK_THREADS)
            .with_shared(list_len(args.wanted) * RANK_SHARED_PER_ENTRY)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(RankArgs) {
        super::kernels::rank_body(&self.rows())
    }
}

launch::kernels! {
    /// The slots of the best rows of all lists of each query.
    ListCandidates(ListCandidatesArgs) = candidates::knn_candidates, |args| {
        LaunchConfig::linear(args.queries_len, RANK_THREADS).with_shared(list_len(args.wanted) * size_of::<u64>() as u32)
    };
}
