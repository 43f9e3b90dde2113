//! AVX2: half a group per 256-bit register.
//!
//! `vpmaddubsw` sums two products of bytes in 16 bits, which bits of a high field would overflow. So bits are shifted
//! down before they are multiplied, and levels of 8 bits are widened to 16 first.

use std::arch::x86_64::*;

use super::{Group, PlaneGroups, ROWS, Simd};

pub(super) struct Avx2;

impl Simd for Avx2 {
    type Sums = __m256i;

    #[inline(always)]
    unsafe fn zeros() -> __m256i {
        // SAFETY: upheld by the caller.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [__m256i; ROWS],
        plane_groups: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    ) {
        if WIDTH == 8 {
            // SAFETY: upheld by the caller.
            return unsafe { add_bytes(totals, plane_groups, groups, rows) };
        }
        // SAFETY: the words of `whole` groups and `rest` more are within a row, and the query has a group for each.
        unsafe {
            let mask = _mm256_set1_epi32(plane_groups.plane.mask() as i32);
            let first_word = plane_groups.plane.first_word;
            let mut sums = [_mm256_setzero_si256(); ROWS];
            for at in 0..plane_groups.whole {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let bits = repeated::<WIDTH>(row.add(first_word + at * 2 * WIDTH));
                    *sum = _mm256_add_epi32(*sum, group_sums::<WIDTH>(bits, mask, groups.add(at)));
                }
            }
            if plane_groups.rest > 0 {
                let lanes = _mm256_loadu_si256([0, 1, 2, 3, 4, 5, 6, 7].as_ptr().cast());
                let mask_of_rest = _mm256_cmpgt_epi32(_mm256_set1_epi32(plane_groups.rest as i32), lanes);
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let from = row.add(first_word + plane_groups.whole * 2 * WIDTH);
                    let loaded = _mm256_maskload_epi32(from.cast(), mask_of_rest);
                    let bits = _mm256_permutevar8x32_epi32(loaded, words_of_lanes::<WIDTH>());
                    *sum = _mm256_add_epi32(
                        *sum,
                        group_sums::<WIDTH>(bits, mask, groups.add(plane_groups.whole)),
                    );
                }
            }
            let shift = _mm_cvtsi32_si128(plane_groups.plane.shift as i32);
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = _mm256_add_epi32(*total, _mm256_sll_epi32(sum, shift));
            }
        }
    }

    #[inline(always)]
    unsafe fn sums(totals: [__m256i; ROWS]) -> [i32; ROWS] {
        // SAFETY: upheld by the caller; an array of 16 bytes is written.
        unsafe {
            let [a, b, c, d] = totals;
            let quarters = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
            let sums =
                _mm_add_epi32(_mm256_castsi256_si128(quarters), _mm256_extracti128_si256::<1>(quarters));
            let mut out = [0; ROWS];
            _mm_storeu_si128(out.as_mut_ptr().cast(), sums);
            out
        }
    }

    #[inline(always)]
    unsafe fn unpack_f16(words: [u32; ROWS]) -> [[f32; ROWS]; 2] {
        // SAFETY: these instructions include F16C; an array of 16 bytes is read, one of 32 written.
        unsafe {
            let mut pairs = [[0.0; 2]; ROWS];
            let both = _mm256_cvtph_ps(_mm_loadu_si128(words.as_ptr().cast()));
            _mm256_storeu_ps(pairs.as_mut_ptr().cast(), both);
            // No closures: one that is not inlined is compiled for the baseline instructions, and is slow.
            let mut halves = [[0.0; ROWS]; 2];
            for (row, [low, high]) in pairs.into_iter().enumerate() {
                (halves[0][row], halves[1][row]) = (low, high);
            }
            halves
        }
    }
}

/// QueryGroups per half group.
const LANES: usize = 8;

/// The sums of a group, over both its halves.
///
/// # Safety
/// `group` is readable; the CPU supports the instructions.
#[inline(always)]
unsafe fn group_sums<const WIDTH: usize>(bits: __m256i, mask: __m256i, group: *const Group) -> __m256i {
    // SAFETY: a group is two registers, aligned.
    unsafe {
        let mut pairs = [_mm256_setzero_si256(); 2];
        for (half, pairs) in pairs.iter_mut().enumerate() {
            let levels = _mm256_load_si256(group.cast::<__m256i>().add(half));
            let bits = _mm256_and_si256(_mm256_srlv_epi32(bits, shifts_of_lanes::<WIDTH>(half)), mask);
            *pairs = _mm256_maddubs_epi16(bits, levels);
        }
        // At most 2 * 15 * 128 each: two of them do not overflow either.
        _mm256_madd_epi16(_mm256_add_epi16(pairs[0], pairs[1]), _mm256_set1_epi16(1))
    }
}

/// Adds the products of a plane of 8 bits, which has no shift.
///
/// # Safety
/// The same as for [`Simd::products`], for one plane.
#[inline(always)]
unsafe fn add_bytes(
    totals: &mut [__m256i; ROWS],
    plane_groups: &PlaneGroups,
    groups: *const Group,
    rows: [*const u32; ROWS],
) {
    const WORDS: usize = size_of::<__m128i>() / size_of::<u32>();
    // SAFETY: reads 16 bytes at a time, of rows and query, up to the end of the last whole group, and of the words
    // after it those within the row.
    unsafe {
        let levels = groups.cast::<__m128i>();
        let whole = plane_groups.whole * (size_of::<Group>() / size_of::<__m128i>());
        for at in 0..whole {
            let y = _mm256_cvtepi8_epi16(_mm_load_si128(levels.add(at)));
            for (total, row) in totals.iter_mut().zip(rows) {
                let words = row.add(plane_groups.plane.first_word).cast::<__m128i>();
                let u = _mm256_cvtepu8_epi16(_mm_loadu_si128(words.add(at)));
                *total = _mm256_add_epi32(*total, _mm256_madd_epi16(u, y));
            }
        }
        let lanes = _mm_loadu_si128([0, 1, 2, 3].as_ptr().cast());
        for (i, first) in (0..plane_groups.rest).step_by(WORDS).enumerate() {
            let mask_of_rest = _mm_cmpgt_epi32(_mm_set1_epi32((plane_groups.rest - first) as i32), lanes);
            let y = _mm256_cvtepi8_epi16(_mm_load_si128(levels.add(whole + i)));
            for (total, row) in totals.iter_mut().zip(rows) {
                let words = row.add(plane_groups.plane.first_word).cast::<__m128i>();
                let u = _mm256_cvtepu8_epi16(_mm_maskload_epi32(words.add(whole + i).cast(), mask_of_rest));
                *total = _mm256_add_epi32(*total, _mm256_madd_epi16(u, y));
            }
        }
    }
}

/// The words of a group, repeated until they fill a register.
///
/// # Safety
/// `2 * WIDTH` words are readable; the CPU supports the instructions.
#[inline(always)]
unsafe fn repeated<const WIDTH: usize>(words: *const u32) -> __m256i {
    // SAFETY: upheld by the caller: 8 bytes times the width.
    unsafe {
        match WIDTH {
            1 => _mm256_set1_epi64x(words.cast::<i64>().read_unaligned()),
            2 => _mm256_broadcastsi128_si256(_mm_loadu_si128(words.cast())),
            _ => _mm256_loadu_si256(words.cast()),
        }
    }
}

/// The word of the group in each lane.
#[inline(always)]
unsafe fn words_of_lanes<const WIDTH: usize>() -> __m256i {
    let words: [i32; LANES] = std::array::from_fn(|lane| (lane % (2 * WIDTH)) as i32);
    // SAFETY: an array of 32 bytes; the CPU supports the instructions.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// The shift of each lane's field.
#[inline(always)]
unsafe fn shifts_of_lanes<const WIDTH: usize>(half: usize) -> __m256i {
    let shifts: [i32; LANES] =
        std::array::from_fn(|lane| (WIDTH * ((half * LANES + lane) / (2 * WIDTH))) as i32);
    // SAFETY: an array of 32 bytes; the CPU supports the instructions.
    unsafe { _mm256_loadu_si256(shifts.as_ptr().cast()) }
}
