//! Products of a query's int8 with the bits of a row, for each level of instructions.
//!
//! Groups of 64 dimensions are read at a time. At width `m` such a group is `2 m` words; repeated until they fill 64
//! bytes, they hold each of the group's 16 pairs of (word, slot) once, and one AND with a mask takes the pairs out. The
//! query lies in the same order, with zeros where a plane has no dimension. The sums are integers: every level gives
//! the same.
//!
//! Four rows are scored at a time: the query is read once for them, their sums do not wait for each other, and all four
//! are added up across lanes by the instructions that one would take.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use bytemuck::{Pod, Zeroable};
use jasper_core::distance::{Level, prefetch};

use crate::factors::LOW;
use crate::wide::{self, Work};
use crate::{Layout, Plane, QueryCode};

/// Dimensions of a group.
const GROUP: usize = 64;
/// Pairs of word and slot in a group, four dimensions each.
const PAIRS: usize = GROUP / 4;

/// The query's share of a group.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Group([[i8; 4]; PAIRS]);

/// A query in the order of groups.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    planes: Vec<PlaneGroups>,
    /// `[limbs][groups of all planes]`.
    groups: Vec<Group>,
}

/// How a plane is read.
#[derive(Clone, Copy, Debug)]
struct PlaneGroups {
    plane: Plane,
    /// Groups whose words all lie within the row; those behind the plane meet zeros of the query.
    whole: usize,
    /// Words of one more group, which ends behind the row: at most one.
    rest: usize,
}

impl PlaneGroups {
    fn groups(&self) -> usize {
        self.whole + usize::from(self.rest > 0)
    }
}

impl Lanes {
    /// `levels` is `[limbs][layout.dimensions()]`.
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

/// Up to 64 levels in the order in which words of `width` bits are read.
fn group(width: usize, levels: &[i8]) -> Group {
    let mut group = Group::zeroed();
    for (pair, four) in group.0.iter_mut().enumerate() {
        let (word, slot) = (pair % (2 * width), pair / (2 * width));
        let first = 4 * (word * (8 / width) + slot);
        if let Some(levels) = levels.get(first..first + 4) {
            four.copy_from_slice(levels);
        }
    }
    group
}

/// Rows scored together.
const ROWS: usize = 4;

/// What a level writes.
trait Simd {
    /// Sums of a row, by lane.
    type Sums: Copy;

    /// Zeros.
    ///
    /// # Safety
    /// The processor runs the level.
    unsafe fn zeros() -> Self::Sums;

    /// Adds the products of a plane of `WIDTH` bits, shifted to their place, to the totals of each row.
    ///
    /// # Safety
    /// As [`Self::products`], for one plane.
    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [Self::Sums; ROWS],
        of_plane: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    );

    /// The sum over lanes, of each row.
    ///
    /// # Safety
    /// The processor runs the level.
    unsafe fn sums(totals: [Self::Sums; ROWS]) -> [i32; ROWS];

    /// The products of the levels of each row with `groups`: a limb of a query, of as many groups as the planes have.
    ///
    /// # Safety
    /// - The processor runs the level.
    /// - `groups` holds the groups of `planes`, one plane after the other.
    /// - `rows` are readable for the words of the layout that `planes` are of.
    #[inline(always)]
    unsafe fn products(planes: &[PlaneGroups], groups: &[Group], rows: [*const u32; ROWS]) -> [i32; ROWS] {
        // SAFETY: the caller's promise, passed on: a plane's groups follow those of the planes before it.
        unsafe {
            let mut totals = [Self::zeros(); ROWS];
            let mut first = groups.as_ptr();
            for of_plane in planes {
                match of_plane.plane.width {
                    1 => Self::add_plane::<1>(&mut totals, of_plane, first, rows),
                    2 => Self::add_plane::<2>(&mut totals, of_plane, first, rows),
                    4 => Self::add_plane::<4>(&mut totals, of_plane, first, rows),
                    _ => Self::add_plane::<8>(&mut totals, of_plane, first, rows),
                }
                first = first.add(of_plane.groups());
            }
            Self::sums(totals)
        }
    }

    /// Words of two f16 as f32: the low halves, then the high ones.
    ///
    /// # Safety
    /// The processor runs the level.
    unsafe fn halves(words: [u32; ROWS]) -> [[f32; ROWS]; 2];
}

/// Bytes of rows asked for ahead of the one being scored, as for exact distances.
const PREFETCH_BYTES: usize = 4096;

/// Estimates for row `row(i)` in `out[i]`, for every `i`, with the widest instructions up to `level`.
pub(crate) fn estimates<'a>(
    level: Level,
    query: &QueryCode,
    row: impl Fn(usize) -> &'a [u32],
    out: &mut [f32],
) {
    match level.min(Level::detect()) {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => wide::at(Level::Avx512, Estimates { query, row, out, simd: avx512::Avx512 }),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => wide::at(Level::Avx2, Estimates { query, row, out, simd: avx2::Avx2 }),
        _ => wide::at(Level::Scalar, Estimates { query, row, out, simd: scalar::Scalar }),
    }
}

/// Made by [`estimates`] alone, with a level that was detected.
struct Estimates<'a, F, S> {
    query: &'a QueryCode,
    row: F,
    out: &'a mut [f32],
    #[expect(dead_code, reason = "it is its type that says what runs")]
    simd: S,
}

impl<'r, F: Fn(usize) -> &'r [u32], S: Simd> Work for Estimates<'_, F, S> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        let Self { query, row, out, .. } = self;
        let (layout, terms, lanes) = (query.layout(), query.terms(), query.lanes());
        let (words, factor_word, has_low) = (layout.words(), layout.factor_word(), layout.halves() == 4);
        let (first_limb, second_limb) = lanes.groups.split_at(lanes.groups.len() / terms.limbs as usize);
        let count = out.len();
        let ahead = (PREFETCH_BYTES / layout.bytes()).clamp(ROWS, 32);
        for i in 0..ahead.min(count) {
            prefetch(row(i));
        }
        for (block, out) in out.chunks_mut(ROWS).enumerate() {
            let first = block * ROWS;
            // Where fewer than four are left, the first of them stands in for the others.
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
            for (limb, groups) in [first_limb, second_limb].into_iter().enumerate().take(terms.limbs as usize)
            {
                // SAFETY: the level was detected; `Lanes::new` made the groups of a limb, plane after plane, for this
                // layout, whose words the rows have.
                let sums = unsafe { S::products(&lanes.planes, groups, pointers) };
                for k in 0..ROWS {
                    products[k] += terms.scale[limb] * (sums[k] as f32 + terms.offset[limb]);
                }
            }
            // SAFETY: the level was detected.
            let ([mut adds, rescales], [_, lows]) = unsafe { (S::halves(factors[0]), S::halves(factors[1])) };
            for k in 0..ROWS {
                // Without a fourth factor this adds zero.
                adds[k] += lows[k] * LOW;
            }
            for (k, out) in out.iter_mut().enumerate() {
                *out = (adds[k] * terms.add_unit + terms.add) + rescales[k] * products[k];
            }
        }
    }
}

#[cfg(test)]
mod tests;
