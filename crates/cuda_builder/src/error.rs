//! What can go wrong in a build.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::compiler::CompilerError;
use crate::header::HeaderError;
use crate::refusal::Refusal;

/// Why there is no PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No rustc that can compile for GPUs.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// A program cannot be started.
    #[error("{program} does not start; is it installed and on the search path?")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Cargo did not end well; it has printed why.
    #[error("cargo ended with {status} on {package}; what it printed says why", package = package.display())]
    Cargo {
        /// Folder of the kernel crate.
        package: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// A file or folder cannot be read or written.
    #[error("{path} cannot be read or written", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Cargo ended well and left no PTX, or several.
    #[error("{count} PTX files in {folder} after the build, not one; remove the folder and build again", folder = folder.display())]
    Output {
        /// Where they were looked for.
        folder: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// Launch bounds that cannot be read.
    #[error(
        "`{line}` are no launch bounds; write `//@kernel NAME max_threads=128,min_blocks=8`, either alone if need be"
    )]
    Marker {
        /// The comment in the PTX.
        line: String,
    },
    /// Launch bounds for a kernel that is not there.
    #[error("launch bounds name {name}, which the PTX does not export; is it `pub` and `#[kernel]`?")]
    NoSuchKernel {
        /// The name.
        name: String,
    },
    /// The PTX holds what it must not.
    #[error("the PTX is refused:{}", list(refusals))]
    Refused {
        /// Each reason.
        refusals: Vec<Refusal>,
    },
    /// A PTX text without a header.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// One line each.
fn list(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| format!("\n  {refusal}")).collect()
}
