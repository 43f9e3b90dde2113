//! The kernels of the family, written once.
//!
//! Arrays stand for registers: loops over them go by index, and are unrolled whole.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use cuda_std::prelude::*;

use super::{BLOCK, DistanceArgs, IDS_A_WARP, NO_ROW, WARP};
use crate::coordinates::{Coordinates, Term};
use crate::tile::{Read, Tile};

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
    let tile = Tile::<E, T, R, WIDTH, UNITS, STEPS, ROWS>::new(args.row_bytes);
    let (lane, number) = (warp::lane_id() % WIDTH, warp::lane_id() / WIDTH);

    // SAFETY: ids name rows, steps stay within a row, results lie beside the ids; every collective is reached by the
    // whole warp, whose piece and loops have the same bounds in every lane.
    unsafe {
        let query = |step: u32| {
            let at = piece.query as usize * tile.row_bytes() + tile.offset(step) as usize;
            tile.keep(R::query(args.queries.at(at)), step)
        };
        let mut kept = [R::ZERO; STEPS];
        if Tile::<E, T, R, WIDTH, UNITS, STEPS, ROWS>::ONE_ROUND {
            for s in 0..STEPS {
                kept[s] = query(s as u32);
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
            let mut row = [args.rows; ROWS];
            for r in 0..ROWS {
                id[r] = warp::warp_shuffle_idx(warp::FULL_MASK, ids, number * ROWS as u32 + r as u32, WARP).0;
                let place = if id[r] == NO_ROW { 0 } else { id[r] as usize };
                row[r] = args.rows.from(place * tile.row_bytes());
            }
            let sums = tile.sums(row, |step| {
                if Tile::<E, T, R, WIDTH, UNITS, STEPS, ROWS>::ONE_ROUND {
                    kept[step as usize]
                } else {
                    query(step)
                }
            });
            // Lane r of a tile writes the result of its row r.
            let mut result = f32::INFINITY;
            for r in 0..ROWS {
                if lane == r as u32 && id[r] != NO_ROW {
                    result = E::to_f32(sums[r]);
                }
            }
            let place = first + number * ROWS as u32 + lane;
            if lane < ROWS as u32 && place < piece.len {
                global::store(args.distances.at(piece.begin + place as usize), result);
            }
            first += batch;
        }
    }
}
