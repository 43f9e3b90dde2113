//! The stacks that lanes run on.

use std::sync::Mutex;

use corosensei::stack::DefaultStack;
#[cfg(unix)]
use corosensei::stack::{Stack, StackPointer};

/// Room for the registers of the widest kernel many times over; untouched pages cost nothing.
const STACK_BYTES: usize = 256 << 10;

/// A stack whose base differs from lane to lane by some cache lines.
///
/// Stacks begin at page boundaries. The 32 lanes of a warp would touch the same few sets of the first-level cache, and
/// each switch from lane to lane would miss it.
#[cfg(unix)]
pub struct LaneStack {
    stack: DefaultStack,
    skipped: usize,
}

#[cfg(unix)]
// SAFETY: the guard page is that of the inner stack; the base is lowered by less than it holds, to a multiple of 64.
unsafe impl Stack for LaneStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.stack.base().get() - self.skipped).expect("the base lies above the limit")
    }

    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }
}

#[cfg(not(unix))]
pub type LaneStack = DefaultStack;

/// Stacks at rest, of all emulators: those of one test serve the next.
static AT_REST: Mutex<Vec<LaneStack>> = Mutex::new(Vec::new());

/// `count` stacks.
pub fn take(count: usize) -> Vec<LaneStack> {
    let mut stacks = AT_REST.lock().expect("no panic holds the stacks");
    let kept = stacks.len().saturating_sub(count);
    let mut taken = stacks.split_off(kept);
    drop(stacks);
    taken.extend((taken.len()..count).map(new));
    taken
}

/// Takes stacks back.
pub fn give_back(stacks: Vec<LaneStack>) {
    AT_REST.lock().expect("no panic holds the stacks").extend(stacks);
}

/// A fresh stack, the `number`th of its kind.
fn new(number: usize) -> LaneStack {
    let stack = DefaultStack::new(STACK_BYTES).expect("address space for the stack of an emulated thread");
    #[cfg(unix)]
    // 5 lines of 64 bytes apart: lanes that run in turn share no set, and 64 of them fill a page once.
    let stack = LaneStack { stack, skipped: number % 64 * (5 * 64) % 4096 };
    #[cfg(not(unix))]
    let _ = number;
    stack
}
