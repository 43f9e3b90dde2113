//! What can be wrong with an index file, or with writing one.

use std::io;
use std::path::{Path, PathBuf};

use jasper_core::{Cancelled, ElementKind};

use super::table::{FORMAT_VERSION, Section};

/// An index file cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct OpenError {
    path: PathBuf,
    #[source]
    fault: FileFault,
}

impl OpenError {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    pub fn fault(&self) -> &FileFault {
        &self.fault
    }

    /// What is wrong with the file, without its name.
    pub fn into_fault(self) -> FileFault {
        self.fault
    }

    /// Creates the error of a fault in the file at `path`.
    pub fn new(path: &Path, fault: FileFault) -> Self {
        Self { path: path.to_owned(), fault }
    }

    pub(super) fn at(path: &Path) -> impl FnOnce(FileFault) -> Self {
        |fault| Self::new(path, fault)
    }
}

/// What is wrong with an index file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The operating system does not give its bytes, or no memory to put them.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// It begins with other bytes than an index.
    #[error("is not a Jasper index: an index begins with `JASPER`; make one with `jasper build`")]
    NotAnIndex,
    /// It is what a bulk build wrote on its way.
    #[error("is the checkpoint of a build, not an index; the command that began the build finishes it")]
    Checkpoint,
    /// It was written by another release.
    #[error(
        "is an index of format version {0}; this release reads version {FORMAT_VERSION}, so open it with a newer one"
    )]
    Version(u32),
    /// It is shorter or longer than it says.
    #[error("holds {actual} bytes where {claimed} belong to it; copy it again from its source")]
    Length {
        /// Bytes that its header, or the lack of one, asks for.
        claimed: u64,
        /// Bytes there are.
        actual: u64,
    },
    /// The first page is damaged, or describes what cannot be.
    #[error("has a damaged header: {0}; copy it again from its source")]
    Header(String),
    /// A section's bytes are not those that were written.
    #[error(
        "section `{0}` is damaged: its checksum differs; copy the file again from its source, or build anew"
    )]
    Damaged(Section),
    /// A section's bytes are those that were written, but cannot be right.
    #[error("section `{section}` cannot be right: {problem}")]
    Invalid {
        /// The section.
        section: Section,
        /// What is wrong with it.
        problem: String,
    },
    /// A section that a reader must understand is of a kind not known here.
    #[error("needs section `{0}`, which this release does not know; open it with a newer one")]
    UnknownSection(Section),
    /// A section without which there is no index.
    #[error("lacks section `{0}`")]
    MissingSection(Section),
    /// It holds vectors of another type than it was opened for.
    #[error("holds {found} vectors and was opened for {expected}; open it as {found}")]
    Element {
        /// Type of its vectors.
        found: ElementKind,
        /// Type asked for.
        expected: ElementKind,
    },
    /// The caller stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl FileFault {
    pub(super) fn invalid(section: Section, problem: impl Into<String>) -> Self {
        Self::Invalid { section, problem: problem.into() }
    }
}

/// A file was not written, or perhaps not for good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The operating system refused. What was at the path before is still there.
    #[error("cannot write {}; what was there before is untouched", path.display())]
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file is complete and in place, but its folder could not be synced.
    #[error("{} is written, but a power cut could still undo it: its folder cannot be synced", path.display())]
    NotSynced {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The caller stopped it. What was at the path before is still there.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Why a writer stopped, before it is known which file it was writing.
#[derive(Debug)]
pub(crate) enum WriteFault {
    Io(io::Error),
    Cancelled(Cancelled),
}

impl From<io::Error> for WriteFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Cancelled> for WriteFault {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl WriteFault {
    pub(super) fn at(self, path: &Path) -> SaveError {
        match self {
            Self::Io(source) => SaveError::Io { path: path.to_owned(), source },
            Self::Cancelled(cancelled) => SaveError::Cancelled(cancelled),
        }
    }
}
