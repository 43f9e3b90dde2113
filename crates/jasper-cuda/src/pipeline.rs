//! Rows on their way through a device: some are copied in while others are worked on.

use std::ops::Range;

use bytemuck::Pod;

use crate::error::Result;
use crate::{Buffer, Context, Event, Stream};

/// Two tiles of device memory, each filled by one stream while another works on the other.
///
/// ```no_run
/// # use jasper_cuda::{Context, Pipeline, Result, Stream};
/// # fn work_on(_: &Stream, _: &jasper_cuda::Buffer<f32>, _: usize) -> Result<()> { Ok(()) }
/// # fn main() -> Result<()> {
/// let context = Context::open(0)?;
/// let work = Stream::new(&context)?;
/// let rows = vec![0.5_f32; 96 << 20]; // a million rows of 96 elements
/// let mut pipeline = Pipeline::new(&context, 96, 100_000)?;
/// pipeline.run(
///     &work,
///     1 << 20,
///     |piece, out| out.copy_from_slice(&rows[piece.start * 96..piece.end * 96]),
///     |tile, buffer| work_on(&work, buffer, tile.len()),
/// )?;
/// work.synchronize()
/// # }
/// ```
#[derive(Debug)]
pub struct Pipeline<T: Pod> {
    copies: Stream,
    tiles: [Tile<T>; 2],
    row: usize,
    rows: usize,
}

#[derive(Debug)]
struct Tile<T> {
    buffer: Buffer<T>,
    /// Behind the copy into it.
    filled: Event,
    /// Behind the work on it.
    used: Event,
}

impl<T: Pod> Pipeline<T> {
    /// Two tiles of at most `rows` rows, of `row` elements each: see [`Self::bytes`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn new(context: &Context, row: usize, rows: usize) -> Result<Self> {
        let copies = Stream::new(context)?;
        let tile = || {
            Ok(Tile {
                buffer: Buffer::new(&copies, rows * row)?,
                filled: Event::new(context)?,
                used: Event::new(context)?,
            })
        };
        Ok(Self { tiles: [tile()?, tile()?], row, rows, copies })
    }

    /// Takes `rows` rows through the device, a tile at a time.
    ///
    /// `fill` is given a range of rows and host memory to write them to, row after row. `work` is given the rows of a
    /// tile and where they are; it queues its launches in `stream`, and may not wait, or nothing will overlap. Returns
    /// when all work is queued.
    ///
    /// # Errors
    /// Of the copies, and the first of `work`.
    pub fn run(
        &mut self,
        stream: &Stream,
        rows: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]),
        mut work: impl FnMut(Range<usize>, &Buffer<T>) -> Result<()>,
    ) -> Result<()> {
        let row = self.row;
        for (turn, first) in (0..rows).step_by(self.rows.max(1)).enumerate() {
            let range = first..rows.min(first + self.rows);
            let Tile { buffer, filled, used } = &mut self.tiles[turn % 2];
            self.copies.wait(used)?;
            self.copies.write(buffer, range.len() * row, row, |piece, out| {
                fill(first + piece.start / row..first + piece.end / row, out);
            })?;
            filled.record(&self.copies)?;
            stream.wait(filled)?;
            let worked = work(range, buffer);
            // In any case: what was queued before an error still reads the tile.
            used.record(stream)?;
            worked?;
        }
        Ok(())
    }
}

impl<T: Pod> Drop for Pipeline<T> {
    fn drop(&mut self) {
        // The tiles go in the order of the copies: behind the work as well.
        for tile in &self.tiles {
            let _ = self.copies.wait(&tile.used);
        }
    }
}
