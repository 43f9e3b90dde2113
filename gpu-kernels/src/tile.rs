//! Tiles: 4 to 32 neighboring lanes that share a row. A row is a sequence of *units* of 16 bytes, which the lanes of a
//! tile read in turn.
//!
//! Arrays stand for registers: loops over them use indices, and are fully unrolled.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use core::marker::PhantomData;

use cuda_std::prelude::*;

use crate::DevicePtr;
use crate::coordinates::{Coordinates, Term};
use crate::search::shape::stays_in_registers;

/// Bytes of a unit, which one lane reads with one load.
const UNIT_BYTES: u32 = 16;
/// A unit in registers.
pub(crate) type Unit = [u32; 4];
/// A unit that adds nothing.
const ZERO: Unit = [0; 4];

/// Loads a unit.
///
/// # Safety
/// `p` points to a unit in global memory that is not written during the launch.
#[inline(always)]
pub(crate) unsafe fn load_unit(p: *const u8) -> Unit {
    // SAFETY: the caller's promise; rows begin at multiples of 16 bytes, and so do their units.
    unsafe { global::load_readonly(p.cast()) }
}

/// A tile of `WIDTH` lanes a row, with `STEPS` steps of each of `ROWS` rows in flight. A *step* reads one unit in each
/// lane of a tile. `UNITS` is the length of a row in units, 0 if it is known only when running.
pub(crate) struct Tile<E, T, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize> {
    units: u32,
    strategy: PhantomData<(E, T)>,
}

impl<E, T, const WIDTH: u32, const UNITS: u32, const STEPS: usize, const ROWS: usize>
    Tile<E, T, WIDTH, UNITS, STEPS, ROWS>
where
    E: Coordinates,
    T: Term,
{
    /// Whether a row is read in one round of steps.
    pub(crate) const ONE_ROUND: bool = UNITS != 0 && UNITS.div_ceil(WIDTH) as usize == STEPS;

    /// Whether the query, the row that others are compared with, stays in registers.
    pub(crate) const IN_REGISTERS: bool = stays_in_registers(UNITS, WIDTH, STEPS);

    /// This lane's units of the query if it stays in registers, else zeros.
    ///
    /// # Safety
    /// The row is that long, at a multiple of 16 in global memory that is not written during the launch.
    #[inline(always)]
    pub(crate) unsafe fn load_if_in_registers(&self, row: DevicePtr<u8>) -> [Unit; STEPS] {
        let mut own = [ZERO; STEPS];
        if Self::IN_REGISTERS {
            for s in 0..STEPS {
                let at = self.offset(s as u32) as usize;
                // SAFETY: within the row.
                own[s] = self.zero_past_end(unsafe { load_unit(row.at(at)) }, s as u32);
            }
        }
        own
    }

    /// Tiles for rows of `row_bytes`, which agree with `UNITS` unless that is 0.
    #[inline(always)]
    pub(crate) fn new(row_bytes: u32) -> Self {
        // Rounds of a known number would be unrolled, and their loads not fit the registers.
        let units = if Self::ONE_ROUND { UNITS } else { row_bytes / UNIT_BYTES };
        Self { units, strategy: PhantomData }
    }

    /// Bytes from row to row.
    #[inline(always)]
    pub(crate) fn row_bytes(&self) -> usize {
        (self.units * UNIT_BYTES) as usize
    }

    /// This lane's number in its tile.
    #[inline(always)]
    pub(crate) fn lane() -> u32 {
        warp::lane_id() % WIDTH
    }

    /// The offset of this lane's unit of a step, in bytes. Past the end of the row it is that of the last unit, which
    /// [`Self::zero_past_end`] replaces by zeros.
    #[inline(always)]
    pub(crate) fn offset(&self, step: u32) -> u32 {
        let unit = step * WIDTH + Self::lane();
        let unit = if Self::always_inside() { unit } else { unit.min(self.units - 1) };
        unit * UNIT_BYTES
    }

    /// The unit; zeros if the row has none for this lane in this step.
    #[inline(always)]
    pub(crate) fn zero_past_end(&self, unit: Unit, step: u32) -> Unit {
        let inside = Self::always_inside() || step * WIDTH + Self::lane() < self.units;
        if inside { unit } else { ZERO }
    }

    const fn always_inside() -> bool {
        UNITS != 0 && UNITS.is_multiple_of(WIDTH * STEPS as u32)
    }

    /// The sums over a query and some rows, in every lane of their tile. `query` returns this lane's unit of a step,
    /// zeros past the end. The bits of a sum depend on the width of the tile alone. Whole warp.
    ///
    /// # Safety
    /// The rows are that long, at multiples of 16 in global memory that is not written during the launch.
    #[inline(always)]
    pub(crate) unsafe fn sums(
        &self,
        rows: [DevicePtr<u8>; ROWS],
        query: impl Fn(u32) -> Unit,
    ) -> [E::Sum; ROWS] {
        let mut sums = [E::ZERO; ROWS];
        let mut step = 0;
        while step * WIDTH < self.units {
            let mut read = [[ZERO; STEPS]; ROWS];
            for r in 0..ROWS {
                for s in 0..STEPS {
                    // SAFETY: the caller's promise; units end where the row does.
                    read[r][s] = unsafe { load_unit(rows[r].at(self.offset(step + s as u32) as usize)) };
                }
            }
            for s in 0..STEPS {
                let wanted = query(step + s as u32);
                for r in 0..ROWS {
                    // Rows may hold anything past their end; zeros of the query do not undo differences.
                    sums[r] = add::<E, T>(sums[r], wanted, self.zero_past_end(read[r][s], step + s as u32));
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

/// `sum` and what a unit of the query and one of a row add to it.
#[inline(always)]
fn add<E: Coordinates, T: Term>(mut sum: E::Sum, query: Unit, row: Unit) -> E::Sum {
    for word in 0..4 {
        sum = T::add::<E>(sum, query[word], row[word]);
    }
    sum
}
