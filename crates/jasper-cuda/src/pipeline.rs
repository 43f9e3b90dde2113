//! Rows on their way through a device: some are copied in while others are worked on.

use std::ops::Range;
use std::sync::mpsc;

use bytemuck::Pod;
use gpu_kernels::Stream as _;

use crate::error::{Error, Result};
use crate::{Buffer, Context, Event, Stream};

/// Two tiles of device memory: one is filled, by a thread and a stream of its own, while the other is worked on.
///
/// ```no_run
/// # use jasper_cuda::{Buffer, Context, Pipeline, Result, Stream};
/// # fn work_on(_: &Stream, _: &Buffer<f32>, _: usize) -> Result<()> { Ok(()) }
/// # fn main() -> Result<()> {
/// let context = Context::open(0)?;
/// let stream = Stream::new(&context)?;
/// let rows = vec![0.5_f32; 96 << 20]; // a million rows of 96 elements
/// let copy = |piece: std::ops::Range<usize>, out: &mut [f32]| {
///     out.copy_from_slice(&rows[piece.start * 96..piece.end * 96]);
///     Ok(())
/// };
/// Pipeline::new(&context, 96, 100_000)?
///     .run(&stream, 1 << 20, copy, |tile, buffer| work_on(&stream, buffer, tile.len()))?;
/// stream.synchronize()
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

impl<T: Pod + Send> Pipeline<T> {
    /// Two tiles of `rows` rows, of `row` elements each.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(context: &Context, row: usize, rows: usize) -> Result<Self> {
        let copies = Stream::new(context)?;
        let tile = || {
            Ok::<_, Error>(Tile {
                buffer: Buffer::new(&copies, rows * row)?,
                filled: Event::new(context)?,
                used: Event::new(context)?,
            })
        };
        Ok(Self { tiles: [tile()?, tile()?], row, rows, copies })
    }

    /// Takes `rows` rows through the device, a tile at a time.
    ///
    /// `fill` is given a range of rows and host memory to write them to, row after row; a thread of its own calls it, a
    /// tile ahead. `work` is given the rows of a tile and where they are, and queues its launches in `stream`, which
    /// has been told to wait for them. It may also wait itself. Returns when all work is queued.
    ///
    /// # Errors
    /// Of the device, and the first of `fill` or `work`; what was queued before it still runs.
    pub fn run<E: From<Error> + Send>(
        &mut self,
        stream: &Stream,
        rows: usize,
        mut fill: impl FnMut(Range<usize>, &mut [T]) -> Result<(), E> + Send,
        mut work: impl FnMut(Range<usize>, &Buffer<T>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { copies, tiles, row, rows: most } = self;
        let (copies, row, most) = (&*copies, *row, *most);
        let (give_back, empty) = mpsc::channel();
        let (hand_over, full) = mpsc::channel();
        for tile in tiles {
            give_back.send(tile).expect("the receiver is two lines above");
        }
        let mut fill_tile = move |tile: &mut Tile<T>, range: Range<usize>| {
            copies.wait(&tile.used)?;
            copies.write(&mut tile.buffer, range.len() * row, row, |piece, out| {
                fill(range.start + piece.start / row..range.start + piece.end / row, out)
            })?;
            tile.filled.record(copies)?;
            Ok::<(), E>(())
        };
        // Each side ends when the other has gone, for whatever reason.
        std::thread::scope(move |scope| {
            scope.spawn(move || {
                for first in (0..rows).step_by(most) {
                    let range = first..rows.min(first + most);
                    let Ok(tile) = empty.recv() else { return };
                    let filled = fill_tile(tile, range.clone());
                    let failed = filled.is_err();
                    if hand_over.send(filled.map(|()| (range, tile))).is_err() || failed {
                        return;
                    }
                }
            });
            for filled in full {
                let (range, tile) = filled?;
                stream.wait(&tile.filled)?;
                let worked = work(range, &tile.buffer);
                // In any case: what was queued before an error still reads the tile.
                tile.used.record(stream)?;
                worked?;
                // Nobody wants it after the last.
                let _ = give_back.send(tile);
            }
            Ok(())
        })
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
