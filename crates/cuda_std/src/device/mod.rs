//! The device back end: every operation is the PTX instruction that its public function names.
//!
//! Two rules keep the code correct under optimization:
//!
//! - Collectives (barriers, shuffles, votes, matrix products) are LLVM intrinsics, which the optimizer does not
//!   duplicate into both arms of a branch. It may duplicate inline assembly.
//! - Memory is accessed by inline assembly, which names the state space: pointers from a struct of arguments would be
//!   generic, and slower.
//!
//! | module | holds |
//! | --- | --- |
//! | [`block`] | special registers, barriers, fences |
//! | [`lanes`] | the collectives of a warp |
//! | [`memory`] | loads, stores, atomic updates |
//! | [`matrix`] | matrix products |

mod block;
mod lanes;
mod matrix;
mod memory;

pub use block::{barrier, fence, nanosleep, pause, special};
pub use lanes::collective;
pub use matrix::mma;
pub use memory::{
    load, load_shared, load_shared_relaxed, prefetch, shared_base, store, store_relaxed, store_shared,
    store_shared_relaxed, update, update_shared,
};

/// A panic is a trap, because a message would cost registers and calls.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` ends the launch.
    unsafe { core::arch::nvptx::trap() }
}
