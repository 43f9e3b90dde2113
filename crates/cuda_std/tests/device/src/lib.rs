//! Kernels that use every function of `cuda_std` once, with the expected results computed in plain Rust.
//!
//! `cases` lists them with their launches and expected results, for the emulator and for a GPU.

#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

use cuda_std::Word;
use cuda_std::prelude::*;

pub mod arithmetic;
pub mod atomics;
pub mod blocks;
pub mod canary;
#[cfg(not(target_arch = "nvptx64"))]
mod case;
pub mod memory;
pub mod products;
pub mod warps;

#[cfg(not(target_arch = "nvptx64"))]
pub use case::{Case, INPUT_WORDS, LaunchConfig, cases};

/// The kernels as PTX, compiled by `cargo xtask ptx build`.
#[cfg(not(target_arch = "nvptx64"))]
pub const PTX: &str = include_str!("../ptx/kernels.ptx");

/// What every kernel here gets.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Args {
    /// `INPUT_WORDS` random words, constant.
    pub input: *const u32,
    /// The answers of each thread, one after another, blocks in order; then what threads share.
    pub output: *mut u32,
}

/// Where a thread writes its answers, one word after another.
pub struct Answers {
    next: *mut u32,
}

impl Answers {
    /// The place of this thread, if each has `words` answers.
    ///
    /// # Safety
    /// `args.output` has room for the answers of the whole grid.
    #[inline(always)]
    pub unsafe fn of_this_thread(args: &Args, words: u32) -> Self {
        let block = thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x();
        let index = block * thread::block_dim_x() + thread::thread_idx_x();
        // SAFETY: upheld by the caller.
        Self { next: unsafe { args.output.add((index * words) as usize) } }
    }

    /// Writes the bits of `value`: one word, or two for 8 bytes.
    ///
    /// # Safety
    /// The thread has room for it.
    #[inline(always)]
    pub unsafe fn put<T: Word>(&mut self, value: T) {
        // SAFETY: upheld by the caller.
        unsafe {
            self.put_word(value.bits() as u32);
            if size_of::<T>() == 8 {
                self.put_word((value.bits() >> 32) as u32);
            }
        }
    }

    /// Writes a value and the flag that came with it.
    ///
    /// # Safety
    /// The thread has room for it.
    #[inline(always)]
    pub unsafe fn put_with_flag<T: Word>(&mut self, (value, flag): (T, bool)) {
        // SAFETY: upheld by the caller.
        unsafe {
            self.put(value);
            self.put_word(u32::from(flag));
        }
    }

    #[inline(always)]
    unsafe fn put_word(&mut self, word: u32) {
        // SAFETY: upheld by the caller.
        unsafe {
            global::store(self.next, word);
            self.next = self.next.add(1);
        }
    }
}

/// What the threads of the whole grid share, behind the answers.
///
/// # Safety
/// `args.output` has room for the answers of the whole grid, `words` a thread.
#[inline(always)]
pub unsafe fn shared_by_all(args: &Args, words: u32) -> *mut u32 {
    let threads = thread::grid_dim_x() * thread::grid_dim_y() * thread::block_dim_x();
    // SAFETY: upheld by the caller.
    unsafe { args.output.add((threads * words) as usize) }
}
