//! Decoupled look-back (Merrill and Garland, 2016): how a tile learns the sum of all tiles before it, in one launch.
//!
//! A tile publishes its own sum as an *aggregate* as soon as it has it. Then it walks back, adding aggregates, until it
//! meets a *prefix*: a sum that holds all tiles before as well. Now it knows its own prefix, and publishes that. Tile 0
//! publishes a prefix at once.
//!
//! - Sum and stamp share one word, so that no fence is needed: who sees the stamp sees the sum.
//! - Tiles are numbered in the order in which their blocks begin, so whoever is waited for is running, whatever the
//!   order in which a device begins its blocks.

use cuda_std::prelude::*;

use super::Round;

/// Earlier tiles that a thread looks at together: each look is a trip to the L2 cache, and these overlap.
const WINDOW: usize = 4;
/// Nanoseconds to wait before looking again at a tile that has said nothing yet.
const PAUSE: u32 = 20;

/// The sums of one column of the tiles.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    first: *mut u64,
    stride: usize,
    stamp: u32,
}

/// What a tile has published.
enum Sum {
    Nothing,
    Aggregate(u32),
    Prefix(u32),
}

impl Round {
    /// Column `column` of `columns`.
    #[inline(always)]
    pub(crate) fn column(&self, column: u32, columns: u32) -> Column {
        Column { first: self.words.at(column as usize), stride: columns as usize, stamp: self.stamp }
    }

    /// The sum of all tiles before `tile`, whose own sum is `sum`, where a tile has one column. Whole block; a barrier.
    ///
    /// # Safety
    /// `slot` is a word of shared memory that is used for nothing else.
    #[inline(always)]
    pub(crate) unsafe fn sum_before(&self, tile: u32, sum: u32, slot: Shared<u32>) -> u32 {
        let column = self.column(0, 1);
        // SAFETY: one lane publishes and writes the slot, the others read it past the barrier; a tile publishes its
        // aggregate before it waits for any other.
        unsafe {
            if thread::thread_idx_x() < warp::WARP_SIZE {
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
    /// Publishes `sum`, that of the tile alone. One thread.
    ///
    /// # Safety
    /// The words have room for the tile; one thread publishes it in a round, its aggregate first.
    #[inline(always)]
    pub(crate) unsafe fn publish_aggregate(self, tile: u32, sum: u32) {
        // Tile 0 has none before it.
        let stamp = if tile == 0 { self.stamp + 2 } else { self.stamp + 1 };
        // SAFETY: the caller's promise.
        unsafe { self.publish(tile, stamp, sum) }
    }

    /// Publishes `sum`, that of the tile and of all before it. One thread.
    ///
    /// # Safety
    /// As for [`publish_aggregate`](Self::publish_aggregate).
    #[inline(always)]
    pub(crate) unsafe fn publish_prefix(self, tile: u32, sum: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.publish(tile, self.stamp + 2, sum) }
    }

    /// The sum of all tiles before `tile`, found by one thread.
    ///
    /// # Safety
    /// Every earlier tile is published in this round sooner or later, and nothing that it does before that waits for
    /// this thread.
    #[inline(always)]
    pub(crate) unsafe fn sum_before(self, tile: u32) -> u32 {
        let mut sum = 0u32;
        // Tiles that are still to be added.
        let mut rest = tile;
        while rest > 0 {
            let mut words = [0; WINDOW];
            for (back, word) in words.iter_mut().enumerate() {
                // SAFETY: a word of an earlier tile.
                *word = unsafe { global::load_relaxed(self.word(rest.saturating_sub(1 + back as u32))) };
            }
            let mut silent = false;
            // Without a way out, so that the words stay in registers.
            for word in &words {
                if rest > 0 && !silent {
                    match self.read(*word) {
                        Sum::Nothing => silent = true,
                        Sum::Aggregate(value) => {
                            sum = sum.wrapping_add(value);
                            rest -= 1;
                        }
                        Sum::Prefix(value) => {
                            sum = sum.wrapping_add(value);
                            rest = 0;
                        }
                    }
                }
            }
            if silent {
                thread::nanosleep(PAUSE);
            }
        }
        sum
    }

    /// The sum of all tiles before `tile`, found by a whole warp: lane l looks at the tile l places before the last.
    ///
    /// # Safety
    /// As for [`sum_before`](Self::sum_before); called by all lanes of a warp.
    #[inline(always)]
    pub(crate) unsafe fn sum_before_by_warp(self, tile: u32) -> u32 {
        let lane = warp::lane_id();
        let mut sum = 0u32;
        // Tiles that are still to be added.
        let mut rest = tile;
        while rest > 0 {
            // SAFETY: a word of an earlier tile; all lanes take the same turns, as all see the same ballots.
            unsafe {
                let seen = self.read(global::load_relaxed(self.word(rest.saturating_sub(1 + lane))));
                let prefixes = warp::warp_vote_ballot(warp::FULL_MASK, matches!(seen, Sum::Prefix(_)));
                let silent = warp::warp_vote_ballot(warp::FULL_MASK, matches!(seen, Sum::Nothing));
                // The lanes up to the nearest prefix; all, if there is none.
                let needed = prefixes ^ prefixes.wrapping_sub(1);
                if silent & needed != 0 {
                    thread::nanosleep(PAUSE);
                    continue;
                }
                let value = match seen {
                    Sum::Aggregate(value) | Sum::Prefix(value) if needed >> lane & 1 == 1 => value,
                    _ => 0,
                };
                sum = sum.wrapping_add(warp::warp_reduce_add(warp::FULL_MASK, value));
                if prefixes != 0 {
                    break;
                }
            }
            rest -= warp::WARP_SIZE;
        }
        sum
    }

    #[inline(always)]
    fn word(self, tile: u32) -> *mut u64 {
        self.first.wrapping_add(tile as usize * self.stride)
    }

    #[inline(always)]
    fn read(self, word: u64) -> Sum {
        let (stamp, value) = ((word >> 32) as u32, word as u32);
        if stamp <= self.stamp {
            Sum::Nothing
        } else if stamp == self.stamp + 1 {
            Sum::Aggregate(value)
        } else {
            Sum::Prefix(value)
        }
    }

    /// # Safety
    /// The words have room for the tile.
    #[inline(always)]
    unsafe fn publish(self, tile: u32, stamp: u32, sum: u32) {
        // SAFETY: the caller's promise.
        unsafe { atomic::exchange(self.word(tile), u64::from(stamp) << 32 | u64::from(sum)) };
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::emulator::Emulator;

    use super::*;
    use crate::DevicePtrMut;

    /// Up to this stamp words are of earlier rounds.
    const STAMP: u32 = 6;

    /// What a warp finds before `tile` where tile `prefix` has published a prefix, and those after it aggregates.
    fn find(prefix: u32, tile: u32, walk: unsafe fn(Column, u32) -> u32) -> Vec<u32> {
        let stamp = |other: u32| match other.cmp(&prefix) {
            std::cmp::Ordering::Less => STAMP,
            std::cmp::Ordering::Equal => STAMP + 2,
            std::cmp::Ordering::Greater => STAMP + 1,
        };
        // The column beside is of no concern.
        let words: Vec<u64> =
            (0..tile).flat_map(|other| [0, u64::from(stamp(other)) << 32 | u64::from(other + 1)]).collect();
        let emulator = Emulator::new(u64::from(prefix));
        let words = emulator.upload("words", &words);
        let found = emulator.allocate::<u32>("found", 32);
        let tickets = DevicePtrMut::new(std::ptr::null_mut());
        let round = Round {
            words: DevicePtrMut::new(words.as_mut_ptr()),
            tickets,
            first_ticket: 0,
            stamp: STAMP,
            tiles: tile,
        };
        // SAFETY: the words are those of `tile` tiles of two columns, and there is room for an answer a lane.
        let kernel = || unsafe {
            let sum = walk(round.column(1, 2), tile);
            global::store(found.as_mut_ptr().add(warp::lane_id() as usize), sum);
        };
        emulator.launch("look_back", (1, 1), 32, 0, kernel).unwrap();
        found.read().unwrap()
    }

    #[test]
    fn aggregates_are_added_back_to_the_nearest_prefix() {
        for tile in [1, 4, 5, 32, 33, 64, 65, 100] {
            for prefix in [0, 1, 27, 31, 32, 36, 67, 99].into_iter().filter(|prefix| *prefix < tile) {
                let expected = vec![(prefix + 1..=tile).sum(); 32];
                assert_eq!(find(prefix, tile, Column::sum_before), expected, "{prefix} of {tile}");
                assert_eq!(find(prefix, tile, Column::sum_before_by_warp), expected, "{prefix} of {tile}");
            }
        }
    }
}
