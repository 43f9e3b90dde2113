//! Tiles: 4 to 32 adjacent lanes that share a row, as [`RowShape`] describes. The *query* is the row that others are
//! compared with.
//!
//! One kernel takes rows of any length. Their shape, which follows from the length, is a constant of the kernel
//! ([`cuda_std::constant`]) when the kernel is JIT compiled, so that branches that depend on the shape alone disappear,
//! and loops over loads are unrolled.

use core::marker::PhantomData;

use cuda_std::constant::constant;
use cuda_std::prelude::*;

use crate::DevicePtr;
use crate::element::{DistanceOp, Packed};
use crate::row_shape::{QUERY_UNITS, RowShape};

/// Bytes of a unit, which one lane reads with one load.
const UNIT_BYTES: u32 = 16;
/// A unit in registers.
pub(crate) type Unit = [u32; 4];
/// A unit of zeros, which adds nothing to a sum.
const ZERO: Unit = [0; 4];

/// Loads a unit.
///
/// # Safety
/// `p` points to a unit in global memory that is not written during the launch.
#[inline(always)]
pub(crate) unsafe fn load_unit(p: *const u8) -> Unit {
    // SAFETY: upheld by the caller; rows begin at multiples of 16 bytes, and so do their units.
    unsafe { global::load_readonly(p.cast()) }
}

/// The tiles of a warp, which sum over rows of one shape. `LOADS` is the maximum number of units that a lane has in
/// flight.
pub(crate) struct RowTiles<E, Op, const LOADS: usize> {
    pub(crate) shape: RowShape,
    op: PhantomData<(E, Op)>,
}

/// A lane's units of a query that stays in registers.
pub(crate) type QueryUnits = [Unit; QUERY_UNITS as usize];

impl<E: Packed, Op: DistanceOp, const LOADS: usize> RowTiles<E, Op, LOADS> {
    /// The tiles for rows of `shape`, which is the same for a whole launch.
    #[inline(always)]
    pub(crate) fn new(shape: RowShape) -> Self {
        let shape = RowShape {
            units: constant::<0>(shape.units),
            log2_width: constant::<1>(shape.log2_width),
            units_in_flight: constant::<2>(shape.units_in_flight),
            rows_in_flight: constant::<3>(shape.rows_in_flight),
        };
        let rows_in_flight = if shape.units_in_flight * shape.rows_in_flight > LOADS as u32 {
            LOADS as u32 / shape.units_in_flight
        } else {
            shape.rows_in_flight
        };
        let shape = RowShape { rows_in_flight, ..shape };
        Self { shape, op: PhantomData }
    }

    /// Bytes from row to row.
    #[inline(always)]
    pub(crate) fn row_bytes(&self) -> usize {
        (self.shape.units * UNIT_BYTES) as usize
    }

    /// The number of this lane's tile in the warp, and of this lane in the tile.
    #[inline(always)]
    pub(crate) fn tile_and_lane(&self) -> (u32, u32) {
        let lane = warp::lane_id();
        (lane >> self.shape.log2_width, lane & (self.shape.width() - 1))
    }

    /// The offset in bytes of unit `i` of this lane. If the row ends before, it is the offset of the row's last unit,
    /// which [`Self::zero_past_end`] replaces by zeros.
    #[inline(always)]
    pub(crate) fn offset(&self, i: u32) -> u32 {
        (UNIT_BYTES * self.tile_and_lane().1).wrapping_add_signed(self.bytes_ahead(i) as i32)
    }

    /// Bytes from unit 0 of this lane to its unit `i`. If every lane has a unit `i`, this is the same in all of them,
    /// so that it becomes an immediate offset of the load.
    #[inline(always)]
    fn bytes_ahead(&self, i: u32) -> isize {
        let (lane, first) = (self.tile_and_lane().1, i << self.shape.log2_width);
        let inside = first + self.shape.width() <= self.shape.units;
        let ahead =
            if inside { first as i32 } else { (first + lane).min(self.shape.units - 1) as i32 - lane as i32 };
        ahead as isize * UNIT_BYTES as isize
    }

    /// `unit`, or zeros if this lane has no unit `i`.
    #[inline(always)]
    pub(crate) fn zero_past_end(&self, unit: Unit, i: u32) -> Unit {
        let first = i << self.shape.log2_width;
        let inside = first + self.shape.width() <= self.shape.units;
        if inside || first + self.tile_and_lane().1 < self.shape.units { unit } else { ZERO }
    }

    /// This lane's units of the query if it stays in registers, else zeros.
    ///
    /// # Safety
    /// The row has the length of the shape, at a multiple of 16 bytes in global memory that is not written during the
    /// launch.
    #[inline(always)]
    pub(crate) unsafe fn load_if_in_registers(&self, row: DevicePtr<u8>) -> QueryUnits {
        let mut units = [ZERO; QUERY_UNITS as usize];
        if self.shape.query_in_registers() {
            for i in 0..QUERY_UNITS {
                if i < self.shape.units_in_flight {
                    // SAFETY: the address is within the row.
                    let unit = unsafe { load_unit(row.at(self.offset(i) as usize)) };
                    units[i as usize] = self.zero_past_end(unit, i);
                }
            }
        }
        units
    }

    /// Unit `i` of those that stay in registers.
    #[inline(always)]
    pub(crate) fn query_unit(units: &QueryUnits, i: u32) -> Unit {
        // A variable index would put the array into local memory.
        let mut unit = units[0];
        for j in 1..QUERY_UNITS as usize {
            if i as usize == j {
                unit = units[j];
            }
        }
        unit
    }

    /// Sums over the query and `shape.rows_in_flight` rows per tile. `row(r)` returns the address of row `r` of this
    /// lane's tile, and `query(i)` unit `i` of this lane of the query, zeros past the end. Called by the whole warp.
    ///
    /// Lane `first + r` of a tile gets the sum of row `r`; every other lane gets its `kept` back. With 4 rows per tile,
    /// two calls collect the sums of 8 rows:
    ///
    /// ```text
    /// lane of the tile           0   1   2   3   4   5   6   7
    /// kept = sums(.., 0, zero)   s0  s1  s2  s3  0   0   0   0
    /// kept = sums(.., 4, kept)   s0  s1  s2  s3  s4  s5  s6  s7
    /// ```
    ///
    /// The bits of a sum depend only on the width of the tile.
    ///
    /// # Safety
    /// The rows have the length of the shape, at multiples of 16 bytes in global memory that is not written during the
    /// launch.
    #[inline(always)]
    pub(crate) unsafe fn sums(
        &self,
        row: impl Fn(u32) -> DevicePtr<u8>,
        query: impl Fn(u32) -> Unit,
        first: u32,
        mut kept: E::Sum,
    ) -> E::Sum {
        let (in_flight, per_lane) = (self.shape.units_in_flight, self.shape.units_per_lane());
        let loads = in_flight * self.shape.rows_in_flight;
        let lane_in_tile = self.tile_and_lane().1;
        let mut sum = E::ZERO;
        let mut done = 0;
        loop {
            let mut read = [ZERO; LOADS];
            // The address of this lane's first unit.
            let address = |r: u32| row(r).add((lane_in_tile * UNIT_BYTES) as usize);
            let mut first_unit = address(0);
            let (mut r, mut i) = (0, 0);
            for load in 0..LOADS {
                if (load as u32) < loads {
                    if i == in_flight {
                        (r, i) = (r + 1, 0);
                        first_unit = address(r);
                    }
                    // SAFETY: upheld by the caller; units end where the row does.
                    read[load] = unsafe { load_unit(first_unit.at(self.bytes_ahead(done + i) as usize)) };
                    i += 1;
                }
            }
            let is_last = done + in_flight >= per_lane;
            (r, i) = (0, 0);
            for load in 0..LOADS {
                if (load as u32) < loads {
                    // Lanes past the end have loaded the last unit again, which the zeros of the query do not cancel in
                    // differences.
                    let unit = self.zero_past_end(read[load], done + i);
                    sum = add::<E, Op>(sum, query(done + i), unit);
                    i += 1;
                    if i == in_flight {
                        if is_last {
                            // SAFETY: the warp is converged here.
                            let all = unsafe { self.sum_of_tile(sum) };
                            if lane_in_tile == first + r {
                                kept = all;
                            }
                            sum = E::ZERO;
                        }
                        (r, i) = (r + 1, 0);
                    }
                }
            }
            done += in_flight;
            if is_last {
                return kept;
            }
        }
    }

    /// The sum over the lanes of a tile, in each of them.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    #[inline(always)]
    unsafe fn sum_of_tile(&self, sum: E::Sum) -> E::Sum {
        // SAFETY: upheld by the caller.
        unsafe {
            match self.shape.log2_width {
                2 => warp::sum(sum, 4),
                3 => warp::sum(sum, 8),
                4 => warp::sum(sum, 16),
                _ => warp::sum(sum, 32),
            }
        }
    }
}

/// `sum` plus the terms of a unit of the query and a unit of a row.
#[inline(always)]
fn add<E: Packed, Op: DistanceOp>(mut sum: E::Sum, query: Unit, row: Unit) -> E::Sum {
    for word in 0..4 {
        sum = Op::add::<E>(sum, query[word], row[word]);
    }
    sum
}
