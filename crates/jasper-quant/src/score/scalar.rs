//! The definition, word by word: the reference, and what runs where no SIMD form exists.

use super::{GROUP, Group, PlaneGroups, Simd};

pub(super) struct Scalar;

impl Simd for Scalar {
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

    unsafe fn halves(word: u32) -> [f32; 2] {
        [word as u16, (word >> 16) as u16].map(|bits| half::f16::from_bits(bits).to_f32())
    }
}
