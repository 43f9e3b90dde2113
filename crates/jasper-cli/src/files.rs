//! Index, vector and ground-truth files.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use jasper::error::VectorError;
use jasper::{AnyIndex, AnyRows, BuildError, ElementKind, OpenOptions, SearchError, UpdateError};
use jasper_data::{GroundTruth, VectorFile};

use crate::terminal::Terminal;

/// Adds the name of the file that an error is about: that of the keys, or that of the vectors.
pub fn name_input(error: anyhow::Error, vectors: &Path, keys: Option<&Path>) -> anyhow::Error {
    let update = match error.downcast_ref() {
        Some(BuildError::Input(error)) => Some(error),
        _ => error.downcast_ref(),
    };
    let path = match (update, error.downcast_ref()) {
        (Some(UpdateError::Key(_) | UpdateError::RepeatedKey(_) | UpdateError::KeyCount { .. }), _) => keys,
        (Some(UpdateError::Vector(error)), _) | (_, Some(SearchError::Vector(error))) => {
            // Others are about the index.
            matches!(
                error,
                VectorError::Matrix(_) | VectorError::ZeroVector { .. } | VectorError::TooLong { .. }
            )
            .then_some(vectors)
        }
        _ => None,
    };
    match path {
        Some(path) => error.context(path.display().to_string()),
        None => error,
    }
}

/// Opens an index file.
pub fn open_index(path: &Path, options: OpenOptions, terminal: Terminal) -> Result<AnyIndex> {
    Ok(options.with_progress(&mut terminal.progress()).open_any(path)?)
}

/// Opens a vector file of this element type and dimension.
pub fn open_vectors(path: &Path, element: ElementKind, dimension: usize) -> Result<VectorFile> {
    let file = VectorFile::open(path)?;
    let (name, held, given) = (path.display(), file.element(), file.dimension());
    ensure!(
        held == element,
        "{name}: contains {held} values, expected {element}; convert it with `jasper convert`"
    );
    ensure!(given == dimension, "{name}: contains vectors of dimension {given}, expected {dimension}");
    Ok(file)
}

/// Opens a file of queries of this element type and dimension.
pub fn open_queries(path: &Path, element: ElementKind, dimension: usize) -> Result<VectorFile> {
    let file = open_vectors(path, element, dimension)?;
    ensure!(!file.is_empty(), "{}: contains no queries", path.display());
    Ok(file)
}

/// Reads queries for an index into memory.
pub fn read_queries(path: &Path, index: &AnyIndex) -> Result<AnyRows> {
    Ok(AnyRows::load(&open_queries(path, index.element(), index.dimension())?)?)
}

/// Reads the ground truth of `queries` queries with at least `k` neighbors each.
pub fn read_truth(path: &Path, queries: usize, k: usize) -> Result<GroundTruth> {
    let truth = GroundTruth::read(path)?;
    let check = || {
        ensure!(
            truth.len() == queries,
            "contains the neighbors of {} queries, expected {queries}",
            truth.len()
        );
        ensure!(
            truth.k() >= k,
            "contains {} neighbors per query, and k is {k}; lower k, or compute more neighbors",
            truth.k()
        );
        Ok(())
    };
    check().with_context(|| path.display().to_string())?;
    Ok(truth)
}
