//! Compiles a crate of GPU kernels, written in Rust, to PTX.
//!
//! ```no_run
//! use cuda_builder::CudaBuilder;
//!
//! let built = CudaBuilder::new("gpu-kernels")
//!     .feature("kernels")
//!     .build()?;
//! println!("{} kernels by {}", built.kernels.len(), built.header.compiler);
//! # Ok::<(), cuda_builder::BuildError>(())
//! ```
//!
//! It needs a rustc with its library sources, and nothing from NVIDIA: rustc contains LLVM's NVPTX backend, and `core`
//! is compiled for the target along with the crate. This is not the `cuda_builder` of the Rust-CUDA project, whose code
//! generator needs a nightly compiler of its own; the shape of its API is kept.
//!
//! Builds are deterministic: the same sources, compiler and flags give the same bytes in any folder. The PTX begins
//! with a [`Header`] of these, so that committed PTX can be compared with its sources where the compiler is not
//! installed ([`CudaBuilder::differences`]).
//!
//! | module | holds |
//! | --- | --- |
//! | `compiler` | finds a rustc with its library sources, or says how to get one |
//! | `flags` | the flags, each with its reason |
//! | `sources` | which files were compiled, and a hash of each |
//! | `header` | the comment lines before the PTX |
//! | `entries` | the kernels in a PTX text |
//! | `bounds` | launch bounds, which Rust has no attribute for |
//! | `violation` | checks for local memory, calls and duplicated barriers |

#![forbid(unsafe_code)]

mod bounds;
mod builder;
mod compiler;
mod entries;
mod error;
mod flags;
mod header;
mod sources;
mod violation;

pub use builder::{BuildOutput, CudaBuilder};
pub use compiler::{Compiler, Compilers, INSTALL_HINT, RUSTC_VARIABLE};
pub use error::BuildError;
pub use header::{Difference, Header};
pub use sources::Source;
pub use violation::PtxViolation;
