//! 256-bit registers: half a group a step.
//!
//! Bits are shifted down before they are multiplied: a product of two bytes is summed in 16 bits with its neighbour, and
//! bits of a high slot would overflow there. Levels of 8 bits do so even then, and are widened first.

use std::arch::x86_64::*;

use super::{Group, PlaneGroups, Simd};

pub(super) struct Avx2;

impl Simd for Avx2 {
    #[inline(always)]
    unsafe fn product(planes: &[PlaneGroups], groups: &[Group], row: *const u32) -> i32 {
        // SAFETY: the caller's promise, passed on: a plane's groups follow those of the planes before it.
        unsafe {
            let mut total = _mm256_setzero_si256();
            let mut first = groups.as_ptr();
            for of_plane in planes {
                let words = row.add(of_plane.plane.first_word);
                let sums = match of_plane.plane.width {
                    1 => plane_sums::<1>(of_plane, first, words),
                    2 => plane_sums::<2>(of_plane, first, words),
                    4 => plane_sums::<4>(of_plane, first, words),
                    _ => bytes_sums(of_plane, first, words),
                };
                let shift = _mm_cvtsi32_si128(of_plane.plane.shift as i32);
                total = _mm256_add_epi32(total, _mm256_sll_epi32(sums, shift));
                first = first.add(of_plane.groups());
            }
            let four = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
            let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)))
        }
    }

    #[inline(always)]
    unsafe fn halves(word: u32) -> [f32; 2] {
        // SAFETY: the level has F16C.
        unsafe {
            let both = _mm_cvtph_ps(_mm_cvtsi32_si128(word as i32));
            [_mm_cvtss_f32(both), _mm_cvtss_f32(_mm_movehdup_ps(both))]
        }
    }
}

/// Lanes of half a group.
const LANES: usize = 8;

/// Sums by lane of a plane of 1, 2 or 4 bits.
///
/// # Safety
/// As [`Simd::product`], for one plane.
#[inline(always)]
unsafe fn plane_sums<const WIDTH: usize>(
    of_plane: &PlaneGroups,
    groups: *const Group,
    words: *const u32,
) -> __m256i {
    // SAFETY: `whole` groups of words lie within the row, and of the one behind them `rest` words; the query has a group
    // for each.
    unsafe {
        let mask = _mm256_set1_epi32(of_plane.plane.mask() as i32);
        let mut sums = [_mm256_setzero_si256(); 2];
        for at in 0..of_plane.whole {
            step::<WIDTH>(&mut sums, repeated::<WIDTH>(words.add(at * 2 * WIDTH)), mask, groups.add(at));
        }
        if of_plane.rest > 0 {
            let lanes = _mm256_loadu_si256([0, 1, 2, 3, 4, 5, 6, 7].as_ptr().cast());
            let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(of_plane.rest as i32), lanes);
            let loaded = _mm256_maskload_epi32(words.add(of_plane.whole * 2 * WIDTH).cast(), there);
            let bits = _mm256_permutevar8x32_epi32(loaded, words_of_lanes::<WIDTH>());
            step::<WIDTH>(&mut sums, bits, mask, groups.add(of_plane.whole));
        }
        _mm256_add_epi32(sums[0], sums[1])
    }
}

/// Adds a group to the sums of its halves.
///
/// # Safety
/// `group` is readable; the processor runs the level.
#[inline(always)]
unsafe fn step<const WIDTH: usize>(
    sums: &mut [__m256i; 2],
    bits: __m256i,
    mask: __m256i,
    group: *const Group,
) {
    // SAFETY: a group is two registers, aligned.
    unsafe {
        for (half, sum) in sums.iter_mut().enumerate() {
            let levels = _mm256_load_si256(group.cast::<__m256i>().add(half));
            let bits = _mm256_and_si256(_mm256_srlv_epi32(bits, shifts_of_lanes::<WIDTH>(half)), mask);
            let pairs = _mm256_maddubs_epi16(bits, levels);
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
}

/// Sums by lane of a plane of 8 bits, which has whole groups only.
///
/// # Safety
/// As [`Simd::product`], for one plane.
#[inline(always)]
unsafe fn bytes_sums(of_plane: &PlaneGroups, groups: *const Group, words: *const u32) -> __m256i {
    // SAFETY: 16 bytes at a time, of row and query alike, up to the end of the last whole group.
    unsafe {
        let (row, levels) = (words.cast::<__m128i>(), groups.cast::<__m128i>());
        let mut sum = _mm256_setzero_si256();
        for at in 0..of_plane.whole * (size_of::<Group>() / size_of::<__m128i>()) {
            let u = _mm256_cvtepu8_epi16(_mm_loadu_si128(row.add(at)));
            let y = _mm256_cvtepi8_epi16(_mm_load_si128(levels.add(at)));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(u, y));
        }
        sum
    }
}

/// The words of a group, repeated until they fill a register.
///
/// # Safety
/// `2 * WIDTH` words are readable; the processor runs the level.
#[inline(always)]
unsafe fn repeated<const WIDTH: usize>(words: *const u32) -> __m256i {
    // SAFETY: the caller's promise: 8 bytes times the width.
    unsafe {
        match WIDTH {
            1 => _mm256_set1_epi64x(words.cast::<i64>().read_unaligned()),
            2 => _mm256_broadcastsi128_si256(_mm_loadu_si128(words.cast())),
            _ => _mm256_loadu_si256(words.cast()),
        }
    }
}

/// Which word of the group each lane holds.
#[inline(always)]
unsafe fn words_of_lanes<const WIDTH: usize>() -> __m256i {
    let words: [i32; LANES] = std::array::from_fn(|lane| (lane % (2 * WIDTH)) as i32);
    // SAFETY: an array of 32 bytes; the processor runs the level.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// How far the bits of each lane's slot lie above the lowest.
#[inline(always)]
unsafe fn shifts_of_lanes<const WIDTH: usize>(half: usize) -> __m256i {
    let shifts: [i32; LANES] =
        std::array::from_fn(|lane| (WIDTH * ((half * LANES + lane) / (2 * WIDTH))) as i32);
    // SAFETY: an array of 32 bytes; the processor runs the level.
    unsafe { _mm256_loadu_si256(shifts.as_ptr().cast()) }
}
