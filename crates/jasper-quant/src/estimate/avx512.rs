//! AVX-512: a group per 512-bit register, in one AND and one `vpdpbusd`.
//!
//! Bits are multiplied in place. The sum of a lane is `2^(width * field)` times too large, and is shifted down once, at
//! the end.

use std::arch::x86_64::*;

use super::{GROUP, Group, PAIRS, PlaneGroups, ROWS, Simd};

pub(super) struct Avx512;

impl Simd for Avx512 {
    type Sums = __m512i;

    #[inline(always)]
    unsafe fn zeros() -> __m512i {
        // SAFETY: upheld by the caller.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [__m512i; ROWS],
        plane_groups: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    ) {
        // SAFETY: the words of `whole` groups and `rest` more are within a row, and the query has a group for each.
        unsafe {
            let shifts = shifts_of_lanes::<WIDTH>();
            let mask = _mm512_sllv_epi32(_mm512_set1_epi32(plane_groups.plane.mask() as i32), shifts);
            let first_word = plane_groups.plane.first_word;
            let mut sums = [_mm512_setzero_si512(); ROWS];
            for at in 0..plane_groups.whole {
                let levels = _mm512_load_si512(groups.add(at).cast());
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let bits = repeated::<WIDTH>(row.add(first_word + at * 2 * WIDTH));
                    *sum = _mm512_dpbusd_epi32(*sum, _mm512_and_si512(bits, mask), levels);
                }
            }
            if plane_groups.rest > 0 {
                let levels = _mm512_load_si512(groups.add(plane_groups.whole).cast());
                let mask_of_rest = ((1_u32 << plane_groups.rest) - 1) as __mmask16;
                let words = words_of_lanes::<WIDTH>();
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let from = row.add(first_word + plane_groups.whole * 2 * WIDTH);
                    let bits =
                        _mm512_permutexvar_epi32(words, _mm512_maskz_loadu_epi32(mask_of_rest, from.cast()));
                    *sum = _mm512_dpbusd_epi32(*sum, _mm512_and_si512(bits, mask), levels);
                }
            }
            let shift = _mm_cvtsi32_si128(plane_groups.plane.shift as i32);
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = _mm512_add_epi32(*total, _mm512_sll_epi32(_mm512_srav_epi32(sum, shifts), shift));
            }
        }
    }

    #[inline(always)]
    unsafe fn sums(totals: [__m512i; ROWS]) -> [i32; ROWS] {
        // SAFETY: upheld by the caller.
        unsafe {
            let mut halves = [_mm256_setzero_si256(); ROWS];
            for (half, total) in halves.iter_mut().zip(totals) {
                *half =
                    _mm256_add_epi32(_mm512_castsi512_si256(total), _mm512_extracti64x4_epi64::<1>(total));
            }
            super::avx2::Avx2::sums(halves)
        }
    }

    #[inline(always)]
    unsafe fn unpack_f16(words: [u32; ROWS]) -> [[f32; ROWS]; 2] {
        // SAFETY: `SimdLevel::detect` requires AVX2 for AVX-512.
        unsafe { super::avx2::Avx2::unpack_f16(words) }
    }
}

/// The words of a group, repeated until they fill a register.
///
/// # Safety
/// `2 * WIDTH` words are readable; the CPU supports the instructions.
#[inline(always)]
unsafe fn repeated<const WIDTH: usize>(words: *const u32) -> __m512i {
    // SAFETY: upheld by the caller: 8 bytes times the width.
    unsafe {
        match WIDTH {
            1 => _mm512_set1_epi64(words.cast::<i64>().read_unaligned()),
            2 => _mm512_broadcast_i32x4(_mm_loadu_si128(words.cast())),
            4 => _mm512_broadcast_i64x4(_mm256_loadu_si256(words.cast())),
            _ => _mm512_loadu_si512(words.cast()),
        }
    }
}

/// The word of the group in each lane.
#[inline(always)]
unsafe fn words_of_lanes<const WIDTH: usize>() -> __m512i {
    const { assert!(PAIRS * 4 == GROUP) };
    let words: [i32; PAIRS] = std::array::from_fn(|lane| (lane % (2 * WIDTH)) as i32);
    // SAFETY: an array of 64 bytes; the CPU supports the instructions.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The shift of each lane's field.
#[inline(always)]
unsafe fn shifts_of_lanes<const WIDTH: usize>() -> __m512i {
    let shifts: [i32; PAIRS] = std::array::from_fn(|lane| (WIDTH * (lane / (2 * WIDTH))) as i32);
    // SAFETY: an array of 64 bytes; the CPU supports the instructions.
    unsafe { _mm512_loadu_si512(shifts.as_ptr().cast()) }
}
