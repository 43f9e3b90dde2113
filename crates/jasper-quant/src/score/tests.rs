//! Every level against the product of unpacked levels.

use std::sync::Arc;

use jasper_core::synthetic::rng;
use rand::RngExt;

use super::*;

/// All layouts of a kind that a quantizer may ask for, and shapes at the edges.
fn layouts() -> Vec<Layout> {
    let uniform =
        [1, 64, 96, 128, 200, 960].into_iter().flat_map(|d| (1..=8).map(move |m| Layout::uniform(d, m, 4)));
    let mut layouts: Vec<Layout> = uniform.collect();
    for sectors in 1..=2 {
        let room = sectors * 8 - 1;
        for four in 0..=room {
            for two in 0..=room - four {
                layouts.push(Layout::mixed([four, two, room - four - two], sectors, 2));
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
        // Levels at their extremes too: the sums must not saturate.
        let extreme = random.random::<bool>();
        let mut levels = |largest: u16| {
            if extreme { largest as u8 } else { random.random_range(0..=largest) as u8 }
        };
        let row_levels: Vec<u8> =
            (0..layout.dimensions()).map(|i| levels((1 << layout.bits_of(i)) - 1)).collect();
        let query: Vec<i8> =
            (0..layout.dimensions()).map(|_| if extreme { -128 } else { levels(255) as i8 }).collect();
        let mut row = vec![!0_u32; layout.words()];
        layout.pack(&row_levels, &mut row);
        let expected: i32 = row_levels.iter().zip(&query).map(|(u, y)| i32::from(*u) * i32::from(*y)).sum();
        let lanes = Lanes::new(&layout, &query);
        for level in Level::available() {
            let sum = Product { lanes: &lanes, row: &row, level };
            assert_eq!(wide::at(level, sum), expected, "{level:?} {layout:?}");
        }
    }
}

/// One product, inside a function that is compiled for the level.
struct Product<'a> {
    lanes: &'a Lanes,
    row: &'a [u32],
    level: Level,
}

impl Work for Product<'_> {
    type Output = i32;

    #[inline(always)]
    fn run(self) -> i32 {
        let (planes, groups, row) = (&self.lanes.planes, &self.lanes.groups, self.row.as_ptr());
        // SAFETY: the level is available; lanes and row are of one layout.
        unsafe {
            match self.level {
                Level::Avx512 => avx512::Avx512::product(planes, groups, row),
                Level::Avx2 => avx2::Avx2::product(planes, groups, row),
                _ => scalar::Scalar::product(planes, groups, row),
            }
        }
    }
}
