//! Tiles of the matrices that are multiplied: vectors in shared memory, and how they get there.

use cuda_std::prelude::*;

use super::product::Product as _;
use super::score::{Score, Sum};
use super::{DEPTH, SCAN_THREADS, TILE};
use crate::DevicePtr;
use crate::element::{DeviceElement, Packed};

/// Units of a tile that one thread loads if a unit takes four words; half as many if it takes eight.
const MAX_UNITS_PER_THREAD: usize = (TILE * DEPTH / 4 / SCAN_THREADS) as usize;

/// The units that one thread loads for a tile, of the same vectors each time.
pub(super) type ThreadUnits = [[u32; 4]; MAX_UNITS_PER_THREAD];

/// Units of a vector that a tile holds.
#[inline(always)]
pub(super) const fn units<S: Score>() -> u32 {
    DEPTH / S::Product::UNIT_WORDS as u32
}

/// Number of units that one thread loads.
#[inline(always)]
const fn units_per_thread<S: Score>() -> usize {
    MAX_UNITS_PER_THREAD * 4 / S::Product::UNIT_WORDS
}

/// Unit `i` of this thread: the index of its vector in the tile, and its index in that vector. Adjacent lanes have
/// adjacent units.
#[inline(always)]
fn unit_of_thread<S: Score>(i: usize) -> (u32, u32) {
    let index = thread::thread_idx_x() + i as u32 * SCAN_THREADS;
    (index / units::<S>(), index % units::<S>())
}

/// Vectors in global memory, each `row_bytes` bytes.
#[derive(Clone, Copy)]
pub(super) struct Vectors {
    pub(super) address: DevicePtr<u8>,
    pub(super) len: u32,
    pub(super) row_bytes: u32,
}

impl Vectors {
    /// Loads this thread's units of the tile that begins at vector `first` and unit `unit`. Vectors past the last are
    /// copies of it, units past the end are zero.
    ///
    /// # Safety
    /// There are `len` vectors, at least one.
    #[inline(always)]
    pub(super) unsafe fn fetch<S: Score>(self, first: u32, unit: u32) -> ThreadUnits {
        let mut fetched = [[0; 4]; MAX_UNITS_PER_THREAD];
        for i in 0..units_per_thread::<S>() {
            let (vector, within) = unit_of_thread::<S>(i);
            let vector = (first + vector).min(self.len - 1);
            let at = (unit + within) * 16;
            // Past the end, the last unit is loaded, so that the load needs no branch.
            let inside = at.min(self.row_bytes - 16);
            let offset = vector as usize * self.row_bytes as usize + inside as usize;
            // SAFETY: the vector is below `len`, the unit inside of it.
            let words = unsafe { global::load_readonly(self.address.at(offset).cast()) };
            fetched[i] = if at == inside { words } else { [0; 4] };
        }
        fetched
    }
}

/// Stores the units of this thread in a tile.
///
/// # Safety
/// The block is done reading the tile.
#[inline(always)]
pub(super) unsafe fn put<S: Score>(tile: Shared<u32>, fetched: ThreadUnits) {
    for i in 0..units_per_thread::<S>() {
        let (vector, unit) = unit_of_thread::<S>(i);
        // SAFETY: vector < TILE, the unit is one that a tile holds, and no other thread has it.
        unsafe { S::Product::put(tile, vector, unit, fetched[i]) };
    }
}

/// Adds the squares of the units of this thread to the squared norms of its vectors; `is_first` says that these are
/// their first units. Called by the whole block.
///
/// # Safety
/// `lengths` has a place for each vector of a tile, and the block is done reading it.
#[inline(always)]
pub(super) unsafe fn add_squares<S: Score>(lengths: Shared<Sum<S>>, fetched: ThreadUnits, is_first: bool) {
    for i in 0..units_per_thread::<S>() {
        let (vector, unit) = unit_of_thread::<S>(i);
        // SAFETY: the whole warp comes here; vector < TILE, and its place belongs to one lane, the same every time.
        unsafe {
            let mut square =
                if unit == 0 && !is_first { lengths.add(vector).load() } else { S::Element::ZERO };
            let words = S::Element::unpack(fetched[i]);
            for w in 0..S::Element::UNPACKED {
                square = <S::Element as DeviceElement>::Unpacked::product(square, words[w], words[w]);
            }
            square = warp::sum(square, units::<S>());
            if unit == 0 {
                lengths.add(vector).store(square);
            }
        }
    }
}
