//! The nearest vertices a search knows.

use jasper_core::Neighbor;

/// At most `beam_width` neighbors, rising and distinct, with a cursor before which all are visited.
///
/// The worst entry only ever gets nearer, so a vertex that was dropped cannot come back: whether a seen vertex is
/// scored again changes the work and not the frontier.
#[derive(Debug)]
pub(crate) struct Frontier {
    entries: Vec<Neighbor>,
    beam_width: usize,
    /// Every entry before it is visited.
    cursor: usize,
}

impl Frontier {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), beam_width: 0, cursor: 0 }
    }

    pub(crate) fn reset(&mut self, beam_width: usize) {
        self.entries.clear();
        self.entries.reserve(beam_width);
        self.beam_width = beam_width;
        self.cursor = 0;
    }

    pub(crate) fn entries(&self) -> &[Neighbor] {
        &self.entries
    }

    /// No entry beyond this distance would be kept; infinity while there is room.
    #[inline]
    pub(crate) fn worst(&self) -> f32 {
        let full = self.entries.len() == self.beam_width;
        if full { self.entries[self.beam_width - 1].distance() } else { f32::INFINITY }
    }

    /// The nearest entry that is not visited.
    #[inline]
    pub(crate) fn next(&self) -> Option<Neighbor> {
        self.entries.get(self.cursor).copied()
    }

    /// Takes [`Self::next`] and marks it visited.
    #[inline]
    pub(crate) fn visit_next(&mut self) -> Option<Neighbor> {
        let entry = self.next()?;
        self.entries[self.cursor] = entry.visited();
        self.cursor += 1;
        while self.next().is_some_and(|entry| !entry.is_unvisited()) {
            self.cursor += 1;
        }
        Some(entry)
    }

    /// Adds an unvisited entry, if it is among the nearest `beam_width` and not there already.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Neighbor) {
        if self.entries.len() == self.beam_width && entry >= self.entries[self.beam_width - 1] {
            return;
        }
        let at = self.entries.partition_point(|other| *other < entry);
        // A visited copy sorts right before, an unvisited one is equal.
        if self.entries.get(at) == Some(&entry) || at > 0 && self.entries[at - 1].is_same(entry) {
            return;
        }
        if self.entries.len() == self.beam_width {
            self.entries.pop();
        }
        self.entries.insert(at, entry);
        self.cursor = self.cursor.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::VectorId;
    use proptest::prelude::*;

    proptest! {
        /// Against the definition: the nearest `width` of everything ever offered, each visited at most once.
        #[test]
        fn holds_the_nearest_of_all(
            steps in proptest::collection::vec((0_u8..6, 0_u32..40, any::<bool>()), 0..200),
            width in 1_usize..12,
        ) {
            let (mut frontier, mut offered, mut visited) = (Frontier::new(), Vec::new(), Vec::new());
            frontier.reset(width);
            for (_, id, visit) in steps {
                // The distance follows from the id, as it does in a search; many ids tie.
                let entry = Neighbor::new((id / 4) as f32, VectorId::new(id));
                frontier.insert(entry);
                offered.push(entry);
                offered.sort_unstable();
                offered.dedup();
                if visit && let Some(entry) = frontier.visit_next() {
                    prop_assert!(!visited.contains(&entry));
                    visited.push(entry);
                }
                let expected: Vec<_> = offered.iter().take(width)
                    .map(|entry| if visited.contains(entry) { entry.visited() } else { *entry }).collect();
                prop_assert_eq!(frontier.entries(), &expected[..]);
                prop_assert_eq!(frontier.next(), expected.iter().copied().find(|entry| entry.is_unvisited()));
            }
        }
    }
}
