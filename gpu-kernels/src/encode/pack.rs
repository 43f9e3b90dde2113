//! Packs a code: bit planes of the levels, then f16 factors.

use cuda_std::prelude::*;

use super::{EncodeArgs, shared_level_bytes};
use crate::WARP_SIZE;
use crate::codes::PlaneShape;
use crate::collectives::warp_stride;

/// The largest f16.
const LARGEST: f32 = 65504.0;
/// The unit of the first factor in those of the fourth.
const LOW: f32 = 2048.0;

/// The factors of a distance estimate.
#[derive(Clone, Copy)]
pub(super) struct Factors {
    pub(super) add: f32,
    pub(super) rescale: f32,
    pub(super) error: f32,
}

/// The levels of this warp's row, in shared memory.
pub(super) fn levels(args: &EncodeArgs) -> Shared<u8> {
    let warp = thread::thread_idx_x() / WARP_SIZE;
    shared::dynamic_shared_mem::<u8>().add(warp * shared_level_bytes(&args.shape))
}

/// Word `at` of a code: its bits that belong to a plane of `WIDTH` bits, and zeros elsewhere.
///
/// # Safety
/// All levels are stored.
unsafe fn plane_word<const WIDTH: u32>(plane: PlaneShape, at: u32, levels: Shared<u8>) -> u32 {
    let number = at.wrapping_sub(plane.first_word);
    if number >= plane.dimensions * WIDTH / 32 {
        return 0;
    }
    let levels = levels.add(plane.first_dimension + number * (32 / WIDTH)).cast::<u32>();
    let mask = 0x0101_0101 * ((1 << WIDTH) - 1);
    let mut word = 0;
    for position in 0..8 / WIDTH {
        // SAFETY: the levels are those of the plane, which begins at a multiple of four.
        let four = unsafe { levels.add(position).load() };
        word |= (four >> plane.shift & mask) << (WIDTH * position);
    }
    word
}

/// The words of the factors, as `jasper_quant` stores them.
fn factor_words(args: &EncodeArgs, factors: Factors) -> [u32; 2] {
    let bounded = |value: f32| value.clamp(-LARGEST, LARGEST);
    // Units are powers of two, so products with the inverses are exact quotients.
    let [add, rescale, error] = args.inverse_units;
    let (add, rescale, error) = (factors.add * add, factors.rescale * rescale, factors.error * error);
    let first = math::f32_to_half2(bounded(add), bounded(rescale));
    let mut error = math::f32_to_half2(bounded(error), 0.0);
    // Rounded up, so that the error bound holds.
    if math::half_to_f32(error as u16) * args.units[2] < factors.error {
        error += 1;
    }
    let low = add - math::half_to_f32(first as u16);
    [first, error | math::f32_to_half2(0.0, bounded(low * LOW))]
}

/// Writes the code of row `number`. Called by the whole warp.
///
/// # Safety
/// The arguments are as the docs of their fields say; all levels of the row are stored.
pub(super) unsafe fn store(args: &EncodeArgs, number: usize, levels: Shared<u8>, factors: Factors) {
    let shape = &args.shape;
    let [first, second] = factor_words(args, factors);
    // SAFETY: the warp is converged here; words of a row that no other warp writes.
    unsafe {
        warp::sync_warp();
        let row = args.codes.add(args.selection.slot(number) * shape.words as usize);
        warp_stride(shape.words, |at| {
            let word = if at < shape.factor_word() {
                plane_word::<8>(shape.eight, at, levels)
                    | plane_word::<4>(shape.four, at, levels)
                    | plane_word::<2>(shape.two, at, levels)
                    | plane_word::<1>(shape.one, at, levels)
            } else if at == shape.factor_word() {
                first
            } else {
                second
            };
            global::store(row.at(at as usize), word);
        });
    }
}
