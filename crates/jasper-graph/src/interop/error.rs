//! What can be wrong with a foreign graph file, and which graphs cannot become one.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use jasper_core::{Cancelled, MatrixError};

use crate::{FileError, VectorError};

/// A graph file of another library cannot be read.
#[derive(Debug)]
pub struct ImportError {
    path: PathBuf,
    fault: ImportFault,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl Error for ImportError {
    /// The operating system's error. The fault itself is part of the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.fault.source()
    }
}

impl ImportError {
    /// The graph file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    pub fn fault(&self) -> &ImportFault {
        &self.fault
    }

    /// What is wrong with the file, without its name.
    pub fn into_fault(self) -> ImportFault {
        self.fault
    }

    pub(super) fn at(path: &Path) -> impl FnOnce(ImportFault) -> Self {
        |fault| Self { path: path.to_owned(), fault }
    }
}

/// What is wrong with a foreign graph file, or with the vectors that go with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportFault {
    /// The operating system does not give its bytes, or those of the vectors.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// It is shorter or longer than it says.
    #[error(
        "holds {actual} bytes where its header and degrees ask for {claimed}; it was cut short, or is of another format"
    )]
    Length {
        /// Bytes asked for.
        claimed: u64,
        /// Bytes there are.
        actual: u64,
    },
    /// It has more or fewer vertices than there are vectors.
    #[error("holds {vertices} vertices where {rows} vectors are given; give the vectors it was built from")]
    Vertices {
        /// Vertices in the file: all of them, or as many as were read when the vectors ran out.
        vertices: u64,
        /// Vectors given.
        rows: usize,
    },
    /// More start points than vertices.
    #[error("claims {frozen} frozen points among {rows} vertices")]
    Frozen {
        /// Frozen points.
        frozen: u64,
        /// Vertices.
        rows: usize,
    },
    /// A vertex has more edges than the header says there can be.
    #[error("vertex {vertex} has {degree} edges where the header allows {bound}")]
    HeaderDegree {
        /// The vertex.
        vertex: usize,
        /// Its edges.
        degree: u32,
        /// What the header says.
        bound: u32,
    },
    /// A vertex has more edges than the graph to be made can hold.
    #[error("vertex {vertex} has {degree} edges, more than max_degree ({max_degree}); raise max_degree")]
    Degree {
        /// The vertex.
        vertex: usize,
        /// Its edges.
        degree: u32,
        /// What the parameters allow.
        max_degree: usize,
    },
    /// The start point or an edge leads to no vertex.
    #[error("{from} leads to vertex {to}, and there are {rows}")]
    Edge {
        /// Where the edge comes from.
        from: String,
        /// Where it leads.
        to: u32,
        /// Vertices there are.
        rows: usize,
    },
    /// A vector cannot be stored.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The vectors have an impossible dimension.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// The caller stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A graph cannot be written in a foreign format. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The format has no place for vertices that are walked through and never returned.
    #[error(
        "{0} deleted vectors are still in the graph, and the format cannot mark them as deleted; consolidate first"
    )]
    Tombstones(usize),
    /// There are only codes.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The format has no empty graph.
    #[error("the graph has no vector to begin a search with; insert some first")]
    Empty,
    /// The file cannot be written.
    #[error(transparent)]
    Save(#[from] FileError),
}
