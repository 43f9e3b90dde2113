//! The entries: a scan and a ranking for each element and metric, and how many blocks of the scan a multiprocessor
//! holds: one where two would not have the registers.

use cuda_std::prelude::*;

use super::score::{ByteCosine, ByteDot, ByteL2, FloatCosine, FloatDot, FloatL2};
use super::{RankArgs, ScanArgs};
use crate::coordinates::{F16, F32, I8, U8};

macro_rules! entries {
    ($($rows:ident: $score:ty, $blocks:tt;)*) => {
        $(mod $rows {
            use super::*;

            /// # Safety
            /// The arguments are as [`ScanArgs`] says, and the launch is the one planned for them.
            #[kernel(name = knn_scan_ $rows, max_threads = 256, min_blocks = $blocks)]
            pub unsafe fn scan(args: ScanArgs) {
                // SAFETY: the caller's promise.
                unsafe { crate::knn::scan::scan::<$score>(args) }
            }

            /// # Safety
            /// The arguments are as [`RankArgs`] says, and the launch is the one planned for them.
            #[kernel(name = knn_rank_ $rows, max_threads = 128)]
            pub unsafe fn rank(args: RankArgs) {
                // SAFETY: the caller's promise.
                unsafe { crate::knn::rank::rank::<$score>(args) }
            }
        })*

        /// The functions of the entries of some rows, for the emulator.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(super) fn bodies(rows: &str) -> (unsafe fn(ScanArgs), unsafe fn(RankArgs)) {
            match rows {
                $(stringify!($rows) => ($rows::scan, $rows::rank),)*
                _ => unreachable!("the table holds every element and metric, {rows} too"),
            }
        }
    };
}

entries! {
    f32_l2: FloatL2<F32>, 2;
    f32_ip: FloatDot<F32>, 2;
    f32_cosine: FloatCosine<F32>, 1;
    f16_l2: FloatL2<F16>, 2;
    f16_ip: FloatDot<F16>, 2;
    f16_cosine: FloatCosine<F16>, 1;
    u8_l2: ByteL2<U8>, 2;
    u8_ip: ByteDot<U8>, 2;
    u8_cosine: ByteCosine<U8>, 1;
    i8_l2: ByteL2<I8>, 2;
    i8_ip: ByteDot<I8>, 2;
    i8_cosine: ByteCosine<I8>, 1;
}
