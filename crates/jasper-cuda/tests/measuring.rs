//! The example `search`, without a GPU: its arithmetic, and its launches in the emulator.

#[path = "../examples/search/main.rs"]
#[expect(dead_code, reason = "cargo runs its main")]
mod search;
