//! A spanning tree of the graph, which proves that vertices are reachable.

use std::io;

use jasper_core::Slot;

use crate::Segments;

/// Stands for no parent, in place of a slot.
pub const NO_PARENT: u32 = u32::MAX;

/// A tree of edges from the first start point to every vertex.
///
/// While each vertex has an edge from its parent, each is reachable. An insert keeps the tree up to date, and thereby
/// knows which vertices the loss of an edge may have made unreachable. The tree is not part of the file: it takes one
/// pass over the edges to make, and 4 bytes per slot to keep.
#[derive(Debug)]
pub struct SpanningTree {
    /// `(slots, 1)`: the parent, which is the slot itself for the root, or [`NO_PARENT`].
    parents: Segments<u32>,
}

impl SpanningTree {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { parents: self.parents.try_clone()? })
    }

    /// Creates the tree of these parents. The parent of the root is itself; [`NO_PARENT`] stands for none.
    ///
    /// # Errors
    /// Returns an error if memory cannot be allocated.
    pub fn new(parents: &[u32]) -> io::Result<Self> {
        let mut tree = Self { parents: Segments::new(1) };
        tree.parents.resize(parents.len())?;
        let mut rest = parents;
        for chunk in tree.parents.chunks_mut() {
            let (first, others) = rest.split_at(chunk.len().min(rest.len()));
            chunk[..first.len()].copy_from_slice(first);
            rest = others;
        }
        Ok(tree)
    }

    /// Returns the parent of a slot: itself for the root, `None` outside of the tree.
    #[inline]
    pub fn parent(&self, slot: Slot) -> Option<Slot> {
        let parent = self.word(slot);
        (parent != NO_PARENT).then(|| Slot::new(parent))
    }

    /// Returns the parent as devices store it: [`NO_PARENT`] for none.
    #[inline]
    pub fn word(&self, slot: Slot) -> u32 {
        self.parents.at(slot.index())
    }

    pub(crate) fn set_parent(&mut self, slot: Slot, parent: Option<Slot>) {
        self.parents.set(slot.index(), parent.map_or(NO_PARENT, Slot::get));
    }

    /// Sets the number of slots. New slots have no parent.
    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        let before = self.parents.len();
        self.parents.resize(slots)?;
        (before..slots).for_each(|slot| self.parents.set(slot, NO_PARENT));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SEGMENT_ROWS;

    #[test]
    fn parents_are_stored_across_segments() {
        let len = SEGMENT_ROWS + 3;
        let parents: Vec<u32> =
            (0..len as u32).map(|i| if i % 5 == 4 { NO_PARENT } else { i.saturating_sub(1) }).collect();
        let mut tree = SpanningTree::new(&parents).unwrap();
        tree.resize(len + 2).unwrap();
        tree.set_parent(Slot::new(2), None);
        for slot in (0..len + 2).map(Slot::from_index) {
            let expected = match slot.index() {
                2 => None,
                i if i >= len || i % 5 == 4 => None,
                i => Some(Slot::from_index(i.saturating_sub(1))),
            };
            assert_eq!(tree.parent(slot), expected);
        }
    }
}
