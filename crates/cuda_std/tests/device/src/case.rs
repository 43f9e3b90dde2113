//! Each kernel with what to launch and what to expect.

use crate::{Args, arithmetic, atomics, blocks, canary, memory, products, warps};

/// Words of input.
pub const INPUT_WORDS: usize = 1024;

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Columns and rows of blocks.
    pub grid: (u32, u32),
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl LaunchConfig {
    /// Where each thread of the grid is, in the order of their answers: (block column, block row, thread).
    pub(crate) fn threads(self) -> impl Iterator<Item = (u32, u32, u32)> {
        let Self { grid: (columns, rows), block, .. } = self;
        (0..rows)
            .flat_map(move |y| (0..columns).flat_map(move |x| (0..block).map(move |thread| (x, y, thread))))
    }
}

/// A kernel, a launch of it, and the output that must come of it.
pub struct Case {
    /// The name of the kernel's entry.
    pub entry: &'static str,
    /// The kernel itself, for the emulator.
    pub kernel: unsafe fn(Args),
    /// The launch.
    pub launch: LaunchConfig,
    /// What `output` holds before.
    pub before: Vec<u32>,
    /// What it must hold afterwards.
    pub after: Vec<u32>,
}

impl Case {
    /// A case whose output holds nothing before but what the threads share.
    pub(crate) fn new(
        entry: &'static str,
        kernel: unsafe fn(Args),
        launch: LaunchConfig,
        answers: Vec<u32>,
        shared_before: &[u32],
        shared_after: &[u32],
    ) -> Self {
        let before = [vec![0; answers.len()], shared_before.to_vec()].concat();
        Self { entry, kernel, launch, before, after: [answers, shared_after.to_vec()].concat() }
    }
}

/// The input and every case over it.
pub fn cases() -> (Vec<u32>, Vec<Case>) {
    let input = input();
    let cases = vec![
        blocks::case(&input),
        warps::case(&input),
        memory::case(&input),
        atomics::case(&input),
        arithmetic::case(&input),
        products::case(&input),
        canary::case(),
        canary::case_of_product(),
    ];
    (input, cases)
}

/// Random words, always the same: the generator SplitMix64.
fn input() -> Vec<u32> {
    let words = (1..=INPUT_WORDS as u64).map(|step| {
        let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u32
    });
    words.collect()
}
