//! Exact nearest neighbors among any number of vectors in host memory.
//!
//! The kernels are [`gpu_kernels::knn`]. A [`Pipeline`] checks, pads and copies one chunk of the base while the device
//! searches the previous one. A [`MemoryPlan`] determines the size of a chunk.

use gpu_kernels::Stream as _;
use std::ops::Range;

use gpu_kernels::knn::{self, KnnResults, MAX_K};
use jasper_core::{Element, MatrixView, Metric, Progress, ProgressFn, Stage, padded_len};
use jasper_data::{GroundTruth, ThreadPool, check_knn, check_knn_base, parallel};

use crate::{Buffer, Bytes, Context, Error, MemoryPlan, MemorySpace, Pipeline, PlanError, Result, Stream};

/// An exact search on a device failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceKnnError {
    /// Invalid input, or the search was cancelled.
    #[error(transparent)]
    Input(#[from] jasper_data::KnnError),
    /// `k` is more than the kernels support.
    #[error("k ({0}) must be at most {MAX_K} on a CUDA device; lower k, or use the cpu")]
    K(usize),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] Error),
}

/// Minimum number of chunks of a large base, so that copies overlap with the search.
const MIN_CHUNKS: usize = 8;
/// Minimum bytes of a chunk if there are several: smaller chunks do not keep a device busy.
const MIN_CHUNK_BYTES: usize = 64 << 20;
/// Bytes per task of the thread pool.
const TASK_BYTES: usize = 256 << 10;

/// The exact `k` nearest vectors of `base` for each of `queries`, with the same ids, order and distances as
/// [`jasper_data::exact_knn`]. But of floats, and of bytes under cosine, 2 `k` candidates are chosen by sums of f32: if more than
/// `k` vectors differ from the `k`-th by less than rounding, one of them may be missed.
///
/// The base may be a mapped file larger than host and device memory: it is read once, sequentially, by the threads of
/// `pool`. `progress` is called between chunks with the number of base vectors searched, and can cancel.
///
/// # Errors
/// Returns [`DeviceKnnError`] if [`jasper_data::exact_knn`] refuses the input, `k` is above [`MAX_K`], the queries do
/// not fit into device memory, or the device fails.
pub fn exact_knn_on_device<T: Element>(
    context: &Context,
    base: MatrixView<'_, T>,
    queries: MatrixView<'_, T>,
    k: usize,
    metric: Metric,
    pool: &ThreadPool,
    progress: &mut ProgressFn<'_>,
) -> Result<GroundTruth, DeviceKnnError> {
    check_knn(base, queries, k, metric)?;
    if k > MAX_K {
        return Err(DeviceKnnError::K(k));
    }
    let (dimension, stride, total) = (base.dimension(), padded_len::<T>(base.dimension()), base.len());
    let free = context.free_memory()?;
    let chunk_rows =
        chunk_rows::<T>(total, queries.len(), dimension, k, free).map_err(|error| context.fail(error))?;
    let stream = Stream::new(context)?;
    let queries = upload(&stream, queries)?;
    let mut found: Option<KnnResults> = None;
    Pipeline::new(context, stride, chunk_rows)?.run(
        &stream,
        total,
        |rows, out| parallel::install(pool, || check_and_pad(base, rows, metric, out)),
        |rows, chunk| {
            let news = Progress { stage: Stage::Scanning, done: rows.start, total };
            news.report(progress).map_err(jasper_data::KnnError::from)?;
            let part = knn::exact_knn(&stream, metric, dimension, k, chunk, rows.len(), &queries)?;
            match &mut found {
                Some(found) => found.merge(&part, rows.start as u32),
                none => *none = Some(part),
            }
            Ok(())
        },
    )?;
    let news = Progress { stage: Stage::Scanning, done: total, total };
    news.report(progress).map_err(jasper_data::KnnError::from)?;
    let found = found.expect("the base was checked not to be empty, so there was a chunk");
    let distances = found.distances().iter().map(|&distance| metric.clamp(distance as f32)).collect();
    Ok(GroundTruth::new(k, found.ids().to_vec(), Some(distances))
        .expect("every query has k neighbors, since k is at most the rows"))
}

/// The number of rows per chunk: as many as fit, but few enough that copies overlap with the search.
fn chunk_rows<T: Element>(
    rows: usize,
    queries: usize,
    dimension: usize,
    k: usize,
    free: Bytes,
) -> Result<usize, PlanError> {
    let row_bytes = padded_len::<T>(dimension) * size_of::<T>();
    let answers = queries * k * (size_of::<u32>() + size_of::<f64>());
    let plan = MemoryPlan::new("exact search")
        .part(MemorySpace::Device, "queries", (queries * row_bytes) as u64)
        .part(MemorySpace::Device, "lists", knn::scratch_bytes::<T>(queries, k) as u64)
        // The answers so far, and those of a chunk.
        .part(MemorySpace::Host, "answers", 2 * answers as u64)
        // Queries and base are copied by two streams.
        .part(MemorySpace::Host, "pinned memory", 4 * Stream::CHUNK_BYTES as u64);
    let row = Bytes { device: 2 * row_bytes as u64, host: 0 };
    plan.batch("a row", row, free, max_chunk_rows(rows, row_bytes))
}

/// The maximum number of rows of a chunk, with which copies overlap with the work on other chunks, if there are any.
fn max_chunk_rows(rows: usize, row_bytes: usize) -> usize {
    rows.div_ceil(MIN_CHUNKS).max(MIN_CHUNK_BYTES / row_bytes).min(rows)
}

/// Copies rows to the device, padded with zeros.
fn upload<T: Element>(stream: &Stream, rows: MatrixView<'_, T>) -> Result<Buffer<T>> {
    let stride = padded_len::<T>(rows.dimension());
    let mut buffer = stream.allocate(rows.len() * stride)?;
    stream.write(&mut buffer, rows.len() * stride, stride, |range, out| {
        pad(rows.slice(range.start / stride..range.end / stride), out);
        Ok::<(), Error>(())
    })?;
    Ok(buffer)
}

/// Checks the rows `range` of the base and writes them to `out`, padded, in the current rayon pool.
fn check_and_pad<T: Element>(
    base: MatrixView<'_, T>,
    range: Range<usize>,
    metric: Metric,
    out: &mut [T],
) -> Result<(), DeviceKnnError> {
    let stride = padded_len::<T>(base.dimension());
    let rows_per_task = (TASK_BYTES / (stride * size_of::<T>())).max(1);
    let padded = parallel::map(out.chunks_mut(rows_per_task * stride).enumerate(), |(task, out)| {
        let first = range.start + task * rows_per_task;
        let rows = base.slice(first..first + out.len() / stride);
        check_knn_base(rows, metric, first)?;
        pad(rows, out);
        Ok(())
    });
    padded.into_iter().collect()
}

/// Writes rows to `out`, `[rows][padded dimension]`.
fn pad<T: Element>(rows: MatrixView<'_, T>, out: &mut [T]) {
    let dimension = rows.dimension();
    for (row, out) in rows.rows().zip(out.chunks_exact_mut(padded_len::<T>(dimension))) {
        out[..dimension].copy_from_slice(row);
        out[dimension..].fill(T::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_zero_whatever_was_there() {
        let rows = [1_u8, 2, 3, 4, 5, 6];
        let mut out = [9; 32];
        pad(MatrixView::new(&rows, 3).unwrap(), &mut out);
        assert_eq!((&out[..4], &out[16..20]), (&[1, 2, 3, 0][..], &[4, 5, 6, 0][..]));
        assert!(out[4..16].iter().chain(&out[20..]).all(|&value| value == 0));
    }

    #[test]
    fn rows_are_taken_in_whole_and_the_first_bad_one_is_told() {
        const DIMENSION: usize = 1000;
        let mut values: Vec<f32> = (0..500 * DIMENSION).map(|i| i as f32).collect();
        let take = |values: &[f32], range: Range<usize>| {
            let mut out = vec![0.5; range.len() * DIMENSION];
            check_and_pad(MatrixView::new(values, DIMENSION).unwrap(), range, Metric::L2, &mut out)
                .map(|()| out)
        };
        assert!(take(&values, 100..490).unwrap() == values[100 * DIMENSION..490 * DIMENSION]);
        for row in [480, 300, 120] {
            values[row * DIMENSION + 7] = f32::NAN;
            let message = take(&values, 100..490).unwrap_err().to_string();
            assert!(message.starts_with(&format!("base row {row} ")), "{message}");
        }
        assert!(take(&values, 0..100).is_ok());
    }

    #[test]
    fn chunks_fit_what_is_free() {
        let rows =
            |free: u64| chunk_rows::<f32>(1_000_000, 10_000, 960, 100, Bytes { device: free, host: 1 << 40 });
        // All rows would fit, but chunks are limited so that copies overlap with the search.
        assert_eq!(rows(100 << 30), Ok(125_000));
        let tight = rows(1 << 30).unwrap();
        assert!((1..125_000).contains(&tight), "{tight}");
        let error = rows(1 << 20).unwrap_err();
        assert!(error.to_string().starts_with("exact search needs "), "{error}");
        // A small base is one chunk.
        let plenty = Bytes { device: 1 << 40, host: 1 << 40 };
        assert_eq!(chunk_rows::<u8>(5000, 10, 128, 10, plenty), Ok(5000));
    }
}
