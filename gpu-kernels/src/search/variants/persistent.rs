//! A grid that stays: each block takes query after query, and none is begun while others run.

use cuda_std::prelude::*;

use crate::search::layout::Needs;
use crate::search::registers::Registers;
use crate::search::score::Scorer;
use crate::search::{SearchArgs, solo};

/// All searches that fall to a block of one warp, as a grid of so many deals them out.
///
/// # Safety
/// The arguments are what [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<S: Scorer>(args: SearchArgs, of: S::Args, needs: Needs) {
    let mut query = thread::block_idx_x();
    while query < args.queries_len {
        // SAFETY: the caller's promise. Behind the barrier of its last scores a search whose frontier is in registers has
        // nothing in shared memory, so that the next may use that.
        unsafe { solo::answer::<Registers<4>, S>(&args, &of, needs, query) };
        query += thread::grid_dim_x();
    }
}
