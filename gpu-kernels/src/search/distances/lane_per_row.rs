//! Estimates from short codes: each lane reads a whole code. All loads of 32 codes are in flight at once, and those of
//! the next 32 while the distances of these are computed.
//!
//! Levels of the query, its rounded coordinates, are broadcast from shared memory. The bits of a code are multiplied
//! without being shifted first: sums are kept per position of the bits in a word, and shifted once at the end. The
//! planes of such a code have a [`PlaneShape::shift`](crate::codes::PlaneShape::shift) of 0.

use cuda_std::prelude::*;

use super::super::QuantizedSearchArgs;
use super::super::quantized::lane_per_row_query_bytes;
use super::estimate::{QueryFactors, RowFactors, add, mask};
use super::{DistanceComputer, query_row};
use crate::DevicePtr;
use crate::collectives::strided;
use crate::neighbor::{NO_ENTRY, entry};

/// Estimates from rows of `UNITS` times 16 bytes.
pub(in crate::search) struct LanePerRow<const UNITS: usize> {
    rows: DevicePtr<u32>,
    /// The levels, placed so that those of the planes of 2 and 1 bits begin at a multiple of 16.
    query: Shared<u32>,
    query_factors: QueryFactors,
    /// The first words after the planes of 4, 2 and 1 bits.
    ends: [u32; 3],
    factors_len: u32,
}

impl<const UNITS: usize> DistanceComputer for LanePerRow<UNITS> {
    type Args = QuantizedSearchArgs;
    type Fetched = [[u32; 4]; UNITS];

    #[inline(always)]
    fn query_bytes(args: &QuantizedSearchArgs) -> u32 {
        lane_per_row_query_bytes(&args.codes)
    }

    #[inline(always)]
    unsafe fn new(
        args: &QuantizedSearchArgs,
        query: u32,
        memory: Shared<u8>,
        thread: u32,
        threads: u32,
    ) -> Self {
        let shape = &args.codes.shape;
        let four = shape.four.dimensions / 8;
        let two = four + shape.two.dimensions / 16;
        let one = two + shape.one.dimensions / 32;
        let words = shape.dimensions / 4;
        // A word of 4 bits per dimension takes two words of levels.
        let placed = memory.cast().add(2 * (four % 2));
        // SAFETY: reads are within the query, and the launch configuration has room for it and two words.
        unsafe {
            let row = query_row(&args.search, query);
            let levels = args.codes.levels.add(row * words as usize);
            strided(thread, words, threads, |word| {
                placed.add(word).store(global::load_readonly(levels.at(word as usize)));
            });
            let (rows, factors_len) = (args.codes.rows, shape.factors_len);
            let query_factors = QueryFactors::read(args.codes.query_factors, row);
            Self { rows, query: placed, query_factors, ends: [four, two, one], factors_len }
        }
    }

    #[inline(always)]
    unsafe fn fetch(&self, slots: Shared<u32>, count: u32) -> Self::Fetched {
        // SAFETY: slots name rows, which have the length of the shape.
        unsafe {
            let slot = slots.add(warp::lane_id().min(count - 1)).load();
            let row = self.rows.add(slot as usize * (4 * UNITS)).cast::<[u32; 4]>();
            let mut units = [[0; 4]; UNITS];
            for c in 0..UNITS {
                units[c] = global::load_readonly(row.at(c));
            }
            units
        }
    }

    #[inline(always)]
    unsafe fn entries(&self, fetched: Self::Fetched, slots: Shared<u32>, count: u32) -> u64 {
        let lane = warp::lane_id();
        // SAFETY: upheld by the caller.
        let (sum, slot) = unsafe { (self.sum(fetched), slots.add(lane.min(count - 1)).load()) };
        let last = fetched[UNITS - 1];
        let factors = RowFactors::from_words([last[2], last[3]], self.factors_len);
        let product = 0.0 + self.query_factors.product(0, sum);
        if lane < count { entry(self.query_factors.estimate(factors, product), slot) } else { NO_ENTRY }
    }
}

impl<const UNITS: usize> LanePerRow<UNITS> {
    /// The product of the levels of the query with those of a row.
    ///
    /// # Safety
    /// A barrier has passed since the query was read.
    #[inline(always)]
    unsafe fn sum(&self, row: [[u32; 4]; UNITS]) -> i32 {
        let mut sums = [0; 8];
        let mut query = self.query;
        // The last word of a row holds factors.
        for w in 0..4 * UNITS - 1 {
            let (word, at) = (row[w / 4][w % 4], w as u32);
            // SAFETY: words of planes have levels. Conditions are the same in all lanes.
            unsafe {
                if at < self.ends[0] {
                    let levels: [u32; 2] = query.cast().load();
                    for j in 0..2 {
                        sums[4 * j] = add(sums[4 * j], word, mask(4) << (4 * j), levels[j]);
                    }
                    query = query.add(2);
                } else if at < self.ends[1] {
                    let levels: [u32; 4] = query.cast().load();
                    for j in 0..4 {
                        sums[2 * j] = add(sums[2 * j], word, mask(2) << (2 * j), levels[j]);
                    }
                    query = query.add(4);
                } else if at < self.ends[2] {
                    let levels: [[u32; 4]; 2] = [query.cast().load(), query.add(4).cast().load()];
                    for j in 0..8 {
                        sums[j] = add(sums[j], word, mask(1) << j, levels[j / 4][j % 4]);
                    }
                    query = query.add(8);
                }
            }
        }
        let mut sum = 0;
        for shift in 0..8 {
            // The shift is exact, because the sum is a multiple of that power of two.
            sum += sums[shift] >> shift;
        }
        sum
    }
}
