//! The frontier of a search: the nearest vertices that it has found.

use jasper_core::Neighbor;

use crate::BeamSize;

/// The frontier: at most `capacity` neighbors, ascending and distinct, with a cursor before which all are expanded.
/// Only the nearest `beam_width` are expanded; the others are kept as results.
///
/// The farthest entry only gets nearer, so a vertex that was dropped cannot return: visiting a vertex twice costs a
/// distance and does not change the frontier.
#[derive(Debug, Default)]
pub(crate) struct Frontier {
    entries: Vec<Neighbor>,
    beam_width: usize,
    capacity: usize,
    /// All entries before it are expanded.
    cursor: usize,
}

impl Frontier {
    pub(crate) fn reset(&mut self, size: BeamSize) {
        self.entries.clear();
        self.entries.reserve(size.frontier_len);
        self.beam_width = size.width;
        self.capacity = size.frontier_len;
        self.cursor = 0;
    }

    pub(crate) fn entries(&self) -> &[Neighbor] {
        &self.entries
    }

    /// The distance beyond which no entry is added; infinity while the frontier is not full.
    #[inline]
    pub(crate) fn farthest(&self) -> f32 {
        let full = self.entries.len() == self.capacity;
        if full { self.entries[self.capacity - 1].distance() } else { f32::INFINITY }
    }

    /// The nearest unexpanded entry of the beam.
    #[inline]
    pub(crate) fn next(&self) -> Option<Neighbor> {
        if self.cursor < self.beam_width { self.entries.get(self.cursor).copied() } else { None }
    }

    /// Returns [`Self::next`] and marks it as expanded.
    #[inline]
    pub(crate) fn take_nearest(&mut self) -> Option<Neighbor> {
        let entry = self.next()?;
        self.entries[self.cursor] = entry.expanded();
        self.cursor += 1;
        while self.next().is_some_and(|entry| !entry.is_unexpanded()) {
            self.cursor += 1;
        }
        Some(entry)
    }

    /// Adds an unexpanded entry, if it is among the nearest `capacity` and not in the frontier already.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Neighbor) {
        if self.entries.len() == self.capacity && entry >= self.entries[self.capacity - 1] {
            return;
        }
        let at = self.entries.partition_point(|other| *other < entry);
        // An expanded copy sorts right before, an unexpanded one is equal.
        if self.entries.get(at) == Some(&entry) || at > 0 && self.entries[at - 1].is_same(entry) {
            return;
        }
        if self.entries.len() == self.capacity {
            self.entries.pop();
        }
        self.entries.insert(at, entry);
        self.cursor = self.cursor.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::Slot;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the definition: the nearest of all entries offered, each expanded at most once, while it is one
        /// of the nearest `width`.
        #[test]
        fn holds_the_nearest_of_all(
            steps in proptest::collection::vec((0_u8..6, 0_u32..40, any::<bool>()), 0..200),
            width in 1_usize..12,
            beyond in 0_usize..6,
        ) {
            let (mut frontier, mut offered, mut expanded) = (Frontier::default(), Vec::new(), Vec::new());
            frontier.reset(BeamSize { width, frontier_len: width + beyond });
            for (_, id, expand) in steps {
                // The distance follows from the id, as it does in a search; many ids tie.
                let entry = Neighbor::new((id / 4) as f32, Slot::new(id));
                frontier.insert(entry);
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
