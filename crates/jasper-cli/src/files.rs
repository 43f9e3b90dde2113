//! Index, vector and ground-truth files.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use jasper::{AnyIndex, AnyRows, ElementKind, OpenOptions};
use jasper_data::{GroundTruth, VectorFile};

use crate::terminal::Terminal;

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
