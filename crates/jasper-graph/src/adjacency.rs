//! The edges between vertices, and the start points of searches.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{Ordering, fence};

use jasper_core::Slot;

use crate::{Segments, SpanningTree};

/// The out-edges of every slot, and the start points of searches.
#[derive(Debug)]
pub struct Adjacency {
    /// `(slots, max_degree)`; entries past the degree of a slot are meaningless.
    pub(crate) table: Segments<Slot>,
    /// `(slots, 1)`. A free slot has degree 0.
    pub(crate) degrees: Segments<u16>,
    /// The start points; empty only if no vertex was ever linked, or a consolidation has left none.
    pub(crate) start_points: Vec<Slot>,
    /// Whether the start points were set since [`crate::Graph::take_changes`].
    pub(crate) start_points_changed: bool,
    /// A spanning tree of the current edges, if one is kept.
    pub(crate) tree: Option<SpanningTree>,
    pub(crate) undo: Option<Undo>,
    /// If another has the tables and changes them: how many slots can be read.
    pub(crate) readable: Option<usize>,
}

/// The state that [`Adjacency::rollback`] restores.
///
/// Holds each changed row once, without unused entries. Rows of slots that were added since need no copy.
#[derive(Debug)]
pub(crate) struct Undo {
    slots: usize,
    start_points: Vec<Slot>,
    /// Whether parents in the tree were set.
    pub(crate) tree_changed: bool,
    /// Offset and length in `neighbors` of the old out-edges of a slot.
    rows: HashMap<Slot, (usize, u16)>,
    neighbors: Vec<Slot>,
}

impl Undo {
    fn save(&mut self, slot: Slot, neighbors: &[Slot]) {
        if slot.index() < self.slots {
            self.rows.entry(slot).or_insert_with(|| {
                self.neighbors.extend_from_slice(neighbors);
                (self.neighbors.len() - neighbors.len(), neighbors.len() as u16)
            });
        }
    }
}

impl Adjacency {
    pub(crate) fn new(max_degree: usize) -> Self {
        Self {
            table: Segments::new(max_degree),
            degrees: Segments::new(1),
            start_points: Vec::new(),
            start_points_changed: false,
            tree: None,
            undo: None,
            readable: None,
        }
    }

    /// The edges for searches, in the same memory. These can read the vectors of `readable` slots.
    pub(crate) fn share(&self, readable: usize) -> Self {
        Self {
            table: self.table.share(),
            degrees: self.degrees.share(),
            start_points: self.start_points.clone(),
            readable: Some(readable.min(self.table.capacity()).min(self.degrees.capacity())),
            ..Self::new(self.table.width())
        }
    }

    /// The number of slots and the start points for searches that read edges elsewhere.
    pub(crate) fn share_without_edges(&self) -> Self {
        Self {
            degrees: self.degrees.share(),
            start_points: self.start_points.clone(),
            readable: Some(0),
            ..Self::new(self.table.width())
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.require_unshared();
        Ok(Self {
            table: self.table.try_clone()?,
            degrees: self.degrees.try_clone()?,
            start_points: self.start_points.clone(),
            start_points_changed: false,
            tree: self.tree.as_ref().map(SpanningTree::try_clone).transpose()?,
            undo: None,
            readable: None,
        })
    }

    /// Returns the out-neighbors of a vertex.
    ///
    /// # Panics
    /// Panics if `slot` is out of range, or these are the edges of a [snapshot](crate::Graph::snapshot).
    #[inline]
    pub fn neighbors(&self, slot: Slot) -> &[Slot] {
        self.require_unshared();
        &self.table.row(slot.index())[..self.degrees.at(slot.index()) as usize]
    }

    /// Returns the out-neighbors of a vertex. Those of a [snapshot](crate::Graph::snapshot), which may change meanwhile, are
    /// loaded into `buffer`.
    ///
    /// # Panics
    /// Panics if `slot` is out of range.
    #[inline]
    pub fn load_neighbors<'a>(&'a self, slot: Slot, buffer: &'a mut Vec<Slot>) -> &'a [Slot] {
        let Some(slots) = self.readable else { return self.neighbors(slot) };
        let degree = self.degrees.load_row(slot.index(), 1).next().map_or(0, usize::from);
        let neighbors = self.table.load_row(slot.index(), degree.min(self.table.width()));
        buffer.resize(degree, Slot::new(0));
        // Without a branch.
        let mut kept = 0;
        for neighbor in neighbors {
            buffer[kept] = neighbor;
            kept += usize::from(neighbor.index() < slots);
        }
        // The rows of new vertices were written before their edges: see `Segments::store_row`.
        fence(Ordering::Acquire);
        &buffer[..kept]
    }

    /// Prefetches the out-edges of a vertex.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        self.table.prefetch(slot.index());
        self.degrees.prefetch(slot.index());
    }

    /// Returns the vertices at which searches start. Empty if no vertex was ever linked, or a consolidation has left none.
    pub fn start_points(&self) -> &[Slot] {
        &self.start_points
    }

    /// Returns the number of edges. Cost: one pass over the degrees.
    ///
    /// # Panics
    /// Panics in a [snapshot](crate::Graph::snapshot).
    pub fn edges(&self) -> u64 {
        self.require_unshared();
        self.degrees.chunks().flatten().map(|&degree| u64::from(degree)).sum()
    }

    /// Returns the size of the table of edges, at full degree, and of the degrees, in bytes.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.degrees.bytes()
    }

    /// Returns the spanning tree of the edges, if one is kept: see [`crate::Graph::set_spanning_tree`].
    pub fn spanning_tree(&self) -> Option<&SpanningTree> {
        self.tree.as_ref()
    }

    /// Sets the out-neighbors of a vertex. They must be distinct, in range and not `slot`, which is not checked.
    ///
    /// # Panics
    /// Panics if there are more than `max_degree`.
    pub fn set_neighbors(&mut self, slot: Slot, neighbors: &[Slot]) {
        self.save_undo(slot);
        self.table.store_row(slot.index(), 0, neighbors);
        self.set_degree(slot, neighbors.len());
    }

    /// Adds out-neighbors to a vertex. They must be new to it, distinct, in range and not `slot`, which is not
    /// checked.
    ///
    /// # Panics
    /// Panics if the vertex would have more than `max_degree`.
    pub fn append_neighbors(&mut self, slot: Slot, neighbors: &[Slot]) {
        self.save_undo(slot);
        let degree = self.degrees.at(slot.index()) as usize;
        self.table.store_row(slot.index(), degree, neighbors);
        self.set_degree(slot, degree + neighbors.len());
    }

    /// Returns the tables in chunks of consecutive slots, to be written from several threads: the edges as
    /// `(slots, max_degree)`, and the degrees. Neighbors must be distinct, in range and not the slot itself, and
    /// degrees at most `max_degree`, which is not checked.
    ///
    /// # Panics
    /// Panics inside a transaction, because these writes cannot be rolled back.
    pub fn chunks_mut(&mut self) -> impl Iterator<Item = (&mut [Slot], &mut [u16])> {
        assert!(self.undo.is_none(), "writes from several threads cannot be rolled back");
        self.table.chunks_mut().zip(self.degrees.chunks_mut())
    }

    /// Returns chunk `index` of [`Self::chunks_mut`], of which there are as many as segments of
    /// [`SEGMENT_ROWS`](crate::SEGMENT_ROWS) slots. Others may be shared with searches.
    ///
    /// # Panics
    /// Panics inside a transaction, or if there is no such chunk.
    pub fn chunk_mut(&mut self, index: usize) -> (&mut [Slot], &mut [u16]) {
        assert!(self.undo.is_none(), "writes from several threads cannot be rolled back");
        (self.table.chunk_mut(index), self.degrees.chunk_mut(index))
    }

    /// Frees the memory of the edges, as far as the operating system allows it. Until it is written again, each row
    /// holds as many meaningless entries as the vertex had edges.
    pub fn free_memory(&mut self) {
        // What is not freed is as meaningless as what is.
        let _ = self.table.free_memory();
    }

    /// Removes all edges.
    ///
    /// # Panics
    /// Panics inside a transaction.
    pub fn clear(&mut self) {
        self.chunks_mut().for_each(|(_, degrees)| degrees.fill(0));
    }

    /// Sets the vertices at which searches start.
    pub fn set_start_points(&mut self, start_points: Vec<Slot>) {
        self.start_points = start_points;
        self.start_points_changed = true;
    }

    pub(crate) fn slots(&self) -> usize {
        self.degrees.len()
    }

    /// Sets the number of slots. New slots have no edges.
    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        self.tree.as_mut().map_or(Ok(()), |tree| tree.resize(slots))?;
        self.table.resize(slots)?;
        (slots..self.slots()).for_each(|slot| self.set_degree(Slot::from_index(slot), 0));
        self.degrees.resize(slots)
    }

    pub(crate) fn load(&mut self) -> io::Result<()> {
        self.table.load()?;
        self.degrees.load()
    }

    /// Replaces every slot by its new one in `renamed`, in the first `slots` rows.
    pub(crate) fn rename(&mut self, slots: usize, renamed: &[Slot]) {
        // Snapshots keep the rows from before, those that end among them, and so all lengths.
        self.degrees.unshare_all();
        for slot in 0..slots {
            let degree = self.degrees.at(slot) as usize;
            self.table.row_mut(slot)[..degree].iter_mut().for_each(|slot| *slot = renamed[slot.index()]);
        }
        self.start_points.iter_mut().for_each(|slot| *slot = renamed[slot.index()]);
    }

    /// Removes the edges of a slot that is about to be free. Not undone by a rollback.
    pub(crate) fn release(&mut self, slot: Slot) {
        self.set_degree(slot, 0);
    }

    pub(crate) fn begin(&mut self) {
        self.undo = Some(Undo {
            slots: self.slots(),
            start_points: self.start_points.clone(),
            tree_changed: false,
            rows: HashMap::new(),
            neighbors: Vec::new(),
        });
    }

    pub(crate) fn commit(&mut self) {
        self.undo = None;
    }

    pub(crate) fn rollback(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        // Failures are rare, and the next small insert makes another tree.
        self.tree.take_if(|_| undo.tree_changed);
        for (&slot, &(offset, degree)) in &undo.rows {
            self.set_neighbors(slot, &undo.neighbors[offset..][..degree as usize]);
        }
        self.resize(undo.slots).expect("shrinking a table needs no memory");
        self.set_start_points(undo.start_points);
    }

    pub(crate) fn require_unshared(&self) {
        assert!(self.readable.is_none(), "a change may write edges of a snapshot meanwhile");
    }

    fn set_degree(&mut self, slot: Slot, degree: usize) {
        self.degrees.store_row(slot.index(), 0, &[degree as u16]);
    }

    fn save_undo(&mut self, slot: Slot) {
        if let Some(undo) = &mut self.undo {
            undo.save(slot, &self.table.row(slot.index())[..self.degrees.at(slot.index()) as usize]);
        }
    }
}
