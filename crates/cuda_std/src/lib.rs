//! The device library of Jasper's kernels. On the device (rustc's own `nvptx64-nvidia-cuda` target), most functions are
//! one PTX instruction, which their docs name; on the host they are emulated, so the same source runs on a GPU and in
//! `cargo test`.
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! #[repr(C)]
//! #[derive(Clone, Copy)]
//! pub struct SumRows {
//!     pub rows: *const [f32; 4], // [n_rows][32]
//!     pub sums: *mut f32,        // [n_rows]
//!     pub n_rows: u32,
//! }
//!
//! /// Sums the 128 coordinates of each row; one warp per row.
//! ///
//! /// # Safety
//! /// The pointers have the shapes above; blocks consist of whole warps.
//! #[kernel(max_threads = 256)]
//! pub unsafe fn sum_rows(args: SumRows) {
//!     let row = thread::index_1d() / warp::WARP_SIZE;
//!     if row < args.n_rows {
//!         let unit = row * warp::WARP_SIZE + warp::lane_id();
//!         // SAFETY: row < n_rows, for the whole warp.
//!         unsafe {
//!             let [a, b, c, d] = global::load_streaming(args.rows.add(unit as usize));
//!             let sum = warp::sum((a + b) + (c + d), warp::WARP_SIZE);
//!             if warp::lane_id() == 0 {
//!                 global::store(args.sums.add(row as usize), sum);
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`kernel`] | the attribute that makes a function an entry point, with launch bounds |
//! | [`thread`] | indices, block barriers, fences |
//! | [`warp`] | shuffles, votes, matches and reductions of 32 lanes |
//! | [`shared`] | the block's dynamic shared memory, by 32-bit address |
//! | [`constant`] | values that become constants when a kernel is loaded |
//! | [`global`] | loads and stores, with their caching |
//! | [`atomic`] | atomic updates of global memory |
//! | [`math`] | fused multiply-add, halves, dot products of bytes |
//! | [`mma`] | matrix products of a warp |
//!
//! # A kernel crate
//! The crate that holds kernels opens with
//! `#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]`. Its panics are a trap on
//! the device: this crate has the panic handler.
//!
//! # What is unsafe
//! Functions that access memory are unsafe, and so are those that several threads must call together. The emulator
//! checks both, the device neither. Pointers are addresses of global memory; a pointer to anything else is a fault.
//!
//! # Back ends
//! The public modules call a back end, which has these functions, with the types of `primitive`:
//!
//! | function | of |
//! | --- | --- |
//! | `special(Special) -> u32` | [`thread`], [`warp`] |
//! | `barrier(Barrier) -> u32`, `fence()`, `nanosleep(u32)` | [`thread`] |
//! | `collective<T: Word>(Collective, T, argument: u32) -> (T, bool)` | [`warp`] |
//! | `load<T: Value>(Load, *const T) -> T`, `store<T: Value>(*mut T, T)`, `prefetch(*const u8)` | [`global`] |
//! | `shared_base() -> u32`, `load_shared<T: Value>(u32) -> T`, `store_shared<T: Value>(u32, T)` | [`shared`] |
//! | `update<T: Word>(*mut T, Update<T>) -> T`, `update_shared<T: Word>(u32, Update<T>) -> T` | [`atomic`], [`shared`] |
//! | `mma(Mma, [u32; 4], [u32; 2], [u32; 4]) -> [u32; 4]` | [`mma`] |
//!
//! On the host it is `emulator::back_end`. Every function on the way there is `#[track_caller]`, so that a fault names
//! the line of the kernel. `math` needs no emulator.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_unadjusted, asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

pub mod atomic;
pub mod constant;
pub mod global;
pub mod math;
pub mod mma;
mod primitive;
pub mod shared;
pub mod thread;
mod value;
pub mod warp;

#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;

#[cfg(target_arch = "nvptx64")]
use device as imp;
#[cfg(not(target_arch = "nvptx64"))]
use emulator::back_end as imp;

pub use cuda_std_macros::kernel;
pub use value::{Value, Word};

/// The items that most kernels use.
pub mod prelude {
    pub use crate::shared::Shared;
    pub use crate::{atomic, global, kernel, math, mma, shared, thread, warp};
}
