//! Why a file could not be read.

use std::io;
use std::path::{Path, PathBuf};

use jasper_core::{ElementKind, MAX_DIMENSION};

use crate::RunbookError;

/// A file could not be read: which one, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct ReadError {
    path: PathBuf,
    cause: ReadCause,
}

impl ReadError {
    pub(crate) fn new(path: &Path, cause: impl Into<ReadCause>) -> Self {
        Self { path: path.to_owned(), cause: cause.into() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    pub fn cause(&self) -> &ReadCause {
        &self.cause
    }
}

/// What is wrong with a file, or with what was asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadCause {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The name says nothing about what the file holds.
    #[error("the name does not end in a known format; state one of {known}")]
    UnknownFormat {
        /// What would be known.
        known: &'static str,
    },
    /// The file ends within its header.
    #[error("a header takes {needed} bytes, the file has {held}; fetch or write it again")]
    ShortHeader {
        /// Bytes of the header.
        needed: u64,
        /// Bytes of the file.
        held: u64,
    },
    /// The header gives rows no usable dimension.
    #[error("dimension ({0}) must be between 1 and {MAX_DIMENSION}; is this the format that was written?")]
    Dimension(i64),
    /// The header claims another number of rows than the file has bytes for.
    #[error(
        "header says {claimed} rows, file holds {held} and {rest} bytes; fetch the file again, state its format, or \
         read the first rows only (max_rows)"
    )]
    Rows {
        /// Rows of the header.
        claimed: u64,
        /// Whole rows that lie behind it.
        held: u64,
        /// Bytes behind those.
        rest: u64,
    },
    /// The last record is cut short.
    #[error(
        "file holds {held} records of {record} bytes and {rest} bytes of another; fetch it again, or read the first \
         rows only (max_rows)"
    )]
    CutRecord {
        /// Bytes of a record.
        record: u64,
        /// Whole records.
        held: u64,
        /// Bytes behind those.
        rest: u64,
    },
    /// Records differ in length, so none behind the first such one can be trusted.
    #[error("record {row} says dimension {found}, the first says {expected}; all must be equal")]
    RecordDimension {
        /// The record.
        row: usize,
        /// What it says.
        found: i32,
        /// What the first says.
        expected: usize,
    },
    /// There are more rows than this machine can count.
    #[error("{0} rows are more than this machine can address; read the first rows only (max_rows)")]
    TooManyRows(u64),
    /// Another element was asked for than the file holds.
    #[error("holds {held} values, asked for {asked}; ask for {held}, or convert while reading")]
    Element {
        /// What the file holds.
        held: ElementKind,
        /// What was asked for.
        asked: ElementKind,
    },
    /// Rows were asked for that are not there.
    #[error("asked for rows {start} to {end}, there are {rows}")]
    Range {
        /// First row asked for.
        start: usize,
        /// The row behind the last asked for.
        end: usize,
        /// Rows there are.
        rows: usize,
    },
    /// The buffer to read into has another size than the rows asked for.
    #[error("{rows} rows of dimension {dimension} do not fit a buffer of {elements} elements exactly")]
    Buffer {
        /// Rows asked for.
        rows: usize,
        /// Coordinates of a row.
        dimension: usize,
        /// Elements of the buffer.
        elements: usize,
    },
    /// There is no memory for the rows.
    #[error("no memory for {bytes} bytes of rows; map the file, or read a few rows at a time")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The file is no numpy array, or none of a kind that is read here.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// Ground truth is as long as neither of its two forms.
    #[error(
        "header says {queries} queries with {k} neighbours each: {bare} bytes with ids only, {full} with distances; \
         file holds {held}"
    )]
    TruthLength {
        /// Queries of the header.
        queries: u64,
        /// Neighbours a query, of the header.
        k: u64,
        /// Bytes of the form without distances.
        bare: u64,
        /// Bytes of the form with distances.
        full: u64,
        /// Bytes of the file.
        held: u64,
    },
    /// Ground truth has no neighbours for its queries.
    #[error("k (0) must be at least 1: ground truth without neighbours says nothing")]
    NoNeighbours,
    /// A line of a key file is no key.
    #[error("line {line}: {problem}; a key is one unsigned decimal below 2^64")]
    Key {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file is no runbook that can be played.
    #[error(transparent)]
    Runbook(#[from] RunbookError),
}

/// Why a numpy file is not read here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// It does not begin as a numpy file.
    #[error("is no numpy array: it does not begin with \\x93NUMPY")]
    Magic,
    /// The version is not known.
    #[error("numpy format version {0} is not known; versions 1 to 3 are")]
    Version(u8),
    /// The header is longer than any that describes plain numbers.
    #[error("numpy header of {0} bytes is too long; at most 65535 are read")]
    LongHeader(u64),
    /// The header is not the dictionary it should be.
    #[error("numpy header is damaged at byte {at}: expected {expected}")]
    Syntax {
        /// Byte within the dictionary.
        at: usize,
        /// What should be there.
        expected: &'static str,
    },
    /// The values are of a type that is not read here.
    #[error("numpy type `{found}` is not read here; save the array with .astype as one of {known}")]
    Type {
        /// The type of the file.
        found: String,
        /// The types that are read.
        known: &'static str,
    },
    /// The array is stored by columns.
    #[error("numpy array is in Fortran order; save it with np.ascontiguousarray")]
    FortranOrder,
    /// The array has an unusable number of dimensions.
    #[error("numpy array has {found} dimensions; {wanted}")]
    Shape {
        /// Dimensions of the array.
        found: usize,
        /// What is read here.
        wanted: &'static str,
    },
}
