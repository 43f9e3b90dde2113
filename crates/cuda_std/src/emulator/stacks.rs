//! The stacks of threads, reused from launch to launch.

use std::sync::Mutex;

pub use corosensei::stack::DefaultStack as LaneStack;

/// Room for the registers of the widest kernel many times over, and for a panic with its backtrace; pages that are not
/// touched cost nothing.
const STACK_BYTES: usize = 256 << 10;

/// Stacks at rest.
static IDLE: Mutex<Vec<LaneStack>> = Mutex::new(Vec::new());

/// `count` stacks.
pub fn take(count: usize) -> Vec<LaneStack> {
    let mut stacks = IDLE.lock().expect("no panic holds the stacks");
    let kept = stacks.len().saturating_sub(count);
    let mut taken = stacks.split_off(kept);
    drop(stacks);
    let fresh = || LaneStack::new(STACK_BYTES).expect("address space for the stacks of emulated threads");
    taken.resize_with(count, fresh);
    taken
}

/// Takes stacks back.
pub fn give_back(stacks: Vec<LaneStack>) {
    IDLE.lock().expect("no panic holds the stacks").extend(stacks);
}
