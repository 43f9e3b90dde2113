//! RaBitQ codes: finds the grid point of best cosine with the residual.

use cuda_std::prelude::*;

use super::EncodeRabitqArgs;
use super::pack::{Factors, levels, store};
use super::row::{GridPoint, Row, UniformGrid};
use crate::collectives::{row_of_warp, strided};
use crate::sums::{Sum, for_coordinates};

/// Scales tried per pass over the row.
const SCALES_PER_PASS: usize = 4;

/// Encodes rows; one warp per row.
///
/// # Safety
/// The arguments are as the docs of their fields say; a warp has shared memory for the levels of a row.
// Without `min_blocks`, the assembler spills registers for a higher occupancy.
#[kernel(max_threads = 256, min_blocks = 4)]
pub unsafe fn encode_rabitq(args: EncodeRabitqArgs) {
    let (rows, number) = (&args.rows, row_of_warp());
    if number >= rows.selection.len as usize {
        return;
    }
    let levels = levels(rows);
    let rotated = rows.rotated.values.add(number * rows.rotated.stride as usize);
    let dimensions = rows.shape.dimensions;
    // SAFETY: the row exists; the levels are this warp's; each warp is converged at the collectives.
    unsafe {
        let mut square = Sum::ZERO;
        for_coordinates(dimensions, |half, i| {
            let x = global::load_readonly(rotated.at(i as usize));
            square.add(half, x, x);
        });
        let norm = math::sqrt_f32(square.total());
        let row = Row { rotated, dimensions, factor: 1.0 / norm, grid: UniformGrid { half: args.half } };
        let (mut scale_back, mut squared_tangent) = (0.0, 0.0);
        if norm == 0.0 {
            row.store_zero(levels);
        } else {
            // Padding is at level 0 for every scale, and no part of the grid point.
            let padding = 0.25 * (dimensions - args.dimension) as f32;
            let scale = best_scale(&args, &row, padding);
            let [found] = row.products([scale]);
            let (product, square) = (found.product, found.square - padding);
            let along = product / square;
            let squared_error = row.store_levels(scale, along, levels) - padding * along * along;
            scale_back = norm / product;
            squared_tangent = (squared_error / (product * along)).max(0.0);
        }
        let weight = rows.metric.product_weight;
        let deviation = norm * math::sqrt_f32(squared_tangent / (args.dimension.max(2) - 1) as f32);
        let [_, dot_center] = global::load_readonly(rows.rotated.sums.at(number));
        let factors = Factors {
            add: rows.metric.row_part(norm * norm, dot_center),
            rescale: weight * scale_back,
            error: weight.abs() * args.bound_sigmas * deviation,
        };
        store(rows, number, levels, factors);
    }
}

/// The scale of best cosine, the first of equals.
///
/// # Safety
/// The row exists. All 32 lanes of the warp call this together.
unsafe fn best_scale(args: &EncodeRabitqArgs, row: &Row<UniformGrid>, padding: f32) -> f32 {
    // SAFETY: the caller's promise; the warp is converged here.
    let base = if args.over_peak > 0.0 { args.over_peak / unsafe { row.peak() } } else { args.base };
    let (mut scale, mut best) = (0.0, GridPoint::NONE);
    strided(0, args.count, SCALES_PER_PASS as u32, |first| {
        let mut scales = [0.0; SCALES_PER_PASS];
        for i in 0..SCALES_PER_PASS {
            scales[i] = base * (args.low + args.step * (first + i as u32) as f32);
        }
        // SAFETY: as above.
        let found = unsafe { row.products(scales) };
        for i in 0..SCALES_PER_PASS {
            let found = GridPoint { product: found[i].product, square: found[i].square - padding };
            if first + (i as u32) < args.count && found.is_nearer(best) {
                (scale, best) = (scales[i], found);
            }
        }
    });
    scale
}
