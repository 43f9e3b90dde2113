//! A growable table of rows that never moves: the storage of vectors, edges and every column.

use std::fmt;
use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::ptr::NonNull;

use bytemuck::Pod;
use memmap2::{MmapMut, MmapOptions};

/// Rows per segment. Growth adds a segment and copies nothing. A segment of byte vectors is 8 MB or more, so that it
/// fills huge pages.
pub const SEGMENT_ROWS: usize = 1 << 16;

/// A table of `len` rows of `width` elements, in segments of [`SEGMENT_ROWS`].
///
/// A segment is anonymous memory or a private mapping of a file section. Pages of a mapping are read when touched, and
/// writes go to a copy of the page, never to the file.
pub struct Segments<T> {
    width: usize,
    len: usize,
    segments: Vec<Segment<T>>,
}

struct Segment<T> {
    /// Owns the memory that `first` points to.
    map: MmapMut,
    first: NonNull<T>,
    /// Capacity in rows.
    rows: usize,
}

// SAFETY: a segment owns its memory; `T: Pod` has no interior mutability, and access follows the borrow of `Segments`.
unsafe impl<T: Send> Send for Segment<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Segment<T> {}

impl<T: Pod> Segment<T> {
    /// A full segment of zeros, resident only where touched.
    fn anonymous(width: usize) -> io::Result<Self> {
        let bytes = SEGMENT_ROWS * width * size_of::<T>();
        // A small table touches little of its segment. The rest must not count as used memory.
        let map = MmapOptions::new().len(bytes.max(1)).no_reserve_swap().map_anon()?;
        // Beam search jumps between rows: with 4 KB pages every jump also misses the TLB. An operating system without
        // huge pages refuses the advice, which is harmless.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self::over(map, SEGMENT_ROWS))
    }

    /// Maps `rows` rows of a file, from byte `offset` on.
    fn mapped(file: &File, offset: u64, rows: usize, width: usize) -> io::Result<Self> {
        let bytes = rows * width * size_of::<T>();
        // SAFETY: the mapping is private, so nothing here writes to the file. The caller of `Graph::map` ensures that
        // the file is not shortened while it is mapped.
        let map = unsafe { MmapOptions::new().offset(offset).len(bytes).no_reserve_swap().map_copy(file)? };
        Ok(Self::over(map, rows))
    }

    fn over(mut map: MmapMut, rows: usize) -> Self {
        let first = NonNull::new(map.as_mut_ptr().cast::<T>()).unwrap_or(NonNull::dangling());
        assert!(first.is_aligned(), "a mapping starts on a page, and sections on multiples of 4096");
        Self { map, first, rows }
    }

    #[inline(always)]
    fn slice(&self, start: usize, len: usize) -> &[T] {
        debug_assert!((start + len) * size_of::<T>() <= self.map.len());
        // SAFETY: `Segments` asks only for rows below its `len`, which it checks, and a segment holds every row below
        // it; any bytes are a `T: Pod`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr().add(start), len) }
    }

    #[inline(always)]
    fn slice_mut(&mut self, start: usize, len: usize) -> &mut [T] {
        debug_assert!((start + len) * size_of::<T>() <= self.map.len());
        // SAFETY: as in `slice`; the exclusive borrow makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().add(start), len) }
    }
}

impl<T: Pod> Segments<T> {
    /// Creates an empty table with rows of `width` elements.
    pub(crate) const fn new(width: usize) -> Self {
        Self { width, len: 0, segments: Vec::new() }
    }

    /// Creates a table of `len` rows of `width` zeros.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved.
    pub(crate) fn zeroed(len: usize, width: usize) -> io::Result<Self> {
        let mut rows = Self::new(width);
        rows.resize(len)?;
        Ok(rows)
    }

    /// Maps `len` consecutive rows of `width` elements of `file`, from byte `offset` on.
    ///
    /// # Errors
    /// Returns an error if the file cannot be mapped.
    pub(crate) fn map(file: &File, offset: u64, len: usize, width: usize) -> io::Result<Self> {
        let segment_bytes = (SEGMENT_ROWS * width * size_of::<T>()) as u64;
        let segments = (0..len.div_ceil(SEGMENT_ROWS))
            .map(|i| {
                let rows = SEGMENT_ROWS.min(len - i * SEGMENT_ROWS);
                Segment::mapped(file, offset + i as u64 * segment_bytes, rows, width)
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { width, len, segments })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of elements of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns row `index`.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Self::len`].
    #[inline(always)]
    pub fn row(&self, index: usize) -> &[T] {
        assert!(index < self.len);
        self.segments[index / SEGMENT_ROWS].slice(index % SEGMENT_ROWS * self.width, self.width)
    }

    /// Returns row `index` mutably.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Self::len`].
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, index: usize) -> &mut [T] {
        assert!(index < self.len);
        self.segments[index / SEGMENT_ROWS].slice_mut(index % SEGMENT_ROWS * self.width, self.width)
    }

    /// Sets the number of rows. New rows hold zeros, or their contents before the table was shortened.
    ///
    /// Cost: a new segment is reserved, not touched; only a partial last segment of a mapped file is copied.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved. Shortening needs none.
    pub(crate) fn resize(&mut self, len: usize) -> io::Result<()> {
        while self.segments.len() < len.div_ceil(SEGMENT_ROWS) {
            self.make_last_whole()?;
            self.segments.push(Segment::anonymous(self.width)?);
        }
        if self.segments.last().is_some_and(|last| (self.segments.len() - 1) * SEGMENT_ROWS + last.rows < len)
        {
            self.make_last_whole()?;
        }
        self.len = len;
        Ok(())
    }

    /// Frees the memory of all rows, which hold zeros then.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved.
    pub(crate) fn free_memory(&mut self) -> io::Result<()> {
        for segment in &mut self.segments {
            *segment = Segment::anonymous(self.width)?;
        }
        Ok(())
    }

    /// Copies a file mapping into memory with huge pages. Pays off for more than a few searches.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved.
    pub(crate) fn load(&mut self) -> io::Result<()> {
        for index in 0..self.segments.len() {
            self.copy_segment(index)?;
        }
        Ok(())
    }

    /// Copies the table into memory of its own.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let mut copy = Self::zeroed(self.len, self.width)?;
        copy.chunks_mut().zip(self.chunks()).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(copy)
    }

    /// Returns the rows in order, as one slice per segment.
    pub fn chunks(&self) -> impl Iterator<Item = &[T]> {
        self.segments.iter().enumerate().map_while(|(i, segment)| {
            let rows = SEGMENT_ROWS.min(self.len.saturating_sub(i * SEGMENT_ROWS));
            (rows > 0).then(|| segment.slice(0, rows * self.width))
        })
    }

    /// Returns the rows mutably, as [`Self::chunks`].
    pub(crate) fn chunks_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let (len, width) = (self.len, self.width);
        self.segments.iter_mut().enumerate().map_while(move |(i, segment)| {
            let rows = SEGMENT_ROWS.min(len.saturating_sub(i * SEGMENT_ROWS));
            (rows > 0).then(|| segment.slice_mut(0, rows * width))
        })
    }

    /// Returns the rows of each of `ranges` mutably, to be written from several threads.
    ///
    /// # Panics
    /// Panics if the ranges do not ascend or overlap, or if one crosses the border of a segment or ends beyond
    /// [`Self::len`].
    pub(crate) fn ranges_mut(
        &mut self,
        ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> impl Iterator<Item = &mut [T]> {
        let (width, len) = (self.width, self.len);
        let (mut segments, mut next) = (&mut self.segments[..], 0);
        // The rest of the segment before `next`, and its first row.
        let (mut rest, mut first): (&mut [T], _) = (&mut [], 0);
        ranges.into_iter().map(move |range| {
            let index = range.start / SEGMENT_ROWS;
            if index >= next {
                let after = mem::take(&mut segments).split_at_mut(index - next).1;
                let (segment, after) = after.split_first_mut().expect("ranges lie within the table");
                first = index * SEGMENT_ROWS;
                rest = segment.slice_mut(0, SEGMENT_ROWS.min(len.saturating_sub(first)) * width);
                (segments, next) = (after, index + 1);
            }
            let (_, from) = mem::take(&mut rest).split_at_mut((range.start - first) * width);
            let (rows, after) = from.split_at_mut(range.len() * width);
            (rest, first) = (after, range.end);
            rows
        })
    }

    /// Returns the size of the rows in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len * self.width * size_of::<T>()
    }

    fn make_last_whole(&mut self) -> io::Result<()> {
        match self.segments.len().checked_sub(1) {
            Some(last) if self.segments[last].rows < SEGMENT_ROWS => self.copy_segment(last),
            _ => Ok(()),
        }
    }

    fn copy_segment(&mut self, index: usize) -> io::Result<()> {
        let mut copy = Segment::anonymous(self.width)?;
        let old = &mut self.segments[index];
        let elements = old.rows * self.width;
        copy.slice_mut(0, elements).copy_from_slice(old.slice(0, elements));
        *old = copy;
        Ok(())
    }
}

/// A column is a table with rows of one element.
impl<T: Pod> Segments<T> {
    /// Returns element `index` of a column.
    #[inline(always)]
    pub fn at(&self, index: usize) -> T {
        self.row(index)[0]
    }

    /// Sets element `index` of a column.
    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, value: T) {
        self.row_mut(index)[0] = value;
    }
}

impl<T> fmt::Debug for Segments<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of {} in {} segments", self.len, self.width, self.segments.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn grows_over_segments_and_keeps_rows() {
        let mut rows = Segments::<u32>::new(3);
        let n = SEGMENT_ROWS * 2 + 5;
        rows.resize(n).unwrap();
        for i in [0, SEGMENT_ROWS - 1, SEGMENT_ROWS, n - 1] {
            assert_eq!(rows.row(i), [0; 3]);
            rows.row_mut(i).fill(i as u32);
        }
        rows.resize(n + 10).unwrap();
        assert_eq!(rows.row(SEGMENT_ROWS), [SEGMENT_ROWS as u32; 3]);
        assert_eq!(
            rows.chunks().map(<[u32]>::len).collect::<Vec<_>>(),
            [SEGMENT_ROWS * 3, SEGMENT_ROWS * 3, 45]
        );
        assert!(std::panic::catch_unwind(|| rows.row(n + 10)[0]).is_err());
    }

    #[test]
    fn ranges_are_apart_and_where_they_should_be() {
        let mut rows = Segments::<u32>::zeroed(SEGMENT_ROWS * 3 + 9, 2).unwrap();
        let last = SEGMENT_ROWS * 3 + 8;
        let ranges = [2..5, 5..6, SEGMENT_ROWS - 1..SEGMENT_ROWS, SEGMENT_ROWS * 3..last, last..last + 1];
        let mut parts: Vec<&mut [u32]> = rows.ranges_mut(ranges.clone()).collect();
        for (range, part) in ranges.iter().zip(&mut parts) {
            assert_eq!(part.len(), range.len() * 2);
            part.iter_mut().enumerate().for_each(|(i, x)| *x = (range.start + i / 2) as u32);
        }
        for row in [2, 3, 4, 5, SEGMENT_ROWS - 1, SEGMENT_ROWS * 3, SEGMENT_ROWS * 3 + 7, last] {
            assert_eq!(rows.row(row), [row as u32; 2]);
        }
        assert_eq!(rows.row(6), [0; 2]);
        let mut refused = |ranges: &[Range<usize>]| {
            let mut take = || rows.ranges_mut(ranges.to_vec()).count();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut take)).is_err()
        };
        assert!(refused(&[3..5, 4..6]));
        assert!(refused(&[0..1, SEGMENT_ROWS - 1..SEGMENT_ROWS + 1]));
        assert!(refused(&[0..1, last..last + 2]));
    }

    #[test]
    fn holds_more_elements_than_32_bits_can_count() {
        let (len, width) = ((1 << 20) + 9, 5000);
        let mut rows = Segments::<u8>::zeroed(len, width).unwrap();
        assert!(rows.bytes() as u64 > 1 << 32);
        rows.row_mut(len - 1).fill(7);
        assert_eq!(rows.row(len - 1), [7; 5000]);
        assert_eq!(rows.row(len - 1 - (1 << 20))[..8], [0; 8]);
    }

    #[test]
    fn maps_a_file_privately_and_grows_beyond_it() {
        let mut file = tempfile::tempfile().unwrap();
        let values: Vec<u32> = (0..4096 / 4 + 10).collect();
        file.write_all(bytemuck::cast_slice(&values)).unwrap();
        let mut rows = Segments::<u32>::map(&file, 4096, 5, 2).unwrap();
        assert_eq!(rows.row(4), [1032, 1033]);
        rows.row_mut(4)[0] = 7;
        rows.resize(9).unwrap();
        assert_eq!(rows.row(4), [7, 1033]);
        assert_eq!(rows.row(8), [0, 0]);
        rows.load().unwrap();
        assert_eq!(rows.row(0), [1024, 1025]);
        let again = Segments::<u32>::map(&file, 4096, 5, 2).unwrap();
        assert_eq!(again.row(4), [1032, 1033], "the file is untouched");
    }
}
