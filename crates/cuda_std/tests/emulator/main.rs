//! The emulator: correct kernels give the same results for all seeds, and every kind of fault is detected and reported.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "kernels that are wrong on purpose: the emulator checks them"
)]

mod faults;
mod grids;
mod kernels;
mod mutations;
mod races;
mod synchronization;

use cuda_std::emulator::{Buffer, Emulator, Fault, Report};

/// Seeds to try: enough that two threads run in both orders.
const SEEDS: std::ops::Range<u64> = 0..8;

/// One block of `threads` threads with 1024 bytes of shared memory.
fn block(seed: u64, threads: u32, kernel: impl Fn() + Sync) -> Result<Report, Fault> {
    Emulator::new(seed).launch("kernel", (1, 1), threads, 1024, kernel)
}

/// The fault of a block of `threads` threads, for each seed.
fn faults(threads: u32, kernel: impl Fn() + Sync) -> Vec<Fault> {
    SEEDS.map(|seed| block(seed, threads, &kernel).expect_err("the kernel is wrong")).collect()
}

/// The message of a fault, with places in this folder reduced to file names.
fn message(fault: &Fault) -> String {
    let text = fault.to_string().replace("crates/cuda_std/tests/emulator/", "");
    let (first, parts) = text.split_once(".rs:").unwrap_or((&text, ""));
    let number = |text: &str| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    parts.split(".rs:").filter(|part| !part.is_empty()).fold(first.to_owned(), |all, part| {
        format!("{all}.rs{}", number(number(part).trim_start_matches(':')))
    })
}

/// Element `index` of a buffer, for kernels to read or write.
fn at<T: bytemuck::Pod>(buffer: &Buffer<T>, index: u32) -> *mut T {
    buffer.as_mut_ptr().wrapping_add(index as usize)
}
