//! Frees slots, and closes the gaps that they leave.

use std::io;

use jasper_core::Slot;

use super::Graph;

impl Graph {
    /// Frees a tombstone that no edge or start point leads to, or ever did, and no deleted key can be restored to.
    #[doc(hidden)]
    pub fn release(&mut self, slot: Slot) {
        if self.keys.release(slot) {
            self.adjacency.release(slot);
        }
    }

    /// Frees all tombstones. No edge and no start point may lead to one, which is not checked.
    #[doc(hidden)]
    pub fn release_tombstones(&mut self) {
        for slot in self.keys.tombstones.iter() {
            self.adjacency.release(slot);
        }
        self.keys.release_tombstones();
        self.readers.retire();
    }

    /// Moves vertices to smaller slots. `moves` are pairs (from, to) of a vertex and a free slot before it. Afterwards,
    /// the first `slots` slots hold all vertices. Edges, start points and keys are updated.
    ///
    /// [Snapshots](Self::snapshot) keep what they have: until they are dropped, there are two copies of the edges, and of
    /// segments with vectors that move.
    ///
    /// # Errors
    /// Returns an error if memory cannot be allocated, which shrinking does not do.
    #[doc(hidden)]
    pub fn compact(&mut self, moves: &[(Slot, Slot)], slots: usize) -> io::Result<()> {
        self.set_spanning_tree(None);
        let mut renamed: Vec<Slot> = (0..self.slots()).map(Slot::from_index).collect();
        for &(from, to) in moves {
            renamed[from.index()] = to;
            self.vectors.copy(from, to);
            let neighbors = self.adjacency.neighbors(from).to_vec();
            self.adjacency.set_neighbors(to, &neighbors);
        }
        self.keys.compact(moves, &renamed);
        self.adjacency.rename(slots, &renamed);
        self.resize(slots)?;
        self.readers.retire();
        Ok(())
    }
}
