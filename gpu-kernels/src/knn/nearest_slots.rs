//! The nearest of some slots of a graph to each of many queries, by a matrix product of their rows with the queries.
//!
//! ```text
//! for each chunk of the queries:
//!     copy the queries, which every block reads
//!     for each chunk of the slots:
//!         gather the rows of the slots in one table
//!         scan it: the lists of the queries continue
//!     list the candidates of each query
//!     search among them by exact distances
//! ```
//!
//! The last line is an ordinary search, so distances, ties and results are those of any other search. Lists hold 2 k
//! entries, because f32 distances may be equal where exact scores differ.

use bytemuck::Pod;
use jasper_core::{ElementKind, Metric};

use super::sequence::{QUERIES_PER_CHUNK, segments};
use super::{ListCandidates, ListCandidatesArgs, Scan, ScanArgs, TILE, list_len};
use crate::graph::DistanceForm;
use crate::rows::{CopyRows, CopyRowsArgs};
use crate::search::{Search, SearchArgs};
use crate::{Buffer, DevicePtr, Stream};

/// The sizes of the chunks, and of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkSizes {
    /// Queries of a chunk.
    queries: u32,
    /// Slots of a chunk: all, or a multiple of [`TILE`].
    slots: u32,
    /// As in [`ScanArgs`].
    wanted: u32,
}

impl ChunkSizes {
    fn new(search: &SearchArgs, scratch_bytes: usize) -> Self {
        let rows = (scratch_bytes / search.graph.shape.row_bytes() as usize) as u32;
        let rows = (rows / TILE * TILE).max(TILE);
        Self {
            queries: rows.min(QUERIES_PER_CHUNK as u32),
            slots: rows.min(search.graph.start_points_len),
            wanted: 2 * search.k,
        }
    }

    /// Segments of a chunk of slots for a chunk of `queries`, whose lists take up to `scratch_bytes`.
    fn segments(&self, queries: u32, multiprocessors: u32, scratch_bytes: usize) -> u32 {
        let list_bytes = queries as usize * list_len(self.wanted) as usize * size_of::<u64>();
        segments(queries, self.slots, multiprocessors).min((scratch_bytes / list_bytes).max(1) as u32)
    }
}

/// Scratch memory of [`nearest_slots`], reused by later calls in the same stream.
pub struct ProductScratch<S: Stream> {
    /// Maximum bytes of rows, of queries and of lists, unless a tile needs more.
    bytes: usize,
    rows: S::Buffer<u32>,
    queries: S::Buffer<u32>,
    lists: S::Buffer<u64>,
    bounds: S::Buffer<u32>,
    candidates: S::Buffer<u32>,
}

impl<S: Stream> ProductScratch<S> {
    /// Empty scratch memory, which searches in `stream` grow as needed: gathered rows, a chunk of the queries, and
    /// their lists take up to `bytes` each.
    ///
    /// # Errors
    /// Returns the device's error.
    pub fn new(stream: &S, bytes: usize) -> Result<Self, S::Error> {
        Ok(Self {
            bytes,
            rows: stream.allocate(0)?,
            queries: stream.allocate(0)?,
            lists: stream.allocate(0)?,
            bounds: stream.allocate(0)?,
            candidates: stream.allocate(0)?,
        })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        let Self { rows, queries, lists, bounds, candidates, .. } = self;
        (rows.len() + queries.len() + bounds.len() + candidates.len()) * size_of::<u32>()
            + lists.len() * size_of::<u64>()
    }
}

/// Makes room for `len` elements, without keeping any.
fn reserve<S: Stream, T: Pod>(stream: &S, buffer: &mut S::Buffer<T>, len: usize) -> Result<(), S::Error> {
    if buffer.len() < len {
        *buffer = stream.allocate(len)?;
    }
    Ok(())
}

/// Queues a search of the start points of `search` instead of its graph: the nearest to each query, with all of them
/// compared. It expands nothing. The search of the candidates takes up to `warps` warps per query.
///
/// # Errors
/// Returns the device's error.
///
/// # Panics
/// Panics if there are no start points, or `k` is above [`MAX_K`](super::MAX_K).
///
/// # Safety
/// As [`Stream::launch`] of a search of vectors of `element`. `stream` has allocated the scratch memory. The queries
/// are the rows in order; the start points are shared by all, ascending and distinct.
pub unsafe fn nearest_slots<S: Stream>(
    stream: &S,
    search: SearchArgs,
    element: ElementKind,
    warps: u32,
    scratch: &mut ProductScratch<S>,
) -> Result<(), S::Error> {
    let SearchArgs { k, queries_len, .. } = search;
    let slots_len = search.graph.start_points_len;
    assert!(slots_len > 0, "a product has rows");
    assert!(k as usize <= super::MAX_K, "k ({k}) must be at most {}", super::MAX_K);
    let metric = match search.form {
        DistanceForm::SquaredL2 | DistanceForm::HalfSquaredL2 => Metric::L2,
        DistanceForm::NegatedDot => Metric::InnerProduct,
        DistanceForm::NegatedDotFromOrigin => unreachable!("queries are not vertices"),
        DistanceForm::Cosine => Metric::Cosine,
    };
    let (row_bytes, sizes) = (search.graph.shape.row_bytes(), ChunkSizes::new(&search, scratch.bytes));
    let words = |rows: u32| rows as usize * (row_bytes / 4) as usize;
    let copy = |from: DevicePtr<u8>, from_slots, to: &mut S::Buffer<u32>, rows| {
        let (from, to_slots) = (from.cast(), DevicePtr::null());
        let args = CopyRowsArgs {
            from,
            to: stream.output(to),
            from_slots,
            to_slots,
            rows_len: rows,
            row_words: row_bytes / 4,
        };
        // SAFETY: the table has room for a chunk of the rows, which the caller promises.
        unsafe { stream.launch(&CopyRows, args) }
    };
    let wanted = sizes.wanted;
    let ProductScratch { bytes, rows, queries, lists, bounds, candidates } = scratch;
    reserve(stream, rows, words(sizes.slots))?;
    for first_query in (0..queries_len).step_by(sizes.queries as usize) {
        let len = sizes.queries.min(queries_len - first_query);
        let chunk = search.for_queries(first_query as usize, len);
        reserve(stream, queries, words(len))?;
        copy(chunk.queries, DevicePtr::null(), queries, len)?;
        let segments = sizes.segments(len, stream.multiprocessors(), *bytes);
        let segment_rows = sizes.slots.div_ceil(segments).next_multiple_of(TILE);
        let segments = sizes.slots.div_ceil(segment_rows);
        reserve(stream, lists, (segments * list_len(wanted)) as usize * len as usize)?;
        reserve(stream, bounds, len as usize)?;
        stream.fill(bounds, u8::MAX)?;
        for first_row in (0..slots_len).step_by(sizes.slots as usize) {
            let rows_len = sizes.slots.min(slots_len - first_row);
            let slots = search.graph.start_points.add(first_row as usize);
            copy(search.graph.vectors, slots, rows, rows_len)?;
            let args = ScanArgs {
                rows: stream.input(rows).cast(),
                queries: stream.input(queries).cast(),
                lists: stream.output(lists),
                row_bytes,
                rows_len,
                queries_len: len,
                first_row,
                segment_rows,
                wanted,
                bounds: stream.output(bounds),
            };
            // SAFETY: rows and queries have been copied, as many as the arguments say; there are lists for all
            // segments of a chunk, of which the first writes every one.
            unsafe { stream.launch(&Scan::new(element, metric, true), args)? };
        }
        reserve(stream, candidates, (len * wanted) as usize)?;
        let args = ListCandidatesArgs {
            lists: stream.input(lists),
            slots: search.graph.start_points,
            candidates: stream.output(candidates),
            queries_len: len,
            segments,
            wanted,
        };
        let mut ranking = chunk.scan_candidates(stream.input(candidates), wanted);
        ranking.queries = stream.input(queries).cast();
        ranking.start.distances_so_far = slots_len;
        let kernel = Search::for_rows(element, search.form.op(), row_bytes, ranking.beam.frontier_len, warps);
        // SAFETY: the lists hold numbers of start points, and so the candidates are slots, distinct; the caller upholds
        // the rest, which is about results and costs.
        unsafe {
            stream.launch(&ListCandidates, args)?;
            stream.launch(&kernel, ranking)?;
        }
    }
    Ok(())
}
