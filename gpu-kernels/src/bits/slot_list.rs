//! A list of the slots of a set, in device memory.

use std::ops::Range;

use super::{ListSlots, ListSlotsArgs, SLOTS_PER_WORD};
use crate::prefix_sum::{LookBackStates, select_tiles};
use crate::{Buffer, DevicePtr, Stream};

/// The listed slots of a set, and the scratch memory to list them.
pub struct SlotList<S: Stream> {
    /// `[capacity]`: the slots, ascending.
    pub slots: S::Buffer<u32>,
    count: S::Buffer<u32>,
    tiles: LookBackStates<S>,
}

impl<S: Stream> SlotList<S> {
    /// Allocates lists of up to `capacity` slots.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub fn allocate(stream: &S, capacity: u32) -> Result<Self, S::Error> {
        Ok(Self {
            slots: stream.allocate(capacity as usize)?,
            count: stream.allocate(1)?,
            tiles: LookBackStates::allocate(stream, select_tiles(capacity) as usize, 1)?,
        })
    }

    /// Lists the slots of `range`, which begins at a word, that are in the set `bits`. Returns their number. One
    /// synchronous launch, which reads a bit per slot and writes 4 bytes per listed slot.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// Panics if the range does not begin at a word, has more slots than the capacity, or ends past the end of the set.
    pub fn list(&mut self, stream: &S, bits: &S::Buffer<u32>, range: Range<u32>) -> Result<u32, S::Error> {
        let (len, words) = (range.end.saturating_sub(range.start), bits.len());
        assert!(range.start.is_multiple_of(SLOTS_PER_WORD), "slot {} does not begin a word", range.start);
        assert!(
            len as usize <= self.slots.len(),
            "{len} slots are more than the {} of a list",
            self.slots.len()
        );
        assert!(
            range.end.div_ceil(SLOTS_PER_WORD) as usize <= words,
            "slot {} is past the end of a set of {words} words",
            range.end
        );
        // SAFETY: the set has bits for the range, and the list has room for it, as asserted.
        unsafe { self.launch(stream, stream.input(bits), range)? };
        Ok(stream.download(&self.count)?[0])
    }

    /// Queues the launch of [`Self::list`].
    ///
    /// # Safety
    /// The set has bits for the range, which begins at a word, and the list has room for the slots that are in the set
    /// and states for all its tiles.
    unsafe fn launch(&mut self, stream: &S, bits: DevicePtr<u32>, range: Range<u32>) -> Result<(), S::Error> {
        let Self { slots, count, tiles } = self;
        let len = range.end - range.start;
        tiles.launch(stream, select_tiles(len), |look_back| {
            let args = ListSlotsArgs {
                bits: bits.add((range.start / SLOTS_PER_WORD) as usize),
                slots: stream.output(slots),
                count: stream.output(count),
                look_back,
                first: range.start,
                len,
            };
            // SAFETY: upheld by the caller; the round is of all tiles.
            unsafe { stream.launch(&ListSlots, args) }
        })
    }

    /// Queues a launch that lists the `count` slots of a whole set, which are known to be as many. Returns the list,
    /// complete in the order of the stream.
    ///
    /// # Errors
    /// Of the device.
    ///
    /// # Safety
    /// The set has `count` slots. If another stream allocated it, it is written already, and lives until the launch is
    /// complete.
    pub unsafe fn list_all(
        stream: &S,
        bits: &S::Buffer<u32>,
        count: usize,
    ) -> Result<S::Buffer<u32>, S::Error> {
        let slots = bits.len() as u32 * SLOTS_PER_WORD;
        let tiles = LookBackStates::allocate(stream, select_tiles(slots) as usize, 1)?;
        let mut list = Self { slots: stream.allocate(count)?, count: stream.allocate(1)?, tiles };
        // SAFETY: the range is the whole set, and the caller promises that the list has room.
        unsafe { list.launch(stream, bits.input(), 0..slots)? };
        Ok(list.slots)
    }
}
