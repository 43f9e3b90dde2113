//! Rows of links: written, read, saved and put back.

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

/// Rows that one thread takes over at a time.
const ROWS_PER_TASK: usize = 512;

/// Rows of links, and whose they are.
#[derive(Debug)]
pub(crate) struct Rows<S: Stream> {
    /// `[rows]`; rows of [`NO_ROW`] are nobody's.
    pub(crate) vertices: S::Buffer<u32>,
    /// `[rows][links_stride]`
    pub(crate) ids: S::Buffer<u32>,
}

impl<S: Stream> Rows<S> {
    /// Room for rows of nobody yet.
    pub(crate) fn allocate(stream: &S, rows: u32, links_stride: u32) -> Result<Self, S::Error> {
        let places = rows as usize * links_stride as usize;
        Ok(Self { vertices: stream.allocate(rows as usize)?, ids: stream.allocate(places)? })
    }

    /// Room for the rows of `vertices`.
    pub(crate) fn of(stream: &S, vertices: &[VectorId], links_stride: u32) -> Result<Self, S::Error> {
        let places = vertices.len() * links_stride as usize;
        Ok(Self { vertices: stream.upload(bytemuck::cast_slice(vertices))?, ids: stream.allocate(places)? })
    }

    /// How many they are.
    pub(crate) fn len(&self) -> u32 {
        self.vertices.len() as u32
    }
}

/// Links as they were before the changes of a transaction.
///
/// Rows are saved before they are overwritten. What would be more than all rows together is one copy of all, after which
/// nothing more is saved: so it never takes more than twice the links.
#[derive(Debug)]
pub(super) struct Undo<S: Stream> {
    /// In the order in which they were overwritten; a vertex may be in several.
    saved: Vec<Rows<S>>,
    /// Rows in them.
    count: usize,
    /// All links, as they were behind the changes that `saved` undoes.
    all: Option<S::Buffer<u32>>,
}

impl<T: Element, S: Stream> DeviceGraph<T, S> {
    /// Saves what [`Self::roll_back_links`] needs, until [`Self::commit_links`].
    pub(super) fn begin_links(&mut self) {
        self.undo = Some(Undo { saved: Vec::new(), count: 0, all: None });
    }

    /// Whether changes can be put back.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.undo.is_some()
    }

    /// Lets the links stand as they are.
    pub(super) fn commit_links(&mut self) {
        self.undo = None;
    }

    /// Puts the links back that were written since [`Self::begin_links`].
    pub(super) fn roll_back_links(&mut self, stream: &S) -> Result<(), S::Error> {
        let Some(undo) = self.undo.take() else { return Ok(()) };
        self.wait_for_readers(stream)?;
        if let Some(all) = &undo.all {
            stream.copy(all, &mut self.links, all.len())?;
        }
        undo.saved.iter().rev().try_for_each(|rows| self.write_links(stream, rows))?;
        stream.synchronize()
    }

    /// Writes rows of links. Within a transaction they can be put back, and all streams may read them when this returns.
    pub(crate) fn publish_links(&mut self, stream: &S, rows: &Rows<S>) -> Result<(), S::Error> {
        self.wait_for_readers(stream)?;
        self.save(stream, rows)?;
        self.write_links(stream, rows)?;
        if self.is_in_transaction() { stream.synchronize() } else { Ok(()) }
    }

    pub(super) fn write_links(&mut self, stream: &S, rows: &Rows<S>) -> Result<(), S::Error> {
        let args = PublishArgs {
            vertices: rows.vertices.input(),
            ids: rows.ids.input(),
            links_stride: self.links_stride as u32,
            links: self.links.output(),
            rows: rows.len(),
        };
        assert_eq!(rows.ids.len(), rows.vertices.len() * self.links_stride, "rows are those of this graph");
        // SAFETY: the rows are as many, and each is as long as those of the graph; they are given back behind this.
        unsafe { stream.launch(&Publish, args) }
    }

    /// Saves the rows that are about to be overwritten.
    fn save(&mut self, stream: &S, rows: &Rows<S>) -> Result<(), S::Error> {
        let Some(mut undo) = self.undo.take_if(|undo| undo.all.is_none()) else { return Ok(()) };
        undo.count += rows.vertices.len();
        let saved = if undo.count > self.slots {
            stream.allocate(self.links.len()).and_then(|mut all| {
                stream.copy(&self.links, &mut all, self.slots * self.links_stride)?;
                undo.all = Some(all);
                Ok(())
            })
        } else {
            let copy = Rows::allocate(stream, rows.len(), self.links_stride as u32);
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

    /// Reads the rows of the vertices there.
    fn read_into(&self, stream: &S, rows: &mut Rows<S>) -> Result<(), S::Error> {
        let args = SaveArgs {
            vertices: rows.vertices.input(),
            links: self.links.input(),
            ids: rows.ids.output(),
            rows: rows.len(),
            links_stride: self.links_stride as u32,
        };
        // SAFETY: the places are as many; the vertices are slots of this graph, or nobody.
        unsafe { stream.launch(&SaveRows, args) }
    }

    /// The links of some vertices.
    pub(crate) fn links_of(&self, stream: &S, vertices: &[VectorId]) -> Result<Vec<Vec<VectorId>>, S::Error> {
        assert!(vertices.iter().all(|vertex| vertex.index() < self.slots), "vertices are slots of the graph");
        let mut rows = Rows::of(stream, vertices, self.links_stride as u32)?;
        self.read_into(stream, &mut rows)?;
        let ids = stream.download(&rows.ids)?;
        Ok(ids.chunks_exact(self.links_stride).map(|row| used(row).map(VectorId::new).collect()).collect())
    }

    /// Makes `neighbors` the links of some vertices, which are distinct.
    pub(crate) fn set_links_of(
        &mut self,
        stream: &S,
        vertices: &[VectorId],
        neighbors: &[Vec<VectorId>],
    ) -> Result<(), S::Error> {
        assert!(vertices.iter().all(|vertex| vertex.index() < self.slots), "vertices are slots of the graph");
        assert_eq!(vertices.len(), neighbors.len(), "every vertex has its links");
        let mut links = vec![NO_ROW; vertices.len() * self.links_stride];
        for (row, neighbors) in links.chunks_exact_mut(self.links_stride).zip(neighbors) {
            row.iter_mut().zip(neighbors).for_each(|(link, neighbor)| *link = neighbor.get());
        }
        let vertices = stream.upload(bytemuck::cast_slice(vertices))?;
        let rows = Rows { vertices, ids: stream.upload(&links)? };
        self.publish_links(stream, &rows)
    }

    /// All links, `[slots][links_stride]`.
    pub(crate) fn links(&self) -> &S::Buffer<u32> {
        &self.links
    }

    /// Notes that a launch reads the graph that nobody waits for: whoever writes it waits first.
    pub(crate) fn mark_async_reader(&self) {
        self.read_unwaited.store(true, Relaxed);
    }

    /// Copies the links back into the graph that this is a copy of, once all work in `stream` is done, on the threads of
    /// `pool`.
    ///
    /// # Errors
    /// Of the device.
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
                        for (to, link) in places.iter_mut().zip(used(links)) {
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

/// The links of a row that are links.
fn used(row: &[u32]) -> impl Iterator<Item = u32> {
    row.iter().copied().take_while(|&link| link != NO_ROW)
}
