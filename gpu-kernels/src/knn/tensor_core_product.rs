//! Products by tensor cores: 32 queries by 64 rows per warp; exact for bytes.
//!
//! Fragments are those of [`mma`]: `group` is a query of `a` or a row of `b`, `pair` the words of it that a lane holds.

use cuda_std::prelude::*;

use super::TILE;
use super::product::Product;
use super::score::{Score, Sum};
use crate::WARP_SIZE;
use crate::element::{MatrixElement, Packed};

/// Groups of 16 queries of a warp.
const QUERY_GROUPS: usize = 2;
/// Groups of 8 rows of a warp.
const ROW_GROUPS: usize = 8;
/// Queries, and rows, of a warp.
const QUERIES: u32 = QUERY_GROUPS as u32 * 16;
const ROWS: u32 = ROW_GROUPS as u32 * 8;
/// Words of a unit.
const UNIT_WORDS: u32 = 4;
/// Units of each vector that one product takes.
const UNITS: u32 = 2;

/// The sums of the warp that one lane holds.
pub(super) struct TensorCoreProduct<S: Score>([[[Sum<S>; 4]; ROW_GROUPS]; QUERY_GROUPS]);

/// The first query of this warp, and its first row.
#[inline(always)]
fn corner() -> (u32, u32) {
    let warp = thread::thread_idx_x() / WARP_SIZE;
    (warp / (TILE / ROWS) * QUERIES, warp % (TILE / ROWS) * ROWS)
}

#[inline(always)]
fn group() -> u32 {
    warp::lane_id() / 4
}

#[inline(always)]
fn pair() -> u32 {
    warp::lane_id() % 4
}

/// The place of a unit of a vector, in units. Eight vectors side by side are in another order in each unit, so that
/// the units of two vectors, which eight lanes store at once, are in different banks.
#[inline(always)]
fn place(unit: u32, vector: u32) -> u32 {
    unit * TILE + (vector ^ (unit * 2 % 8))
}

/// The word of the first eight vectors of a tile that this lane loads of a unit.
#[inline(always)]
fn word(unit: u32) -> u32 {
    place(unit, group()) * UNIT_WORDS + pair()
}

impl<S: Score<Element: MatrixElement>> Product<S> for TensorCoreProduct<S> {
    const QUERIES: usize = QUERY_GROUPS * 2;
    const ROWS: usize = ROW_GROUPS * 2;
    const UNIT_WORDS: usize = UNIT_WORDS as usize;

    #[inline(always)]
    fn new() -> Self {
        Self([[[S::Element::ZERO; 4]; ROW_GROUPS]; QUERY_GROUPS])
    }

    #[inline(always)]
    unsafe fn add(&mut self, queries: Shared<u32>, rows: Shared<u32>, units: u32) {
        let (first_query, first_row) = corner();
        let mut unit = 0;
        // If their number is odd, the last unit is paired with zeros.
        while unit < units {
            let words = [word(unit), word(unit + 1)];
            let at = |tile: Shared<u32>, first: u32, eight: usize, half: usize| {
                tile.add(words[half] + (first + eight as u32 * 8) * UNIT_WORDS)
            };
            // SAFETY: two units of a tile, the second of them zero past the last; vectors of this warp, eight by
            // eight; the whole warp comes here.
            unsafe {
                let mut a = [[0; 4]; QUERY_GROUPS];
                for i in 0..QUERY_GROUPS {
                    let at = |eight, half| at(queries, first_query, eight, half).load();
                    a[i] = [at(2 * i, 0), at(2 * i + 1, 0), at(2 * i, 1), at(2 * i + 1, 1)];
                }
                for j in 0..ROW_GROUPS {
                    let b = [at(rows, first_row, j, 0).load(), at(rows, first_row, j, 1).load()];
                    for i in 0..QUERY_GROUPS {
                        self.0[i][j] = S::Element::matrix_product(a[i], b, self.0[i][j]);
                    }
                }
            }
            unit += UNITS;
        }
    }

    #[inline(always)]
    fn sum(&self, i: usize, j: usize) -> Sum<S> {
        self.0[i / 2][j / 2][i % 2 * 2 + j % 2]
    }

    #[inline(always)]
    fn query(i: usize) -> u32 {
        corner().0 + i as u32 * 8 + group()
    }

    #[inline(always)]
    fn row(j: usize) -> u32 {
        corner().1 + j as u32 / 2 * 8 + pair() * 2 + j as u32 % 2
    }

    /// Units of all vectors are side by side, so that the 32 words that a warp loads at once are adjacent.
    #[inline(always)]
    unsafe fn put(tile: Shared<u32>, vector: u32, unit: u32, words: [u32; 4]) {
        // SAFETY: a place of the tile for each unit of every vector.
        unsafe { tile.add(place(unit, vector) * UNIT_WORDS).cast().store(words) };
    }
}
