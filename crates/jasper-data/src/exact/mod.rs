//! Exact nearest neighbours: every query against every row.
//!
//! A fast pass scores pairs in f32; [`filter`] knows how far such a score can lie, so what it does not rule out holds
//! the true neighbours; [`nearest`] ranks those in f64. [`scan`] walks base and queries in blocks that caches hold.

mod distance;
mod filter;
mod nearest;
mod scan;

use jasper_core::{Cancelled, Element, MAX_VECTORS, MatrixError, MatrixView, Metric, ProgressFn};

use crate::GroundTruth;

/// Which of the two sets of vectors an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The rows searched in.
    Base,
    /// The vectors searched for.
    Query,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Query => "query",
        })
    }
}

/// Exact neighbours could not be found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KnnError {
    /// There is nothing to search in, or nothing to search for.
    #[error("there are no {0} rows; exact neighbours need at least one")]
    Empty(Side),
    /// The two sets differ in dimension.
    #[error("queries have dimension {queries}, the base has {base}; both must be equal")]
    Dimension {
        /// Dimension of the base.
        base: usize,
        /// Dimension of the queries.
        queries: usize,
    },
    /// There cannot be that many neighbours.
    #[error("k ({k}) must be between 1 and the number of base rows ({rows})")]
    K {
        /// Neighbours asked for.
        k: usize,
        /// Rows there are.
        rows: usize,
    },
    /// Ids would not fit.
    #[error("base has {rows} rows, at most {MAX_VECTORS} can be numbered; search it in parts")]
    TooManyRows {
        /// Rows there are.
        rows: usize,
    },
    /// A row holds NaN or infinity.
    #[error("{side} {error}")]
    NotFinite {
        /// The set with the row.
        side: Side,
        /// The row, and where in it.
        error: MatrixError,
    },
    /// A row has no direction.
    #[error("{side} row {row} is zero, which has no angle to anything; remove it, or use l2 or ip")]
    ZeroVector {
        /// The set with the row.
        side: Side,
        /// The row.
        row: usize,
    },
    /// The progress closure asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// The `k` nearest rows of `base` to each of `queries`, exactly.
///
/// Distances are squared L2, the negated inner product, or 1 - cos of rows of any length. Order is by distance, then
/// by row number, with distances as exact integers (u8 and i8, but for cosine) or sums in f64; they are rounded to
/// f32 in the answer, so two that look equal there may still have been told apart. The answer does not depend on the
/// number of threads.
///
/// Cost: rows x queries distances, the queries spread over `pool`, and a few hundred exact ones a query (up to all, five
/// times as slow, where each row lies nearer than the ones before it or all are equal). Memory: `k` entries a query.
/// The base is read once, front to back, so it may be a mapped file larger than memory. `progress` is told of base
/// rows between passes over some megabytes of them, and can cancel.
///
/// # Errors
/// [`KnnError`]: an empty set, dimensions that differ, k of 0 or more than the rows there are (a shorter list would
/// have no form in a file), values that are not finite, zero rows where the metric is cosine, a cancel.
///
/// ```
/// use jasper_core::{MatrixView, Metric, no_progress};
/// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
/// let base = MatrixView::new(&[0_u8, 0, 3, 4, 1, 0, 1, 0], 2)?;
/// let query = MatrixView::new(&[1, 1], 2)?;
/// let truth = jasper_data::exact_knn(base, query, 3, Metric::L2, &pool, &mut no_progress)?;
/// assert_eq!(truth.ids(), [2, 3, 0]); // rows 2 and 3 are equal: the smaller number first
/// assert_eq!(truth.distances().unwrap(), [1.0, 1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn exact_knn<T: Element>(
    base: MatrixView<'_, T>,
    queries: MatrixView<'_, T>,
    k: usize,
    metric: Metric,
    pool: &rayon::ThreadPool,
    progress: &mut ProgressFn<'_>,
) -> Result<GroundTruth, KnnError> {
    check_knn(base, queries, k, metric)?;
    let lists = scan::scan(base, queries, k, metric, pool, progress)?;
    let entries = || lists.iter().flat_map(|list| list.best());
    let ids = entries().map(|&(_, id)| id).collect();
    let distances = entries().map(|&(distance, _)| distance as f32).collect();
    Ok(GroundTruth::new(k, ids, Some(distances))
        .expect("every list has k entries, since k is at most the rows"))
}

/// Checks all that [`exact_knn`] asks of its input but the values of the base, which [`check_knn_base`] looks at as
/// they come by: for searches that give the same answer on another device.
///
/// # Errors
/// Those of [`exact_knn`].
pub fn check_knn<T: Element>(
    base: MatrixView<'_, T>,
    queries: MatrixView<'_, T>,
    k: usize,
    metric: Metric,
) -> Result<(), KnnError> {
    check_shapes(base, queries, k)?;
    scan::check_rows(queries, metric, Side::Query, 0).map(drop)
}

/// Checks rows of the base, of which the first has number `first`: all values finite and, for cosine, no row zero.
///
/// # Errors
/// [`KnnError::NotFinite`] and [`KnnError::ZeroVector`], of the first row at fault.
pub fn check_knn_base<T: Element>(
    rows: MatrixView<'_, T>,
    metric: Metric,
    first: usize,
) -> Result<(), KnnError> {
    scan::check_rows(rows, metric, Side::Base, first).map(drop)
}

fn check_shapes<T: Element>(
    base: MatrixView<'_, T>,
    queries: MatrixView<'_, T>,
    k: usize,
) -> Result<(), KnnError> {
    let rows = base.len();
    if base.is_empty() {
        return Err(KnnError::Empty(Side::Base));
    }
    if queries.is_empty() {
        return Err(KnnError::Empty(Side::Query));
    }
    if base.dimension() != queries.dimension() {
        return Err(KnnError::Dimension { base: base.dimension(), queries: queries.dimension() });
    }
    if k == 0 || k > rows {
        return Err(KnnError::K { k, rows });
    }
    if rows > MAX_VECTORS {
        return Err(KnnError::TooManyRows { rows });
    }
    Ok(())
}
