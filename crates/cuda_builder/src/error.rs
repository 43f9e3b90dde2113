//! What can go wrong in a build.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::compiler::{Compiler, INSTALL_HINT};
use crate::violation::PtxViolation;

/// Why there is no PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// None of the compilers looked at has its library sources.
    #[error("no rustc with its library sources{}; {INSTALL_HINT}", list_rejected(rejected))]
    NoCompiler {
        /// Each of them, and why it will not do.
        rejected: Vec<(PathBuf, String)>,
    },
    /// Some compilers will do, but not the one asked for.
    #[error("`{wanted}` is not installed with its library sources; there is {}", list_versions(found))]
    OtherCompilers {
        /// The line by which it would name itself.
        wanted: String,
        /// Those that will do.
        found: Vec<Compiler>,
    },
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
    #[error("the PTX is refused:{}", list(violations))]
    Refused {
        /// Each reason.
        violations: Vec<PtxViolation>,
    },
    /// A PTX text without a header.
    #[error("the PTX does not say its {missing} in a header; build it again")]
    NoHeader {
        /// What the header would say.
        missing: &'static str,
    },
}

fn list_rejected(rejected: &[(PathBuf, String)]) -> String {
    rejected.iter().map(|(rustc, why)| format!("; {}: {why}", rustc.display())).collect()
}

fn list_versions(found: &[Compiler]) -> String {
    found.iter().map(|compiler| format!("`{}`", compiler.version)).collect::<Vec<_>>().join(", ")
}

/// One line each.
fn list(violations: &[PtxViolation]) -> String {
    violations.iter().map(|violation| format!("\n  {violation}")).collect()
}
