//! Tests that need a CUDA device. Each is skipped where there is none, or fails if `JASPER_REQUIRE_GPU=1`.
//!
//! The tests share the device, except those that measure time or memory, which hold it alone. What ruins the context or
//! measures the start of a process runs in a child process.

mod build;
mod common;
mod cuda_std;
mod fault;
mod first_use;
mod kernels;
mod knn;
mod latency;
mod launch;
mod memory;
mod overlap;
mod peak;
mod search;
