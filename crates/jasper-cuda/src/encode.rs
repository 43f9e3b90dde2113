//! Quantization of vectors in host memory.
//!
//! The kernels are [`gpu_kernels::encode`]. A [`Pipeline`] copies one chunk of the vectors while the device encodes the
//! previous one; the codes are copied back.

use gpu_kernels::Stream as _;
use gpu_kernels::encode::{DeviceQuantizer, RowSelection};
use jasper_core::{Element, MatrixView, padded_len};
use jasper_data::ThreadPool;
use jasper_quant::{CodeTable, Quantizer};

use crate::knn::{max_chunk_rows, pad_in_parallel};
use crate::{Bytes, Context, Error, MemoryPlan, MemorySpace, Pipeline, Result, Stream};

/// Quantizes vectors with finite coordinates. The codes equal those of [`CodeTable::from_vectors`], bit for bit.
///
/// The vectors may be a mapped file larger than device memory: they are read once, sequentially, by the threads of
/// `pool`. This takes less time than copying them.
///
/// # Errors
/// Returns [`ErrorKind::Plan`](crate::ErrorKind::Plan) if a chunk does not fit into free memory. Otherwise returns the
/// device's error.
///
/// # Panics
/// Panics if the vectors do not have the dimension that the quantizer was trained for.
pub fn encode_on_device<T: Element>(
    context: &Context,
    quantizer: &dyn Quantizer,
    rows: MatrixView<'_, T>,
    pool: &ThreadPool,
) -> Result<CodeTable> {
    assert_eq!(rows.dimension(), quantizer.dimension());
    let (stride, words) = (padded_len::<T>(rows.dimension()), quantizer.layout().words());
    if rows.is_empty() {
        return Ok(CodeTable::from_words(quantizer, &[]));
    }
    let stream = Stream::new(context)?;
    let on_device = DeviceQuantizer::new(&stream, quantizer)?;
    let row_bytes = stride * size_of::<T>();
    let plan = MemoryPlan::new("coding")
        .part(MemorySpace::Device, "residuals", on_device.scratch_bytes(rows.len()) as u64)
        // A second stream copies the vectors.
        .part(MemorySpace::Host, "pinned memory", 4 * Stream::PIECE_BYTES as u64)
        .part(MemorySpace::Host, "codes", 2 * (rows.len() * words * size_of::<u32>()) as u64);
    let row = Bytes { device: (2 * row_bytes + words * size_of::<u32>()) as u64, host: 0 };
    let most = max_chunk_rows(rows.len(), row_bytes);
    let chunk_rows =
        plan.batch("a row", row, context.free_memory()?, most).map_err(|error| context.fail(error))?;
    let mut codes = stream.allocate::<u32>(chunk_rows * words)?;
    let mut all: Vec<u32> = Vec::with_capacity(rows.len() * words);
    Pipeline::new(context, stride, chunk_rows)?.run(
        &stream,
        rows.len(),
        |range, out| pool.install(|| pad_in_parallel(rows, range.start, out, |_, _| Ok::<(), Error>(()))),
        |range, chunk| {
            on_device.encode(&stream, chunk, &RowSelection::Range(0..range.len()), &mut codes)?;
            all.extend(stream.download_range(&codes, 0..range.len() * words)?);
            Ok(())
        },
    )?;
    Ok(CodeTable::from_words(quantizer, &all))
}
