//! The true neighbors of the queries at a step: from a file, or by brute force.

use std::path::{Path, PathBuf};

use jasper_core::{Element, MatrixView, Metric, ProgressFn};
use jasper_data::{GroundTruth, KnnError, ReadError, ThreadPool, WriteError, exact_knn};

use super::tags::TagRows;

/// The true neighbors at a step could not be read or computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TruthFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The exact search was refused or cancelled.
    #[error(transparent)]
    Exact(#[from] KnnError),
    /// The file is of other queries.
    #[error("{}: holds the truth of {found} queries, there are {queries}; is it of these queries?", path.display())]
    Queries {
        /// The file.
        path: PathBuf,
        /// Queries in the file.
        found: usize,
        /// Queries given.
        queries: usize,
    },
    /// The file has too few neighbors per query.
    #[error("{}: holds {found} neighbors a query, k is {k}; lower k, or remove the file", path.display())]
    Depth {
        /// The file.
        path: PathBuf,
        /// Neighbors per query in the file.
        found: usize,
        /// Hits per query.
        k: usize,
    },
    /// The file is of another step.
    #[error("{}: names tag {tag}, which is not in the index then; is it of this runbook?", path.display())]
    NotLive {
        /// The file.
        path: PathBuf,
        /// The tag.
        tag: u32,
    },
}

/// Minimum number of neighbors computed per query, as in published files, so that ties with the last hit are
/// recognized.
const DEPTH: usize = 100;
/// Bytes of live vectors copied for one exact search.
const GATHERED_BYTES: usize = 256 << 20;

/// The file of the true neighbors at a step in a folder of such files, as big-ann-benchmarks publishes them.
///
/// ```
/// use jasper_runbook::truth_path;
/// assert_eq!(truth_path("truth".as_ref(), 2), std::path::Path::new("truth/step2.gt100"));
/// ```
pub fn truth_path(folder: &Path, step: usize) -> PathBuf {
    folder.join(format!("step{step}.gt100"))
}

/// How true neighbors are found.
pub(super) struct Truths<'a, T> {
    pub(super) base: MatrixView<'a, T>,
    pub(super) queries: MatrixView<'a, T>,
    pub(super) metric: Metric,
    pub(super) k: usize,
    /// Folder of existing files and of files to write.
    pub(super) folder: Option<&'a Path>,
    pub(super) pool: ThreadPool,
}

impl<T: Element> Truths<'_, T> {
    /// The true neighbors at a step, as tags.
    pub(super) fn at(
        &self,
        step: usize,
        live: &TagRows,
        progress: &mut ProgressFn<'_>,
    ) -> Result<GroundTruth, TruthFileError> {
        let Some(folder) = self.folder else { return Ok(self.exact(live, progress)?) };
        let path = truth_path(folder, step);
        if !path.exists() {
            let truth = self.exact(live, progress)?;
            truth.write(path)?;
            return Ok(truth);
        }
        let truth = GroundTruth::read(&path)?;
        let (found, queries) = (truth.len(), self.queries.len());
        if found != queries {
            return Err(TruthFileError::Queries { path, found, queries });
        }
        if let Some(&tag) = truth.ids().iter().find(|&&tag| !live.contains(tag)) {
            return Err(TruthFileError::NotLive { path, tag });
        }
        if truth.k() < self.k.min(live.len()) {
            return Err(TruthFileError::Depth { path, found: truth.k(), k: self.k });
        }
        Ok(truth)
    }

    /// Compares every query with every live vector. Computes one distance per pair, in [`GATHERED_BYTES`] of memory.
    fn exact(&self, live: &TagRows, progress: &mut ProgressFn<'_>) -> Result<GroundTruth, KnnError> {
        let depth = DEPTH.max(self.k).min(live.len());
        let row_bytes = self.base.dimension() * size_of::<T>();
        let mut nearest: Vec<Vec<(f32, u32)>> = vec![Vec::new(); self.queries.len()];
        let points: Vec<(u32, u32)> = live.iter().collect();
        for points in points.chunks((GATHERED_BYTES / row_bytes).max(1)) {
            let rows: Vec<T> =
                points.iter().flat_map(|&(_, row)| self.base.row(row as usize)).copied().collect();
            let rows = MatrixView::new(&rows, self.base.dimension()).expect("whole rows of the base");
            let k = depth.min(points.len());
            let truth = exact_knn(rows, self.queries, k, self.metric, &self.pool, progress)?;
            for (query, nearest) in nearest.iter_mut().enumerate() {
                let found = truth.truth(query);
                let distances = found.distances.unwrap_or_default().iter().copied();
                nearest.extend(distances.zip(found.ids.iter().map(|&id| points[id as usize].0)));
                nearest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                nearest.truncate(depth);
            }
        }
        let (distances, tags) = nearest.into_iter().flatten().unzip();
        Ok(GroundTruth::new(depth, tags, Some(distances)).expect("each query has as many neighbors"))
    }
}
