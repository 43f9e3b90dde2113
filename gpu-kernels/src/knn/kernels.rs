//! The kernels (PTX entry points): a scan and a ranking for each element and metric, and how many blocks of the scan a
//! multiprocessor holds: one where two would not have the registers.

use cuda_std::prelude::*;

use super::score::{
    ByteCosine, ByteDot, ByteL2, FloatCosine, FloatDot, FloatL2, HalfCosine, HalfDot, HalfL2,
};
use super::{RankArgs, ScanArgs};
use crate::element::{F16, F32, I8, U8};
use crate::row_kind::body;

macro_rules! scans {
    ($($kind_name:ident: $score:ty, $blocks:tt;)*) => {
        $(mod $kind_name {
            use super::*;

            /// # Safety
            /// The arguments are as [`ScanArgs`] says, and the launch is that of the kernel's `launch_config` for them.
            #[kernel(name = knn_scan_ $kind_name, max_threads = 256, min_blocks = $blocks)]
            pub unsafe fn scan(args: ScanArgs) {
                // SAFETY: upheld by the caller.
                unsafe { crate::knn::scan::scan::<$score>(args) }
            }
        })*

        body!(scan_body() -> ScanArgs { $($kind_name => $kind_name::scan;)* });
    };
}

macro_rules! ranks {
    ($($kind_name:ident: $score:ty;)*) => {
        mod rank {
            use super::*;
            $(
                /// # Safety
                /// The arguments are as [`RankArgs`] says, and the launch is that of the kernel's `launch_config` for
                /// them.
                #[kernel(name = knn_rank_ $kind_name, max_threads = 128)]
                pub unsafe fn $kind_name(args: RankArgs) {
                    // SAFETY: upheld by the caller.
                    unsafe { crate::knn::rank::rank::<$score>(args) }
                }
            )*
        }

        body!(rank_body() -> RankArgs { $($kind_name => rank::$kind_name;)* });
    };
}

scans! {
    f32_l2: FloatL2<F32>, 2;
    f32_ip: FloatDot<F32>, 2;
    f32_cosine: FloatCosine<F32>, 1;
    f16_l2: FloatL2<F16>, 2;
    f16_l2_product: HalfL2<F16>, 2;
    f16_ip: HalfDot<F16>, 2;
    f16_cosine: HalfCosine<F16>, 1;
    u8_l2: ByteL2<U8>, 2;
    u8_ip: ByteDot<U8>, 2;
    u8_cosine: ByteCosine<U8>, 1;
    i8_l2: ByteL2<I8>, 2;
    i8_ip: ByteDot<I8>, 2;
    i8_cosine: ByteCosine<I8>, 1;
}

ranks! {
    f32_l2: FloatL2<F32>;
    f32_ip: FloatDot<F32>;
    f32_cosine: FloatCosine<F32>;
    f16_l2: FloatL2<F16>;
    f16_ip: HalfDot<F16>;
    f16_cosine: HalfCosine<F16>;
    u8_l2: ByteL2<U8>;
    u8_ip: ByteDot<U8>;
    u8_cosine: ByteCosine<U8>;
    i8_l2: ByteL2<I8>;
    i8_ip: ByteDot<I8>;
    i8_cosine: ByteCosine<I8>;
}
