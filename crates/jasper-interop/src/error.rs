//! Errors of reading and writing graph files of other libraries.

use std::io;

use jasper_core::Cancelled;
use jasper_data::PathError;

use jasper_graph::{FileError, VectorError};

/// A graph file of another library cannot be read.
pub type ImportError = PathError<ImportFault>;

/// Why a graph file of another library cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportFault {
    /// The file or the vectors cannot be read.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// The file is shorter or longer than its header and degrees say.
    #[error(
        "is {actual} bytes, but its header and degrees need {claimed}; it was cut short, or is of another format"
    )]
    Length {
        /// Bytes needed.
        claimed: u64,
        /// Bytes of the file.
        actual: u64,
    },
    /// The numbers of vertices and vectors differ.
    #[error("holds {vertices} vertices, but {rows} vectors are given; give the vectors it was built from")]
    Vertices {
        /// Vertices in the file, or read before the vectors ran out.
        vertices: u64,
        /// Vectors given.
        rows: usize,
    },
    /// More frozen points than vertices.
    #[error("claims {frozen} frozen points among {rows} vertices")]
    Frozen {
        /// Number of frozen points.
        frozen: u64,
        /// Number of vertices.
        rows: usize,
    },
    /// A vertex has more edges than the header allows.
    #[error("vertex {vertex} has {degree} edges, but the header allows {bound}")]
    HeaderDegree {
        /// The vertex.
        vertex: usize,
        /// Its edges.
        degree: u32,
        /// Limit of the header.
        bound: u32,
    },
    /// A vertex has more edges than `max_degree`.
    #[error("vertex {vertex} has {degree} edges, more than max_degree ({max_degree}); raise max_degree")]
    Degree {
        /// The vertex.
        vertex: usize,
        /// Its edges.
        degree: u32,
        /// Limit of the parameters.
        max_degree: usize,
    },
    /// The start point or an edge leads to a vertex that does not exist.
    #[error("{from} leads to vertex {to}, but there are only {rows}")]
    Edge {
        /// Description of the edge.
        from: String,
        /// Its target.
        to: u32,
        /// Number of vertices.
        rows: usize,
    },
    /// A vector cannot be stored, or its dimension is out of range.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The caller cancelled the operation.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A graph cannot be written in the format of another library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The format cannot represent tombstones.
    #[error(
        "{0} deleted vectors are still in the graph, and the format cannot mark them as deleted; consolidate first"
    )]
    Tombstones(usize),
    /// The graph stores codes only.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The format cannot represent an empty graph.
    #[error("the graph is empty; insert vectors first")]
    Empty,
    /// The file cannot be written.
    #[error(transparent)]
    Save(#[from] FileError),
}
