//! What can be wrong with a file, or with writing one.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jasper_core::{Cancelled, ElementKind};

use super::table::{FORMAT_VERSION, Section};

/// An index file cannot be read or written.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    fault: FileFault,
}

/// Why an index file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The file cannot be opened or read, or its contents need more memory than there is.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// The file does not begin as an index does.
    #[error("is not a Jasper index: an index begins with `JASPER`; make one with `jasper build`")]
    NotAnIndex,
    /// The file is a checkpoint of a bulk build.
    #[error("is the checkpoint of a build, not an index; the command that began the build finishes it")]
    Checkpoint,
    /// The file was written by a later release.
    #[error(
        "is an index of format version {0}; this release reads version {FORMAT_VERSION}, so open it with a newer one"
    )]
    Version(u32),
    /// The file is shorter or longer than its header says.
    #[error("is {actual} bytes, expected {claimed}; copy it again from its source")]
    Length {
        /// Bytes according to the header, or the size of a header.
        claimed: u64,
        /// Bytes of the file.
        actual: u64,
    },
    /// The first page is damaged or inconsistent.
    #[error("has a damaged header: {0}; copy it again from its source")]
    Header(String),
    /// The checksum of a section differs.
    #[error(
        "section `{0}` is damaged: its checksum differs; copy the file again from its source, or build it again"
    )]
    Damaged(Section),
    /// The checksum of a section is right, but its contents are not.
    #[error("section `{section}` is invalid: {problem}")]
    Invalid {
        /// The section.
        section: Section,
        /// What is wrong with it.
        problem: String,
    },
    /// A section that this release does not know and may not skip.
    #[error("needs section `{0}`, which this release does not know; open it with a newer one")]
    UnknownSection(Section),
    /// A required section is missing.
    #[error("lacks section `{0}`")]
    MissingSection(Section),
    /// The vectors are of another element type than requested.
    #[error("holds {found} vectors and was opened for {expected}; open it as {found}")]
    Element {
        /// Element type of the file.
        found: ElementKind,
        /// Element type requested.
        expected: ElementKind,
    },
    /// The file cannot be written. What was at the path before is still there.
    #[error("cannot be written; what was there before is untouched")]
    Write(#[source] io::Error),
    /// The file is complete and in place, but its folder could not be synced.
    #[error("is written, but a power cut could still undo it: its folder cannot be synced")]
    NotSynced(#[source] io::Error),
    /// The caller cancelled the operation. A file that was being written is unchanged.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl FileError {
    /// Creates the error of the file at `path`.
    pub fn new(path: &Path, fault: FileFault) -> Self {
        Self { path: path.to_owned(), fault }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is wrong, without the path.
    pub fn fault(&self) -> &FileFault {
        &self.fault
    }

    /// Returns what is wrong, without the path.
    pub fn into_fault(self) -> FileFault {
        self.fault
    }

    pub(super) fn at(path: &Path) -> impl FnOnce(FileFault) -> Self {
        |fault| Self::new(path, fault)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.fault {
            FileFault::Write(_) => write!(f, "cannot write {path}; what was there before is untouched"),
            fault => write!(f, "{path}: {fault}"),
        }
    }
}

impl Error for FileError {
    /// The operating system's error. The fault itself is part of the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.fault.source()
    }
}

impl FileFault {
    pub(super) fn invalid(section: Section, problem: impl Into<String>) -> Self {
        Self::Invalid { section, problem: problem.into() }
    }
}
