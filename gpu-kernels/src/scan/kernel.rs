//! The scan: each block sums its tile, looks back for what lies before it, and writes.

use cuda_std::prelude::*;

use super::block::{block_sums, take_tile, warp_sum_up_to};
use super::{LANE_ELEMENTS, ROWS, ScanArgs, THREADS, TILE};

const WARPS: u32 = THREADS / warp::WARP_SIZE;
/// Elements of a row of a warp.
const ROW: usize = warp::WARP_SIZE as usize * LANE_ELEMENTS;

/// What a lane has of each row of its warp.
type Rows = [[u32; LANE_ELEMENTS]; ROWS];

/// Prefix sums; one block a tile.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256, min_blocks = 4)]
pub unsafe fn scan(args: ScanArgs) {
    let [slot, before, sums] = [0, 1, 2].map(|word| shared::dynamic_shared_mem::<u32>().add(word));
    // SAFETY: the whole block is here throughout; the words of shared memory are apart; loads and stores are within
    // `len`.
    unsafe {
        let tile = take_tile(&args.round, slot);
        let first = tile as usize * TILE + first_of_lane();
        let mut rows = load_rows(&args, tile, first);
        let sum = sum_rows(&mut rows, args.own);
        let (warps_before, all) = block_sums::<WARPS>(sum, sums);
        let tiles_before = args.round.sum_before(tile, all, before);
        for element in rows.as_flattened_mut() {
            *element = element.wrapping_add(warps_before).wrapping_add(tiles_before);
        }
        store_rows(&args, tile, first, &rows);
    }
}

/// Where this lane's part of the first row of its warp is in the tile.
#[inline(always)]
fn first_of_lane() -> usize {
    let warp = (thread::thread_idx_x() / warp::WARP_SIZE) as usize;
    warp * ROWS * ROW + warp::lane_id() as usize * LANE_ELEMENTS
}

/// This lane's elements; zeros past the end.
///
/// # Safety
/// As the fields of the arguments say.
#[inline(always)]
unsafe fn load_rows(args: &ScanArgs, tile: u32, first: usize) -> Rows {
    let mut rows = [[0; LANE_ELEMENTS]; ROWS];
    // SAFETY: within `len`, whose array is there.
    unsafe {
        if is_full(args, tile) {
            for (row, elements) in rows.iter_mut().enumerate() {
                *elements = global::load(args.input.at(first + row * ROW).cast());
            }
        } else {
            for (row, elements) in rows.iter_mut().enumerate() {
                for (k, element) in elements.iter_mut().enumerate() {
                    let index = first + row * ROW + k;
                    if index < args.len as usize {
                        *element = global::load(args.input.at(index));
                    }
                }
            }
        }
    }
    rows
}

/// Turns elements into their sums within the warp, own elements counted where `own` is all ones. Returns, in the last
/// lane, the sum of the warp. Whole warp.
///
/// # Safety
/// Called by all lanes of a warp.
#[inline(always)]
unsafe fn sum_rows(rows: &mut Rows, own: u32) -> u32 {
    let mut rows_before = 0u32;
    for row in rows {
        let sum = row.iter().fold(0u32, |sum, element| sum.wrapping_add(*element));
        // SAFETY: all lanes are here.
        let up_to = unsafe { warp_sum_up_to(sum) };
        let mut before = rows_before.wrapping_add(up_to).wrapping_sub(sum);
        for element in row {
            let value = *element;
            *element = before.wrapping_add(value & own);
            before = before.wrapping_add(value);
        }
        // SAFETY: as above.
        let (all, _) =
            unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, up_to, warp::WARP_SIZE - 1, warp::WARP_SIZE) };
        rows_before = rows_before.wrapping_add(all);
    }
    rows_before
}

/// Writes this lane's elements, but those past the end.
///
/// # Safety
/// As the fields of the arguments say.
#[inline(always)]
unsafe fn store_rows(args: &ScanArgs, tile: u32, first: usize, rows: &Rows) {
    // SAFETY: within `len`, whose array is there.
    unsafe {
        if is_full(args, tile) {
            for (row, elements) in rows.iter().enumerate() {
                global::store(args.output.at(first + row * ROW).cast(), *elements);
            }
        } else {
            for (row, elements) in rows.iter().enumerate() {
                for (k, element) in elements.iter().enumerate() {
                    let index = first + row * ROW + k;
                    if index < args.len as usize {
                        global::store(args.output.at(index), *element);
                    }
                }
            }
        }
    }
}

/// Whether all of the tile is within the array.
#[inline(always)]
fn is_full(args: &ScanArgs, tile: u32) -> bool {
    (tile as usize + 1) * TILE <= args.len as usize
}
