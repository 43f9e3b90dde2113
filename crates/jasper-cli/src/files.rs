//! Vector and ground-truth files that match an index.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jasper::{Element, Index};
use jasper_data::{GroundTruth, Rows, VectorFile};

use crate::terminal::Terminal;

/// Opens an index file, with `threads` threads for the index.
pub fn open_index<T: Element>(path: &Path, threads: usize, terminal: Terminal) -> Result<Index<T>> {
    Ok(Index::open_with(path, threads, &mut terminal.progress())?)
}

/// Opens a vector file with elements of type `T` and this dimension.
pub fn open_vectors<T: Element>(path: &Path, dimension: usize) -> Result<VectorFile> {
    let file = VectorFile::open(path)?;
    let (name, held) = (path.display(), file.element());
    ensure!(
        held == T::KIND,
        "{name}: contains {held} values, expected {}; convert it with `jasper convert`",
        T::KIND
    );
    let given = file.dimension();
    ensure!(given == dimension, "{name}: contains vectors of dimension {given}, expected {dimension}");
    Ok(file)
}

/// Reads queries for an index into memory.
pub fn read_queries<T: Element>(path: &Path, dimension: usize) -> Result<Rows<T>> {
    let file = open_vectors::<T>(path, dimension)?;
    ensure!(!file.is_empty(), "{}: contains no queries", path.display());
    Ok(file.load()?)
}

/// Reads the ground truth of `queries` queries with at least `k` neighbors each.
pub fn read_truth(path: &PathBuf, queries: usize, k: usize) -> Result<GroundTruth> {
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
