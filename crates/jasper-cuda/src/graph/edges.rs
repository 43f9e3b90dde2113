//! Writes, reads and surveys rows of edges, and rolls back the changes of a transaction.

use std::ops::Range;

use gpu_kernels::bits::SlotList;
use gpu_kernels::edges::{CountIncoming, CountIncomingArgs, FindRowsToRepair, FindRowsToRepairArgs};
use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::prune::{PublishRows, PublishRowsArgs};
use gpu_kernels::rows::{CopyRows, CopyRowsArgs};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Stream};
use jasper_core::Slot;
use jasper_data::{ThreadPool, parallel};
use jasper_graph::{Graph, SEGMENT_ROWS};
use rustc_hash::FxHashMap;

use super::DeviceGraph;

/// Rows per task of the thread pool.
const ROWS_PER_TASK: usize = 512;
/// Number of slots that are listed at once.
const LIST_CHUNK: u32 = 1 << 20;

/// Rows of some vertices, in device memory.
///
/// They are in one array, behind other words that a small batch transfers in the same copy:
///
/// ```text
/// other words | vertices | padding | rows of edges | other words
/// ```
#[derive(Debug)]
pub(crate) struct EdgeRows<S: Stream> {
    words: S::Buffer<u32>,
    /// Index of the first vertex: a multiple of [`WORD_ALIGN`].
    first: usize,
    /// Number of rows.
    len: usize,
    edges_stride: usize,
    /// The rows on the host, if they were downloaded.
    pub(crate) on_host: Option<HostRows>,
}

/// A copy of rows on the host.
#[derive(Debug)]
pub(crate) struct HostRows {
    /// `[rows]`; [`NO_SLOT`] for an unused row.
    pub(crate) vertices: Vec<u32>,
    /// `[rows][edges_stride]`
    pub(crate) neighbors: Vec<u32>,
}

/// Kernels access rows 16 bytes at a time.
pub(crate) const WORD_ALIGN: usize = 4;

impl<S: Stream> EdgeRows<S> {
    /// Words of an array of `rows` rows.
    pub(crate) fn words(rows: usize, edges_stride: u32) -> usize {
        rows.next_multiple_of(WORD_ALIGN) + rows * edges_stride as usize
    }

    /// Allocates `rows` rows, uninitialized.
    pub(crate) fn allocate(stream: &S, rows: u32, edges_stride: u32) -> Result<Self, S::Error> {
        let rows = rows as usize;
        let words = stream.allocate(Self::words(rows, edges_stride))?;
        Ok(Self::within(words, 0, rows, edges_stride))
    }

    /// The `rows` rows that begin at index `first` of an array.
    ///
    /// # Panics
    /// Panics if the array has no room for them, or `first` is no multiple of [`WORD_ALIGN`].
    pub(crate) fn within(words: S::Buffer<u32>, first: usize, rows: usize, edges_stride: u32) -> Self {
        assert!(first.is_multiple_of(WORD_ALIGN), "kernels access 16 bytes at a time");
        assert!(first + Self::words(rows, edges_stride) <= words.len(), "the array has room for {rows} rows");
        Self { words, first, len: rows, edges_stride: edges_stride as usize, on_host: None }
    }

    /// Allocates rows for `vertices`, with uninitialized edges.
    pub(crate) fn for_vertices(stream: &S, vertices: &[Slot], edges_stride: u32) -> Result<Self, S::Error> {
        let mut rows = Self::allocate(stream, vertices.len() as u32, edges_stride)?;
        rows.write_vertices(stream, vertices)?;
        Ok(rows)
    }

    /// Allocates rows for `vertices`, without edges.
    pub(super) fn without_edges(stream: &S, vertices: &[Slot], edges_stride: u32) -> Result<Self, S::Error> {
        let mut rows = Self::allocate(stream, vertices.len() as u32, edges_stride)?;
        stream.fill(&mut rows.words, u8::MAX)?;
        rows.write_vertices(stream, vertices)?;
        Ok(rows)
    }

    fn write_vertices(&mut self, stream: &S, vertices: &[Slot]) -> Result<(), S::Error> {
        stream.write_range(&mut self.words, self.first..self.first + vertices.len(), 1, |range, out| {
            let range = range.start - self.first..range.end - self.first;
            out.copy_from_slice(bytemuck::cast_slice(&vertices[range]));
            Ok(())
        })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u32 {
        self.len as u32
    }

    /// The number of edges, with padding.
    pub(crate) fn edges_len(&self) -> usize {
        self.len * self.edges_stride
    }

    /// Index of the first edge in the array.
    fn first_edge(&self) -> usize {
        self.first + self.len.next_multiple_of(WORD_ALIGN)
    }

    /// `[rows]`: the vertices; [`NO_SLOT`] for an unused row.
    pub(crate) fn vertices(&self, stream: &S) -> DevicePtr<u32> {
        stream.input(&self.words).add(self.first)
    }

    /// `[rows][edges_stride]`
    pub(crate) fn neighbors(&self, stream: &S) -> DevicePtr<u32> {
        stream.input(&self.words).add(self.first_edge())
    }

    /// [`Self::vertices`] and [`Self::neighbors`], for a kernel that writes them.
    pub(crate) fn outputs(&mut self, stream: &S) -> (DevicePtrMut<u32>, DevicePtrMut<u32>) {
        let (first, first_edge) = (self.first, self.first_edge());
        let words = stream.output(&mut self.words);
        (words.add(first), words.add(first_edge))
    }

    /// The array, in which other words may precede and follow the rows.
    pub(crate) fn array(&self) -> &S::Buffer<u32> {
        &self.words
    }

    /// [`Self::array`], for a kernel that writes other words.
    pub(crate) fn array_mut(&mut self) -> &mut S::Buffer<u32> {
        &mut self.words
    }

    /// Takes the rows from a copy of the first words of the array.
    pub(crate) fn set_on_host(&mut self, words: &[u32]) {
        let vertices = words[self.first..self.first + self.len].to_vec();
        let neighbors = words[self.first_edge()..][..self.edges_len()].to_vec();
        self.on_host = Some(HostRows { vertices, neighbors });
    }
}

/// The previous rows of vertices that changed in a transaction.
///
/// Rows are saved before they are overwritten. Once there would be more saved rows than rows in the graph, all edges
/// are saved in one copy, and nothing more. The undo log therefore takes at most twice the memory of the edges.
#[derive(Debug)]
pub(super) struct UndoLog<S: Stream> {
    /// The saved rows, in the order in which they were overwritten. A vertex may occur several times.
    saved: Vec<EdgeRows<S>>,
    /// Number of rows in `saved`.
    count: usize,
    /// A copy of all edges, made after the changes that `saved` undoes.
    all: Option<S::Buffer<u32>>,
}

/// Rows that a small change has written, as the host knows them: what the change reads next is mostly among them, and a
/// download takes longer than the work.
#[derive(Debug, Default)]
pub(super) struct RecentRows(FxHashMap<Slot, Box<[u32]>>);

/// Rows that are remembered, at most.
const MAX_RECENT: usize = 1 << 12;

impl RecentRows {
    fn contains(&self, vertex: Slot) -> bool {
        self.0.contains_key(&vertex)
    }

    fn row(&self, vertex: Slot) -> Option<&[u32]> {
        self.0.get(&vertex).map(|row| &**row)
    }

    /// Notes that rows were written, which the host may not know.
    fn add(&mut self, rows: Option<&HostRows>, edges_stride: usize) {
        let Some(HostRows { vertices, neighbors }) = rows else { return self.clear() };
        if self.0.len() + vertices.len() > MAX_RECENT {
            self.clear();
        }
        for (&vertex, row) in vertices.iter().zip(neighbors.chunks_exact(edges_stride)) {
            if vertex != NO_SLOT {
                self.0.insert(Slot::new(vertex), row.into());
            }
        }
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<S: Stream> DeviceGraph<S> {
    /// Begins a transaction, which ends with [`Self::commit`] or [`Self::rollback`].
    pub(super) fn begin(&mut self) {
        self.recent.clear();
        self.undo = Some(UndoLog { saved: Vec::new(), count: 0, all: None });
    }

    /// Keeps the edges written since [`Self::begin`].
    pub(super) fn commit(&mut self) {
        self.recent.clear();
        self.undo = None;
        self.sq8 = None;
    }

    /// Restores the edges written since [`Self::begin`].
    pub(super) fn rollback(&mut self) -> Result<(), S::Error> {
        self.sq8 = None;
        self.recent.clear();
        let Some(undo) = self.undo.take() else { return Ok(()) };
        self.wait_for_readers()?;
        if let Some(all) = &undo.all {
            self.stream.copy(all, &mut self.edges, all.len())?;
        }
        undo.saved.iter().rev().try_for_each(|rows| self.write_rows(rows))?;
        self.stream.synchronize()
    }

    /// Writes rows, while searches may read them. In a transaction, the previous rows are saved first. The stream is then
    /// synchronized.
    pub(crate) fn publish_rows(&mut self, rows: &EdgeRows<S>) -> Result<(), S::Error> {
        self.queue_rows(rows, None)?;
        if self.undo.is_some() { self.stream.synchronize() } else { Ok(()) }
    }

    /// Writes rows as [`Self::publish_rows`] does, without waiting for it. The host knows some `others` as they are before.
    pub(crate) fn queue_rows(
        &mut self,
        rows: &EdgeRows<S>,
        others: Option<&HostRows>,
    ) -> Result<(), S::Error> {
        self.wait_for_readers()?;
        self.save(rows)?;
        self.write_rows(rows)?;
        if let Some(others) = others {
            self.recent.add(Some(others), self.edges_stride);
        }
        self.recent.add(rows.on_host.as_ref(), self.edges_stride);
        Ok(())
    }

    /// Writes rows as [`Self::queue_rows`] does, of vertices whose slots a rollback frees.
    pub(crate) fn queue_new_rows(&mut self, rows: &EdgeRows<S>) -> Result<(), S::Error> {
        self.wait_for_readers()?;
        self.write_rows(rows)?;
        self.recent.add(rows.on_host.as_ref(), self.edges_stride);
        Ok(())
    }

    pub(super) fn write_rows(&mut self, rows: &EdgeRows<S>) -> Result<(), S::Error> {
        let stride = self.edges_stride;
        assert_eq!(rows.edges_stride, stride, "rows are those of this graph");
        let most = PublishRowsArgs::max_rows(stride as u32);
        for first in (0..rows.len()).step_by(most as usize) {
            let args = PublishRowsArgs {
                row_vertices: rows.vertices(&self.stream).add(first as usize),
                neighbors: rows.neighbors(&self.stream).add(first as usize * stride),
                edges_stride: stride as u32,
                edges: self.stream.output(&mut self.edges),
                rows_len: most.min(rows.len() - first),
            };
            // SAFETY: the arrays have these rows, of the length of the graph's, and are freed after the launch.
            unsafe { self.stream.launch(&PublishRows, args)? };
        }
        Ok(())
    }

    /// Saves the rows that are about to be overwritten.
    fn save(&mut self, rows: &EdgeRows<S>) -> Result<(), S::Error> {
        let Some(mut undo) = self.undo.take_if(|undo| undo.all.is_none()) else { return Ok(()) };
        undo.count += rows.len;
        let saved = if undo.count > self.slots {
            self.stream.allocate(self.edges.len()).and_then(|mut all| {
                self.stream.copy(&self.edges, &mut all, self.slots * self.edges_stride)?;
                undo.all = Some(all);
                Ok(())
            })
        } else {
            let copy = EdgeRows::allocate(&self.stream, rows.len(), self.edges_stride as u32);
            copy.and_then(|mut copy| {
                self.read_rows(rows, &mut copy)?;
                undo.saved.push(copy);
                Ok(())
            })
        };
        self.undo = Some(undo);
        saved
    }

    /// Copies the vertices of `rows` to `copy`, and the rows that they have in the graph.
    fn read_rows(&self, rows: &EdgeRows<S>, copy: &mut EdgeRows<S>) -> Result<(), S::Error> {
        let (vertices, neighbors) = copy.outputs(&self.stream);
        let args = CopyRowsArgs {
            from: rows.vertices(&self.stream),
            to: vertices,
            from_slots: DevicePtr::null(),
            to_slots: DevicePtr::null(),
            rows_len: rows.len(),
            row_words: 1,
        };
        // SAFETY: both have as many vertices.
        unsafe { self.stream.launch(&CopyRows, args)? };
        // SAFETY: there is room for a row for each vertex; the vertices are slots of this graph, or `NO_SLOT`.
        unsafe { self.gather_rows(rows.vertices(&self.stream), rows.len(), neighbors) }
    }

    /// Copies the rows of `count` vertices. Nothing is written for [`NO_SLOT`].
    ///
    /// # Safety
    /// There are as many vertices, which are slots of this graph or [`NO_SLOT`], and room for as many rows.
    pub(crate) unsafe fn gather_rows(
        &self,
        vertices: DevicePtr<u32>,
        count: u32,
        to: DevicePtrMut<u32>,
    ) -> Result<(), S::Error> {
        let args = CopyRowsArgs {
            from: self.stream.input(&self.edges),
            to,
            from_slots: vertices,
            to_slots: DevicePtr::null(),
            rows_len: count,
            row_words: self.edges_stride as u32,
        };
        // SAFETY: upheld by the caller.
        unsafe { self.stream.launch(&CopyRows, args) }
    }

    /// The rows of some vertices. Those that were [published](Self::publish_rows) a moment ago may be known on the host.
    pub(crate) fn download_rows(&self, vertices: &[Slot]) -> Result<Vec<Vec<Slot>>, S::Error> {
        self.check_vertices(vertices);
        let mut missing: Vec<Slot> =
            vertices.iter().copied().filter(|&slot| !self.recent.contains(slot)).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut neighbors = Vec::new();
        if !missing.is_empty() {
            let mut rows = EdgeRows::for_vertices(&self.stream, &missing, self.edges_stride as u32)?;
            let (_, to) = rows.outputs(&self.stream);
            // SAFETY: the rows are those of the vertices, which are slots of this graph, as checked.
            unsafe { self.gather_rows(rows.vertices(&self.stream), rows.len(), to)? };
            let range = rows.first_edge()..rows.first_edge() + rows.edges_len();
            neighbors = self.stream.download_range(&rows.words, range)?;
        }
        let row_of = |slot: &Slot| match self.recent.row(*slot) {
            Some(row) => neighbors_of(row).collect(),
            None => {
                let at = missing.binary_search(slot).expect("it was not known");
                neighbors_of(&neighbors[at * self.edges_stride..][..self.edges_stride]).collect()
            }
        };
        Ok(vertices.iter().map(row_of).collect())
    }

    /// The number of edges that lead from live vertices to each slot.
    pub(crate) fn incoming_edges(&self) -> Result<Vec<u32>, S::Error> {
        let stream = &self.stream;
        let mut incoming = stream.allocate(self.slots)?;
        stream.fill(&mut incoming, 0)?;
        let args = CountIncomingArgs {
            edges: stream.input(&self.edges),
            live: stream.input(self.live_bits()),
            incoming: stream.output(&mut incoming),
            slots: self.slots as u32,
            edges_stride: self.edges_stride(),
        };
        // SAFETY: the graph has `slots` rows and bits, and the output a zero per slot.
        unsafe { stream.launch(&CountIncoming, args)? };
        stream.download(&incoming)
    }

    /// The live vertices with a tombstone among their neighbors, ascending.
    pub(crate) fn rows_to_repair(&self) -> Result<Vec<Slot>, S::Error> {
        let (stream, slots) = (&self.stream, self.slots as u32);
        let mut to_repair = stream.allocate(slots.div_ceil(u32::BITS) as usize)?;
        let args = FindRowsToRepairArgs {
            edges: stream.input(&self.edges),
            live: stream.input(self.live_bits()),
            rows_to_repair: stream.output(&mut to_repair),
            slots,
            edges_stride: self.edges_stride(),
        };
        // SAFETY: the graph has `slots` rows and bits, and the output a word per 32 slots.
        unsafe { stream.launch(&FindRowsToRepair, args)? };
        let mut listed = SlotList::allocate(stream, slots.min(LIST_CHUNK))?;
        let mut vertices = Vec::new();
        for first in (0..slots).step_by(LIST_CHUNK as usize) {
            let range = first..slots.min(first.saturating_add(LIST_CHUNK));
            let count = listed.list(stream, &to_repair, range)?;
            let slots = stream.download_range(&listed.slots, 0..count as usize)?;
            vertices.extend(slots.into_iter().map(Slot::new));
        }
        Ok(vertices)
    }

    /// Uploads new rows of some distinct vertices, for [`Self::publish_rows`].
    pub(crate) fn upload_rows(&self, vertices: &[Slot], rows: &[Vec<Slot>]) -> Result<EdgeRows<S>, S::Error> {
        self.check_vertices(vertices);
        assert_eq!(vertices.len(), rows.len(), "there is a row for every vertex");
        let first_edge = vertices.len().next_multiple_of(WORD_ALIGN);
        let mut words = vec![NO_SLOT; EdgeRows::<S>::words(vertices.len(), self.edges_stride as u32)];
        words[..vertices.len()].copy_from_slice(bytemuck::cast_slice(vertices));
        for (out, row) in words[first_edge..].chunks_exact_mut(self.edges_stride).zip(rows) {
            out[..row.len()].copy_from_slice(bytemuck::cast_slice(row));
        }
        let array = self.stream.upload(&words)?;
        let mut rows = EdgeRows::within(array, 0, vertices.len(), self.edges_stride as u32);
        if vertices.len() <= MAX_RECENT {
            rows.set_on_host(&words);
        }
        Ok(rows)
    }

    /// Checks that the vertices are slots of this graph: kernels use them as indices.
    pub(crate) fn check_vertices(&self, vertices: &[Slot]) {
        assert!(vertices.iter().all(|vertex| vertex.index() < self.slots), "vertices are slots of the graph");
    }

    /// Downloads the edges of segment `segment` of the host's table in chunks. `take` gets a range of rows and their
    /// edges.
    pub(super) fn read_segment(
        &self,
        segment: usize,
        mut take: impl FnMut(Range<usize>, &[u32]),
    ) -> Result<(), S::Error> {
        let (stride, first) = (self.edges_stride, segment * SEGMENT_ROWS);
        let end = self.slots.min(first + SEGMENT_ROWS);
        self.stream.read_range(&self.edges, first * stride..end * stride, stride, |range, edges| {
            take(range.start / stride - first..range.end / stride - first, edges);
        })
    }

    /// The number of segments of the host's table.
    pub(super) fn segments(&self) -> usize {
        self.slots.div_ceil(SEGMENT_ROWS)
    }

    /// Copies the `edges` of `rows` of a segment to the host's table, on the threads of `pool`.
    pub(super) fn store_rows(
        &self,
        pool: &ThreadPool,
        host: &mut Graph,
        segment: usize,
        rows: Range<usize>,
        edges: &[u32],
    ) {
        let (stride, max_degree) = (self.edges_stride, host.params().max_degree());
        let (table, degrees) = host.adjacency_mut().chunk_mut(segment);
        let table = &mut table[rows.start * max_degree..rows.end * max_degree];
        let degrees = &mut degrees[rows];
        let table = table.chunks_mut(ROWS_PER_TASK * max_degree);
        let tasks = edges.chunks(ROWS_PER_TASK * stride).zip(table).zip(degrees.chunks_mut(ROWS_PER_TASK));
        parallel::map_on(Some(pool), tasks, |((edges, table), degrees)| {
            let rows = edges.chunks_exact(stride).zip(table.chunks_exact_mut(max_degree));
            for ((edges, row), degree) in rows.zip(degrees) {
                *degree = 0;
                for (to, id) in row.iter_mut().zip(neighbors_of(edges)) {
                    *to = id;
                    *degree += 1;
                }
            }
        });
    }
}

/// The edges of a row, without its padding.
fn neighbors_of(row: &[u32]) -> impl Iterator<Item = Slot> {
    row.iter().copied().take_while(|&id| id != NO_SLOT).map(Slot::new)
}
