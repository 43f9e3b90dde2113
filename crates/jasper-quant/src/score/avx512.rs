//! 512-bit registers: a group a step, by one AND and one `vpdpbusd`.
//!
//! Bits are multiplied where they lie; the sum of a lane is `2^(width * slot)` times what it should be, and is shifted
//! once, at the end.

use std::arch::x86_64::*;

use super::{GROUP, Group, PAIRS, PlaneGroups, ROWS, Simd};

pub(super) struct Avx512;

impl Simd for Avx512 {
    type Sums = __m512i;

    #[inline(always)]
    unsafe fn zeros() -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [__m512i; ROWS],
        of_plane: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    ) {
        // SAFETY: `whole` groups of words lie within a row, and of the one behind them `rest` words; the query has a
        // group for each.
        unsafe {
            let shifts = shifts_of_lanes::<WIDTH>();
            let mask = _mm512_sllv_epi32(_mm512_set1_epi32(of_plane.plane.mask() as i32), shifts);
            let first_word = of_plane.plane.first_word;
            let mut sums = [_mm512_setzero_si512(); ROWS];
            for at in 0..of_plane.whole {
                let levels = _mm512_load_si512(groups.add(at).cast());
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let bits = repeated::<WIDTH>(row.add(first_word + at * 2 * WIDTH));
                    *sum = _mm512_dpbusd_epi32(*sum, _mm512_and_si512(bits, mask), levels);
                }
            }
            if of_plane.rest > 0 {
                let levels = _mm512_load_si512(groups.add(of_plane.whole).cast());
                let there = ((1_u32 << of_plane.rest) - 1) as __mmask16;
                let words = words_of_lanes::<WIDTH>();
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let from = row.add(first_word + of_plane.whole * 2 * WIDTH);
                    let bits = _mm512_permutexvar_epi32(words, _mm512_maskz_loadu_epi32(there, from.cast()));
                    *sum = _mm512_dpbusd_epi32(*sum, _mm512_and_si512(bits, mask), levels);
                }
            }
            let shift = _mm_cvtsi32_si128(of_plane.plane.shift as i32);
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = _mm512_add_epi32(*total, _mm512_sll_epi32(_mm512_srav_epi32(sum, shifts), shift));
            }
        }
    }

    #[inline(always)]
    unsafe fn sums(totals: [__m512i; ROWS]) -> [i32; ROWS] {
        // SAFETY: the caller's promise.
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
    unsafe fn halves(words: [u32; ROWS]) -> [[f32; ROWS]; 2] {
        // SAFETY: AVX-512 comes with AVX2 (`Level::detect` asks for both).
        unsafe { super::avx2::Avx2::halves(words) }
    }
}

/// The words of a group, repeated until they fill a register.
///
/// # Safety
/// `2 * WIDTH` words are readable; the processor runs the level.
#[inline(always)]
unsafe fn repeated<const WIDTH: usize>(words: *const u32) -> __m512i {
    // SAFETY: the caller's promise: 8 bytes times the width.
    unsafe {
        match WIDTH {
            1 => _mm512_set1_epi64(words.cast::<i64>().read_unaligned()),
            2 => _mm512_broadcast_i32x4(_mm_loadu_si128(words.cast())),
            4 => _mm512_broadcast_i64x4(_mm256_loadu_si256(words.cast())),
            _ => _mm512_loadu_si512(words.cast()),
        }
    }
}

/// Which word of the group each lane holds.
#[inline(always)]
unsafe fn words_of_lanes<const WIDTH: usize>() -> __m512i {
    const { assert!(PAIRS * 4 == GROUP) };
    let words: [i32; PAIRS] = std::array::from_fn(|lane| (lane % (2 * WIDTH)) as i32);
    // SAFETY: an array of 64 bytes; the processor runs the level.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// How far the bits of each lane's slot lie above the lowest.
#[inline(always)]
unsafe fn shifts_of_lanes<const WIDTH: usize>() -> __m512i {
    let shifts: [i32; PAIRS] = std::array::from_fn(|lane| (WIDTH * (lane / (2 * WIDTH))) as i32);
    // SAFETY: an array of 64 bytes; the processor runs the level.
    unsafe { _mm512_loadu_si512(shifts.as_ptr().cast()) }
}
