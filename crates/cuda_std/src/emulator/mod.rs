//! The host back end: runs kernels as plain functions, one coroutine per thread, and reports what they do wrong.
//!
//! An [`Emulator`] owns global memory ([`Buffer`]) and launches kernels. Lanes, warps and blocks run in an order that
//! follows from its seed, and switch where the hardware would wait: at barriers, shuffles and votes. The first
//! [`Fault`] ends the launch. Faults are:
//!
//! - *invalid accesses*: out of bounds, misaligned, or reads of bytes that were never written;
//! - *data races*: two accesses of the same bytes by different threads, at least one of them a write and not both
//!   atomic, without a happens-before relation. Barriers and `sync_warp` create one; so do a fence, a relaxed store, a
//!   relaxed load that reads it, and another fence within a block. Shuffles and votes do not, and nothing does between
//!   the blocks of a launch. A race is found in every order of execution, because the relation is tracked by clocks;
//! - *misused synchronization*: a barrier that only some threads of the block reach, deadlock, a lane missing from its
//!   own mask, a shuffle that reads an inactive lane.
//!
//! Not modeled: weak memory itself (a load returns the last store), caches, and time.
//!
//! | module | holds |
//! | --- | --- |
//! | `launch` | [`Emulator`], OS threads, reports |
//! | `runner`, `stacks` | the schedule of a block's threads |
//! | `block` | the state of a block, and the current thread |
//! | `barrier`, `collective`, `matrix` | operations of several threads |
//! | `memory`, `access` | global and shared memory, and the checks of each access |
//! | `clock` | happens-before within a block |
//! | `shadow`, `trace` | races within a block, and between blocks |
//! | `fault` | [`Fault`] and its message |
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

pub use fault::{Access, AccessKind, Address, EarlierAccess, Fault, Place, Site, Waiting};
pub use launch::{Emulator, Report};
pub use memory::Buffer;
