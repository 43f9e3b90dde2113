//! The stacks of threads, reused from launch to launch.

use std::sync::Mutex;

pub use corosensei::stack::DefaultStack as LaneStack;

/// Bytes of a stack: room for many times the registers of the widest kernel, and for a panic with its backtrace. Pages
/// that are not touched cost nothing.
const STACK_BYTES: usize = 256 << 10;

/// Unused stacks.
static IDLE: Mutex<Vec<LaneStack>> = Mutex::new(Vec::new());

/// Takes `count` stacks, or allocates them.
pub fn take(count: usize) -> Vec<LaneStack> {
    let mut stacks = IDLE.lock().expect("no panic holds the stacks");
    let kept = stacks.len().saturating_sub(count);
    let mut taken = stacks.split_off(kept);
    drop(stacks);
    let fresh = || LaneStack::new(STACK_BYTES).expect("address space for the stacks of emulated threads");
    taken.resize_with(count, fresh);
    taken
}

/// Returns stacks for reuse.
pub fn give_back(stacks: Vec<LaneStack>) {
    IDLE.lock().expect("no panic holds the stacks").extend(stacks);
}
