//! The kernels (PTX entry points): a scan and a ranking for each element and metric. `min_blocks` says how many blocks of
//! the scan a multiprocessor holds: one where two would not have the registers.

cfg_if! { if #[cfg(feature = "kernels")] {
    use super::{rank, scan};
    use super::score::{
        ByteCosine, ByteDot, ByteL2, FloatCosine, FloatDot, FloatL2, HalfCosine, HalfDot, HalfL2,
    };
    use crate::element::{F16, F32, I8, U8};
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    use super::{Rank, Scan};
    use jasper_core::{ElementKind, Metric};
} }

use super::{RankArgs, ScanArgs};
use crate::entry::entry_table;

entry_table! {
    /// The best of each segment of the rows, for each query.
    scans SCAN: Scan => ScanArgs;
    Scan { element: ElementKind::F32, metric: Metric::L2, by_products: false } => knn_scan_f32_l2 = scan::scan::<FloatL2<F32>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::F32, metric: Metric::InnerProduct, by_products: false } => knn_scan_f32_ip = scan::scan::<FloatDot<F32>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::F32, metric: Metric::Cosine, by_products: false } => knn_scan_f32_cosine = scan::scan::<FloatCosine<F32>>, max_threads 256, min_blocks 1;
    Scan { element: ElementKind::F16, metric: Metric::L2, by_products: false } => knn_scan_f16_l2 = scan::scan::<FloatL2<F16>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::F16, metric: Metric::L2, by_products: true } => knn_scan_f16_l2_product = scan::scan::<HalfL2<F16>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::F16, metric: Metric::InnerProduct, by_products: false } => knn_scan_f16_ip = scan::scan::<HalfDot<F16>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::F16, metric: Metric::Cosine, by_products: false } => knn_scan_f16_cosine = scan::scan::<HalfCosine<F16>>, max_threads 256, min_blocks 1;
    Scan { element: ElementKind::U8, metric: Metric::L2, by_products: false } => knn_scan_u8_l2 = scan::scan::<ByteL2<U8>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::U8, metric: Metric::InnerProduct, by_products: false } => knn_scan_u8_ip = scan::scan::<ByteDot<U8>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::U8, metric: Metric::Cosine, by_products: false } => knn_scan_u8_cosine = scan::scan::<ByteCosine<U8>>, max_threads 256, min_blocks 1;
    Scan { element: ElementKind::I8, metric: Metric::L2, by_products: false } => knn_scan_i8_l2 = scan::scan::<ByteL2<I8>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::I8, metric: Metric::InnerProduct, by_products: false } => knn_scan_i8_ip = scan::scan::<ByteDot<I8>>, max_threads 256, min_blocks 2;
    Scan { element: ElementKind::I8, metric: Metric::Cosine, by_products: false } => knn_scan_i8_cosine = scan::scan::<ByteCosine<I8>>, max_threads 256, min_blocks 1;
}

entry_table! {
    /// The best of the lists of each query, in exact order.
    ranks RANK: Rank => RankArgs;
    Rank { element: ElementKind::F32, metric: Metric::L2 } => knn_rank_f32_l2 = rank::rank::<FloatL2<F32>>, max_threads 128;
    Rank { element: ElementKind::F32, metric: Metric::InnerProduct } => knn_rank_f32_ip = rank::rank::<FloatDot<F32>>, max_threads 128;
    Rank { element: ElementKind::F32, metric: Metric::Cosine } => knn_rank_f32_cosine = rank::rank::<FloatCosine<F32>>, max_threads 128;
    Rank { element: ElementKind::F16, metric: Metric::L2 } => knn_rank_f16_l2 = rank::rank::<FloatL2<F16>>, max_threads 128;
    Rank { element: ElementKind::F16, metric: Metric::InnerProduct } => knn_rank_f16_ip = rank::rank::<HalfDot<F16>>, max_threads 128;
    Rank { element: ElementKind::F16, metric: Metric::Cosine } => knn_rank_f16_cosine = rank::rank::<HalfCosine<F16>>, max_threads 128;
    Rank { element: ElementKind::U8, metric: Metric::L2 } => knn_rank_u8_l2 = rank::rank::<ByteL2<U8>>, max_threads 128;
    Rank { element: ElementKind::U8, metric: Metric::InnerProduct } => knn_rank_u8_ip = rank::rank::<ByteDot<U8>>, max_threads 128;
    Rank { element: ElementKind::U8, metric: Metric::Cosine } => knn_rank_u8_cosine = rank::rank::<ByteCosine<U8>>, max_threads 128;
    Rank { element: ElementKind::I8, metric: Metric::L2 } => knn_rank_i8_l2 = rank::rank::<ByteL2<I8>>, max_threads 128;
    Rank { element: ElementKind::I8, metric: Metric::InnerProduct } => knn_rank_i8_ip = rank::rank::<ByteDot<I8>>, max_threads 128;
    Rank { element: ElementKind::I8, metric: Metric::Cosine } => knn_rank_i8_cosine = rank::rank::<ByteCosine<I8>>, max_threads 128;
}
