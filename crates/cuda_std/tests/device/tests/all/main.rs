//! Every function of `cuda_std` in the emulator, and in the committed PTX.

mod emulator;
mod ptx;
