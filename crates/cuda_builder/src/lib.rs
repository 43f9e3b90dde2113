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
//! It needs a rustc and that rustc's library sources, nothing of NVIDIA's and no plug-in: upstream rustc holds LLVM's
//! NVPTX backend, and `core` is built for the target on the way. This is not the `cuda_builder` of the Rust-CUDA
//! project, whose code generator needs a nightly compiler of its own; the shape of its API is kept.
//!
//! What comes out is deterministic: the same sources, compiler and recipe give the same bytes in any folder. A
//! [`Header`] in front of the PTX says what it was made from, so that PTX which was committed can be held against its
//! sources where no such compiler is installed ([`CudaBuilder::differences`]).
//!
//! | module | holds |
//! | --- | --- |
//! | `compiler` | finds a rustc with its library sources, or says how to get one |
//! | `recipe` | the flags, each with its reason |
//! | `sources` | which files were compiled, and a hash of each |
//! | `header` | the lines in front of the PTX |
//! | `entries` | the kernels in a PTX text |
//! | `bounds` | launch bounds, which Rust has no attribute for |
//! | `refusal` | local memory, calls and doubled barriers |

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
