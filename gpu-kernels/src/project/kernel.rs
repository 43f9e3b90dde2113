//! The projection; one block per tile.

use cuda_std::prelude::*;

use super::{DEPTH, PANEL, ProjectArgs, THREADS, TILE};

/// Rows, and directions, per thread.
const OWN: u32 = 4;
/// Threads with adjacent directions of the same rows.
const ACROSS: u32 = TILE / OWN;
/// Floats per tile in shared memory.
pub(super) const TILE_FLOATS: u32 = DEPTH * TILE;
const _: () = assert!(THREADS == ACROSS * ACROSS && TILE_FLOATS == 4 * THREADS);

/// Loads this thread's part of a tile of rows: four adjacent coordinates of a row. Rows past the end repeat the last.
///
/// # Safety
/// The arguments are as the docs of their fields say, and `coordinate` is below the stride.
#[inline(always)]
unsafe fn fetch_row(args: &ProjectArgs, coordinate: u32) -> [f32; 4] {
    let thread = thread::thread_idx_x();
    let row = (thread::block_idx_x() * TILE + thread / 4).min(args.rows_len - 1);
    let at = row as usize * args.stride as usize + (coordinate + thread % 4 * 4) as usize;
    // SAFETY: the row exists, and its stride is a multiple of the depth.
    unsafe { global::load_readonly(args.rows.at(at).cast()) }
}

/// Loads this thread's part of a tile of directions: a coordinate of four adjacent directions. Zeros past the end.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[inline(always)]
unsafe fn fetch_directions(args: &ProjectArgs, coordinate: u32) -> [f32; 4] {
    let thread = thread::thread_idx_x();
    let coordinate = coordinate + thread / ACROSS;
    let direction = thread::block_idx_y() * TILE + thread % ACROSS * OWN;
    let panel = direction / PANEL;
    if panel >= args.panels_len || coordinate >= args.dimension {
        return [0.0; 4];
    }
    let place = (panel as usize * args.dimension as usize + coordinate as usize) * PANEL as usize;
    // SAFETY: the panel and the coordinate exist.
    unsafe { global::load_readonly(args.panels.at(place + (direction % PANEL) as usize).cast()) }
}

/// Multiplies rows by directions.
///
/// # Safety
/// The arguments are as the docs of their fields say; a block has shared memory for two tiles.
#[kernel(max_threads = 256)]
pub unsafe fn project(args: ProjectArgs) {
    let thread = thread::thread_idx_x();
    let rows = shared::dynamic_shared_mem::<f32>();
    let directions = rows.add(TILE_FLOATS);
    let (row, direction) = (thread / ACROSS * OWN, thread % ACROSS * OWN);
    let mut sums = [[0.0_f32; OWN as usize]; OWN as usize];
    // SAFETY: each thread writes its own part of a tile, and all read between the barriers; every thread of the block
    // reaches these, because the loop depends on the arguments alone.
    unsafe {
        let (mut of_rows, mut of_directions) = (fetch_row(&args, 0), fetch_directions(&args, 0));
        let mut coordinate = 0;
        while coordinate < args.dimension {
            for i in 0..4 {
                rows.add((thread % 4 * 4 + i as u32) * TILE + thread / 4).store(of_rows[i]);
            }
            directions.add(thread / ACROSS * TILE + direction).cast().store(of_directions);
            thread::sync_threads();
            // Prefetch the next tiles into registers.
            coordinate += DEPTH;
            if coordinate < args.dimension {
                (of_rows, of_directions) =
                    (fetch_row(&args, coordinate), fetch_directions(&args, coordinate));
            }
            for k in 0..DEPTH {
                let x: [f32; 4] = rows.add(k * TILE + row).cast().load();
                let y: [f32; 4] = directions.add(k * TILE + direction).cast().load();
                for i in 0..OWN as usize {
                    for j in 0..OWN as usize {
                        sums[i][j] = math::fma(x[i], y[j], sums[i][j]);
                    }
                }
            }
            thread::sync_threads();
        }
        let first = thread::block_idx_y() * TILE + direction;
        for i in 0..OWN as usize {
            let row = thread::block_idx_x() * TILE + row + i as u32;
            if row < args.rows_len && first < args.out_stride {
                let at = row as usize * args.out_stride as usize + first as usize;
                global::store(args.out.at(at).cast(), sums[i]);
            }
        }
    }
}
