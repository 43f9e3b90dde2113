//! Errors of reading files.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jasper_core::{ElementKind, MAX_DIMENSION};

use crate::WriteCause;

/// An operation on a file failed: the path of the file, and why.
#[derive(Debug)]
pub struct PathError<C> {
    path: PathBuf,
    cause: C,
}

impl<C> PathError<C> {
    /// Creates the error of the file at `path`.
    pub fn new(path: &Path, cause: impl Into<C>) -> Self {
        Self { path: path.to_owned(), cause: cause.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the cause, without the path.
    pub fn cause(&self) -> &C {
        &self.cause
    }

    /// Returns the cause, without the path.
    pub fn into_cause(self) -> C {
        self.cause
    }
}

impl<C: fmt::Display> fmt::Display for PathError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

impl<C: Error> Error for PathError<C> {
    /// The source of the cause, which itself is part of the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// A file could not be read.
pub type ReadError = PathError<ReadCause>;

/// A file could not be written. The old file, if any, is unchanged, unless only the sync of its folder failed.
pub type WriteError = PathError<WriteCause>;

fn of_another(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(" and {bytes} bytes of another") }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadCause {
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file name has no known extension.
    #[error("the name does not end in a known format; rename it to end in one of {known}")]
    UnknownFormat {
        /// Known extensions.
        known: &'static str,
    },
    /// The file ends within its header.
    #[error("header takes {needed} bytes, file has {held}; fetch or write it again")]
    ShortHeader {
        /// Bytes of the header.
        needed: u64,
        /// Bytes of the file.
        held: u64,
    },
    /// The dimension is out of range.
    #[error("dimension ({0}) must be between 1 and {MAX_DIMENSION}; is this the format that was written?")]
    Dimension(i64),
    /// The number of rows in the header does not match the length of the file.
    #[error(
        "header says {claimed} rows, file holds {held} rows{}; fetch it again, or correct its name, which says the format",
        of_another(*rest)
    )]
    Rows {
        /// Rows according to the header.
        claimed: u64,
        /// Whole rows in the file.
        held: u64,
        /// Bytes after them.
        rest: u64,
    },
    /// The last record is truncated.
    #[error(
        "file holds {held} records of {record} bytes{}; fetch it again, or correct its name, which says the format",
        of_another(*rest)
    )]
    CutRecord {
        /// Bytes per record.
        record: u64,
        /// Number of whole records.
        held: u64,
        /// Bytes after them.
        rest: u64,
    },
    /// Records differ in dimension.
    #[error("record {row} says dimension {found}, the first says {expected}; all must be equal")]
    RecordDimension {
        /// The record.
        row: usize,
        /// Its dimension.
        found: i32,
        /// Dimension of the first record.
        expected: usize,
    },
    /// The number of rows does not fit a usize.
    #[error("{0} rows are more than this machine can address; split the file")]
    TooManyRows(u64),
    /// The file holds another element than requested.
    #[error("holds {held} values, not {requested}; read them as {held}, or convert while reading")]
    Element {
        /// Element of the file.
        held: ElementKind,
        /// Requested element.
        requested: ElementKind,
    },
    /// A range of rows is out of bounds.
    #[error("rows {start}..{end} are out of range, the file has {rows}")]
    Range {
        /// Start of the range.
        start: usize,
        /// End of the range, exclusive.
        end: usize,
        /// Rows of the file.
        rows: usize,
    },
    /// The output buffer has the wrong size.
    #[error(
        "{rows} rows of dimension {dimension} need a buffer of exactly rows x dimension elements, not {elements}"
    )]
    Buffer {
        /// Rows to read.
        rows: usize,
        /// Coordinates per row.
        dimension: usize,
        /// Elements of the buffer.
        elements: usize,
    },
    /// There is not enough memory.
    #[error("no memory for {bytes} bytes of rows; split the file, or use a machine with more memory")]
    Memory {
        /// Bytes needed.
        bytes: u64,
    },
    /// The file is not a supported numpy array.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// The length of a ground-truth file matches neither form.
    #[error(
        "header says {queries} queries with {k} neighbors each: {bare} bytes with ids only, {full} with distances; \
         file holds {held}; fetch it again"
    )]
    TruthLength {
        /// Queries according to the header.
        queries: u64,
        /// Neighbors per query according to the header.
        k: u64,
        /// Length without distances in bytes.
        bare: u64,
        /// Length with distances in bytes.
        full: u64,
        /// Bytes of the file.
        held: u64,
    },
    /// Ground truth has k = 0.
    #[error("k (0) must be at least 1; the file has no neighbors")]
    NoNeighbors,
    /// A line of a key file is not a key.
    #[error("line {line}: {problem}; a key is one unsigned decimal below 2^64")]
    Key {
        /// The line, from 1.
        line: u64,
        /// The problem.
        problem: &'static str,
    },
    /// A key of a numpy array is negative.
    #[error("key {row} of the array is {key}; keys are not negative")]
    NegativeKey {
        /// Position in the array.
        row: usize,
        /// The value.
        key: i64,
    },
}

/// Why a numpy file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file does not start as a numpy file.
    #[error("is not a numpy array: it does not start with \\x93NUMPY")]
    Magic,
    /// The version is unsupported.
    #[error("numpy format version {0} is unsupported; save it as version 1 to 3")]
    Version(u8),
    /// The header is longer than those of arrays of numbers.
    #[error("numpy header of {0} bytes is too long; the maximum is 65535")]
    LongHeader(u64),
    /// The header is not the expected dictionary.
    #[error("numpy header is damaged at byte {at}: expected {expected}")]
    Syntax {
        /// Offset within the dictionary in bytes.
        at: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// The type of the values is unsupported.
    #[error("numpy type `{found}` is unsupported; save the array with .astype as one of {known}")]
    Type {
        /// The type of the file.
        found: String,
        /// Supported types.
        known: &'static str,
    },
    /// The array is column-major.
    #[error("numpy array is in Fortran order; save it with np.ascontiguousarray")]
    FortranOrder,
    /// The array has the wrong number of dimensions.
    #[error("numpy array has {found} dimensions; {expected}")]
    Shape {
        /// Dimensions of the array.
        found: usize,
        /// Supported numbers.
        expected: &'static str,
    },
}
