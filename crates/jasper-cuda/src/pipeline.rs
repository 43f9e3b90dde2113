//! Streaming rows through a device: one chunk is copied while the other is processed.

use std::ops::Range;
use std::sync::mpsc;

use bytemuck::Pod;
use gpu_kernels::{Buffer as _, Stream as _};

use crate::error::{Error, Result};
use crate::{Buffer, Context, Event, Stream};

/// Two chunks of device memory: a thread with its own stream fills one while the caller processes the other.
///
/// ```no_run
/// # use jasper_cuda::{Buffer, Context, Pipeline, Result, Stream};
/// # fn work_on(_: &Stream, _: &Buffer<f32>, _: usize) -> Result<()> { Ok(()) }
/// # fn main() -> Result<()> {
/// let context = Context::open(0)?;
/// let stream = Stream::new(&context)?;
/// let rows = vec![0.5_f32; 96 << 20]; // a million rows of 96 elements
/// let copy = |range: std::ops::Range<usize>, out: &mut [f32]| {
///     out.copy_from_slice(&rows[range.start * 96..range.end * 96]);
///     Ok(())
/// };
/// Pipeline::new(&context, 96, 100_000)?
///     .run(&stream, 1 << 20, copy, |chunk, buffer| work_on(&stream, buffer, chunk.len()))?;
/// stream.synchronize()
/// # }
/// ```
#[derive(Debug)]
pub struct Pipeline<T: Pod> {
    copies: Stream,
    chunks: [Chunk<T>; 2],
    row: usize,
    max_rows: usize,
}

#[derive(Debug)]
struct Chunk<T: Pod> {
    buffer: Buffer<T>,
    /// Recorded after the copy into the chunk.
    filled: Event,
    /// Recorded after the work on the chunk.
    used: Event,
}

impl<T: Pod + Send> Pipeline<T> {
    /// Allocates two chunks of `max_rows` rows with `row` elements each.
    ///
    /// # Errors
    /// Returns [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn new(context: &Context, row: usize, max_rows: usize) -> Result<Self> {
        let copies = Stream::new(context)?;
        let chunk = || {
            Ok::<_, Error>(Chunk {
                buffer: Buffer::new(&copies, max_rows * row)?,
                filled: Event::new(context)?,
                used: Event::new(context)?,
            })
        };
        Ok(Self { chunks: [chunk()?, chunk()?], row, max_rows, copies })
    }

    /// Processes `rows` rows, one chunk at a time.
    ///
    /// A separate thread calls `fill`, one chunk ahead, with a range of rows and host memory to write them to.
    /// `process` gets the range of a chunk and its buffer, which belongs to `stream` meanwhile, and queues launches in
    /// `stream`, which waits for the copy; it may also synchronize. Each copy waits for the work on the chunk's
    /// previous contents. Returns when all work is queued.
    ///
    /// # Errors
    /// Returns the device's error, or the first error of `fill` or `process`. Work queued before it still runs.
    pub fn run<E: From<Error> + Send>(
        &mut self,
        stream: &Stream,
        rows: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E> + Send,
        mut process: impl FnMut(Range<usize>, &Buffer<T>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { copies, chunks, row, max_rows } = self;
        let (copies, row, max_rows) = (&*copies, *row, *max_rows);
        let (send_empty, empty) = mpsc::channel();
        let (send_full, full) = mpsc::channel();
        for chunk in chunks {
            send_empty.send(chunk).expect("the receiver is alive");
        }
        let mut fill_chunk = move |chunk: &mut Chunk<T>, range: Range<usize>| {
            copies.wait(&chunk.used)?;
            copies.write(&mut chunk.buffer, range.len() * row, row, |within, out| {
                fill(range.start + within.start / row..range.start + within.end / row, out)
            })?;
            chunk.filled.record(copies)?;
            Ok::<(), E>(())
        };
        // Each side ends when the other has dropped its channels.
        std::thread::scope(move |scope| {
            scope.spawn(move || {
                for first in (0..rows).step_by(max_rows) {
                    let range = first..rows.min(first + max_rows);
                    let Ok(chunk) = empty.recv() else { return };
                    let filled = fill_chunk(chunk, range.clone());
                    let failed = filled.is_err();
                    if send_full.send(filled.map(|()| (range, chunk))).is_err() || failed {
                        return;
                    }
                }
            });
            for filled in full {
                let (range, chunk) = filled?;
                stream.wait(&chunk.filled)?;
                // SAFETY: the chunk is memory of the device, aligned as allocated. The work on it in `stream` follows
                // the copy into it, as the wait ensures; the copy stream neither writes nor frees it before that work,
                // which `used` records, is complete.
                let view = unsafe { Buffer::borrow(stream, chunk.buffer.address(), chunk.buffer.len()) };
                let processed = process(range, &view);
                // The event is recorded after an error too, because work queued before it still reads the chunk.
                chunk.used.record(stream)?;
                processed?;
                // Sending fails after the last chunk, when the thread has ended.
                let _ = send_empty.send(chunk);
            }
            Ok(())
        })
    }
}

impl<T: Pod> Drop for Pipeline<T> {
    fn drop(&mut self) {
        // The copy stream frees the chunks: it waits for the work on them first.
        for chunk in &self.chunks {
            let _ = self.copies.wait(&chunk.used);
        }
    }
}
