//! The few ways a graph changes: edges and slots, all of them undone together or none.

use std::io;

use jasper_core::{Element, VectorId};

use super::Graph;
use crate::TunedSearch;

impl<T: Element> Graph<T> {
    /// Sets the out-edges of a vertex.
    ///
    /// # Panics
    /// If there are more than `max_degree`. That ids are distinct, in range and not `slot` is the caller's care.
    pub fn set_neighbors(&mut self, slot: VectorId, neighbors: &[VectorId]) {
        if let Some(journal) = &mut self.journal {
            let degree = self.degrees.at(slot.index()) as usize;
            journal.keep(slot, &self.adjacency.row(slot.index())[..degree]);
        }
        self.adjacency.row_mut(slot.index())[..neighbors.len()].copy_from_slice(neighbors);
        self.degrees.set(slot.index(), neighbors.len() as u16);
    }

    /// Takes all edges out: they lie elsewhere, and those that are here are of another time.
    ///
    /// # Panics
    /// If changes are remembered since [`Self::begin`].
    pub fn clear_neighbors(&mut self) {
        self.link_tables().for_each(|(_, degrees)| degrees.fill(0));
    }

    /// Adds out-edges to a vertex.
    ///
    /// # Panics
    /// If it then had more than `max_degree`. That ids are distinct, in range and not `slot` is the caller's care.
    pub fn append_neighbors(&mut self, slot: VectorId, neighbors: &[VectorId]) {
        let degree = self.degrees.at(slot.index()) as usize;
        let row = self.adjacency.row_mut(slot.index());
        if let Some(journal) = &mut self.journal {
            journal.keep(slot, &row[..degree]);
        }
        row[degree..][..neighbors.len()].copy_from_slice(neighbors);
        self.degrees.set(slot.index(), (degree + neighbors.len()) as u16);
    }

    /// The links of all slots, to be written from several threads: of each run of slots in order, their places,
    /// `[slots][max_degree]`, and how many of them each uses.
    ///
    /// # Panics
    /// If changes are remembered since [`Self::begin`]. That ids are distinct, in range and not the slot, and degrees at
    /// most `max_degree`, is the caller's care.
    pub fn link_tables(&mut self) -> impl Iterator<Item = (&mut [VectorId], &mut [u16])> {
        assert!(self.journal.is_none(), "what is written from several threads cannot be rolled back");
        self.adjacency.chunks_mut().zip(self.degrees.chunks_mut())
    }

    /// Frees a tombstone that has no key, and that no edge or start point leads to.
    pub fn release(&mut self, slot: VectorId) {
        if self.tombstones.remove(slot.index()) {
            self.free.insert(slot.index());
            self.degrees.set(slot.index(), 0);
        }
    }

    /// Sets [`Self::unchecked`].
    pub fn set_unchecked(&mut self, vertices: usize) {
        self.unchecked = vertices;
    }

    /// Sets where searches begin.
    pub fn set_start_points(&mut self, start_points: Vec<VectorId>) {
        self.start_points = start_points;
        self.note_start_points();
    }

    /// Frees all tombstones. The caller has seen to it that no edge and no start point leads there.
    pub fn release_tombstones(&mut self) {
        for slot in self.tombstones.iter() {
            self.free.insert(slot);
            self.degrees.set(slot, 0);
        }
        self.tombstones.clear();
        let free = &self.free;
        self.keys.clear_deleted(|slot| free.contains(slot.index()));
    }

    /// Renames slots so that vertices lie in front: `moves` are pairs (from, to) of a vertex and a free slot before
    /// it, and `slots` of them remain. Every edge and start point follows; nothing else changes.
    ///
    /// # Errors
    /// None that a shortening could meet; the type is that of a resize.
    pub fn compact(&mut self, moves: &[(VectorId, VectorId)], slots: usize) -> io::Result<()> {
        let mut renamed: Vec<VectorId> = (0..self.slots()).map(VectorId::from_index).collect();
        for &(from, to) in moves {
            renamed[from.index()] = to;
            self.copy_slot(from, to);
            self.keys.relocate(from, to);
            if self.tombstones.remove(from.index()) {
                self.tombstones.insert(to.index());
            }
        }
        self.keys.rename_deleted(|slot| renamed[slot.index()]);
        self.keys.invalidate();
        self.free.clear();
        self.resize(slots)?;
        for slot in 0..slots {
            let degree = self.degrees.at(slot) as usize;
            self.adjacency.row_mut(slot)[..degree].iter_mut().for_each(|id| *id = renamed[id.index()]);
        }
        self.start_points.iter_mut().for_each(|id| *id = renamed[id.index()]);
        Ok(())
    }

    /// Keeps a tuned search, in the place of one for the same device, target, k and batch.
    pub fn keep_tuned(&mut self, tuned: TunedSearch) {
        match self.tuned.binary_search_by(|other| other.order(&tuned)) {
            Ok(place) => self.tuned[place] = tuned,
            Err(place) => self.tuned.insert(place, tuned),
        }
    }

    fn copy_slot(&mut self, from: VectorId, to: VectorId) {
        if self.has_vectors() {
            let row = self.space.vectors.row(from.index()).to_vec();
            self.space.vectors.row_mut(to.index()).copy_from_slice(&row);
            if let Some(sketches) = &mut self.space.sketches {
                sketches.set(to.index(), &row);
            }
        }
        if let Some(codes) = &mut self.space.codes {
            let code = codes.table.row(from.index()).to_vec();
            codes.table.row_mut(to.index()).copy_from_slice(&code);
        }
        if let Some(norms) = &mut self.space.squared_norms {
            norms.set(to.index(), norms.at(from.index()));
        }
        let neighbors = self.neighbors(from).to_vec();
        self.set_neighbors(to, &neighbors);
    }

    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        if self.has_vectors() {
            self.space.vectors.resize(slots)?;
        }
        if let Some(norms) = &mut self.space.squared_norms {
            norms.resize(slots)?;
        }
        if let Some(sketches) = &mut self.space.sketches {
            sketches.resize(slots)?;
        }
        if let Some(codes) = &mut self.space.codes {
            codes.table.resize(slots)?;
        }
        self.adjacency.resize(slots)?;
        self.keys.resize(slots)?;
        // Last, because it is what `slots` reads: a failure before leaves the number as it was.
        self.degrees.resize(slots)
    }
}
