//! Which vertices a search has met.

use jasper_core::VectorId;

/// An exact set of ids that is emptied for every query: open addressing in a table that fits L1 at usual widths.
///
/// Exactness is not needed for the answer, only for the count of distances: see `frontier.rs`.
#[derive(Debug)]
pub(crate) struct SeenSet {
    slots: Vec<u32>,
    len: usize,
}

/// No id: ids have 31 bits.
const EMPTY: u32 = u32::MAX;

impl SeenSet {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }

    /// Empties the set, with room for a search of `beam_width`: it expands about as many vertices, each of which
    /// brings some twenty new ones. More makes the table grow.
    pub(crate) fn reset(&mut self, beam_width: usize) {
        let wanted = (beam_width * 40).next_power_of_two().max(1024);
        self.slots.clear();
        self.slots.resize(wanted, EMPTY);
        self.len = 0;
    }

    /// Adds an id; false if it was there.
    #[inline]
    pub(crate) fn insert(&mut self, id: VectorId) -> bool {
        if self.len * 8 >= self.slots.len() * 5 {
            self.grow();
        }
        let added = Self::place(&mut self.slots, id.get());
        self.len += usize::from(added);
        added
    }

    #[inline]
    fn place(slots: &mut [u32], id: u32) -> bool {
        let mask = slots.len() - 1;
        // Multiplicative hashing (Knuth): the high bits of the product depend on all bits of the id.
        let mut at = (id.wrapping_mul(0x9E37_79B9) >> 7) as usize & mask;
        loop {
            let slot = &mut slots[at];
            if *slot == EMPTY {
                *slot = id;
                return true;
            }
            if *slot == id {
                return false;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        for id in old.into_iter().filter(|&id| id != EMPTY) {
            Self::place(&mut self.slots, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(ids in proptest::collection::vec(0_u32..5000, 0..4000)) {
            let (mut ours, mut model) = (SeenSet::new(), HashSet::new());
            ours.reset(1);
            for id in ids {
                prop_assert_eq!(ours.insert(VectorId::new(id)), model.insert(id));
            }
            ours.reset(1);
            prop_assert!(ours.insert(VectorId::new(7)));
        }
    }
}
