//! Writes and reads rows of edges, and rolls back the changes of a transaction.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::prune::{PublishRows, PublishRowsArgs};
use gpu_kernels::rows::{CopyRows, CopyRowsArgs};
use gpu_kernels::{Buffer as _, DevicePtr, Stream};
use jasper_core::{Element, Slot};
use jasper_data::ThreadPool;
use jasper_graph::{Graph, SEGMENT_ROWS};
use rayon::prelude::*;

use super::DeviceGraph;

/// Rows per task of the thread pool.
const ROWS_PER_TASK: usize = 512;

/// Rows of some vertices, in device memory.
#[derive(Debug)]
pub(crate) struct EdgeRows<S: Stream> {
    /// `[rows]`; [`NO_SLOT`] for an unused row.
    pub(crate) vertices: S::Buffer<u32>,
    /// `[rows][edges_stride]`
    pub(crate) neighbors: S::Buffer<u32>,
}

impl<S: Stream> EdgeRows<S> {
    /// Allocates `rows` rows, uninitialized.
    pub(crate) fn allocate(stream: &S, rows: u32, edges_stride: u32) -> Result<Self, S::Error> {
        let len = rows as usize * edges_stride as usize;
        Ok(Self { vertices: stream.allocate(rows as usize)?, neighbors: stream.allocate(len)? })
    }

    /// Allocates rows for `vertices`, with uninitialized edges.
    pub(crate) fn for_vertices(stream: &S, vertices: &[Slot], edges_stride: u32) -> Result<Self, S::Error> {
        let len = vertices.len() * edges_stride as usize;
        Ok(Self {
            vertices: stream.upload(bytemuck::cast_slice(vertices))?,
            neighbors: stream.allocate(len)?,
        })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u32 {
        self.vertices.len() as u32
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

impl<T: Element, S: Stream> DeviceGraph<T, S> {
    /// Begins a transaction, which ends with [`Self::commit`] or [`Self::rollback`].
    pub(super) fn begin(&mut self) {
        self.undo = Some(UndoLog { saved: Vec::new(), count: 0, all: None });
    }

    /// Keeps the edges written since [`Self::begin`].
    pub(super) fn commit(&mut self) {
        self.undo = None;
        self.sq8 = None;
    }

    /// Restores the edges written since [`Self::begin`].
    pub(super) fn rollback(&mut self) -> Result<(), S::Error> {
        self.sq8 = None;
        let Some(undo) = self.undo.take() else { return Ok(()) };
        self.wait_for_readers()?;
        if let Some(all) = &undo.all {
            self.stream.copy(all, &mut self.edges, all.len())?;
        }
        undo.saved.iter().rev().try_for_each(|rows| self.write_rows(rows))?;
        self.stream.synchronize()
    }

    /// Writes rows. In a transaction, the previous rows are saved first. The stream is then synchronized, so that all
    /// streams may read the new rows.
    pub(crate) fn publish_rows(&mut self, rows: &EdgeRows<S>) -> Result<(), S::Error> {
        self.wait_for_readers()?;
        self.save(rows)?;
        self.write_rows(rows)?;
        if self.undo.is_some() { self.stream.synchronize() } else { Ok(()) }
    }

    pub(super) fn write_rows(&mut self, rows: &EdgeRows<S>) -> Result<(), S::Error> {
        let stride = self.edges_stride;
        assert_eq!(rows.neighbors.len(), rows.vertices.len() * stride, "rows are those of this graph");
        let most = PublishRowsArgs::max_rows(stride as u32);
        for first in (0..rows.len()).step_by(most as usize) {
            let args = PublishRowsArgs {
                row_vertices: self.stream.input(&rows.vertices).add(first as usize),
                neighbors: self.stream.input(&rows.neighbors).add(first as usize * stride),
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
        undo.count += rows.vertices.len();
        let saved = if undo.count > self.slots {
            self.stream.allocate(self.edges.len()).and_then(|mut all| {
                self.stream.copy(&self.edges, &mut all, self.slots * self.edges_stride)?;
                undo.all = Some(all);
                Ok(())
            })
        } else {
            let copy = EdgeRows::allocate(&self.stream, rows.len(), self.edges_stride as u32);
            copy.and_then(|mut copy| {
                self.stream.copy(&rows.vertices, &mut copy.vertices, rows.vertices.len())?;
                self.read_into(&mut copy)?;
                undo.saved.push(copy);
                Ok(())
            })
        };
        self.undo = Some(undo);
        saved
    }

    /// Copies the rows of `rows.vertices` to `rows.neighbors`.
    fn read_into(&self, rows: &mut EdgeRows<S>) -> Result<(), S::Error> {
        let args = CopyRowsArgs {
            from: self.stream.input(&self.edges),
            to: self.stream.output(&mut rows.neighbors),
            from_slots: self.stream.input(&rows.vertices),
            to_slots: DevicePtr::null(),
            rows_len: rows.len(),
            row_words: self.edges_stride as u32,
        };
        // SAFETY: there is a row for each vertex; the vertices are slots of this graph, or `NO_SLOT`.
        unsafe { self.stream.launch(&CopyRows, args) }
    }

    /// Downloads the rows of some vertices.
    pub(crate) fn download_rows(&self, vertices: &[Slot]) -> Result<Vec<Vec<Slot>>, S::Error> {
        self.check_vertices(vertices);
        let mut rows = EdgeRows::for_vertices(&self.stream, vertices, self.edges_stride as u32)?;
        self.read_into(&mut rows)?;
        let neighbors = self.stream.download(&rows.neighbors)?;
        Ok(neighbors.chunks_exact(self.edges_stride).map(|row| neighbors_of(row).collect()).collect())
    }

    /// Uploads new rows of some distinct vertices, for [`Self::publish_rows`].
    pub(crate) fn upload_rows(&self, vertices: &[Slot], rows: &[Vec<Slot>]) -> Result<EdgeRows<S>, S::Error> {
        self.check_vertices(vertices);
        assert_eq!(vertices.len(), rows.len(), "there is a row for every vertex");
        let mut neighbors = vec![NO_SLOT; vertices.len() * self.edges_stride];
        for (out, row) in neighbors.chunks_exact_mut(self.edges_stride).zip(rows) {
            out[..row.len()].copy_from_slice(bytemuck::cast_slice(row));
        }
        let vertices = self.stream.upload(bytemuck::cast_slice(vertices))?;
        Ok(EdgeRows { vertices, neighbors: self.stream.upload(&neighbors)? })
    }

    /// Checks that the vertices are slots of this graph: kernels use them as indices.
    pub(crate) fn check_vertices(&self, vertices: &[Slot]) {
        assert!(vertices.iter().all(|vertex| vertex.index() < self.slots), "vertices are slots of the graph");
    }

    /// Records that a launch reads the graph without being synchronized: the next write synchronizes the device first.
    pub(crate) fn mark_async_reader(&self) {
        self.has_async_readers.store(true, Relaxed);
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
        host: &mut Graph<T>,
        segment: usize,
        rows: Range<usize>,
        edges: &[u32],
    ) {
        let (stride, max_degree) = (self.edges_stride, host.params().max_degree());
        let (table, degrees) =
            host.adjacency_mut().chunks_mut().nth(segment).expect("a segment of the table");
        let table = &mut table[rows.start * max_degree..rows.end * max_degree];
        let degrees = &mut degrees[rows];
        pool.install(|| {
            let edges = edges.par_chunks_exact(stride).with_min_len(ROWS_PER_TASK);
            let rows = edges.zip(table.par_chunks_exact_mut(max_degree));
            rows.zip(degrees).for_each(|((edges, row), degree)| {
                *degree = 0;
                for (to, id) in row.iter_mut().zip(neighbors_of(edges)) {
                    *to = id;
                    *degree += 1;
                }
            });
        });
    }
}

/// The edges of a row, without its padding.
fn neighbors_of(row: &[u32]) -> impl Iterator<Item = Slot> {
    row.iter().copied().take_while(|&id| id != NO_SLOT).map(Slot::new)
}
