//! The canary of convergence: a barrier between two branches on the same condition. An optimiser that does not know
//! barriers joins the branches and leaves one barrier in each arm; the build tool refuses PTX in which this kernel
//! has more than one.

use cuda_std::prelude::*;

use crate::Args;
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, Launch};

/// The first half of the threads writes on both sides of a barrier, each thread its word and then its neighbour's.
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

/// Half of 64 threads write.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case() -> Case {
    let launch = Launch { grid: (1, 1), block: 64, shared: 0 };
    let written = (0..32).map(|thread| thread + 2);
    let after = std::iter::once(1).chain(written).chain([0; 32]).collect();
    Case::new("canary", canary, launch, after, &[], &[])
}
