//! A growable table of rows that never moves: the storage of vectors, edges and every column.

use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use bytemuck::Pod;
use jasper_core::Slot;
use jasper_core::distance::prefetch_l2_at;
use memmap2::{MmapMut, MmapOptions};

/// Rows per segment. Growth adds a segment and copies nothing. A segment of byte vectors is 8 MB or more, so that it
/// fills huge pages.
pub const SEGMENT_ROWS: usize = 1 << 16;

/// A table of `len` rows of `width` elements, in segments of [`SEGMENT_ROWS`].
///
/// A segment is anonymous memory or a private mapping of a file section. Pages of a mapping are read when touched, and
/// writes go to a copy of the page, never to the file.
///
/// A share of a table, for searches, has the same segments. Whoever writes to the table afterwards
/// - copies the segments that are written, so that shares keep what they had: `row_mut`, `chunks_mut`;
/// - or writes rows that no share reads: `fresh_row_mut`, `fresh_ranges`;
/// - or stores elements one by one, which shares load one by one: `store_row`, `load_row`.
pub struct Segments<T> {
    width: usize,
    len: usize,
    /// Rows that can be read: `len`, and in a share those that its segments have room for.
    readable: usize,
    segments: Arc<[Segment<T>]>,
}

struct Segment<T> {
    /// Owns the memory that `first` points to.
    map: Arc<MmapMut>,
    first: NonNull<T>,
    /// Capacity in elements.
    elements: usize,
    /// Capacity in rows.
    rows: usize,
}

// SAFETY: the owner of a segment and its shares access memory that all of them keep, `T: Pod` has no interior
// mutability, and where one writes while others read is said at `Segments`.
unsafe impl<T: Send + Sync> Send for Segment<T> {}
// SAFETY: a shared reference gives no more access than one that was sent.
unsafe impl<T: Send + Sync> Sync for Segment<T> {}

impl<T> Clone for Segment<T> {
    /// Shares the memory.
    fn clone(&self) -> Self {
        Self { map: Arc::clone(&self.map), ..*self }
    }
}

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
        let elements = map.len() / size_of::<T>();
        Self { map: Arc::new(map), first, elements, rows }
    }

    /// The memory from element `start` on, which has `len` elements or more.
    #[inline(always)]
    fn pointer(&self, start: usize, len: usize) -> *mut T {
        debug_assert!(start + len <= self.elements);
        // SAFETY: `Segments` asks only for rows below its `len`, which it checks, and a segment holds every row below it.
        unsafe { self.first.as_ptr().add(start) }
    }

    #[inline(always)]
    fn slice(&self, start: usize, len: usize) -> &[T] {
        // Not `from_raw_parts`, whose checks are not inlined in tests, and would take a tenth of their time.
        // SAFETY: the memory is there (`pointer`), and any bytes are a `T: Pod`.
        unsafe { &*std::ptr::slice_from_raw_parts(self.pointer(start, len), len) }
    }

    /// # Safety
    /// Nothing else accesses these elements while the slice is in use.
    #[inline(always)]
    unsafe fn slice_mut<'a>(&self, start: usize, len: usize) -> &'a mut [T] {
        // SAFETY: the memory is there (`pointer`), any bytes are a `T: Pod`, and the caller has the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(start, len), len) }
    }
}

impl<T: Pod> Segments<T> {
    /// Creates an empty table with rows of `width` elements.
    pub(crate) fn new(width: usize) -> Self {
        Self { width, len: 0, readable: 0, segments: Arc::default() }
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
        Ok(Self { width, len, readable: len, segments })
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
    /// Panics if `index` is not below [`Self::len`]; in a share, if its segments have no such row.
    #[inline(always)]
    pub fn row(&self, index: usize) -> &[T] {
        assert!(index < self.readable);
        self.segments[index / SEGMENT_ROWS].slice(index % SEGMENT_ROWS * self.width, self.width)
    }

    /// Returns row `index` mutably. If the segment is [shared](Self::share), copies it.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Self::len`], or memory for a copy cannot be reserved.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, index: usize) -> &mut [T] {
        assert!(index < self.len);
        self.unshare(index / SEGMENT_ROWS);
        // SAFETY: no share has the segment, and the exclusive borrow makes this the only reference.
        unsafe { self.fresh_row_mut(index) }
    }

    /// Returns row `index` mutably, where it is.
    ///
    /// # Safety
    /// No [share](Self::share) reads the row while the slice is in use.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Self::len`].
    #[inline(always)]
    pub(crate) unsafe fn fresh_row_mut(&mut self, index: usize) -> &mut [T] {
        assert!(index < self.len);
        let segment = &self.segments[index / SEGMENT_ROWS];
        // SAFETY: the caller's, and the exclusive borrow of the table.
        unsafe { segment.slice_mut(index % SEGMENT_ROWS * self.width, self.width) }
    }

    /// Another table of the same rows, in the same memory, for readers: see [`Segments`]. They may also read rows that
    /// are written in these segments later, once an edge leads to them.
    pub(crate) fn share(&self) -> Self {
        let segments = Arc::clone(&self.segments);
        Self { width: self.width, len: self.len, readable: self.capacity(), segments }
    }

    /// Number of rows for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.segments.last().map_or(0, |last| (self.segments.len() - 1) * SEGMENT_ROWS + last.rows)
    }

    /// Copies a segment if it is shared.
    ///
    /// # Panics
    /// Panics if memory cannot be reserved.
    fn unshare(&mut self, index: usize) {
        let is_unshared = |segments: &mut [Segment<T>]| {
            segments.get_mut(index).is_none_or(|it| Arc::get_mut(&mut it.map).is_some())
        };
        if !Arc::get_mut(&mut self.segments).is_some_and(is_unshared) {
            self.copy_segment(index).expect("memory for a copy of what searches read");
        }
    }

    /// Copies all segments that are shared.
    ///
    /// # Panics
    /// Panics if memory cannot be reserved.
    pub(crate) fn unshare_all(&mut self) {
        (0..self.segments.len()).for_each(|index| self.unshare(index));
    }

    /// Prefetches row `index`.
    ///
    /// # Panics
    /// Panics as [`Self::row`] does.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        assert!(index < self.readable);
        let first =
            self.segments[index / SEGMENT_ROWS].pointer(index % SEGMENT_ROWS * self.width, self.width);
        prefetch_l2_at(first, self.width);
    }

    /// Sets the number of rows. New rows hold zeros, or their contents before the table was shortened.
    ///
    /// Cost: a new segment is reserved, not touched; only a partial last segment of a mapped file is copied.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved. Shortening needs none.
    pub(crate) fn resize(&mut self, len: usize) -> io::Result<()> {
        let (have, need) = (self.segments.len(), len.div_ceil(SEGMENT_ROWS));
        if let Some(last) = self.segments.last()
            && (need > have || self.capacity() < len)
            && last.rows < SEGMENT_ROWS
        {
            self.copy_segment(have - 1)?;
        }
        if need > have {
            let more: Vec<_> =
                (have..need).map(|_| Segment::anonymous(self.width)).collect::<io::Result<_>>()?;
            self.segments = self.segments.iter().cloned().chain(more).collect();
        }
        (self.len, self.readable) = (len, len);
        Ok(())
    }

    /// Frees the memory of all rows, which hold zeros then.
    ///
    /// # Errors
    /// Returns an error if address space cannot be reserved.
    pub(crate) fn free_memory(&mut self) -> io::Result<()> {
        let count = self.segments.len();
        self.segments = (0..count).map(|_| Segment::anonymous(self.width)).collect::<io::Result<_>>()?;
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

    /// Returns the rows mutably, as [`Self::chunks`]. Copies the segments that are shared.
    ///
    /// # Panics
    /// Panics if memory for a copy cannot be reserved.
    pub(crate) fn chunks_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.unshare_all();
        let (len, width) = (self.len, self.width);
        self.segments.iter().enumerate().map_while(move |(i, segment)| {
            let rows = SEGMENT_ROWS.min(len.saturating_sub(i * SEGMENT_ROWS));
            // SAFETY: no share has the segment, the table is borrowed exclusively, and each segment is given once.
            (rows > 0).then(|| unsafe { segment.slice_mut(0, rows * width) })
        })
    }

    /// Returns the rows of a segment mutably. Copies it if it is shared.
    ///
    /// # Panics
    /// Panics if there is no such row, or memory for a copy cannot be reserved.
    pub(crate) fn chunk_mut(&mut self, index: usize) -> &mut [T] {
        let rows = SEGMENT_ROWS.min(self.len.saturating_sub(index * SEGMENT_ROWS));
        assert!(rows > 0, "segment {index} of {} rows", self.len);
        self.unshare(index);
        // SAFETY: no share has the segment, and the table is borrowed exclusively.
        unsafe { self.segments[index].slice_mut(0, rows * self.width) }
    }

    /// Copies the segments of some rows, which ascend, where they are shared.
    ///
    /// # Panics
    /// Panics if memory for a copy cannot be reserved.
    pub(crate) fn unshare_rows(&mut self, rows: &[Slot]) {
        let same_segment = |a: &Slot, b: &Slot| a.index() / SEGMENT_ROWS == b.index() / SEGMENT_ROWS;
        rows.chunk_by(same_segment).for_each(|rows| self.unshare(rows[0].index() / SEGMENT_ROWS));
    }

    /// Returns the rows of each of `ranges`, to be written from several threads, where they are.
    ///
    /// # Safety
    /// No [share](Self::share) reads the rows that are accessed through the result.
    ///
    /// # Panics
    /// Panics if the ranges do not ascend or overlap, or if one crosses the border of a segment or ends beyond
    /// [`Self::len`].
    pub(crate) unsafe fn fresh_ranges(
        &mut self,
        ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> impl Iterator<Item = RowsMut<'_, T>> {
        let mut end = 0;
        ranges.into_iter().map(move |range| {
            let index = range.start / SEGMENT_ROWS;
            assert!(end <= range.start && range.start < range.end && range.end <= self.len);
            assert!((range.end - 1) / SEGMENT_ROWS == index, "a range within a segment");
            end = range.end;
            let (start, len) = (range.start % SEGMENT_ROWS * self.width, range.len() * self.width);
            let first = NonNull::new(self.segments[index].pointer(start, len)).expect("memory of a segment");
            RowsMut { first, rows: range.len(), width: self.width, table: PhantomData }
        })
    }

    /// Returns the size of the rows in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.len * self.width * size_of::<T>()
    }

    /// Copies a segment into memory that no share has.
    fn copy_segment(&mut self, index: usize) -> io::Result<()> {
        let copy = Segment::anonymous(self.width)?;
        let old = &self.segments[index];
        let elements = old.rows * self.width;
        // SAFETY: nothing else has the memory of the copy yet.
        unsafe { copy.slice_mut(0, elements) }.copy_from_slice(old.slice(0, elements));
        if let Some(segments) = Arc::get_mut(&mut self.segments) {
            segments[index] = copy;
        } else {
            let mut segments: Vec<_> = self.segments.to_vec();
            segments[index] = copy;
            self.segments = segments.into();
        }
        Ok(())
    }
}

/// Rows of a table, which one thread may write: see [`Segments::fresh_ranges`].
pub(crate) struct RowsMut<'a, T> {
    first: NonNull<T>,
    rows: usize,
    width: usize,
    table: PhantomData<&'a mut T>,
}

// SAFETY: it stands for a mutable slice of `T`, and its rows are in no other `RowsMut`.
unsafe impl<T: Send> Send for RowsMut<'_, T> {}

impl<T: Pod> RowsMut<'_, T> {
    /// Returns a row, by its number among these.
    ///
    /// # Panics
    /// Panics if there is no such row.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows);
        // SAFETY: the rows are within a segment, which the borrow of the table keeps, and whoever made this ensures that
        // nothing else accesses the row; the exclusive borrow makes this the only reference to it.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr().add(row * self.width), self.width) }
    }
}

impl<T> fmt::Debug for RowsMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of {}", self.rows, self.width)
    }
}

/// Elements that one thread may store while others load them: each access is atomic.
pub trait AtomicElement: Pod {
    /// # Safety
    /// `at` is valid and aligned, and written by atomic accesses only as long as others may read it.
    unsafe fn load(at: *mut Self) -> Self;

    /// # Safety
    /// As [`Self::load`], and read by atomic accesses only as long as others may write it.
    unsafe fn store(at: *mut Self, value: Self);
}

/// An element with the layout of an integer, by its atomic type.
macro_rules! atomic_element {
    ($element:ty, $atomic:ty) => {
        impl AtomicElement for $element {
            #[inline(always)]
            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the caller's.
                bytemuck::cast(unsafe { <$atomic>::from_ptr(at.cast()) }.load(Ordering::Relaxed))
            }

            #[inline(always)]
            unsafe fn store(at: *mut Self, value: Self) {
                // SAFETY: the caller's.
                unsafe { <$atomic>::from_ptr(at.cast()) }.store(bytemuck::cast(value), Ordering::Relaxed);
            }
        }
    };
}

atomic_element!(Slot, AtomicU32);
atomic_element!(u16, AtomicU16);

impl<T: AtomicElement> Segments<T> {
    /// Stores `values` in row `index`, from element `first` on, one after another. Readers of a [share](Self::share) may
    /// meanwhile [load](Self::load_row) some of the old elements and some of the new ones.
    ///
    /// # Panics
    /// Panics if they do not fit into the row, or `index` is not below [`Self::len`].
    #[inline]
    pub(crate) fn store_row(&mut self, index: usize, first: usize, values: &[T]) {
        assert!(index < self.len && first + values.len() <= self.width);
        let start = index % SEGMENT_ROWS * self.width + first;
        let at = self.segments[index / SEGMENT_ROWS].pointer(start, values.len());
        // Whoever loads one of the values sees what was written before: the rows of slots that they are.
        fence(Ordering::Release);
        for (i, &value) in values.iter().enumerate() {
            // SAFETY: the elements are within the row. The exclusive borrow of the table excludes other references to
            // it, and shares load.
            unsafe { T::store(at.add(i), value) };
        }
    }

    /// The first `len` elements of row `index`, each as it is when it is read. Whoever reads what they lead to has a
    /// fence in between.
    ///
    /// # Panics
    /// Panics if the row has fewer elements, or as [`Self::row`] does.
    #[inline(always)]
    pub(crate) fn load_row(&self, index: usize, len: usize) -> impl Iterator<Item = T> {
        assert!(index < self.readable && len <= self.width);
        let at = self.segments[index / SEGMENT_ROWS].pointer(index % SEGMENT_ROWS * self.width, len);
        // SAFETY: the elements are within the row, and others change them by `store_row` only.
        (0..len).map(move |i| unsafe { T::load(at.add(i)) })
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
        // SAFETY: there is no share.
        let mut parts: Vec<RowsMut<'_, u32>> = unsafe { rows.fresh_ranges(ranges.clone()) }.collect();
        for (range, part) in ranges.iter().zip(&mut parts) {
            range.clone().enumerate().for_each(|(i, row)| part.row(i).fill(row as u32));
            let len = range.len();
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| part.row(len)[0])).is_err());
        }
        for row in [2, 3, 4, 5, SEGMENT_ROWS - 1, SEGMENT_ROWS * 3, SEGMENT_ROWS * 3 + 7, last] {
            assert_eq!(rows.row(row), [row as u32; 2]);
        }
        assert_eq!(rows.row(6), [0; 2]);
        let mut refused = |ranges: &[Range<usize>]| {
            // SAFETY: there is no share.
            let mut take = || unsafe { rows.fresh_ranges(ranges.to_vec()) }.count();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut take)).is_err()
        };
        assert!(refused(&[3..5, 4..6]));
        assert!(refused(&[0..1, SEGMENT_ROWS - 1..SEGMENT_ROWS + 1]));
        assert!(refused(&[0..1, last..last + 2]));
    }

    #[test]
    fn a_share_keeps_its_rows_but_for_those_written_in_place() {
        let mut rows = Segments::<Slot>::zeroed(SEGMENT_ROWS + 2, 2).unwrap();
        let share = rows.share();
        let one = Slot::new(1);
        rows.row_mut(5).fill(one);
        rows.chunks_mut().nth(1).unwrap()[0] = one;
        assert_eq!((share.row(5), share.row(SEGMENT_ROWS)), (&[Slot::new(0); 2][..], &[Slot::new(0); 2][..]));
        let share = rows.share();
        rows.store_row(5, 1, &[Slot::new(7)]);
        rows.unshare_rows(&[Slot::from_index(SEGMENT_ROWS)]);
        rows.row_mut(SEGMENT_ROWS)[1] = Slot::new(8);
        rows.resize(3 * SEGMENT_ROWS).unwrap();
        assert!(share.load_row(5, 2).eq([one, Slot::new(7)]) && share.len() == SEGMENT_ROWS + 2);
        assert_eq!(share.row(SEGMENT_ROWS), [one, Slot::new(0)]);
        assert_eq!(rows.row(SEGMENT_ROWS), [one, Slot::new(8)]);
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
