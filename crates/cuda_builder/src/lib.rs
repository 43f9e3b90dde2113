//! Compiles a crate of GPU kernels, written in Rust, to PTX.
//!
//! ```no_run
//! use cuda_builder::{Arch, CudaBuilder};
//!
//! let built = CudaBuilder::new("gpu-kernels")
//!     .feature("kernels")
//!     .arch(Arch::Sm80)
//!     .build()?;
//! println!("{} kernels by {}", built.kernels.len(), built.header.compiler);
//! # Ok::<(), cuda_builder::BuildError>(())
//! ```
//!
//! It needs a rustc with its library sources, and nothing from NVIDIA: rustc contains LLVM's NVPTX backend, and `core` is
//! compiled for the target along with the crate. This is not the `cuda_builder` of the Rust-CUDA
//! project, whose code generator needs a nightly compiler of its own; the shape of its API is kept.
//!
//! Builds are deterministic: the same sources, compiler and recipe give the same bytes in any folder. The PTX begins with
//! a [`Header`] of these, so that committed PTX can be compared with its sources where the compiler is not installed
//! ([`CudaBuilder::differences`]).
//!
//! | module | holds |
//! | --- | --- |
//! | `compiler` | finds a rustc with its library sources, or says how to get one |
//! | `recipe` | the flags, each with its reason |
//! | `sources` | which files were compiled, and a hash of each |
//! | `header` | the comment lines before the PTX |
//! | `entries` | the kernels in a PTX text |
//! | `bounds` | launch bounds, which Rust has no attribute for |
//! | `refusal` | checks for local memory, calls and duplicated barriers |

#![forbid(unsafe_code)]

mod bounds;
mod builder;
mod compiler;
mod entries;
mod error;
mod header;
mod recipe;
mod refusal;
mod sources;

pub use builder::{Built, CudaBuilder};
pub use compiler::{Compiler, CompilerError, Compilers, HOW_TO_GET, RUSTC_VARIABLE, Rejected};
pub use error::BuildError;
pub use header::{Difference, Header, HeaderError};
pub use recipe::Arch;
pub use refusal::Refusal;
pub use sources::Source;
