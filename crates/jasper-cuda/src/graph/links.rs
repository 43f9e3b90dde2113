//! Links: writing and reading rows, and rolling back the changes of a transaction.

use std::sync::atomic::Ordering::Relaxed;

use gpu_kernels::graph::NO_ROW;
use gpu_kernels::prune::{Publish, PublishArgs};
use gpu_kernels::rows::{SaveArgs, SaveRows};
use gpu_kernels::{Buffer as _, Stream};
use jasper_core::{Element, VectorId};
use jasper_data::ThreadPool;
use jasper_graph::{Graph, SEGMENT_ROWS};
use rayon::prelude::*;

use super::DeviceGraph;

/// Rows per task of the thread pool.
const ROWS_PER_TASK: usize = 512;

/// Rows of links of some vertices, in device memory.
#[derive(Debug)]
pub(crate) struct LinkRows<S: Stream> {
    /// `[rows]`; [`NO_ROW`] for an unused row.
    pub(crate) vertices: S::Buffer<u32>,
    /// `[rows][links_stride]`
    pub(crate) ids: S::Buffer<u32>,
}

impl<S: Stream> LinkRows<S> {
    /// Allocates `rows` rows, uninitialized.
    pub(crate) fn allocate(stream: &S, rows: u32, links_stride: u32) -> Result<Self, S::Error> {
        let places = rows as usize * links_stride as usize;
        Ok(Self { vertices: stream.allocate(rows as usize)?, ids: stream.allocate(places)? })
    }

    /// Allocates rows for `vertices`, with uninitialized links.
    pub(crate) fn for_vertices(
        stream: &S,
        vertices: &[VectorId],
        links_stride: u32,
    ) -> Result<Self, S::Error> {
        let places = vertices.len() * links_stride as usize;
        Ok(Self { vertices: stream.upload(bytemuck::cast_slice(vertices))?, ids: stream.allocate(places)? })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u32 {
        self.vertices.len() as u32
    }
}

/// The previous links of rows changed in a transaction.
///
/// Rows are saved before they are overwritten. Once the saved rows would be more than all rows of the graph, all links are
/// saved in one copy and nothing after: this never takes more than twice the memory of the links.
#[derive(Debug)]
pub(super) struct UndoLog<S: Stream> {
    /// In the order in which they were overwritten; a vertex may occur several times.
    saved: Vec<LinkRows<S>>,
    /// Number of rows in `saved`.
    count: usize,
    /// All links, after the changes that `saved` undoes.
    all: Option<S::Buffer<u32>>,
}

impl<T: Element, S: Stream> DeviceGraph<T, S> {
    /// Begins a transaction, which ends with [`Self::commit_links`] or [`Self::roll_back_links`].
    pub(super) fn begin_links(&mut self) {
        self.undo = Some(UndoLog { saved: Vec::new(), count: 0, all: None });
    }

    /// Whether a transaction has begun.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.undo.is_some()
    }

    /// Keeps the changes of the transaction.
    pub(super) fn commit_links(&mut self) {
        self.undo = None;
    }

    /// Restores the links written since [`Self::begin_links`].
    pub(super) fn roll_back_links(&mut self, stream: &S) -> Result<(), S::Error> {
        let Some(undo) = self.undo.take() else { return Ok(()) };
        self.wait_for_readers(stream)?;
        if let Some(all) = &undo.all {
            stream.copy(all, &mut self.links, all.len())?;
        }
        undo.saved.iter().rev().try_for_each(|rows| self.write_links(stream, rows))?;
        stream.synchronize()
    }

    /// Writes rows of links. In a transaction the previous links are saved first, and the stream is synchronized, so that all
    /// streams may read the new ones.
    pub(crate) fn publish_links(&mut self, stream: &S, rows: &LinkRows<S>) -> Result<(), S::Error> {
        self.wait_for_readers(stream)?;
        self.save(stream, rows)?;
        self.write_links(stream, rows)?;
        if self.is_in_transaction() { stream.synchronize() } else { Ok(()) }
    }

    pub(super) fn write_links(&mut self, stream: &S, rows: &LinkRows<S>) -> Result<(), S::Error> {
        let args = PublishArgs {
            vertices: rows.vertices.input(),
            ids: rows.ids.input(),
            links_stride: self.links_stride as u32,
            links: self.links.output(),
            rows: rows.len(),
        };
        assert_eq!(rows.ids.len(), rows.vertices.len() * self.links_stride, "rows are those of this graph");
        // SAFETY: the arrays have `rows` rows of the length of the graph's, and are freed after the launch.
        unsafe { stream.launch(&Publish, args) }
    }

    /// Saves the links of the rows that are about to be overwritten.
    fn save(&mut self, stream: &S, rows: &LinkRows<S>) -> Result<(), S::Error> {
        let Some(mut undo) = self.undo.take_if(|undo| undo.all.is_none()) else { return Ok(()) };
        undo.count += rows.vertices.len();
        let saved = if undo.count > self.slots {
            stream.allocate(self.links.len()).and_then(|mut all| {
                stream.copy(&self.links, &mut all, self.slots * self.links_stride)?;
                undo.all = Some(all);
                Ok(())
            })
        } else {
            let copy = LinkRows::allocate(stream, rows.len(), self.links_stride as u32);
            copy.and_then(|mut copy| {
                stream.copy(&rows.vertices, &mut copy.vertices, rows.vertices.len())?;
                self.read_into(stream, &mut copy)?;
                undo.saved.push(copy);
                Ok(())
            })
        };
        self.undo = Some(undo);
        saved
    }

    /// Copies the links of `rows.vertices` to `rows.ids`.
    fn read_into(&self, stream: &S, rows: &mut LinkRows<S>) -> Result<(), S::Error> {
        let args = SaveArgs {
            vertices: rows.vertices.input(),
            links: self.links.input(),
            ids: rows.ids.output(),
            rows: rows.len(),
            links_stride: self.links_stride as u32,
        };
        // SAFETY: there is a row for each vertex; the vertices are slots of this graph, or `NO_ROW`.
        unsafe { stream.launch(&SaveRows, args) }
    }

    /// Downloads the links of some vertices.
    pub(crate) fn links_of(&self, stream: &S, vertices: &[VectorId]) -> Result<Vec<Vec<VectorId>>, S::Error> {
        assert!(vertices.iter().all(|vertex| vertex.index() < self.slots), "vertices are slots of the graph");
        let mut rows = LinkRows::for_vertices(stream, vertices, self.links_stride as u32)?;
        self.read_into(stream, &mut rows)?;
        let ids = stream.download(&rows.ids)?;
        Ok(ids
            .chunks_exact(self.links_stride)
            .map(|row| links_of_row(row).map(VectorId::new).collect())
            .collect())
    }

    /// Sets the links of some distinct vertices.
    pub(crate) fn set_links_of(
        &mut self,
        stream: &S,
        vertices: &[VectorId],
        neighbors: &[Vec<VectorId>],
    ) -> Result<(), S::Error> {
        assert!(vertices.iter().all(|vertex| vertex.index() < self.slots), "vertices are slots of the graph");
        assert_eq!(vertices.len(), neighbors.len(), "there are links for every vertex");
        let mut links = vec![NO_ROW; vertices.len() * self.links_stride];
        for (row, neighbors) in links.chunks_exact_mut(self.links_stride).zip(neighbors) {
            row.iter_mut().zip(neighbors).for_each(|(link, neighbor)| *link = neighbor.get());
        }
        let vertices = stream.upload(bytemuck::cast_slice(vertices))?;
        let rows = LinkRows { vertices, ids: stream.upload(&links)? };
        self.publish_links(stream, &rows)
    }

    /// All links, `[slots][links_stride]`.
    pub(crate) fn links(&self) -> &S::Buffer<u32> {
        &self.links
    }

    /// Records that a launch reads the graph without being synchronized: the next write synchronizes the device first.
    pub(crate) fn mark_async_reader(&self) {
        self.has_async_readers.store(true, Relaxed);
    }

    /// Downloads all links into the graph that this is a copy of, after all work in `stream`, using the threads of `pool`.
    ///
    /// # Errors
    /// Those of the device.
    pub fn read_links(&self, stream: &S, pool: &ThreadPool, graph: &mut Graph<T>) -> Result<(), S::Error> {
        let (stride, max_degree) = (self.links_stride, graph.params().max_degree());
        for (part, (places, degrees)) in graph.adjacency_mut().chunks_mut().enumerate() {
            let first = part * SEGMENT_ROWS;
            let within = first * stride..(first + degrees.len()) * stride;
            stream.read_range(&self.links, within, stride, |piece, links| {
                let rows = piece.start / stride - first..piece.end / stride - first;
                let places = &mut places[rows.start * max_degree..rows.end * max_degree];
                let degrees = &mut degrees[rows];
                pool.install(|| {
                    let links = links.par_chunks_exact(stride).with_min_len(ROWS_PER_TASK);
                    let rows = links.zip(places.par_chunks_exact_mut(max_degree));
                    rows.zip(degrees).for_each(|((links, places), degree)| {
                        let mut len = 0;
                        for (to, link) in places.iter_mut().zip(links_of_row(links)) {
                            *to = VectorId::new(link);
                            len += 1;
                        }
                        *degree = len;
                    });
                });
            })?;
        }
        if graph.keys().free() > 0 {
            let free: Vec<VectorId> = (0..graph.slots())
                .map(VectorId::from_index)
                .filter(|&slot| graph.keys().is_free(slot))
                .collect();
            free.into_iter().for_each(|slot| graph.adjacency_mut().set_neighbors(slot, &[]));
        }
        Ok(())
    }
}

/// The links of a row, without its padding.
fn links_of_row(row: &[u32]) -> impl Iterator<Item = u32> {
    row.iter().copied().take_while(|&link| link != NO_ROW)
}
