//! The definition, word by word: the reference, and what runs where no SIMD form exists.

use super::{GROUP, Group, PlaneGroups, ROWS, Simd};

pub(super) struct Scalar;

impl Simd for Scalar {
    unsafe fn products(planes: &[PlaneGroups], groups: &[Group], rows: [*const u32; ROWS]) -> [i32; ROWS] {
        // SAFETY: the caller's promise, for each row.
        rows.map(|row| unsafe { product(planes, groups, row) })
    }

    unsafe fn halves(words: [u32; ROWS]) -> [[f32; ROWS]; 2] {
        [0, 16].map(|shift| words.map(|word| half::f16::from_bits((word >> shift) as u16).to_f32()))
    }
}

/// The product of one row.
///
/// # Safety
/// As [`Simd::products`].
unsafe fn product(planes: &[PlaneGroups], groups: &[Group], row: *const u32) -> i32 {
    let mut total = 0;
    let mut first_group = 0;
    for of_plane in planes {
        let plane = of_plane.plane;
        // SAFETY: the caller says that the words of the layout are readable; the plane's are among them.
        let words = unsafe { std::slice::from_raw_parts(row.add(plane.first_word), plane.words()) };
        let words_a_group = GROUP / plane.per_word();
        let mut sum = 0;
        for (group, words) in groups[first_group..].iter().zip(words.chunks(words_a_group)) {
            for (pair, levels) in group.0.iter().enumerate() {
                let (word, slot) = (pair % words_a_group, pair / words_a_group);
                let Some(word) = words.get(word) else { continue };
                let bits = (word >> (plane.width * slot as u32) & plane.mask()).to_le_bytes();
                sum += bits.iter().zip(levels).map(|(u, y)| i32::from(*u) * i32::from(*y)).sum::<i32>();
            }
        }
        total += sum << plane.shift;
        first_group += of_plane.groups();
    }
    total
}
