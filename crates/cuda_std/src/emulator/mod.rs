//! The host: kernels run as plain functions, a coroutine for each thread, and what they do wrong is found and told.
//!
//! An [`Emulator`] owns global memory ([`Buffer`]) and launches kernels over it. Lanes, warps and blocks take turns in
//! an order that its seed decides, and wait for one another where the hardware would: at barriers, shuffles, votes.
//! The first [`Fault`] ends the launch. It is found
//!
//! - in every access: outside of all buffers, misaligned, of bytes never written;
//! - between two accesses: a race is found whatever the order of turns, because what counts is whether a barrier, a
//!   `sync_warp` or a release and an acquire orders the two. Shuffles and votes order nothing. Lanes of one warp race
//!   like any threads, and so do the blocks of a launch;
//! - in meetings: a barrier that a part of the block reaches, threads that wait for one another for ever, a lane
//!   outside of its own mask, a shuffle from a lane that takes no part.
//!
//! Not modelled: weak memory itself (a load sees the last store), caches, and the time that anything takes.
//!
//! | module | holds |
//! | --- | --- |
//! | `launch` | [`Emulator`], the OS threads, what is told of a launch |
//! | `runner`, `stacks` | the turns of a block's threads |
//! | `block` | the state of a block, and which thread runs |
//! | `barrier`, `collective`, `matrix` | what threads do together |
//! | `memory`, `access` | global and shared memory, and the checks of each access |
//! | `clock`, `shadow`, `trace` | races: who knows what, who touched what, in a block and between blocks |
//! | `fault` | what went wrong |
//! | `back_end` | the functions that the public modules of this crate call |

mod access;
pub(crate) mod back_end;
mod barrier;
mod block;
mod clock;
mod collective;
mod fault;
mod launch;
mod matrix;
mod memory;
mod random;
mod runner;
mod shadow;
mod stacks;
mod trace;

pub use fault::{Access, Address, Fault, Other, Place, Site, Touch, Waiting};
pub use launch::{Emulator, Report};
pub use memory::Buffer;
