//! Errors of reading and writing graph files of other libraries.

use std::io;

use jasper_core::{Cancelled, Key, Metric, NO_KEY, ParamError};
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
    /// A field of the header contradicts another.
    #[error("{name} ({value}) must be {expected}; the file is damaged, or of another format")]
    Field {
        /// Name of the field in the library's sources.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// The file has what an index cannot have.
    #[error("{found}; {remedy}")]
    Unsupported {
        /// What it has.
        found: String,
        /// What can be read, or what to do.
        remedy: &'static str,
    },
    /// The file is of another metric.
    #[error("is of the metric {held}, not {given}; leave the metric out")]
    Metric {
        /// Metric of the file.
        held: Metric,
        /// Metric that was given.
        given: Metric,
    },
    /// A key marks empty places in arrays of results.
    #[error("vertex {vertex} has the key {NO_KEY}, which is reserved for missing results; give it another")]
    ReservedKey {
        /// The vertex.
        vertex: usize,
    },
    /// A parameter that the file implies is out of bounds.
    #[error(transparent)]
    Params(Box<ParamError>),
    /// Two vertices have the same key.
    #[error("vertices {} and {} have the same key ({key}); the file is damaged, or give them different keys", vertices[0], vertices[1])]
    RepeatedKey {
        /// The key.
        key: Key,
        /// The two vertices.
        vertices: [usize; 2],
    },
    /// A vector cannot be stored, or its dimension is out of range.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The caller cancelled the operation.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ImportFault {
    /// A field that contradicts another.
    pub(crate) fn field(name: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self::Field { name, value: value.to_string(), expected: expected.into() }
    }
}

impl From<ParamError> for ImportFault {
    fn from(error: ParamError) -> Self {
        Self::Params(error.into())
    }
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
