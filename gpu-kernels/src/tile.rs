//! Tiles: 1 to 32 neighbouring lanes that share a row, each reading every so many of its units.
//!
//! Arrays stand for registers: loops over them go by index, and are unrolled whole.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use core::marker::PhantomData;

use cuda_std::prelude::*;

use crate::In;
use crate::coordinates::{Coordinates, Term};
use crate::search::shape::stays_in_registers;

/// How a row is cut into *units*, each one load of one lane.
pub(crate) trait Read<E: Coordinates>: 'static {
    /// Bytes of a unit.
    const BYTES: u32;
    /// A unit in registers.
    type Unit: cuda_std::Value;
    /// One that adds nothing.
    const ZERO: Self::Unit;

    /// A unit of a row.
    ///
    /// # Safety
    /// `p` leads to a unit in global memory that nobody writes meanwhile.
    unsafe fn row(p: *const u8) -> Self::Unit;

    /// A unit of a query, which other rows need as well.
    ///
    /// # Safety
    /// As for [`Self::row`].
    unsafe fn query(p: *const u8) -> Self::Unit;

    /// A unit of a query that was copied to shared memory.
    ///
    /// # Safety
    /// `at` leads to a unit that nobody writes meanwhile.
    unsafe fn shared(at: Shared<u8>) -> Self::Unit;

    /// `sum` and what a unit of the query and one of a row add to it.
    fn add<T: Term>(sum: E::Sum, query: Self::Unit, row: Self::Unit) -> E::Sum;
}

/// One coordinate a unit.
pub(crate) struct Tiled;
/// Sixteen bytes a unit.
pub(crate) struct Chunked;
/// Sixteen bytes a unit, which will not be needed again soon.
pub(crate) struct Streamed;

impl<E: Coordinates> Read<E> for Tiled {
    const BYTES: u32 = E::BYTES;
    type Unit = u32;
    const ZERO: u32 = 0;

    #[inline(always)]
    unsafe fn row(p: *const u8) -> u32 {
        // SAFETY: the caller's promise; rows begin at multiples of 16 bytes, so units lie at multiples of their size.
        unsafe {
            match E::BYTES {
                4 => global::load_readonly(p.cast::<u32>()),
                2 => global::load_readonly(p.cast::<u16>()).into(),
                _ => global::load_readonly(p).into(),
            }
        }
    }

    #[inline(always)]
    unsafe fn query(p: *const u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { <Self as Read<E>>::row(p) }
    }

    #[inline(always)]
    unsafe fn shared(at: Shared<u8>) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            match E::BYTES {
                4 => at.cast::<u32>().load(),
                2 => at.cast::<u16>().load().into(),
                _ => at.load().into(),
            }
        }
    }

    #[inline(always)]
    fn add<T: Term>(sum: E::Sum, query: u32, row: u32) -> E::Sum {
        T::add::<E>(sum, query, row)
    }
}

macro_rules! chunks {
    ($($read:ident: $load:path;)*) => { $(
        impl<E: Coordinates> Read<E> for $read {
            const BYTES: u32 = 16;
            type Unit = [u32; 4];
            const ZERO: [u32; 4] = [0; 4];

            #[inline(always)]
            unsafe fn row(p: *const u8) -> [u32; 4] {
                // SAFETY: the caller's promise; rows begin at multiples of 16 bytes, and so do their chunks.
                unsafe { $load(p.cast()) }
            }

            #[inline(always)]
            unsafe fn query(p: *const u8) -> [u32; 4] {
                // SAFETY: the caller's promise; queries lie like rows.
                unsafe { global::load_readonly(p.cast()) }
            }

            #[inline(always)]
            unsafe fn shared(at: Shared<u8>) -> [u32; 4] {
                // SAFETY: the caller's promise.
                unsafe { at.cast().load() }
            }

            #[inline(always)]
            fn add<T: Term>(mut sum: E::Sum, query: [u32; 4], row: [u32; 4]) -> E::Sum {
                for word in 0..4 {
                    sum = T::add::<E>(sum, query[word], row[word]);
                }
                sum
            }
        }
    )* };
}
chunks! {
    Chunked: global::load_readonly;
    Streamed: global::load_streaming;
}

/// A tile of `WIDTH` lanes a row, with `STEPS` steps of each of `ROWS` rows in flight. A *step* reads one unit in each
/// lane of a tile. `UNITS` is the length of a row in units, 0 if it is known only when running.
pub(crate) struct Tile<E, T, R, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize> {
    units: u32,
    strategy: PhantomData<(E, T, R)>,
}

impl<E, T, R, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize>
    Tile<E, T, R, WIDTH, UNITS, STEPS, ROWS>
where
    E: Coordinates,
    T: Term,
    R: Read<E>,
{
    /// Whether a row is one round of steps: its query can stay in registers.
    pub(crate) const ONE_ROUND: bool = UNITS != 0 && UNITS.div_ceil(WIDTH) as usize == STEPS;

    /// Whether the row that others are compared with stays in registers.
    pub(crate) const KEEPS: bool = stays_in_registers(UNITS, WIDTH, STEPS);

    /// This lane's units of a row that stays in registers; zeros of any other.
    ///
    /// # Safety
    /// The row is that long, at a multiple of 16 in global memory that nobody writes meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn kept(&self, row: In<u8>) -> [R::Unit; STEPS] {
        let mut own = [R::ZERO; STEPS];
        if Self::KEEPS {
            for s in 0..STEPS {
                let at = self.offset(s as u32) as usize;
                // SAFETY: within the row.
                own[s] = self.keep(unsafe { R::query(row.at(at)) }, s as u32);
            }
        }
        own
    }

    /// Tiles for rows of `row_bytes`, which are those of `UNITS` if it says them.
    #[inline(always)]
    pub(crate) fn new(row_bytes: u32) -> Self {
        // Rounds of a known number would be unrolled, and their loads not fit the registers.
        let units = if Self::ONE_ROUND { UNITS } else { row_bytes / R::BYTES };
        Self { units, strategy: PhantomData }
    }

    /// Bytes from row to row.
    #[inline(always)]
    pub(crate) fn row_bytes(&self) -> usize {
        (self.units * R::BYTES) as usize
    }

    /// This lane's number in its tile.
    #[inline(always)]
    pub(crate) fn lane() -> u32 {
        warp::lane_id() % WIDTH
    }

    /// Where this lane's unit of a step begins. In the last steps it may be another lane's, which [`Self::keep`] drops.
    #[inline(always)]
    pub(crate) fn offset(&self, step: u32) -> u32 {
        let unit = step * WIDTH + Self::lane();
        let unit = if Self::always_inside() { unit } else { unit.min(self.units - 1) };
        unit * R::BYTES
    }

    /// The unit, if the row has one for this lane in this step.
    #[inline(always)]
    pub(crate) fn keep(&self, unit: R::Unit, step: u32) -> R::Unit {
        let inside = Self::always_inside() || step * WIDTH + Self::lane() < self.units;
        if inside { unit } else { R::ZERO }
    }

    const fn always_inside() -> bool {
        UNITS != 0 && UNITS.is_multiple_of(WIDTH * STEPS as u32)
    }

    /// What a query and some rows add up to. `query` gives this lane's units of the query, those behind its end kept
    /// zero. The bits of a sum depend on the width of the tile and the kind of unit alone. Whole warp; every lane of a
    /// tile has its sums.
    ///
    /// # Safety
    /// The rows are that long, at multiples of 16 in global memory that nobody writes meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn sums(&self, rows: [In<u8>; ROWS], query: impl Fn(u32) -> R::Unit) -> [E::Sum; ROWS] {
        let mut sums = [E::ZERO; ROWS];
        let mut step = 0;
        while step * WIDTH < self.units {
            let mut read = [[R::ZERO; STEPS]; ROWS];
            for r in 0..ROWS {
                for s in 0..STEPS {
                    // SAFETY: the caller's promise; units end where the row does.
                    read[r][s] = unsafe { R::row(rows[r].at(self.offset(step + s as u32) as usize)) };
                }
            }
            for s in 0..STEPS {
                let wanted = query(step + s as u32);
                for r in 0..ROWS {
                    // Rows may be anything behind their end; zeros of the query do not undo differences.
                    sums[r] = R::add::<T>(sums[r], wanted, self.keep(read[r][s], step + s as u32));
                }
            }
            step += STEPS as u32;
            if Self::ONE_ROUND {
                break;
            }
        }
        for r in 0..ROWS {
            // SAFETY: the whole warp comes here; tiles are whole segments of it.
            sums[r] = unsafe { warp::warp_sum(warp::FULL_MASK, sums[r], WIDTH) };
        }
        sums
    }
}
