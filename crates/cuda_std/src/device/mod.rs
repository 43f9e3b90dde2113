//! The device: every primitive as the PTX instruction that its public function names.
//!
//! Two rules keep the code right, whatever the optimiser does:
//!
//! - What several threads must run together (barriers, shuffles, votes, matrix products) is an LLVM intrinsic,
//!   which the optimiser knows not to copy into the arms of a branch. It may copy inline assembly.
//! - Memory is reached by inline assembly, which names the state space: a pointer out of a struct of arguments would be
//!   a generic one, and slower.
//!
//! | module | holds |
//! | --- | --- |
//! | [`block`] | special registers, barriers, fences |
//! | [`lanes`] | the collectives of a warp |
//! | [`memory`] | loads, stores, atomic updates |
//! | [`math`] | arithmetic |
//! | [`matrix`] | matrix products |

mod block;
mod lanes;
pub mod math;
mod matrix;
mod memory;

pub use block::{barrier, fence, nanosleep, pause, special};
pub use lanes::collective;
pub use matrix::mma;
pub use memory::{
    load, load_shared, load_shared_relaxed, prefetch, shared_base, store, store_shared, store_shared_relaxed,
    update, update_shared,
};

/// Panics are traps; the message would cost registers and calls.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `trap` ends the launch.
    unsafe { core::arch::nvptx::trap() }
}
