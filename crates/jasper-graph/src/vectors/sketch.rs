//! Sketches: copies of f32 vectors at one byte per coordinate, with which searches skip vectors without reading them.
//!
//! A search reads hundreds of vectors and keeps a fifth of them; on long vectors it mostly waits for memory. A sketch
//! is a vector rounded to *levels*, multiples of a quantization step of its own, with the length of the rounding error.
//! By the triangle inequality, the distance of two vectors is at least that of their sketches minus both errors. If
//! that lower bound exceeds the limit, the vector is not read. Results are the same as without sketches, bit for bit.

use std::io;

use jasper_core::distance::prefetch_l2;
use jasper_core::{Element, Slot, padded_len};

use crate::{SEGMENT_ROWS, Segments, VectorTable};

/// Sketches of all vectors, or of some: see [`VectorTable::new_sketches`]. A row of the table is a `Header`, then one level per coordinate.
#[derive(Debug)]
pub struct Sketches {
    table: Segments<i8>,
    /// Row of the table for each slot, [`NO_ROW`] for none; if absent, rows equal slots.
    rows: Option<Segments<u32>>,
}

/// Consecutive rows of sketches, which one thread computes.
#[derive(Debug)]
pub struct SketchChunk<'a> {
    vectors: &'a VectorTable,
    /// The slots of the rows; absent if they are consecutive.
    chosen: Option<&'a [Slot]>,
    /// The first row.
    first: usize,
    rows: &'a mut [i8],
}

impl SketchChunk<'_> {
    /// Computes the sketches.
    pub fn compute(self) {
        let Self { vectors, chosen, first, rows } = self;
        for (row, sketch) in (first..).zip(rows.chunks_exact_mut(row_bytes(vectors.dimension))) {
            let slot = chosen.map_or(Slot::from_index(row), |chosen| chosen[row]);
            write_sketch(vectors.padded(slot), sketch);
        }
    }
}

/// Rows of a [`SketchChunk`].
const ROWS_PER_CHUNK: usize = 1024;

const NO_ROW: u32 = u32::MAX;

/// The start of a row, before the levels.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Header {
    /// Value of level 1.
    step: f32,
    /// Norm of the rounding error, rounded up.
    error: f32,
    /// Norm of the rounded vector.
    norm: f32,
    unused: f32,
}

/// Rows per kernel call: their slices stay in registers and L1.
const ROWS_AT_ONCE: usize = 64;
const HEADER_BYTES: usize = size_of::<Header>();
/// Levels are between minus this and this.
const LARGEST_LEVEL: f32 = 127.0;
/// Bound of the f32 rounding error of a difference, relative to the squares it is computed from: a thousand times the
/// error of one operation, and more than that of any sum of up to 32,768 terms in 64 parts.
const ROUNDING_MARGIN: f32 = 1e-4;

/// A vector to compare sketches with.
#[derive(Debug)]
pub(crate) struct SketchedVector {
    levels: Vec<i8>,
    header: Header,
}

impl Sketches {
    /// Creates a table for sketches of the vectors in `chosen`, or of all, of `slots` slots.
    pub(crate) fn new(dimension: usize, chosen: Option<&[Slot]>, slots: usize) -> io::Result<Self> {
        let table = Segments::zeroed(chosen.map_or(slots, <[_]>::len), row_bytes(dimension))?;
        let rows = chosen.map(|chosen| {
            let mut rows = Segments::zeroed(slots, 1)?;
            rows.chunks_mut().for_each(|rows| rows.fill(NO_ROW));
            (0..).zip(chosen).for_each(|(row, slot)| rows.set(slot.index(), row));
            Ok::<_, io::Error>(rows)
        });
        Ok(Self { table, rows: rows.transpose()? })
    }

    /// The sketches for searches, in the same memory.
    pub(crate) fn share(&self) -> Self {
        Self { table: self.table.share(), rows: self.rows.as_ref().map(Segments::share) }
    }

    /// Sets the number of slots. If only some vectors have sketches, new ones have none.
    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        match &mut self.rows {
            Some(rows) => {
                let before = rows.len();
                rows.resize(slots)?;
                // SAFETY: shares with as many rows were dropped: see `Readers::require_none_retired`.
                (before..slots).for_each(|slot| unsafe { rows.fresh_row_mut(slot)[0] = NO_ROW });
            }
            None => self.table.resize(slots)?,
        }
        Ok(())
    }

    /// Number of slots for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.rows.as_ref().map_or_else(|| self.table.capacity(), Segments::capacity)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.rows.as_ref().map_or(0, Segments::bytes)
    }

    /// Computes the sketch of the vector in a slot, if it has one.
    pub(crate) fn set(&mut self, slot: usize, vector: &[f32]) {
        if let Some(row) = self.row_of(slot) {
            write_sketch(vector, self.table.row_mut(row));
        }
    }

    /// As [`Self::set`], for a slot that no share reads.
    ///
    /// # Safety
    /// No share reads the sketch of the slot.
    pub(crate) unsafe fn set_fresh(&mut self, slot: usize, vector: &[f32]) {
        if let Some(row) = self.row_of(slot) {
            // SAFETY: the caller's.
            write_sketch(vector, unsafe { self.table.fresh_row_mut(row) });
        }
    }

    /// The rows, to be computed from the vectors of `chosen` or all slots.
    pub(crate) fn chunks<'a>(
        &'a mut self,
        vectors: &'a VectorTable,
        chosen: Option<&'a [Slot]>,
    ) -> Vec<SketchChunk<'a>> {
        let width = self.table.width();
        let segments = (0..).step_by(SEGMENT_ROWS).zip(self.table.chunks_mut());
        let chunks = segments.flat_map(|(first, rows)| {
            (first..).step_by(ROWS_PER_CHUNK).zip(rows.chunks_mut(ROWS_PER_CHUNK * width))
        });
        chunks.map(|(first, rows)| SketchChunk { vectors, chosen, first, rows }).collect()
    }

    pub(crate) fn sketch_vector<T: Element>(&self, vector: &[T]) -> SketchedVector {
        let mut levels = vec![0; self.table.width() - HEADER_BYTES];
        let header = sketch(vector, &mut levels);
        SketchedVector { levels, header }
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: usize) {
        if let Some(row) = self.row_of(slot) {
            prefetch_l2(self.table.row(row));
        }
    }

    /// Keeps those of `slots` that have no sketch, and those whose bounds satisfy `may_stay`.
    pub(crate) fn retain(
        &self,
        vector: &SketchedVector,
        slots: &mut Vec<Slot>,
        may_stay: impl Fn(Slot, Bounds) -> bool,
    ) {
        let mut kept = 0;
        for start in (0..slots.len()).step_by(ROWS_AT_ONCE) {
            let chunk = start..slots.len().min(start + ROWS_AT_ONCE);
            // Slots without a sketch are compared with the vector itself, and the result is ignored.
            let mut rows: [&[i8]; ROWS_AT_ONCE] = [&vector.levels; ROWS_AT_ONCE];
            for (row, slot) in rows.iter_mut().zip(&slots[chunk.clone()]) {
                *row = self.row(slot.index()).map_or(&*vector.levels, |row| &row[HEADER_BYTES..]);
            }
            let mut dots = [0.0; ROWS_AT_ONCE];
            (i8::distance_fns().dot_many)(&vector.levels, &rows[..chunk.len()], &mut dots[..chunk.len()]);
            for (i, dot) in chunk.zip(dots) {
                let row = self.row(slots[i].index());
                let stays =
                    row.is_none_or(|row| may_stay(slots[i], Bounds::new(&vector.header, &header(row), dot)));
                slots[kept] = slots[i];
                kept += usize::from(stays);
            }
        }
        slots.truncate(kept);
    }

    /// The sketch of a slot: header and levels.
    #[inline]
    fn row(&self, slot: usize) -> Option<&[i8]> {
        self.row_of(slot).map(|row| self.table.row(row))
    }

    /// The row of the table for a slot.
    #[inline]
    fn row_of(&self, slot: usize) -> Option<usize> {
        match &self.rows {
            None => Some(slot),
            Some(rows) => Some(rows.at(slot) as usize).filter(|&row| row != NO_ROW as usize),
        }
    }
}

#[inline]
fn header(row: &[i8]) -> Header {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&row[..HEADER_BYTES]))
}

/// Bytes of the sketch of a vector of `dimension` coordinates.
pub(crate) const fn row_bytes(dimension: usize) -> usize {
    HEADER_BYTES + padded_len::<i8>(dimension)
}

/// Bounds of the distances of two vectors, from their sketches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Their squared distance is at least this.
    pub(crate) squared_l2: f32,
    /// Their dot product is at most this.
    pub(crate) dot: f32,
}

impl Bounds {
    fn new(a: &Header, b: &Header, dot_of_levels: f32) -> Self {
        let dot = dot_of_levels * (a.step * b.step);
        let squares = a.norm * a.norm + b.norm * b.norm;
        let between_sketches = ((squares - 2.0 * dot) - ROUNDING_MARGIN * squares).max(0.0).sqrt();
        let apart = (between_sketches - (a.error + b.error)).max(0.0);
        // <x, y> - <x', y'> = <x - x', y'> + <x, y - y'>, and |x| <= |x'| + |x - x'|.
        let moved = a.error * b.norm + (a.norm + a.error) * b.error;
        Self {
            squared_l2: apart * apart * (1.0 - ROUNDING_MARGIN),
            dot: dot + moved + ROUNDING_MARGIN * squares,
        }
    }
}

/// Sums are kept in this many parts, which the compiler maps to vector registers.
const LANES: usize = 16;
/// 1.5 * 2^23, where f32 values are 1 apart: adding and subtracting it rounds values between -2^22 and 2^22 to
/// integers. `round` would be a function call per value unless SSE 4.1 is enabled.
const TO_WHOLE: f32 = 12_582_912.0;
/// Bound of the relative error of a sum of 32,768 / 16 terms in f32.
const SUM_MARGIN: f32 = 2e-4;

/// Writes the sketch of a vector: header and levels.
fn write_sketch(vector: &[f32], row: &mut [i8]) {
    let (head, levels) = row.split_at_mut(HEADER_BYTES);
    head.copy_from_slice(bytemuck::cast_slice(&[sketch(vector, levels)]));
}

/// Rounds a vector to `levels`, which may be longer.
fn sketch<T: Element>(vector: &[T], levels: &mut [i8]) -> Header {
    let mut largest = [0.0_f32; LANES];
    for part in vector.chunks(LANES) {
        largest.iter_mut().zip(part).for_each(|(largest, x)| *largest = largest.max(x.to_f32().abs()));
    }
    let step = largest.into_iter().fold(0.0, f32::max) / LARGEST_LEVEL;
    // Too small a step has no finite reciprocal: everything is rounded to zero, and the error accounts for it.
    let (step, scale) = if step > 1e-30 { (step, step.recip()) } else { (0.0, 0.0) };
    let (mut lost, mut kept) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    levels[vector.len()..].fill(0);
    for (levels, part) in levels.chunks_mut(LANES).zip(vector.chunks(LANES)) {
        for (lane, x) in part.iter().enumerate() {
            let whole = ((x.to_f32() * scale + TO_WHOLE) - TO_WHOLE).clamp(-LARGEST_LEVEL, LARGEST_LEVEL);
            let rounded = whole * step;
            levels[lane] = whole as i8;
            lost[lane] += (x.to_f32() - rounded) * (x.to_f32() - rounded);
            kept[lane] += rounded * rounded;
        }
    }
    let length = |squares: [f32; LANES]| squares.iter().sum::<f32>().sqrt();
    // The squares of the smallest values underflow; add the most that they could sum up to.
    let vanished = (vector.len() as f32 * f32::MIN_POSITIVE).sqrt();
    Header { step, error: length(lost) * (1.0 + SUM_MARGIN) + vanished, norm: length(kept), unused: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bounds_hold(
            d in 1_usize..200,
            seed in any::<u64>(),
            scale in prop::sample::select(vec![1e-36_f32, 1e-15, 1e-3, 1.0, 1e6, 1e15]),
            near in prop::sample::select(vec![0.0_f32, 1e-4, 0.1, 1.0]),
        ) {
            let a: Vec<f32> = jasper_core::synthetic::Clusters::new(d, seed).rows(1, 0);
            let b: Vec<f32> = jasper_core::synthetic::Clusters::new(d, seed ^ 1).rows(1, 1);
            let a: Vec<f32> = a.iter().map(|x| x * scale * 0.01).collect();
            // From equal vectors over close ones to unrelated ones.
            let b: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a * (1.0 - near) + b * scale * 0.01 * near).collect();
            let mut sketches = Sketches::new(d, None, 1).unwrap();
            sketches.set(0, &b);
            let (query, row) = (sketches.sketch_vector(&a), sketches.sketch_vector(&b));
            let bounds = Bounds::new(&query.header, &row.header, (i8::distance_fns().dot)(&query.levels, &row.levels));
            let fns = f32::distance_fns();
            prop_assert!(bounds.squared_l2 <= (fns.squared_l2)(&a, &b), "{bounds:?}");
            prop_assert!(bounds.dot >= (fns.dot)(&a, &b), "{bounds:?}");
            // The bounds are tight: within a few hundredths for vectors that are far apart.
            let (exact, length) = ((fns.squared_l2)(&a, &b), (fns.dot)(&a, &a));
            if exact > length && length > 1e-20 && d > 8 {
                prop_assert!(bounds.squared_l2 > 0.9 * exact, "{bounds:?} {exact}");
            }
            let stored = sketches.row(0).unwrap();
            prop_assert_eq!((header(stored).step, &stored[HEADER_BYTES..]), (row.header.step, &*row.levels));
        }
    }
}
