//! The words of tiles, used by one launch after another.

use super::Round;
use crate::{Buffer, Stream};

/// Words for the sums of tiles, for as many launches as one likes.
#[derive(Debug)]
pub struct Tiles<S: Stream> {
    words: S::Buffer<u64>,
    tickets: S::Buffer<u32>,
    columns: usize,
    drawn: u32,
    stamp: u32,
}

impl<S: Stream> Tiles<S> {
    /// Room for `tiles` tiles, each of `columns` sums.
    ///
    /// # Errors
    /// When there is not that much memory.
    pub(crate) fn allocate(stream: &S, tiles: usize, columns: usize) -> Result<Self, S::Error> {
        let mut words = stream.allocate(tiles * columns)?;
        stream.fill(&mut words, 0)?;
        let mut tickets = stream.allocate(1)?;
        stream.fill(&mut tickets, 0)?;
        Ok(Self { words, tickets, columns, drawn: 0, stamp: 0 })
    }

    /// Bytes of device memory that room for `tiles` tiles takes.
    pub(crate) const fn bytes(tiles: usize, columns: usize) -> u64 {
        (tiles * columns * size_of::<u64>() + size_of::<u32>()) as u64
    }

    /// Calls `launch` with a round of `tiles` tiles, all of which it must launch unless it fails.
    pub(crate) fn round(
        &mut self,
        stream: &S,
        tiles: u32,
        launch: impl FnOnce(Round) -> Result<(), S::Error>,
    ) -> Result<(), S::Error> {
        let room = self.words.len() / self.columns;
        assert!(tiles as usize <= room, "a launch of {tiles} tiles needs more than the words of {room}");
        if self.stamp > u32::MAX - 4 {
            stream.fill(&mut self.words, 0)?;
            self.stamp = 0;
        }
        let (words, tickets) = (self.words.output(), self.tickets.output());
        launch(Round { words, tickets, first_ticket: self.drawn, stamp: self.stamp, tiles })?;
        self.drawn = self.drawn.wrapping_add(tiles);
        self.stamp += 2;
        Ok(())
    }
}
