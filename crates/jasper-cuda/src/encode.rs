//! Codes of vectors in host memory, made on a device.
//!
//! The coding itself is [`gpu_kernels::encode`]. Here rows come to it by tiles while it works on the tile before, and
//! codes go back.

use gpu_kernels::Stream as _;
use gpu_kernels::encode::{Chosen, DeviceQuantizer};
use jasper_core::{Element, MatrixView, padded_len};
use jasper_data::ThreadPool;
use jasper_quant::{Codes, Quantizer};
use rayon::prelude::*;

use crate::knn::pad;
use crate::{Bytes, Context, Error, MemoryPlan, MemorySpace, Pipeline, Result, Stream};

/// Parts that rows are cut in, at least, if they are many: the first is coded while the others are on their way.
const PARTS: usize = 8;
/// Bytes of a part, at least: less keeps no device busy.
const LEAST_PART: usize = 64 << 20;
/// Bytes of rows that a thread copies at once.
const TASK_BYTES: usize = 256 << 10;

/// The codes of `rows`, finite all of them: what [`Codes::from_vectors`] gives, to the bit.
///
/// Rows may be a mapped file larger than device memory: they are read once, front to back, on the threads of `pool`.
/// Cost: a row costs the device less than its way there.
///
/// # Errors
/// Of the device, which has to have room for a tile: [`Error::Plan`] says what that takes.
///
/// # Panics
/// If the rows have another dimension than those that the quantizer was trained on.
pub fn encode_on_device<T: Element>(
    context: &Context,
    quantizer: &dyn Quantizer,
    rows: MatrixView<'_, T>,
    pool: &ThreadPool,
) -> Result<Codes> {
    assert_eq!(rows.dimension(), quantizer.dimension());
    let (stride, words) = (padded_len::<T>(rows.dimension()), quantizer.layout().words());
    if rows.is_empty() {
        return Ok(Codes::new(quantizer));
    }
    let stream = Stream::new(context)?;
    let on_device = DeviceQuantizer::new(&stream, quantizer)?;
    let row_bytes = stride * size_of::<T>();
    let plan = MemoryPlan::new("coding")
        .part(MemorySpace::Device, "residuals", on_device.scratch_bytes(rows.len()) as u64)
        // Rows come by a stream of their own.
        .part(MemorySpace::Host, "pinned memory", 4 * Stream::PIECE_BYTES as u64)
        .part(MemorySpace::Host, "codes", 2 * (rows.len() * words * size_of::<u32>()) as u64);
    let row = Bytes { device: (2 * row_bytes + words * size_of::<u32>()) as u64, host: 0 };
    let tile = rows.len().div_ceil(PARTS).max(LEAST_PART / row_bytes).min(rows.len());
    let tile_rows = plan.batch("a row", row, context.free_memory()?, tile)?;
    let mut codes = stream.allocate::<u32>(tile_rows * words)?;
    let mut all: Vec<u32> = Vec::with_capacity(rows.len() * words);
    Pipeline::new(context, stride, tile_rows)?.run(
        &stream,
        rows.len(),
        |range, out| {
            let rows_a_task = (TASK_BYTES / row_bytes).max(1);
            pool.install(|| {
                out.par_chunks_mut(rows_a_task * stride).enumerate().for_each(|(task, out)| {
                    let first = range.start + task * rows_a_task;
                    pad(rows.slice(first..first + out.len() / stride), out);
                });
            });
            Ok::<(), Error>(())
        },
        |range, tile| {
            on_device.encode(&stream, tile, &Chosen::Range(0..range.len()), &mut codes)?;
            all.extend(stream.download_range(&codes, 0..range.len() * words)?);
            Ok(())
        },
    )?;
    Ok(Codes::from_bytes(quantizer, bytemuck::cast_slice(&all)).expect("whole rows were coded"))
}
