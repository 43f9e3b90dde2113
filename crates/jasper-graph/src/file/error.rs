//! What can be wrong with a file, or with writing one.

use std::io;
use std::path::Path;

use jasper_core::{Cancelled, DeviceError};
use jasper_data::PathError;

use super::table::{FORMAT_VERSION, Section};

/// An index file cannot be read or written.
pub type FileError = PathError<FileFault>;

/// Why an index file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The file cannot be opened or read, or its contents need more memory than there is.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// The path is that of a folder.
    #[error("is a folder, not an index file")]
    Folder,
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
    /// The file is shorter than its header says.
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
    /// The file cannot be written. What was at the path before is still there.
    #[error("cannot be written; what was there before is untouched")]
    Write(#[source] io::Error),
    /// The device failed while its edges were copied to the host. What was at the path before is still there.
    #[error("is not written: the edges cannot be copied from the device; what was there before is untouched")]
    Device(#[source] DeviceError),
    /// The file is complete, but the step that puts it in the place of the old one could not be synced: after a power
    /// cut, either may be there.
    #[error("is written, but a power cut could still undo it: it cannot be synced")]
    NotSynced(#[source] io::Error),
    /// The folder of a sharded index is not whole, or a sharded index was to be written as something else.
    #[error("{0}")]
    Shards(String),
    /// The caller cancelled the operation. The old file is unchanged.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Adds a path to a fault.
pub(crate) fn with_path<F>(path: &Path) -> impl FnOnce(F) -> PathError<F> {
    |fault| PathError::new(path, fault)
}

impl FileFault {
    pub(super) fn invalid(section: Section, problem: impl Into<String>) -> Self {
        Self::Invalid { section, problem: problem.into() }
    }
}
