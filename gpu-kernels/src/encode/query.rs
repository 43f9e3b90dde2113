//! Encodes queries: int8 levels with one scale, and the factors of the distance estimate.

use cuda_std::prelude::*;

use super::{EncodeQueriesArgs, MetricArgs};
use crate::collectives::row_of_warp;
use crate::sums::for_coordinates;

/// The largest level of one byte, and of two: 127 * 256 + 127.
const LARGEST: [f32; 2] = [127.0, 32639.0];

impl MetricArgs {
    /// The query's part of a distance.
    fn query_part(&self, squared_norm: f32, dot_center: f32) -> f32 {
        if self.squared_weight == 0.0 {
            -dot_center - self.squared_center
        } else {
            self.squared_weight * squared_norm
        }
    }
}

impl EncodeQueriesArgs {
    /// Coordinate `i` of a query, weighted as the levels of a row are.
    ///
    /// # Safety
    /// The query and the coordinate exist.
    unsafe fn weighted(&self, query: usize, i: u32) -> f32 {
        let at = query * self.rotated.stride as usize + i as usize;
        // SAFETY: upheld by the caller.
        unsafe {
            let y = global::load_readonly(self.rotated.values.at(at));
            if self.of_dimensions.is_null() {
                return y;
            }
            let [step, _] = global::load_readonly(self.of_dimensions.at(i as usize));
            y * step
        }
    }

    /// Twice the negated offset that centers a row's levels in dimension `i` around zero.
    ///
    /// # Safety
    /// The dimension exists.
    unsafe fn twice_offset(&self, i: u32) -> i32 {
        let mut half = self.half;
        if !self.of_dimensions.is_null() {
            // SAFETY: upheld by the caller.
            [_, half] = unsafe { global::load_readonly(self.of_dimensions.at(i as usize)) };
        }
        2 * half as i32 - 1
    }
}

/// Encodes queries; one warp per query.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn encode_queries(args: EncodeQueriesArgs) {
    let query = row_of_warp();
    if query >= args.queries_len as usize {
        return;
    }
    let one = args.level_bytes == 1;
    let largest = if one { LARGEST[0] } else { LARGEST[1] };
    // SAFETY: the query and its coordinates exist; levels and factors belong to this warp; the warp is converged
    // at every collective.
    unsafe {
        let mut peak = 0;
        for_coordinates(args.dimensions, |_, i| {
            if i < args.dimensions {
                peak = peak.max(args.weighted(query, i).abs().to_bits());
            }
        });
        let peak = f32::from_bits(warp::reduce_max(peak));
        let (scale, inverse) = if peak > 0.0 { (peak / largest, largest / peak) } else { (0.0, 0.0) };
        let levels = args.levels.cast::<i8>().add(query * (args.level_bytes * args.dimensions) as usize);
        let mut sums = [0_i32; 2];
        for_coordinates(args.dimensions, |_, i| {
            if i < args.dimensions {
                let level = math::round_to_i32(args.weighted(query, i) * inverse);
                let level = level.clamp(-(largest as i32), largest as i32);
                let twice = args.twice_offset(i);
                let high = if one { level } else { (level + 128) >> 8 };
                global::store(levels.at(i as usize), high as i8);
                sums[0] += twice * high;
                if !one {
                    let low = level - (high << 8);
                    global::store(levels.at((args.dimensions + i) as usize), low as i8);
                    sums[1] += twice * low;
                }
            }
        });
        let [squared_norm, dot_center] = global::load_readonly(args.rotated.sums.at(query));
        let [add_unit, rescale_unit] = args.units;
        let offset = [-warp::sum(sums[0], 32), -warp::sum(sums[1], 32)];
        let add = [args.metric.query_part(squared_norm, dot_center), add_unit];
        let weight = if one { 1.0 } else { 256.0 };
        let scale = [scale * weight * rescale_unit, if one { 0.0 } else { scale * 1.0 * rescale_unit }];
        let offset = [offset[0] as f32 / 2.0, if one { 0.0 } else { offset[1] as f32 / 2.0 }];
        if warp::lane_id() == 0 {
            let query_factors = args.query_factors.add(query).cast::<[f32; 2]>();
            global::store(query_factors.at(0), add);
            global::store(query_factors.at(1), scale);
            global::store(query_factors.at(2), offset);
        }
    }
}
