//! Every SIMD level against the product of unpacked levels.

use std::sync::Arc;

use jasper_core::synthetic::rng;
use rand::RngExt;

use super::*;
use crate::simd::simd_fn;

/// Layouts of quantizers, and edge cases.
fn layouts() -> Vec<Layout> {
    let uniform =
        [1, 64, 96, 128, 200, 960].into_iter().flat_map(|d| (1..=8).map(move |m| Layout::uniform(d, m, 4)));
    let mut layouts: Vec<Layout> = uniform.collect();
    for sectors in 1..=2 {
        let words = sectors * 8 - 1;
        for eight in (0..=words).step_by(2) {
            for four in 0..=words - eight {
                for two in 0..=words - eight - four {
                    let one = words - eight - four - two;
                    layouts.push(Layout::mixed([eight, four, two, one], sectors, 2));
                }
            }
        }
    }
    layouts
}

#[test]
fn products_are_those_of_the_levels() {
    let mut random = rng(4);
    for layout in layouts() {
        let layout = Arc::new(layout);
        // Extreme levels as well: sums must not saturate.
        let extreme = random.random::<bool>();
        let mut levels = |largest: u16| {
            if extreme { largest as u8 } else { random.random_range(0..=largest) as u8 }
        };
        let row_levels: [Vec<u8>; ROWS] = std::array::from_fn(|_| {
            (0..layout.dimensions()).map(|i| levels((1 << layout.bits_of(i)) - 1)).collect()
        });
        let query: Vec<i8> =
            (0..layout.dimensions()).map(|_| if extreme { -128 } else { levels(255) as i8 }).collect();
        let rows = row_levels.each_ref().map(|levels| {
            let mut row = vec![!0_u32; layout.words()];
            layout.pack(levels, &mut row);
            row
        });
        let expected = row_levels
            .map(|levels| levels.iter().zip(&query).map(|(u, y)| i32::from(*u) * i32::from(*y)).sum::<i32>());
        let lanes = QueryGroups::new(&layout, &query);
        for simd in SimdLevel::available() {
            assert_eq!(products(simd, &lanes, &rows), expected, "{simd:?} {layout:?}");
        }
    }
}

simd_fn! {
    /// [`Simd::products`] in a function that is compiled for the SIMD level.
    fn products(simd => SimdLevel, lanes: &QueryGroups, rows: &[Vec<u32>; ROWS]) -> [i32; ROWS] {
        let (planes, groups) = (&lanes.planes, &lanes.groups);
        let rows = rows.each_ref().map(|row| row.as_ptr());
        // SAFETY: the CPU supports the instructions, and groups and rows have one layout.
        unsafe {
            match simd {
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx512 => avx512::Avx512::products(planes, groups, rows),
                #[cfg(target_arch = "x86_64")]
                SimdLevel::Avx2 => avx2::Avx2::products(planes, groups, rows),
                #[cfg(target_arch = "aarch64")]
                SimdLevel::NeonDot => Neon::<true>::products(planes, groups, rows),
                #[cfg(target_arch = "aarch64")]
                SimdLevel::Neon => Neon::<false>::products(planes, groups, rows),
                _ => scalar::Scalar::products(planes, groups, rows),
            }
        }
    }
}
