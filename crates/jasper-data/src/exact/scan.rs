//! The cache-blocked scan of the base.
//!
//! A *pass* scans some megabytes of the base, which stay in the last-level cache, for all queries. A mapped base is
//! thus read from disk once, and progress is reported between passes. Within a pass, each task takes a block of
//! queries, and scores blocks of rows that stay in L1 against each of them.

use std::ops::Range;

use jasper_core::distance::ManyFn;
use jasper_core::{Element, MatrixError, MatrixView, Metric, Progress, ProgressFn, Stage};

use super::cutoff::bounded;
use super::distance::squared_norm;
use super::nearest::Nearest;
use super::{KnnError, Side};
use crate::parallel;

/// Bytes of base rows per pass: a fraction of a last-level cache.
const PASS_BYTES: usize = 8 << 20;
/// Maximum pairs per pass: about a second on one thread, so that cancelling is prompt.
const PASS_PAIRS: usize = 1 << 25;
/// Bytes of rows per block: within L1. From 16 KB to 512 KB the time differs by less than 10%.
const BLOCK_BYTES: usize = 32 << 10;
/// Maximum queries per block.
const BLOCK_QUERIES: usize = 32;
/// Rows per task of the input check.
const CHECK_ROWS: usize = 1 << 10;

/// Scans the base for all queries; returns each query's `k` nearest rows. Shapes must be checked.
pub(super) fn scan<'a, T: Element>(
    base: MatrixView<'_, T>,
    queries: MatrixView<'a, T>,
    k: usize,
    metric: Metric,
    pool: &rayon::ThreadPool,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<Nearest<'a, T>>, KnnError> {
    let mut lists: Vec<Nearest<'a, T>> = queries.rows().map(|query| Nearest::new(query, metric, k)).collect();
    let row_bytes = base.dimension() * size_of::<T>();
    let pass_rows = (PASS_BYTES / row_bytes).min(PASS_PAIRS / lists.len()).max(BLOCK_QUERIES);
    // Several blocks per thread, for balance.
    let block_queries = lists.len().div_ceil(4 * pool.current_num_threads()).min(BLOCK_QUERIES);
    let total = base.len();
    for first in (0..total).step_by(pass_rows) {
        Progress { stage: Stage::Scanning, done: first, total }.report(progress)?;
        let rows = base.slice(first..total.min(first + pass_rows));
        parallel::install(pool, || {
            let norms = check_pass(rows, metric, first)?;
            parallel::for_each(lists.chunks_mut(block_queries), |lists| {
                scan_block(lists, base, first..first + rows.len(), metric, &norms);
                // Candidates are ranked now, while the rows are in cache.
                lists.iter_mut().for_each(|list| list.rank(base));
            });
            Ok::<(), KnnError>(())
        })?;
    }
    Progress { stage: Stage::Scanning, done: total, total }.report(progress)?;
    Ok(lists)
}

/// Scans rows `pass` of the base, with norms `norms`, for the queries of `lists`.
fn scan_block<T: Element>(
    lists: &mut [Nearest<'_, T>],
    base: MatrixView<'_, T>,
    pass: Range<usize>,
    metric: Metric,
    norms: &[f32],
) {
    let kernel = kernel::<T>(metric);
    let block_rows = (BLOCK_BYTES / (base.dimension() * size_of::<T>())).max(1);
    let mut block = Vec::with_capacity(block_rows);
    let mut sums = vec![0.0; block_rows];
    for (norms, first) in norms.chunks(block_rows).zip(pass.step_by(block_rows)) {
        block.clear();
        block.extend(base.slice(first..first + norms.len()).rows());
        let sums = &mut sums[..block.len()];
        for list in &mut *lists {
            kernel(list.query(), &block, sums);
            list.offer(base, first, sums, norms);
        }
    }
}

fn kernel<T: Element>(metric: Metric) -> ManyFn<T> {
    match metric {
        Metric::L2 => T::distance_fns().squared_l2_many,
        Metric::InnerProduct | Metric::Cosine => T::distance_fns().dot_many,
    }
}

/// Checks the rows of a pass in parallel, and returns their norms.
fn check_pass<T: Element>(
    rows: MatrixView<'_, T>,
    metric: Metric,
    first: usize,
) -> Result<Vec<f32>, KnnError> {
    let chunks = rows.len().div_ceil(CHECK_ROWS);
    let checked = parallel::map(0..chunks, |chunk| {
        let start = chunk * CHECK_ROWS;
        let chunk = rows.slice(start..rows.len().min(start + CHECK_ROWS));
        check_rows(chunk, metric, Side::Base, first + start)
    });
    // In order, so that the error is that of the first invalid row.
    let mut norms = Vec::with_capacity(rows.len());
    for chunk in checked {
        norms.extend(chunk?);
    }
    Ok(norms)
}

/// Checks that all values are finite and, for cosine, that no row is zero. Returns the norms for [`Cutoff`]; zeros for
/// L2, which does not use them. `first` is the number of the first row.
///
/// [`Cutoff`]: super::cutoff::Cutoff
pub(super) fn check_rows<T: Element>(
    rows: MatrixView<'_, T>,
    metric: Metric,
    side: Side,
    first: usize,
) -> Result<Vec<f32>, KnnError> {
    rows.check_finite().map_err(|mut error| {
        if let MatrixError::NotFinite { row, .. } = &mut error {
            *row += first;
        }
        KnnError::NotFinite { side, error }
    })?;
    if metric == Metric::L2 {
        return Ok(vec![0.0; rows.len()]);
    }
    let norm = |(i, row)| match squared_norm(row) {
        0.0 if metric == Metric::Cosine => Err(KnnError::ZeroVector { side, row: first + i }),
        squared => Ok(bounded(squared.sqrt())),
    };
    rows.rows().enumerate().map(norm).collect()
}
