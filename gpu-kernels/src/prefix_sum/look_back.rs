//! Decoupled look-back (Merrill and Garland, 2016): computes the sum of all tiles before a tile, in one launch.
//!
//! ```text
//! sum_before(tile):
//!     publish aggregate(tile)                        the sum of the tile alone; of tile 0, this is its prefix
//!     before <- 0
//!     for other in tile - 1, tile - 2, ...:
//!         wait until other has published
//!         before <- before + its sum
//!         stop if that was a prefix                  it includes all tiles before other
//!     publish prefix(tile) = before + aggregate(tile)
//! ```
//!
//! Deviations made for speed, and why they are right:
//!
//! 1. *Sum and status share one 64-bit word*, so no fence is needed: a thread that sees the status sees the sum.
//! 2. *Tiles are numbered in the order in which their blocks start*, by a ticket. A block therefore waits only for
//!    blocks that are already running, so the wait ends, whatever order the device starts blocks in.
//! 3. *Statuses are stamps that grow from launch to launch*, so the words are not cleared between launches.
//! 4. *Several tiles are read at once*: 4 by one thread, or 32 by a warp. The loads overlap. Words of tiles before the
//!    nearest prefix are ignored.

use cuda_std::prelude::*;

use super::LookBack;
use crate::WARP_SIZE;

/// Earlier tiles that a thread reads at once: each read is a round trip to the L2 cache, and these overlap.
const WINDOW: usize = 4;
/// Nanoseconds to sleep before reading a pending tile again.
const PAUSE: u32 = 20;

/// The status words of one column: a launch may sum several values per tile.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    first: *mut u64,
    stride: usize,
    stamp: u32,
}

/// The status of a tile.
enum Status {
    /// Nothing published yet.
    Pending,
    Aggregate(u32),
    Prefix(u32),
}

impl LookBack {
    /// Column `column` of `columns`.
    #[inline(always)]
    pub(crate) fn column(&self, column: u32, columns: u32) -> Column {
        Column { first: self.words.at(column as usize), stride: columns as usize, stamp: self.stamp }
    }

    /// The sum of all tiles before `tile`, whose own sum is `sum`, with one column per tile. Called by the whole block,
    /// with a barrier.
    ///
    /// # Safety
    /// `slot` is a word of shared memory that nothing else uses.
    #[inline(always)]
    pub(crate) unsafe fn sum_before(&self, tile: u32, sum: u32, slot: Shared<u32>) -> u32 {
        let column = self.column(0, 1);
        // SAFETY: one lane publishes and writes the slot, the others read it after the barrier; a tile publishes its
        // aggregate before it waits for any other.
        unsafe {
            if thread::thread_idx_x() < WARP_SIZE {
                if warp::lane_id() == 0 {
                    column.publish_aggregate(tile, sum);
                }
                let before = column.sum_before_by_warp(tile);
                if warp::lane_id() == 0 {
                    column.publish_prefix(tile, before.wrapping_add(sum));
                    slot.store(before);
                }
            }
            thread::sync_threads();
            slot.load()
        }
    }
}

impl Column {
    /// Publishes the sum of the tile alone. Called by one thread.
    ///
    /// # Safety
    /// The words have room for the tile. In each launch one thread publishes it, its aggregate first.
    #[inline(always)]
    pub(crate) unsafe fn publish_aggregate(self, tile: u32, sum: u32) {
        // No tile comes before tile 0, so its aggregate is its prefix.
        let stamp = if tile == 0 { self.stamp + 2 } else { self.stamp + 1 };
        // SAFETY: upheld by the caller.
        unsafe { self.publish(tile, stamp, sum) }
    }

    /// Publishes the sum of the tile and all tiles before it. Called by one thread.
    ///
    /// # Safety
    /// The same as for [`publish_aggregate`](Self::publish_aggregate).
    #[inline(always)]
    pub(crate) unsafe fn publish_prefix(self, tile: u32, sum: u32) {
        // SAFETY: upheld by the caller.
        unsafe { self.publish(tile, self.stamp + 2, sum) }
    }

    /// The sum of all tiles before `tile`. Called by one thread.
    ///
    /// # Safety
    /// Every earlier tile publishes its aggregate in this launch, without waiting for this thread.
    #[inline(always)]
    pub(crate) unsafe fn sum_before(self, tile: u32) -> u32 {
        let mut sum = 0u32;
        // The number of tiles to add.
        let mut remaining = tile;
        while remaining > 0 {
            let mut words = [0; WINDOW];
            for (back, word) in words.iter_mut().enumerate() {
                // SAFETY: the word is that of an earlier tile.
                *word = unsafe { global::load_relaxed(self.word(remaining.saturating_sub(1 + back as u32))) };
            }
            let mut pending = false;
            // No early exit: the loop is unrolled, and the words stay in registers.
            for word in &words {
                if remaining > 0 && !pending {
                    match self.read(*word) {
                        Status::Pending => pending = true,
                        Status::Aggregate(value) => {
                            sum = sum.wrapping_add(value);
                            remaining -= 1;
                        }
                        Status::Prefix(value) => {
                            sum = sum.wrapping_add(value);
                            remaining = 0;
                        }
                    }
                }
            }
            if pending {
                thread::nanosleep(PAUSE);
            }
        }
        sum
    }

    /// The sum of all tiles before `tile`. Lane `l` reads the `l`-th tile before `tile - 1`. Called by the whole warp.
    ///
    /// # Safety
    /// The same as for [`sum_before`](Self::sum_before); all 32 lanes of the warp call this together.
    #[inline(always)]
    pub(crate) unsafe fn sum_before_by_warp(self, tile: u32) -> u32 {
        let lane = warp::lane_id();
        let mut sum = 0u32;
        // The number of tiles to add.
        let mut remaining = tile;
        while remaining > 0 {
            // SAFETY: the word is that of an earlier tile; all lanes see the same ballots, so the warp stays converged.
            unsafe {
                let status = self.read(global::load_relaxed(self.word(remaining.saturating_sub(1 + lane))));
                let prefixes = warp::ballot(matches!(status, Status::Prefix(_)));
                let pending = warp::ballot(matches!(status, Status::Pending));
                // The lanes up to the nearest prefix; all if there is none.
                let needed = prefixes ^ prefixes.wrapping_sub(1);
                if pending & needed != 0 {
                    thread::nanosleep(PAUSE);
                    continue;
                }
                let value = match status {
                    Status::Aggregate(value) | Status::Prefix(value) if needed >> lane & 1 == 1 => value,
                    _ => 0,
                };
                sum = sum.wrapping_add(warp::reduce_add(value));
                if prefixes != 0 {
                    break;
                }
            }
            remaining -= WARP_SIZE;
        }
        sum
    }

    #[inline(always)]
    fn word(self, tile: u32) -> *mut u64 {
        self.first.wrapping_add(tile as usize * self.stride)
    }

    #[inline(always)]
    fn read(self, word: u64) -> Status {
        let (stamp, value) = ((word >> 32) as u32, word as u32);
        if stamp <= self.stamp {
            Status::Pending
        } else if stamp == self.stamp + 1 {
            Status::Aggregate(value)
        } else {
            Status::Prefix(value)
        }
    }

    /// # Safety
    /// The words have room for the tile.
    #[inline(always)]
    unsafe fn publish(self, tile: u32, stamp: u32, sum: u32) {
        // SAFETY: upheld by the caller.
        unsafe { atomic::exchange(self.word(tile), u64::from(stamp) << 32 | u64::from(sum)) };
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::emulator::Emulator;

    use super::*;
    use crate::DevicePtrMut;

    /// The greatest stamp of earlier launches.
    const STAMP: u32 = 6;

    /// The sum before `tile` in each lane, if tile `prefix` has published a prefix and those after it aggregates.
    fn find(prefix: u32, tile: u32, walk: unsafe fn(Column, u32) -> u32) -> Vec<u32> {
        let stamp = |other: u32| match other.cmp(&prefix) {
            std::cmp::Ordering::Less => STAMP,
            std::cmp::Ordering::Equal => STAMP + 2,
            std::cmp::Ordering::Greater => STAMP + 1,
        };
        // The other column is not read.
        let words: Vec<u64> =
            (0..tile).flat_map(|other| [0, u64::from(stamp(other)) << 32 | u64::from(other + 1)]).collect();
        let emulator = Emulator::new(u64::from(prefix));
        let words = emulator.upload("words", &words);
        let found = emulator.allocate::<u32>("found", 32);
        let tickets = DevicePtrMut::new(std::ptr::null_mut());
        let look_back = LookBack {
            words: DevicePtrMut::new(words.as_mut_ptr()),
            tickets,
            first_ticket: 0,
            stamp: STAMP,
            tiles: tile,
        };
        // SAFETY: the words are those of `tile` tiles of two columns, and there is room for an sum per lane.
        let kernel = || unsafe {
            let sum = walk(look_back.column(1, 2), tile);
            global::store(found.as_mut_ptr().add(warp::lane_id() as usize), sum);
        };
        emulator.launch("look_back", (1, 1), 32, 0, kernel).unwrap();
        found.read().unwrap()
    }

    #[test]
    fn aggregates_are_added_back_to_the_nearest_prefix() {
        for tile in [1, 4, 5, 32, 33, 64, 65, 100] {
            for prefix in [0, 1, 27, 31, 32, 36, 67, 99].into_iter().filter(|prefix| *prefix < tile) {
                let expected = vec![(prefix + 1..=tile).sum::<u32>(); 32];
                assert_eq!(find(prefix, tile, Column::sum_before), expected, "{prefix} of {tile}");
                assert_eq!(find(prefix, tile, Column::sum_before_by_warp), expected, "{prefix} of {tile}");
            }
        }
    }
}
