//! Estimates from codes of any shape: a tile of lanes reads a code, 16 bytes per lane, with two codes in flight.
//!
//! The levels of the query, its coordinates rounded to integers, are in shared memory in the order of use: plane by
//! plane, within a plane by position, and within a position by unit of the code, so that neighboring lanes read
//! neighboring words. A unit on the border of two planes is read for both; levels that a plane does not have are zero.

use cuda_std::prelude::*;

use super::super::QuantizedSearchArgs;
use super::super::quantized::tile_per_row_query_bytes;
use super::estimate::{QueryFactors, RowFactors, add, mask};
use super::{DistanceComputer, query_row};
use crate::DevicePtr;
use crate::WARP_SIZE;
use crate::codes::{CodeArgs, CodeShape, PlaneShape};
use crate::collectives::strided;
use crate::neighbor::{NO_ENTRY, entry};

/// Rows that a tile has in flight.
const ROWS: usize = 2;
/// Words of a unit.
const UNIT_WORDS: u32 = 4;

/// Estimates by tiles of `WIDTH` lanes.
pub(in crate::search) struct TilePerRow<const WIDTH: u32> {
    rows: DevicePtr<u32>,
    query: Shared<u32>,
    query_factors: QueryFactors,
    level_bytes: u32,
    shape: CodeShape,
}

impl<const WIDTH: u32> DistanceComputer for TilePerRow<WIDTH> {
    type Args = QuantizedSearchArgs;
    type Fetched = ();

    #[inline(always)]
    fn query_bytes(args: &QuantizedSearchArgs) -> u32 {
        tile_per_row_query_bytes(&args.codes)
    }

    #[inline(always)]
    unsafe fn new(
        args: &QuantizedSearchArgs,
        query: u32,
        memory: Shared<u8>,
        thread: u32,
        threads: u32,
    ) -> Self {
        let CodeArgs { rows, levels, query_factors, level_bytes, ref shape } = args.codes;
        let placed = memory.cast();
        // SAFETY: reads are within the query, and the launch configuration has room for the levels of all planes.
        unsafe {
            let row = query_row(&args.search, query);
            let words = (shape.dimensions / 4) as usize;
            for byte in 0..level_bytes {
                let levels = levels.add((row * level_bytes as usize + byte as usize) * words);
                let to = placed.add(byte * shape.levels_words());
                let to = place(&shape.eight, 8, levels, to, thread, threads);
                let to = place(&shape.four, 4, levels, to, thread, threads);
                let to = place(&shape.two, 2, levels, to, thread, threads);
                place(&shape.one, 1, levels, to, thread, threads);
            }
            Self {
                rows,
                query: placed,
                query_factors: QueryFactors::read(query_factors, row),
                level_bytes,
                shape: *shape,
            }
        }
    }

    #[inline(always)]
    unsafe fn fetch(&self, _: Shared<u32>, _: u32) {}

    #[inline(always)]
    unsafe fn entries(&self, (): (), slots: Shared<u32>, count: u32) -> u64 {
        let (tile, lane_in_tile) = (warp::lane_id() / WIDTH, warp::lane_id() % WIDTH);
        // With T tiles, tile t takes slots t, t + T, t + 2 T, and so on. Lane i of a tile keeps the sum of the tile's
        // i-th slot.
        let place = lane_in_tile * Self::TILES + tile;
        // SAFETY: slots name rows; the warp is converged at every sum.
        unsafe {
            let slot = slots.add(place.min(count - 1)).load();
            let last = self.rows.add((slot as usize + 1) * self.shape.words as usize - 2);
            let last: [u32; 2] = global::load_readonly(last.cast().at(0));
            let mut product = 0.0;
            for byte in 0..self.level_bytes {
                product += self.query_factors.product(byte, self.sum(byte, slots, count));
            }
            let factors = RowFactors::from_words(last, self.shape.factors_len);
            if place < count { entry(self.query_factors.estimate(factors, product), slot) } else { NO_ENTRY }
        }
    }
}

impl<const WIDTH: u32> TilePerRow<WIDTH> {
    /// Rows that a warp loads at once: the number of tiles.
    const TILES: u32 = WARP_SIZE / WIDTH;

    /// The product of one byte of the query's levels with the levels of this lane's row.
    ///
    /// # Safety
    /// The same as for [`DistanceComputer::entries`]; a barrier has passed since the query was read.
    #[inline(always)]
    unsafe fn sum(&self, byte: u32, slots: Shared<u32>, count: u32) -> i32 {
        let (tile, lane_in_tile) = (warp::lane_id() / WIDTH, warp::lane_id() % WIDTH);
        let (mut sum, mut first) = (0, 0);
        while first * Self::TILES < count {
            // SAFETY: slots name rows; the query has levels of that byte; the warp is converged at every sum.
            unsafe {
                let mut rows = [self.rows; ROWS];
                for r in 0..ROWS {
                    let place = (first + r as u32) * Self::TILES + tile;
                    let slot = slots.add(place.min(count - 1)).load();
                    rows[r] = self.rows.add(slot as usize * self.shape.words as usize);
                }
                let CodeShape { eight, four, two, one, .. } = &self.shape;
                let mut sums = [0; ROWS];
                let levels = self.query.add(byte * self.shape.levels_words());
                add_plane::<WIDTH, 8>(&mut sums, eight, levels, rows);
                let levels = levels.add(eight.levels_words(8));
                add_plane::<WIDTH, 4>(&mut sums, four, levels, rows);
                let levels = levels.add(four.levels_words(4));
                add_plane::<WIDTH, 2>(&mut sums, two, levels, rows);
                let levels = levels.add(two.levels_words(2));
                add_plane::<WIDTH, 1>(&mut sums, one, levels, rows);
                for r in 0..ROWS {
                    let all = warp::sum(sums[r], WIDTH);
                    if lane_in_tile == first + r as u32 {
                        sum = all;
                    }
                }
            }
            first += ROWS as u32;
        }
        sum
    }
}

/// Writes the levels of a plane of `bits` to `to`, in the order described at the top of this module. Returns their end.
///
/// # Safety
/// `levels` are those of a query, and there is room for those of the plane.
#[inline(always)]
unsafe fn place(
    plane: &PlaneShape,
    bits: u32,
    levels: DevicePtr<u32>,
    to: Shared<u32>,
    thread: u32,
    threads: u32,
) -> Shared<u32> {
    let positions = 8 / bits;
    let levels = levels.add(plane.first_dimension as usize / 4);
    let units = plane.units(bits);
    strided(thread, plane.levels_words(bits), threads, |at| {
        let (position, inside) = (at / (UNIT_WORDS * units), at % (UNIT_WORDS * units));
        // The word within the plane. The subtraction wraps for words before the first, so they count as past the last.
        let word = (plane.first_unit() * UNIT_WORDS + inside).wrapping_sub(plane.first_word);
        // SAFETY: the levels are those of a word of the plane.
        unsafe {
            let four = if word < plane.words(bits) {
                global::load_readonly(levels.at((word * positions + position) as usize))
            } else {
                0
            };
            to.add(at).store(four);
        }
    });
    to.add(plane.levels_words(bits))
}

/// Adds the products of a plane of `BITS` with its levels to `totals`: this lane's share of some rows.
///
/// # Safety
/// The plane belongs to the shape of the rows, which are not written during the launch; a barrier has passed since the
/// levels were placed.
#[inline(always)]
unsafe fn add_plane<const WIDTH: u32, const BITS: u32>(
    totals: &mut [i32; ROWS],
    plane: &PlaneShape,
    levels: Shared<u32>,
    rows: [DevicePtr<u32>; ROWS],
) {
    let positions = 8 / BITS as usize;
    let units = plane.units(BITS);
    let mut sums = [[0; 8]; ROWS];
    let mut unit = warp::lane_id() % WIDTH;
    while unit < units {
        // SAFETY: the units are those of the plane, and have levels.
        unsafe {
            let at = ((plane.first_unit() + unit) * UNIT_WORDS) as usize;
            let mut read = [[0_u32; 4]; ROWS];
            for r in 0..ROWS {
                read[r] = global::load_readonly(rows[r].add(at).cast().at(0));
            }
            let query_levels = |j: u32| levels.add((j * units + unit) * UNIT_WORDS).cast().load();
            add_position::<BITS, 0>(&mut sums, &read, query_levels(0));
            if positions > 1 {
                add_position::<BITS, 1>(&mut sums, &read, query_levels(1));
            }
            if positions > 2 {
                add_position::<BITS, 2>(&mut sums, &read, query_levels(2));
                add_position::<BITS, 3>(&mut sums, &read, query_levels(3));
            }
            if positions > 4 {
                add_position::<BITS, 4>(&mut sums, &read, query_levels(4));
                add_position::<BITS, 5>(&mut sums, &read, query_levels(5));
                add_position::<BITS, 6>(&mut sums, &read, query_levels(6));
                add_position::<BITS, 7>(&mut sums, &read, query_levels(7));
            }
        }
        unit += WIDTH;
    }
    for r in 0..ROWS {
        for j in 0..positions {
            // The shift is exact, because the sum is a multiple of that power of two.
            totals[r] += (sums[r][j] >> (BITS * j as u32)) << plane.shift;
        }
    }
}

/// Adds the products of position `POSITION` of the words with its levels. There is one call per position, because a
/// loop over positions would be too long to be unrolled.
#[inline(always)]
fn add_position<const BITS: u32, const POSITION: usize>(
    sums: &mut [[i32; 8]; ROWS],
    read: &[[u32; 4]; ROWS],
    query_levels: [u32; 4],
) {
    // An ordinary shift would not compile in instances that are never called.
    let mask = mask(BITS).wrapping_shl(BITS * POSITION as u32);
    for r in 0..ROWS {
        for w in 0..4 {
            sums[r][POSITION] = add(sums[r][POSITION], read[r][w], mask, query_levels[w]);
        }
    }
}
