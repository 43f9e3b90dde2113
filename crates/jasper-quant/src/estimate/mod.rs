//! Products of an int8 query with code bits, at each SIMD level.
//!
//! ```text
//! for each block of four rows:
//!     for each plane, for each group of 64 dimensions:
//!         bits = the group's 2 * width words, repeated to fill 64 bytes
//!         sums[row] += dot(bits AND mask, query's int8 of the group)
//!     estimates from the sums, the rows' factors and the query's factors        (see `query`)
//! ```
//!
//! 64 dimensions of a plane of `width` bits are `2 * width` words. Repeated to 64 bytes, they hold each of the group's
//! 16 pairs of (word, field) once, and one AND with a mask extracts them all. The query is stored in the same order,
//! with zeros past the end of a plane. Sums are integers, so every SIMD level gives the same result.
//!
//! Taking four rows at a time loads the query once for them, hides the latency of the sums, and shares the reduction
//! across lanes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use bytemuck::{Pod, Zeroable};
#[cfg(target_arch = "aarch64")]
use jasper_core::distance::Neon;
use jasper_core::distance::{SimdLevel, prefetch};

use crate::factors::LOW;
use crate::{Layout, Plane, QueryCode};

/// Dimensions per group.
const GROUP: usize = 64;
/// Pairs of word and field per group, of four dimensions each.
const PAIRS: usize = GROUP / 4;

/// The query's levels of a group.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Group([[i8; 4]; PAIRS]);

/// A query's levels in the order of groups.
#[derive(Clone, Debug)]
pub(crate) struct QueryGroups {
    planes: Vec<PlaneGroups>,
    /// `[level_bytes][groups of all planes]`.
    groups: Vec<Group>,
}

/// The groups of a plane.
#[derive(Clone, Copy, Debug)]
struct PlaneGroups {
    plane: Plane,
    /// Groups whose words are all within the row. Words past the plane meet zeros of the query.
    whole: usize,
    /// Words of a last group that would end past the row; 0 if there is none.
    rest: usize,
}

impl PlaneGroups {
    fn groups(&self) -> usize {
        self.whole + usize::from(self.rest > 0)
    }
}

impl QueryGroups {
    /// `levels` is `[level_bytes][layout.dimensions()]`.
    pub(crate) fn new(layout: &Layout, levels: &[i8]) -> Self {
        let planes: Vec<PlaneGroups> = layout
            .planes()
            .iter()
            .map(|&plane| {
                let words = 2 * plane.width as usize;
                let groups = plane.words().div_ceil(words);
                let fits = plane.first_word + groups * words <= layout.words();
                let whole = if fits { groups } else { groups - 1 };
                PlaneGroups { plane, whole, rest: if fits { 0 } else { plane.words() - whole * words } }
            })
            .collect();
        let mut out = Vec::new();
        for levels in levels.chunks_exact(layout.dimensions()) {
            for PlaneGroups { plane, .. } in &planes {
                let levels = &levels[plane.first_dimension..][..plane.dimensions];
                out.extend(levels.chunks(GROUP).map(|levels| group(plane.width as usize, levels)));
            }
        }
        Self { planes, groups: out }
    }
}

/// Up to 64 levels in the order of the (word, field) pairs of a plane of `width` bits.
fn group(width: usize, levels: &[i8]) -> Group {
    let mut group = Group::zeroed();
    for (pair, four) in group.0.iter_mut().enumerate() {
        let (word, field) = (pair % (2 * width), pair / (2 * width));
        let first = 4 * (word * (8 / width) + field);
        if let Some(levels) = levels.get(first..first + 4) {
            four.copy_from_slice(levels);
        }
    }
    group
}

/// Rows per block.
const ROWS: usize = 4;

/// The operations of a SIMD level.
trait Simd {
    /// Partial sums of a row, one per lane.
    type Sums: Copy;

    /// Zero sums.
    ///
    /// # Safety
    /// The CPU supports the instructions.
    unsafe fn zeros() -> Self::Sums;

    /// Adds the products of a plane of `WIDTH` bits, times its `2^shift`, to the totals of each row.
    ///
    /// # Safety
    /// The same as for [`Self::products`], for one plane.
    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [Self::Sums; ROWS],
        plane_groups: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    );

    /// Sums each row's lanes.
    ///
    /// # Safety
    /// The CPU supports the instructions.
    unsafe fn sums(totals: [Self::Sums; ROWS]) -> [i32; ROWS];

    /// The products of each row's levels with `groups`, one byte of a query.
    ///
    /// # Safety
    /// - The CPU supports the instructions.
    /// - `groups` holds the groups of `planes`, one plane after the other.
    /// - `rows` are readable for the words of the layout.
    #[inline(always)]
    unsafe fn products(planes: &[PlaneGroups], groups: &[Group], rows: [*const u32; ROWS]) -> [i32; ROWS] {
        // SAFETY: as the caller promises; a plane's groups follow those of the planes before it.
        unsafe {
            let mut totals = [Self::zeros(); ROWS];
            let mut first = groups.as_ptr();
            for plane_groups in planes {
                match plane_groups.plane.width {
                    1 => Self::add_plane::<1>(&mut totals, plane_groups, first, rows),
                    2 => Self::add_plane::<2>(&mut totals, plane_groups, first, rows),
                    4 => Self::add_plane::<4>(&mut totals, plane_groups, first, rows),
                    _ => Self::add_plane::<8>(&mut totals, plane_groups, first, rows),
                }
                first = first.add(plane_groups.groups());
            }
            Self::sums(totals)
        }
    }

    /// Converts words of two f16 to f32: all low halves, and all high halves.
    ///
    /// # Safety
    /// The CPU supports the instructions.
    unsafe fn unpack_f16(words: [u32; ROWS]) -> [[f32; ROWS]; 2];
}

/// Bytes of rows prefetched ahead, as for exact distances.
const PREFETCH_BYTES: usize = 4096;

/// Writes the estimate of row `row(i)` to `out[i]`, for every `i`, at the fastest SIMD level up to `simd`.
pub(crate) fn estimates<'a>(
    simd: SimdLevel,
    query: &QueryCode,
    row: impl Fn(usize) -> &'a [u32],
    out: &mut [f32],
) {
    match simd.min(SimdLevel::detect()) {
        // SAFETY: this CPU supports the instructions.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx512 => unsafe { estimates_avx512(query, row, out) },
        // SAFETY: this CPU supports the instructions.
        #[cfg(target_arch = "x86_64")]
        SimdLevel::Avx2 => unsafe { estimates_avx2(query, row, out) },
        // SAFETY: this CPU supports the instructions.
        #[cfg(target_arch = "aarch64")]
        SimdLevel::NeonDot => unsafe { estimates_by::<Neon<true>>(query, row, out) },
        // SAFETY: this CPU supports the instructions.
        #[cfg(target_arch = "aarch64")]
        SimdLevel::Neon => unsafe { estimates_by::<Neon<false>>(query, row, out) },
        // SAFETY: every CPU supports these.
        _ => unsafe { estimates_by::<scalar::Scalar>(query, row, out) },
    }
}

// Not by `simd_fn`, which compiles the operations of each level for all levels; with its features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn estimates_avx512<'a>(query: &QueryCode, row: impl Fn(usize) -> &'a [u32], out: &mut [f32]) {
    // SAFETY: whoever calls this knows that the CPU supports the instructions.
    unsafe { estimates_by::<avx512::Avx512>(query, row, out) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn estimates_avx2<'a>(query: &QueryCode, row: impl Fn(usize) -> &'a [u32], out: &mut [f32]) {
    // SAFETY: whoever calls this knows that the CPU supports the instructions.
    unsafe { estimates_by::<avx2::Avx2>(query, row, out) };
}

/// [`estimates`] by the operations of one SIMD level.
///
/// # Safety
/// The CPU supports the instructions.
#[inline(always)]
unsafe fn estimates_by<'a, S: Simd>(query: &QueryCode, row: impl Fn(usize) -> &'a [u32], out: &mut [f32]) {
    let (layout, query_factors, QueryGroups { planes, groups }) =
        (query.layout(), query.factors(), query.groups());
    let (words, factor_word, has_low) = (layout.words(), layout.factor_word(), layout.factors() == 4);
    let (first_byte, second_byte) = groups.split_at(groups.len() / query_factors.level_bytes as usize);
    let count = out.len();
    let ahead = (PREFETCH_BYTES / layout.bytes()).clamp(ROWS, 32);
    for i in 0..ahead.min(count) {
        prefetch(row(i));
    }
    for (block, out) in out.chunks_mut(ROWS).enumerate() {
        let first = block * ROWS;
        // A partial block repeats its first row.
        let mut rows = [row(first); ROWS];
        for (k, of_block) in rows.iter_mut().enumerate().take(out.len()) {
            *of_block = row(first + k);
            if first + k + ahead < count {
                prefetch(row(first + k + ahead));
            }
        }
        let mut pointers = [rows[0].as_ptr(); ROWS];
        let mut factors = [[0; ROWS]; 2];
        for (k, row) in rows.into_iter().enumerate() {
            assert_eq!(row.len(), words);
            pointers[k] = row.as_ptr();
            factors[0][k] = row[factor_word];
            if has_low {
                factors[1][k] = row[factor_word + 1];
            }
        }
        let mut products = [0.0; ROWS];
        for (byte, groups) in
            [first_byte, second_byte].into_iter().enumerate().take(query_factors.level_bytes as usize)
        {
            // SAFETY: the CPU supports the instructions; `QueryGroups::new` made the groups of a byte, plane after
            // plane, for this layout, and the rows have its words.
            let sums = unsafe { S::products(planes, groups, pointers) };
            for k in 0..ROWS {
                products[k] += query_factors.scale[byte] * (sums[k] as f32 + query_factors.offset[byte]);
            }
        }
        // SAFETY: the CPU supports the instructions.
        let ([mut adds, rescales], [_, lows]) =
            unsafe { (S::unpack_f16(factors[0]), S::unpack_f16(factors[1])) };
        for k in 0..ROWS {
            // This adds zero if there is no fourth factor.
            adds[k] += lows[k] * LOW;
        }
        for (k, out) in out.iter_mut().enumerate() {
            *out = (adds[k] * query_factors.add_unit + query_factors.add) + rescales[k] * products[k];
        }
    }
}

#[cfg(test)]
mod tests;
