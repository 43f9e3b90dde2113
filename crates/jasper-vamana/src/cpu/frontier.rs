//! The frontier of a search: the nearest vertices that it has found.

use jasper_core::{NearestList, Neighbor, Slot};

use crate::BeamSize;

/// The frontier: ascending and distinct neighbors, with a cursor before which all are expanded. Only the nearest
/// `beam_width` are expanded; the others are kept as results.
///
/// The farthest entry only gets nearer, so a vertex that was dropped cannot return: visiting a vertex twice costs a
/// distance and does not change the frontier.
#[derive(Debug, Default)]
pub(crate) struct Frontier {
    entries: NearestList,
    beam_width: usize,
    /// All entries before it are expanded.
    cursor: usize,
}

impl Frontier {
    pub(crate) fn reset(&mut self, size: BeamSize) {
        self.entries.reset(size.frontier_len);
        self.beam_width = size.width.min(size.frontier_len);
        self.cursor = 0;
    }

    pub(crate) fn entries(&self) -> &[Neighbor] {
        self.entries.as_slice()
    }

    /// The distance beyond which no entry is added; infinity while the frontier is not full.
    #[inline]
    pub(crate) fn farthest(&self) -> f32 {
        self.entries.farthest()
    }

    /// The nearest unexpanded entry of the beam.
    #[inline]
    pub(crate) fn next(&self) -> Option<Neighbor> {
        if self.cursor == self.beam_width {
            return None;
        }
        Some(self.entries.at(self.cursor)).filter(|nearest| *nearest != Neighbor::NONE)
    }

    /// Returns [`Self::next`] and marks it as expanded.
    #[inline]
    pub(crate) fn take_nearest(&mut self) -> Option<Neighbor> {
        let entry = self.next()?;
        self.entries.set_expanded(self.cursor);
        self.cursor += 1;
        while self.next().is_some_and(|entry| !entry.is_unexpanded()) {
            self.cursor += 1;
        }
        Some(entry)
    }

    /// Adds unexpanded entries, those that are among the nearest and not in the frontier already.
    #[inline]
    pub(crate) fn insert(&mut self, slots: &[Slot], distances: &[f32]) {
        self.cursor = self.cursor.min(self.entries.insert(slots, distances));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the definition: the nearest of all entries offered, each expanded at most once, while it is
        /// one of the nearest `width`.
        #[test]
        fn holds_the_nearest_of_all(
            steps in proptest::collection::vec((0_u8..6, 0_u32..40, any::<bool>()), 0..200),
            width in 1_usize..12,
            beyond in 0_usize..6,
        ) {
            let (mut frontier, mut offered, mut expanded) = (Frontier::default(), Vec::new(), Vec::new());
            frontier.reset(BeamSize { width, frontier_len: width + beyond });
            for (_, slot, expand) in steps {
                // The distance follows from the slot, as it does in a search; many slots tie.
                let entry = Neighbor::new((slot / 4) as f32, Slot::new(slot));
                frontier.insert(&[entry.slot()], &[entry.distance()]);
                offered.push(entry);
                offered.sort_unstable();
                offered.dedup();
                if expand && let Some(entry) = frontier.take_nearest() {
                    prop_assert!(!expanded.contains(&entry));
                    expanded.push(entry);
                }
                let expected: Vec<_> = offered.iter().take(width + beyond)
                    .map(|entry| if expanded.contains(entry) { entry.expanded() } else { *entry }).collect();
                prop_assert_eq!(frontier.entries(), &expected[..]);
                let beam = &expected[..expected.len().min(width)];
                prop_assert_eq!(frontier.next(), beam.iter().copied().find(|entry| entry.is_unexpanded()));
            }
        }
    }
}
