//! The entries: a scan and a ranking for each element and metric, and how many blocks of the scan a multiprocessor
//! holds: one where two would not have the registers.

use cuda_std::prelude::*;

use super::rank::rank;
use super::scan::scan;
use super::score::{ByteCosine, ByteDot, ByteL2, FloatCosine, FloatDot, FloatL2};
use super::{RankArgs, ScanArgs};
use crate::coordinates::{F16, F32, I8, U8};

macro_rules! entries {
    ($($scan:ident $rank:ident: $score:ty, $blocks:tt;)*) => {
        $(
            /// A scan: its name says of what.
            ///
            /// # Safety
            /// The arguments are as [`ScanArgs`] says, and the launch is the one planned for them.
            #[kernel(max_threads = 256, min_blocks = $blocks)]
            pub unsafe fn $scan(args: ScanArgs) {
                // SAFETY: the caller's promise.
                unsafe { scan::<$score>(args) }
            }

            /// A ranking: its name says of what.
            ///
            /// # Safety
            /// The arguments are as [`RankArgs`] says, and the launch is the one planned for them.
            #[kernel(max_threads = 128)]
            pub unsafe fn $rank(args: RankArgs) {
                // SAFETY: the caller's promise.
                unsafe { rank::<$score>(args) }
            }
        )*

        /// The function of the entry of a scan.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn scan_body(entry: &str) -> unsafe fn(ScanArgs) {
            match entry {
                $(stringify!($scan) => $scan,)*
                _ => unreachable!("the table holds every element and metric, {entry} too"),
            }
        }

        /// The function of the entry of a ranking.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn rank_body(entry: &str) -> unsafe fn(RankArgs) {
            match entry {
                $(stringify!($rank) => $rank,)*
                _ => unreachable!("the table holds every element and metric, {entry} too"),
            }
        }
    };
}

entries! {
    knn_scan_f32_l2 knn_rank_f32_l2: FloatL2<F32>, 2;
    knn_scan_f32_ip knn_rank_f32_ip: FloatDot<F32>, 2;
    knn_scan_f32_cosine knn_rank_f32_cosine: FloatCosine<F32>, 1;
    knn_scan_f16_l2 knn_rank_f16_l2: FloatL2<F16>, 2;
    knn_scan_f16_ip knn_rank_f16_ip: FloatDot<F16>, 2;
    knn_scan_f16_cosine knn_rank_f16_cosine: FloatCosine<F16>, 1;
    knn_scan_u8_l2 knn_rank_u8_l2: ByteL2<U8>, 2;
    knn_scan_u8_ip knn_rank_u8_ip: ByteDot<U8>, 2;
    knn_scan_u8_cosine knn_rank_u8_cosine: ByteCosine<U8>, 1;
    knn_scan_i8_l2 knn_rank_i8_l2: ByteL2<I8>, 2;
    knn_scan_i8_ip knn_rank_i8_ip: ByteDot<I8>, 2;
    knn_scan_i8_cosine knn_rank_i8_cosine: ByteCosine<I8>, 1;
}
