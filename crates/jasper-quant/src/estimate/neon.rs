//! NEON: a quarter of a group per 128-bit register.
//!
//! The dot products take signed bytes. So bits are shifted down before they are multiplied, and levels of 8 bits are
//! multiplied less 128; 128 times the sum of the query's levels is added.

use std::arch::aarch64::*;

use jasper_core::distance::Neon;

use super::{GROUP, Group, PlaneGroups, ROWS, Simd};

/// Query levels, and code bytes, per register.
const LANES: usize = 16;

impl<const DOT: bool> Simd for Neon<DOT> {
    type Sums = int32x4_t;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn zeros() -> int32x4_t {
        vdupq_n_s32(0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [int32x4_t; ROWS],
        plane_groups: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    ) {
        let PlaneGroups { plane, whole, rest } = *plane_groups;
        let mut sums = PlaneSums { rows: [vdupq_n_s32(0); ROWS], offset: vdupq_n_s32(0) };
        // SAFETY: the words of `whole` groups and `rest` more are within a row, and the query has a group for each. An
        // array holds the words of any group.
        unsafe {
            let words = rows.map(|row| row.add(plane.first_word));
            for at in 0..whole {
                let words = words.map(|words| words.add(at * 2 * WIDTH));
                sums.add_group::<WIDTH, DOT>(groups.add(at), plane.mask(), words);
            }
            if rest > 0 {
                let words = words.map(|words| {
                    let mut zero_filled = [0_u32; GROUP / 4];
                    words.add(whole * 2 * WIDTH).copy_to_nonoverlapping(zero_filled.as_mut_ptr(), rest);
                    zero_filled
                });
                let words = words.each_ref().map(|words| words.as_ptr());
                sums.add_group::<WIDTH, DOT>(groups.add(whole), plane.mask(), words);
            }
        }
        let shift = vdupq_n_s32(plane.shift as i32);
        for (total, sum) in totals.iter_mut().zip(sums.rows) {
            *total = vaddq_s32(*total, vshlq_s32(vsubq_s32(sum, sums.offset), shift));
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sums([a, b, c, d]: [int32x4_t; ROWS]) -> [i32; ROWS] {
        let sums = vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
        let mut out = [0; ROWS];
        // SAFETY: an array of 16 bytes is written.
        unsafe { vst1q_s32(out.as_mut_ptr(), sums) };
        out
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn unpack_f16(words: [u32; ROWS]) -> [[f32; ROWS]; 2] {
        // SAFETY: an array of 16 bytes is read.
        let words = unsafe { vld1q_u32(words.as_ptr()) };
        [vmovn_u32(words), vshrn_n_u32::<16>(words)].map(|halves| {
            let mut out = [0.0; ROWS];
            // SAFETY: an array of 16 bytes is written.
            unsafe { vst1q_f32(out.as_mut_ptr(), vcvt_f32_f16(vreinterpret_f16_u16(halves))) };
            out
        })
    }
}

/// The sums of a plane before its shift.
struct PlaneSums {
    rows: [int32x4_t; ROWS],
    /// What the sum of every row is too large by.
    offset: int32x4_t,
}

impl PlaneSums {
    /// Adds the products of a group.
    ///
    /// # Safety
    /// `group` and the group's words of every row are readable; the CPU supports the instructions.
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn add_group<const WIDTH: usize, const DOT: bool>(
        &mut self,
        group: *const Group,
        mask: u32,
        words: [*const u32; ROWS],
    ) {
        for quarter in 0..GROUP / LANES {
            // SAFETY: upheld by the caller: a group is four registers, and a quarter of it is of the group's words.
            unsafe {
                let levels = vld1q_s8(group.cast::<i8>().add(quarter * LANES));
                let shifts = shifts_of_lanes::<WIDTH>(quarter);
                for (sum, words) in self.rows.iter_mut().zip(words) {
                    let bits = vshlq_u32(quarter_of_bits::<WIDTH>(words, quarter), shifts);
                    let bits = vreinterpretq_s8_u32(vandq_u32(bits, vdupq_n_u32(mask)));
                    let bits = if WIDTH == 8 { veorq_s8(bits, vdupq_n_s8(-128)) } else { bits };
                    *sum = Neon::<DOT>::dot_i8(*sum, bits, levels);
                }
                if WIDTH == 8 {
                    self.offset = Neon::<DOT>::dot_i8(self.offset, vdupq_n_s8(-128), levels);
                }
            }
        }
    }
}

/// The words of a group, repeated until they fill four registers, of which this is one.
///
/// # Safety
/// `2 * WIDTH` words are readable; the CPU supports the instructions.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn quarter_of_bits<const WIDTH: usize>(words: *const u32, quarter: usize) -> uint32x4_t {
    // SAFETY: upheld by the caller: 8 bytes, or 16 that start within the words and end there.
    unsafe {
        if WIDTH == 1 {
            vreinterpretq_u32_u64(vdupq_n_u64(words.cast::<u64>().read_unaligned()))
        } else {
            vld1q_u32(words.add(4 * quarter % (2 * WIDTH)))
        }
    }
}

/// The shift of each lane's field, to the left.
#[inline]
#[target_feature(enable = "neon")]
fn shifts_of_lanes<const WIDTH: usize>(quarter: usize) -> int32x4_t {
    let shifts: [i32; 4] =
        std::array::from_fn(|lane| -((WIDTH * ((4 * quarter + lane) / (2 * WIDTH))) as i32));
    // SAFETY: an array of 16 bytes.
    unsafe { vld1q_s32(shifts.as_ptr()) }
}
