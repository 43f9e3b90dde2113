//! The tests of the kernels in the emulator, which need no GPU.

mod emulator;
mod faults;
mod mutations;
mod owners;
