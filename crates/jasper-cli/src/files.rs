//! Files that go with an index: vectors of its element and dimension, and the truth about queries.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jasper::{Element, Index};
use jasper_data::{GroundTruth, Rows, VectorFile};

use crate::screen::Screen;

/// Opens the index file, with `threads` threads to work on it.
pub fn open_index<T: Element>(path: &Path, threads: usize, screen: Screen) -> Result<Index<T>> {
    Ok(Index::open_with(path, threads, &mut screen.progress())?)
}

/// Opens a vector file whose rows go with vectors of `T` and this dimension.
pub fn open_rows<T: Element>(path: &Path, dimension: usize) -> Result<VectorFile> {
    let file = VectorFile::open(path)?;
    let (name, held) = (path.display(), file.element());
    ensure!(
        held == T::KIND,
        "{name}: holds {held} values where {} is needed; `jasper convert` makes one of the other",
        T::KIND
    );
    let given = file.dimension();
    ensure!(given == dimension, "{name}: holds vectors of dimension {given} where {dimension} is needed");
    Ok(file)
}

/// Reads queries for an index into memory.
pub fn read_queries<T: Element>(path: &Path, dimension: usize) -> Result<Rows<T>> {
    let file = open_rows::<T>(path, dimension)?;
    ensure!(!file.is_empty(), "{}: holds no queries", path.display());
    Ok(file.load()?)
}

/// Reads what is true of `queries` queries, at least `k` neighbours deep.
pub fn read_truth(path: &PathBuf, queries: usize, k: usize) -> Result<GroundTruth> {
    let truth = GroundTruth::read(path)?;
    let check = || {
        ensure!(truth.len() == queries, "holds the truth of {} queries, there are {queries}", truth.len());
        ensure!(
            truth.k() >= k,
            "holds {} neighbours a query, k is {k}; lower k, or compute it deeper",
            truth.k()
        );
        Ok(())
    };
    check().with_context(|| path.display().to_string())?;
    Ok(truth)
}
