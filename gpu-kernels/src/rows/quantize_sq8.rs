//! Quantizes vectors of floats to bytes (SQ8).

use cuda_std::prelude::*;

use super::QuantizeSq8Args;
use crate::DevicePtr;
use crate::collectives::{row_of_warp, warp_stride};
use crate::element::{F16, F32};

/// The largest byte that is used; the smallest is its negative. As in `jasper_vamana::ScalarQuantizer`.
const LARGEST: f32 = 127.0;
/// So large that the last bit of a sum with it is worth 1: the sum is rounded to a whole number.
const WHOLE: f32 = 12_582_912.0;

/// Reads of the coordinates of an element.
pub(super) trait ToF32 {
    /// Bytes of a coordinate.
    const BYTES: u32;

    /// Coordinates `4 * word` and the three after it.
    ///
    /// # Safety
    /// The row has them, and is not written during the launch.
    unsafe fn coordinates(row: DevicePtr<u8>, word: u32) -> [f32; 4];
}

impl ToF32 for F32 {
    const BYTES: u32 = 4;

    unsafe fn coordinates(row: DevicePtr<u8>, word: u32) -> [f32; 4] {
        // SAFETY: upheld by the caller.
        unsafe { global::load_streaming(row.cast::<[f32; 4]>().at(word as usize)) }
    }
}

impl ToF32 for F16 {
    const BYTES: u32 = 2;

    unsafe fn coordinates(row: DevicePtr<u8>, word: u32) -> [f32; 4] {
        // SAFETY: upheld by the caller.
        let [low, high] = unsafe { global::load_streaming(row.cast::<[u32; 2]>().at(word as usize)) };
        let ((a, b), (c, d)) = (math::half2_to_f32(low), math::half2_to_f32(high));
        [a, b, c, d]
    }
}

/// # Safety
/// As the fields of the arguments say.
#[expect(clippy::manual_clamp, reason = "a minimum and a maximum are one instruction each")]
pub(super) unsafe fn quantize_sq8<E: ToF32>(args: QuantizeSq8Args) {
    let row = row_of_warp();
    if row >= args.rows_len as usize {
        return;
    }
    let from = args.vectors.add(row * args.row_bytes as usize);
    let to = args.bytes.add(row * args.row_words as usize);
    let given = args.row_bytes / (4 * E::BYTES);
    warp_stride(args.row_words, |word| {
        let mut bytes = [0; 4];
        // SAFETY: a row of each table; the padding of quantized rows, beyond that of the vectors, is not read.
        unsafe {
            if word < given {
                let center = global::load_readonly(args.centers.cast::<[f32; 4]>().at(word as usize));
                let x = E::coordinates(from, word);
                for i in 0..4 {
                    let steps = ((x[i] - center[i]) * args.scale).max(-LARGEST).min(LARGEST);
                    bytes[i] = (steps + WHOLE).to_bits() as u8;
                }
            }
            global::store(to.at(word as usize), u32::from_le_bytes(bytes));
        }
    });
}
