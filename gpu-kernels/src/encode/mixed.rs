//! Mixed codes: scales the grid point so that it is nearest to the residual.

use cuda_std::prelude::*;

use super::EncodeMixedArgs;
use super::pack::{Factors, levels, store};
use super::row::{GridPoint, Row};
use crate::collectives::row_of_warp;

/// Encodes rows; one warp per row.
///
/// # Safety
/// The arguments are as the docs of their fields say; a warp has shared memory for the levels of a row.
// Without `min_blocks`, the assembler spills registers for a higher occupancy.
#[kernel(max_threads = 256, min_blocks = 4)]
pub unsafe fn encode_mixed(args: EncodeMixedArgs) {
    let (rows, number) = (&args.rows, row_of_warp());
    if number >= rows.selection.len as usize {
        return;
    }
    let levels = levels(rows);
    let rotated = rows.rotated.values.add(number * rows.rotated.stride as usize);
    let [b1, b2, b3, largest_k] = args.fit;
    // SAFETY: the row exists; the levels are this warp's; each warp is converged at the collectives.
    unsafe {
        let [squared_norm, dot_center] = global::load_readonly(rows.rotated.sums.at(number));
        let norm = math::sqrt_f32(squared_norm);
        let row =
            Row { rotated, dimensions: rows.shape.dimensions, factor: 1.0 / norm, grid: args.dimensions };
        let (mut scale, mut coded, mut squared_error) = (0.0, 0.0, 0.0);
        if squared_norm == 0.0 {
            row.store_zero(levels);
        } else {
            let found = row.products(args.trials);
            let (mut trial, mut best) = (args.trials[1], GridPoint::NONE);
            for i in 0..found.len() {
                if found[i].is_nearer(best) {
                    (trial, best) = (args.trials[i], found[i]);
                }
            }
            let multiple = best.product / best.square;
            scale = multiple * norm;
            coded = multiple * best.product * squared_norm;
            row.store_levels(trial, 0.0, levels);
            squared_error = (squared_norm - coded).max(0.0);
        }
        let k = if coded > 0.0 { (squared_error / coded).min(largest_k) } else { 0.0 };
        let weight = rows.metric.product_weight;
        let factors = Factors {
            add: rows.metric.row_part(squared_norm, dot_center) + weight * b2 * squared_error,
            rescale: weight * (b1 + b3 * k) * scale,
            error: 0.0,
        };
        store(rows, number, levels, factors);
    }
}
