//! Quantizes SQ8 vectors to 4 bits per coordinate (SQ4).

use cuda_std::prelude::*;

use super::QuantizeSq4Args;
use crate::collectives::{row_of_warp, warp_stride};

/// Rounds each byte to the nearest of 16 multiples of a step, as `jasper_vamana::ScalarQuantizer::sq4_value` does.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn quantize_sq4(args: QuantizeSq4Args) {
    let row = row_of_warp();
    if row >= args.rows_len as usize {
        return;
    }
    let bytes = args.bytes.add(row * args.byte_words as usize);
    let sq4 = args.sq4.add(row * args.row_words as usize);
    // SAFETY: words of a row of each table.
    let rounded = |word: u32| unsafe {
        if word < args.byte_words {
            round(global::load_streaming(bytes.at(word as usize)), args.shift)
        } else {
            0
        }
    };
    warp_stride(args.row_words, |word| {
        let [upper, lower] = [2 * word, 2 * word + 1].map(rounded);
        // SAFETY: a word of the row.
        unsafe { global::store(sq4.at(word as usize), upper << 4 | lower) };
    });
}

/// The four bytes of a word, rounded to 4 bits, each in the lower half of its byte.
#[expect(clippy::manual_clamp, reason = "a minimum and a maximum are one instruction each")]
fn round(word: u32, shift: u32) -> u32 {
    let mut rounded = 0;
    for byte in 0..4 {
        let steps = (word << (24 - 8 * byte)) as i32 >> 24;
        let nearest = ((steps + (1 << (shift - 1))) >> shift).max(-8).min(7);
        rounded |= (nearest as u32 & 0xf) << (8 * byte);
    }
    rounded
}
