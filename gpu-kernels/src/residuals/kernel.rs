//! Residuals; one warp per row.

use cuda_std::prelude::*;

use super::ResidualArgs;
use crate::collectives::row_of_warp;
use crate::element::DeviceElement;
use crate::sums::{Sum, for_coordinates};

/// # Safety
/// The arguments are as the docs of their fields say.
pub(super) unsafe fn residuals<E: DeviceElement>(args: ResidualArgs) {
    let index = row_of_warp();
    if index >= args.rows_len as usize {
        return;
    }
    // SAFETY: the row exists; each lane accesses its own coordinates of the output; each warp is converged at the
    // collectives.
    unsafe {
        let row = args.rows.add(index * args.row_bytes as usize);
        let coordinate = |i: u32| if i < args.dimension { E::coordinate(row, i).into() } else { 0.0 };
        let mut norm = 0.0;
        if args.normalizes != 0 {
            let mut square = Sum::ZERO;
            for_coordinates(args.dimension, |half, i| square.add(half, coordinate(i), coordinate(i)));
            norm = math::sqrt_f32(square.total());
        }
        let residuals = args.residuals.add(index * args.stride as usize);
        let (mut square, mut along) = (Sum::ZERO, Sum::ZERO);
        for_coordinates(args.stride, |half, i| {
            let mut residual = 0.0;
            if i < args.dimension {
                let x = coordinate(i);
                let x = if norm > 0.0 { x / norm } else { x };
                let center = global::load_readonly(args.center.at(i as usize));
                residual = x - center;
                square.add(half, residual, residual);
                along.add(half, residual, center);
            }
            global::store(residuals.at(i as usize), residual);
        });
        let sums = [square.total(), along.total()];
        if warp::lane_id() == 0 {
            global::store(args.sums.at(index), sums);
        }
    }
}
