//! 512-bit registers: a group a step, by one AND and one `vpdpbusd`.
//!
//! Bits are multiplied where they lie; the sum of a lane is `2^(width * slot)` times what it should be, and is shifted
//! once, at the end.

use std::arch::x86_64::*;

use super::{GROUP, Group, PAIRS, PlaneGroups, Simd};

pub(super) struct Avx512;

impl Simd for Avx512 {
    #[inline(always)]
    unsafe fn product(planes: &[PlaneGroups], groups: &[Group], row: *const u32) -> i32 {
        // SAFETY: the caller's promise, passed on: a plane's groups follow those of the planes before it.
        unsafe {
            let mut total = _mm512_setzero_si512();
            let mut first = groups.as_ptr();
            for of_plane in planes {
                let words = row.add(of_plane.plane.first_word);
                let sums = match of_plane.plane.width {
                    1 => plane_sums::<1>(of_plane, first, words),
                    2 => plane_sums::<2>(of_plane, first, words),
                    4 => plane_sums::<4>(of_plane, first, words),
                    _ => plane_sums::<8>(of_plane, first, words),
                };
                let shift = _mm_cvtsi32_si128(of_plane.plane.shift as i32);
                total = _mm512_add_epi32(total, _mm512_sll_epi32(sums, shift));
                first = first.add(of_plane.groups());
            }
            _mm512_reduce_add_epi32(total)
        }
    }

    #[inline(always)]
    unsafe fn halves(word: u32) -> [f32; 2] {
        // SAFETY: AVX-512 comes with F16C (`Level::detect` asks for both).
        unsafe {
            let both = _mm_cvtph_ps(_mm_cvtsi32_si128(word as i32));
            [_mm_cvtss_f32(both), _mm_cvtss_f32(_mm_movehdup_ps(both))]
        }
    }
}

/// Sums of a plane by lane, shifted down.
///
/// # Safety
/// As [`Simd::product`], for one plane.
#[inline(always)]
unsafe fn plane_sums<const WIDTH: usize>(
    of_plane: &PlaneGroups,
    groups: *const Group,
    words: *const u32,
) -> __m512i {
    // SAFETY: `whole` groups of words lie within the row, and of the one behind them `rest` words; the query has a group
    // for each.
    unsafe {
        let mask = _mm512_set1_epi32(of_plane.plane.mask() as i32);
        let mut sums = [_mm512_setzero_si512(); 2];
        let mut at = 0;
        while at + 2 <= of_plane.whole {
            for (k, sum) in sums.iter_mut().enumerate() {
                let bits = repeated::<WIDTH>(words.add((at + k) * 2 * WIDTH));
                *sum = step(*sum, _mm512_and_si512(bits, mask_of::<WIDTH>(mask)), groups.add(at + k));
            }
            at += 2;
        }
        if at < of_plane.whole {
            let bits = repeated::<WIDTH>(words.add(at * 2 * WIDTH));
            sums[0] = step(sums[0], _mm512_and_si512(bits, mask_of::<WIDTH>(mask)), groups.add(at));
            at += 1;
        }
        if of_plane.rest > 0 {
            let there = ((1_u32 << of_plane.rest) - 1) as __mmask16;
            let loaded = _mm512_maskz_loadu_epi32(there, words.add(at * 2 * WIDTH).cast());
            let bits = _mm512_permutexvar_epi32(words_of_lanes::<WIDTH>(), loaded);
            sums[1] = step(sums[1], _mm512_and_si512(bits, mask_of::<WIDTH>(mask)), groups.add(at));
        }
        _mm512_srav_epi32(_mm512_add_epi32(sums[0], sums[1]), shifts_of_lanes::<WIDTH>())
    }
}

/// # Safety
/// `group` is readable; the processor runs the level.
#[inline(always)]
unsafe fn step(sum: __m512i, bits: __m512i, group: *const Group) -> __m512i {
    // SAFETY: the caller's promise; groups are aligned.
    unsafe { _mm512_dpbusd_epi32(sum, bits, _mm512_load_si512(group.cast())) }
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

/// The mask of each lane: the bits of its slot.
#[inline(always)]
unsafe fn mask_of<const WIDTH: usize>(mask: __m512i) -> __m512i {
    // SAFETY: the processor runs the level.
    unsafe { _mm512_sllv_epi32(mask, shifts_of_lanes::<WIDTH>()) }
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
