//! Sums the counts of each pass: a block scans the 256 counts of one pass.

use cuda_std::prelude::*;

use super::{DigitOffsetsArgs, RADIX, WARPS};
use crate::WARP_SIZE;
use crate::prefix_sum::block::{block_sums, warp_inclusive_sum};

/// Replaces the counts of a pass by their exclusive prefix sums; one block per pass, one thread per digit value.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn sort_digit_offsets(args: DigitOffsetsArgs) {
    let counter = args.counts.at(thread::index_1d() as usize);
    // SAFETY: each thread owns one counter of the pass; all threads of the block call the collectives.
    unsafe {
        let count = global::load(counter);
        let up_to = warp_inclusive_sum(count);
        let (warps_before, _) = block_sums::<WARPS>(up_to, shared::dynamic_shared_mem());
        global::store(counter, warps_before + up_to - count);
    }
}

const _: () = assert!(RADIX == 256 && WARPS * WARP_SIZE == RADIX);
