//! The canaries of convergence: what all threads do together, between two branches on the same condition. An optimiser
//! that does not know the one from any other instruction joins the branches and leaves a copy in each arm, where the
//! threads wait for each other for ever. The build tool counts the barriers of [`canary`], a test the products of
//! [`canary_product`].

use cuda_std::prelude::*;

use crate::Args;
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};

/// The first half of the threads writes on both sides of a barrier, each thread its word and then its neighbor's.
///
/// # Safety
/// `args.output` holds a word for each thread of the block, and one more.
#[kernel]
pub unsafe fn canary(args: Args) {
    let thread = thread::thread_idx_x();
    let writes = thread < thread::block_dim_x() / 2;
    // SAFETY: the words are there by contract; the barrier is between writes of the same word.
    unsafe {
        if writes {
            global::store(args.output.add(thread as usize), 1);
        }
        thread::sync_threads();
        if writes {
            global::store(args.output.add(thread as usize + 1), thread + 2);
        }
    }
}

/// The first half of the lanes writes on both sides of a matrix product.
///
/// # Safety
/// `args.output` holds two words for each lane of the only warp.
#[kernel]
pub unsafe fn canary_product(args: Args) {
    /// Four bytes, each 1.
    const ONES: u32 = 0x0101_0101;
    let lane = warp::lane_id();
    let writes = lane < warp::WARP_SIZE / 2;
    // SAFETY: the words are there by contract; the warp is whole.
    unsafe {
        if writes {
            global::store(args.output.add(lane as usize), lane);
        }
        let sums = mma::m16n8k32_i8([ONES; 4], [ONES; 2], [lane as i32; 4]);
        if writes {
            global::store(args.output.add((lane + warp::WARP_SIZE) as usize), sums[3] as u32);
        }
    }
}

/// Half of 64 threads write.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case() -> Case {
    let launch = LaunchConfig { grid: (1, 1), block: 64, shared: 0 };
    let written = (0..32).map(|thread| thread + 2);
    let after = std::iter::once(1).chain(written).chain([0; 32]).collect();
    Case::new("canary", canary, launch, after, &[], &[])
}

/// Half of 32 lanes write their number, and 32 more: the sum of as many products of ones.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case_of_product() -> Case {
    let launch = LaunchConfig { grid: (1, 1), block: 32, shared: 0 };
    let sums = (0..16).map(|lane| 32 + lane);
    let after = (0..16).chain([0; 16]).chain(sums).chain([0; 16]).collect();
    Case::new("canary_product", canary_product, launch, after, &[], &[])
}
