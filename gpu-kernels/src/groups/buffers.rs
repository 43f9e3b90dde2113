//! Groups of keys in device memory, and the launch that finds them.

use super::{FindGroups, FindGroupsArgs};
use crate::prefix_sum::{LookBackStates, select_tiles};
use crate::{Buffer, Stream};

/// Runs of equal keys among sorted ones, and the scratch memory to find them.
pub struct Groups<S: Stream> {
    /// `[capacity + 1]`: group `g` is the keys `offsets[g]..offsets[g + 1]`.
    pub offsets: S::Buffer<u32>,
    /// `[1]`: the number of groups.
    pub count: S::Buffer<u32>,
    tiles: LookBackStates<S>,
}

impl<S: Stream> Groups<S> {
    /// Allocates the groups of up to `capacity` keys: [`bytes`](Self::bytes) of device memory.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub fn allocate(stream: &S, capacity: u32) -> Result<Self, S::Error> {
        Ok(Self {
            offsets: stream.allocate(capacity as usize + 1)?,
            count: stream.allocate(1)?,
            tiles: LookBackStates::allocate(stream, select_tiles(capacity) as usize, 1)?,
        })
    }

    /// Bytes of device memory of the groups of up to `capacity` keys: 4 per key.
    pub const fn bytes(capacity: u32) -> u64 {
        (capacity as u64 + 2) * size_of::<u32>() as u64
            + LookBackStates::<S>::bytes(select_tiles(capacity) as usize, 1)
    }

    /// Finds the groups of the first `len` of `keys`, which ascend if the low `shift` bits are ignored. One
    /// asynchronous launch, which reads 8 bytes per key and writes 4 per group.
    ///
    /// # Errors
    /// Returns the device's error.
    ///
    /// # Panics
    /// Panics if there are not `len` keys, or no room for them, or if `shift` leaves nothing of a key.
    pub fn find(&mut self, stream: &S, keys: &S::Buffer<u64>, len: u32, shift: u32) -> Result<(), S::Error> {
        assert!(len as usize <= keys.len(), "the groups of {len} keys are not among {}", keys.len());
        assert!(
            (len as usize) < self.offsets.len(),
            "the groups of {len} keys need more than room for {}",
            self.offsets.len() - 1
        );
        assert!(shift < u64::BITS, "a shift by {shift} leaves nothing of a key; it must be below 64");
        let Self { offsets, count, tiles } = self;
        tiles.launch(stream, select_tiles(len), |look_back| {
            let args = FindGroupsArgs {
                keys: stream.input(keys),
                offsets: stream.output(offsets),
                count: stream.output(count),
                look_back,
                len,
                shift,
            };
            // SAFETY: there are `len` keys and room for `len + 1` offsets, and the look-back covers all tiles.
            unsafe { stream.launch(&FindGroups, args) }
        })
    }
}
