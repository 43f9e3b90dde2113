//! The reference implementation, word by word, also used where no SIMD implementation exists.

use super::{GROUP, Group, PlaneGroups, ROWS, Simd};

pub(super) struct Scalar;

impl Simd for Scalar {
    type Sums = i32;

    unsafe fn zeros() -> i32 {
        0
    }

    unsafe fn add_plane<const WIDTH: usize>(
        totals: &mut [i32; ROWS],
        plane_groups: &PlaneGroups,
        groups: *const Group,
        rows: [*const u32; ROWS],
    ) {
        let PlaneGroups { plane, .. } = plane_groups;
        // SAFETY: the caller passes all groups of the plane.
        let groups = unsafe { std::slice::from_raw_parts(groups, plane_groups.groups()) };
        let words_per_group = GROUP * WIDTH / 32;
        for (total, row) in totals.iter_mut().zip(rows) {
            // SAFETY: the words of the layout are readable, and the plane's are among them.
            let words = unsafe { std::slice::from_raw_parts(row.add(plane.first_word), plane.words()) };
            let mut sum = 0;
            for (group, words) in groups.iter().zip(words.chunks(words_per_group)) {
                for (pair, levels) in group.0.iter().enumerate() {
                    let (word, field) = (pair % words_per_group, pair / words_per_group);
                    let Some(word) = words.get(word) else { continue };
                    let bits = (word >> (WIDTH * field) & plane.mask()).to_le_bytes();
                    sum += bits.iter().zip(levels).map(|(u, y)| i32::from(*u) * i32::from(*y)).sum::<i32>();
                }
            }
            *total += sum << plane.shift;
        }
    }

    unsafe fn sums(totals: [i32; ROWS]) -> [i32; ROWS] {
        totals
    }

    unsafe fn unpack_f16(words: [u32; ROWS]) -> [[f32; ROWS]; 2] {
        [0, 16].map(|shift| words.map(|word| half::f16::from_bits((word >> shift) as u16).to_f32()))
    }
}
