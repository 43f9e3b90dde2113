//! Exact nearest neighbors by brute force.
//!
//! ```text
//! for each block of base rows, for each query:            (`scan`)
//!     scores = f32 distances, by the SIMD kernels
//!     candidates += rows whose score a bound cannot rule out   (`filter`)
//!     when there are enough candidates:                   (`nearest`)
//!         compute their distances in f64, keep the k best, tighten the bound
//! ```
//!
//! Every true neighbor is a candidate, because the bound accounts for the rounding of f32 scores. Results are therefore
//! those of f64 at about the speed of f32.

mod cutoff;
mod distance;
mod nearest;
mod scan;

use jasper_core::{Cancelled, Element, MAX_VECTORS, MatrixError, MatrixView, Metric, ProgressFn};

use crate::GroundTruth;

/// The set of vectors that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The vectors that are searched.
    Base,
    /// The query vectors.
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

/// The error of [`exact_knn`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KnnError {
    /// A set is empty.
    #[error("there are no {0} rows; exact neighbors need at least one")]
    Empty(Side),
    /// The dimensions differ.
    #[error("queries have dimension {queries}, the base has {base}; both must be equal")]
    Dimension {
        /// Dimension of the base.
        base: usize,
        /// Dimension of the queries.
        queries: usize,
    },
    /// `k` is out of range.
    #[error("k ({k}) must be between 1 and the number of base rows ({rows})")]
    K {
        /// Number of neighbors.
        k: usize,
        /// Number of base rows.
        rows: usize,
    },
    /// There are more base rows than ids.
    #[error("base has {rows} rows, at most {MAX_VECTORS} can be numbered; search it in parts")]
    TooManyRows {
        /// Number of base rows.
        rows: usize,
    },
    /// A row holds NaN or infinity.
    #[error("{side} {error}")]
    NotFinite {
        /// The set with the row.
        side: Side,
        /// The row and coordinate.
        error: MatrixError,
    },
    /// A vector is zero, which has no cosine distance.
    #[error("{side} row {row} is zero, which has no angle to anything; remove it, or use l2 or ip")]
    ZeroVector {
        /// The set with the row.
        side: Side,
        /// The row.
        row: usize,
    },
    /// The progress callback cancelled the call.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Finds the `k` nearest rows of `base` to each of `queries`, exactly, by brute force.
///
/// Results are ordered by distance, then by row number. Distances are exact for u8 and i8 (except cosine), sums in f64
/// otherwise, and rounded to f32 in the result; so equal distances in the result may have been distinct. The result
/// does not depend on the number of threads.
///
/// Computes `base.len() x queries.len()` distances in f32, with queries distributed over `pool`, and a few hundred in
/// f64 per query. If each row is nearer than the ones before it, or all are equal, every distance is computed in f64,
/// which is five times as slow. Memory is `k` entries per query. The base is read once, front to back, so it may be a
/// mapped file larger than memory. `progress` counts base rows.
///
/// # Errors
/// Returns [`KnnError`] if a set is empty or holds values that are not finite, dimensions differ, `k` is 0 or above
/// `base.len()`, a vector is zero and the metric is cosine, or the call is cancelled.
///
/// ```
/// use jasper_core::{MatrixView, Metric, no_progress};
/// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
/// let base = MatrixView::new(&[0_u8, 0, 3, 4, 1, 0, 1, 0], 2)?;
/// let query = MatrixView::new(&[1, 1], 2)?;
/// let truth = jasper_data::exact_knn(base, query, 3, Metric::L2, &pool, &mut no_progress)?;
/// assert_eq!(truth.ids(), [2, 3, 0]); // rows 2 and 3 tie: the smaller number first
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

/// Checks the input of [`exact_knn`], except the values of the base, for implementations on other devices. They check
/// the base block by block with [`check_knn_base`].
///
/// # Errors
/// Returns the errors of [`exact_knn`].
pub fn check_knn<T: Element>(
    base: MatrixView<'_, T>,
    queries: MatrixView<'_, T>,
    k: usize,
    metric: Metric,
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
    scan::check_rows(queries, metric, Side::Query, 0).map(drop)
}

/// Checks a block of base rows, numbered from `first`: all values are finite, and no row is zero if the metric is
/// cosine.
///
/// # Errors
/// Returns [`KnnError::NotFinite`] or [`KnnError::ZeroVector`] for the first invalid row.
pub fn check_knn_base<T: Element>(
    rows: MatrixView<'_, T>,
    metric: Metric,
    first: usize,
) -> Result<(), KnnError> {
    scan::check_rows(rows, metric, Side::Base, first).map(drop)
}
