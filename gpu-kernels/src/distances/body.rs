//! The kernels of the family, written once.
//!
//! Arrays stand for registers: loops over them go by index, and are unrolled whole.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use cuda_std::prelude::*;

use super::{BLOCK, DistanceArgs, IDS_A_WARP, NO_ROW, WARP};
use crate::coordinates::{Coordinates, Term};

/// Loads that a lane has in flight.
const LOADS_IN_FLIGHT: usize = 8;
/// Steps in flight of a row of unknown length, so that short rows are read several at a time.
const GENERIC_STEPS: usize = 4;

/// Steps of a row that are in flight together. A *step* reads one unit in each lane of a tile; a row of `units` units
/// takes `units / width` of them, a row of unknown length (0 units) any number.
pub(super) const fn steps_in_flight(units: u32, width: u32) -> usize {
    let steps = units.div_ceil(width) as usize;
    if steps == 0 {
        return GENERIC_STEPS;
    }
    // The most that divide the row evenly: no load of the last round is wasted.
    let mut some = if steps < LOADS_IN_FLIGHT { steps } else { LOADS_IN_FLIGHT };
    while !steps.is_multiple_of(some) {
        some -= 1;
    }
    some
}

/// Rows that a tile has in flight: enough to fill its loads, at most one a lane, which writes its result.
pub(super) const fn rows_in_flight(units: u32, width: u32) -> usize {
    let rows = LOADS_IN_FLIGHT / steps_in_flight(units, width);
    if rows < width as usize { rows } else { width as usize }
}

/// How a row is cut into *units*, each one load of one lane.
pub(super) trait Read<E: Coordinates> {
    /// Bytes of a unit.
    const BYTES: u32;
    /// A unit in registers.
    type Unit: Copy;
    /// One that adds nothing.
    const ZERO: Self::Unit;

    /// A unit of a row, which will not be needed again soon.
    ///
    /// # Safety
    /// `p` leads to a unit in global memory that nobody writes meanwhile.
    unsafe fn row(p: *const u8) -> Self::Unit;

    /// A unit of a query, which other rows need as well.
    ///
    /// # Safety
    /// As for [`Self::row`].
    unsafe fn query(p: *const u8) -> Self::Unit;

    /// `sum` and what a unit of the query and one of a row add to it.
    fn add<T: Term>(sum: E::Sum, query: Self::Unit, row: Self::Unit) -> E::Sum;
}

/// One coordinate a unit.
pub(super) struct Tiled;
/// Sixteen bytes a unit.
pub(super) struct Chunked;

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
    fn add<T: Term>(sum: E::Sum, query: u32, row: u32) -> E::Sum {
        T::add::<E>(sum, query, row)
    }
}

impl<E: Coordinates> Read<E> for Chunked {
    const BYTES: u32 = 16;
    type Unit = [u32; 4];
    const ZERO: [u32; 4] = [0; 4];

    #[inline(always)]
    unsafe fn row(p: *const u8) -> [u32; 4] {
        // SAFETY: the caller's promise; rows begin at multiples of 16 bytes, and so do their chunks.
        unsafe { global::load_streaming(p.cast()) }
    }

    #[inline(always)]
    unsafe fn query(p: *const u8) -> [u32; 4] {
        // SAFETY: the caller's promise; queries lie like rows.
        unsafe { global::load_readonly(p.cast()) }
    }

    #[inline(always)]
    fn add<T: Term>(mut sum: E::Sum, query: [u32; 4], row: [u32; 4]) -> E::Sum {
        for word in 0..4 {
            sum = T::add::<E>(sum, query[word], row[word]);
        }
        sum
    }
}

/// Up to [`IDS_A_WARP`] ids of one query: where they lie in `ids` and `distances`.
struct Piece {
    query: u32,
    begin: usize,
    len: u32,
}

impl Piece {
    /// The piece of this warp; none for a warp behind the last.
    #[inline(always)]
    fn of_this_warp(args: &DistanceArgs) -> Option<Self> {
        let number = thread::block_idx_x() * (BLOCK / WARP) + thread::thread_idx_x() / WARP;
        let a_query = args.ids_per_query.div_ceil(IDS_A_WARP);
        let (query, first) = (number / a_query, number % a_query * IDS_A_WARP);
        (query < args.queries_len).then(|| Self {
            query,
            begin: query as usize * args.ids_per_query as usize + first as usize,
            len: IDS_A_WARP.min(args.ids_per_query - first),
        })
    }

    /// The id at `place`; none behind the end.
    ///
    /// # Safety
    /// The ids are what [`DistanceArgs`] says.
    #[inline(always)]
    unsafe fn id(&self, args: &DistanceArgs, place: u32) -> u32 {
        if place < self.len {
            // SAFETY: the place is inside of the ids of this query.
            unsafe { global::load_streaming(args.ids.at(self.begin + place as usize)) }
        } else {
            NO_ROW
        }
    }
}

/// A tile of `WIDTH` lanes a row, `ROWS` rows a tile and `STEPS` steps of each in flight. `UNITS` is the length of a
/// row in units, 0 if the arguments say it.
///
/// # Safety
/// The arguments are what [`DistanceArgs`] says; blocks have [`BLOCK`] threads.
#[inline(always)]
pub(super) unsafe fn distances<
    E: Coordinates,
    T: Term,
    R: Read<E>,
    const WIDTH: u32,
    const UNITS: u32,
    const STEPS: usize,
    const ROWS: usize,
>(
    args: DistanceArgs,
) {
    let Some(piece) = Piece::of_this_warp(&args) else { return };
    let units = if UNITS == 0 { args.row_bytes / R::BYTES } else { UNITS };
    let row_bytes = (units * R::BYTES) as usize;
    // A short row of known length is one round of steps: its query stays in registers.
    let one_round = UNITS != 0 && UNITS.div_ceil(WIDTH) as usize == STEPS;
    let lane = warp::lane_id() % WIDTH;
    let tile = warp::lane_id() / WIDTH;
    // Unit of this lane in a step, and whether the row has it: the last steps may end behind it.
    let unit = |step: u32| step * WIDTH + lane;
    let inside = |step: u32| UNITS.is_multiple_of(WIDTH) && UNITS != 0 || unit(step) < units;
    let offset = |step: u32| (unit(step).min(units - 1) * R::BYTES) as usize;
    let keep = |value, step| if inside(step) { value } else { R::ZERO };

    // SAFETY: ids name rows, steps stay within a row, results lie beside the ids; every collective is reached by the
    // whole warp, whose piece and loops have the same bounds in every lane.
    unsafe {
        let query = |step: u32| {
            let p = args.queries.at(piece.query as usize * row_bytes + offset(step));
            keep(R::query(p), step)
        };
        let mut wanted = [R::ZERO; STEPS];
        if one_round {
            for s in 0..STEPS {
                wanted[s] = query(s as u32);
            }
        }
        let batch = WARP / WIDTH * ROWS as u32;
        let mut next = piece.id(&args, warp::lane_id());
        let mut first = 0;
        while first < piece.len {
            // Ids one batch ahead: their trip to memory passes beside that of the rows.
            let ids = next;
            next = piece.id(&args, first + batch + warp::lane_id());
            let mut id = [NO_ROW; ROWS];
            let mut row = [args.rows.at(0); ROWS];
            for r in 0..ROWS {
                id[r] = warp::warp_shuffle_idx(warp::FULL_MASK, ids, tile * ROWS as u32 + r as u32, WARP).0;
                let place = if id[r] == NO_ROW { 0 } else { id[r] as usize };
                row[r] = args.rows.at(place * row_bytes);
            }
            let mut sum = [E::ZERO; ROWS];
            let mut step = 0;
            while step * WIDTH < units {
                let mut read = [[R::ZERO; STEPS]; ROWS];
                for r in 0..ROWS {
                    for s in 0..STEPS {
                        read[r][s] = R::row(row[r].wrapping_add(offset(step + s as u32)));
                    }
                }
                if !one_round {
                    for s in 0..STEPS {
                        wanted[s] = query(step + s as u32);
                    }
                }
                for r in 0..ROWS {
                    for s in 0..STEPS {
                        sum[r] = R::add::<T>(sum[r], wanted[s], keep(read[r][s], step + s as u32));
                    }
                }
                step += STEPS as u32;
            }
            // Lane r of a tile writes the result of its row r.
            let mut result = f32::INFINITY;
            for r in 0..ROWS {
                let total = E::to_f32(warp::warp_sum(warp::FULL_MASK, sum[r], WIDTH));
                if lane == r as u32 && id[r] != NO_ROW {
                    result = total;
                }
            }
            let place = first + tile * ROWS as u32 + lane;
            if lane < ROWS as u32 && place < piece.len {
                global::store(args.distances.at(piece.begin + place as usize), result);
            }
            first += batch;
        }
    }
}
