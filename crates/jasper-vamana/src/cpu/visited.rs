//! The visited cache: the vertices that a search has visited.

use jasper_core::Slot;

/// A lossy set of visited slots, cleared for every query: each bucket holds the last two slots that were hashed to it.
///
/// It may forget a slot. The vertex is then visited again, which costs a distance and does not change the frontier. It
/// never contains a slot that was not visited. An exact set with open addressing took 37% of a search of short vectors,
/// mostly for mispredicted branches (docs/notebook/experiments.md#visited-table-without-branches); this one has none.
#[derive(Debug, Default)]
pub(crate) struct VisitedCache {
    /// Buckets of two slots each, the later one in the low half.
    buckets: Vec<u64>,
}

/// Buckets, at least.
const MIN_BUCKETS: usize = 512;
/// Buckets, at most: 32 MB.
const MAX_BUCKETS: usize = 1 << 22;
/// More buckets than these are freed once a search needs fewer.
const MAX_KEPT_BUCKETS: usize = 1 << 16;

/// An empty bucket. Slots have 31 bits, so no slot equals either half.
const EMPTY: u64 = u64::MAX;

impl VisitedCache {
    /// Clears the set, with capacity for a search of `beam_width`, which expands about as many vertices, each with
    /// twenty to forty unvisited neighbors. With as many buckets as slots, one slot in twenty has been forgotten when
    /// it occurs again. No more buckets are needed than there are `slots` in the graph, and more than [`MAX_BUCKETS`]
    /// would take too much memory.
    pub(crate) fn reset(&mut self, beam_width: usize, slots: usize) {
        let wanted =
            beam_width.saturating_mul(40).min(slots).clamp(MIN_BUCKETS, MAX_BUCKETS).next_power_of_two();
        if self.buckets.capacity() > MAX_KEPT_BUCKETS.max(wanted) {
            self.buckets = Vec::new();
        }
        self.buckets.clear();
        self.buckets.resize(wanted, EMPTY);
    }

    /// Inserts `slots`, and sets `out` to those that were not in the set, in order.
    #[inline]
    pub(crate) fn insert_all(&mut self, slots: &[Slot], out: &mut Vec<Slot>) {
        out.resize(slots.len(), Slot::new(0));
        let (out_slots, mask) = (&mut out[..slots.len()], self.buckets.len() - 1);
        let mut kept = 0;
        for &slot in slots {
            // Multiplicative hashing (Knuth): the high bits of the product depend on all bits of the slot.
            let bucket = &mut self.buckets[(slot.get().wrapping_mul(0x9E37_79B9) >> 7) as usize & mask];
            let old = *bucket;
            let is_new = (old as u32 != slot.get()) & ((old >> 32) as u32 != slot.get());
            *bucket = if is_new { old << 32 | u64::from(slot.get()) } else { old };
            out_slots[kept] = slot;
            kept += usize::from(is_new);
        }
        out.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn what_is_new_is_never_dropped_and_what_just_came_is(
            hops in proptest::collection::vec(proptest::collection::vec(0_u32..5000, 0..70), 0..80),
        ) {
            let (mut ours, mut model, mut out) = (VisitedCache::default(), HashSet::new(), Vec::new());
            ours.reset(8, 5000);
            for hop in hops {
                let slots: Vec<Slot> = hop.iter().copied().map(Slot::new).collect();
                ours.insert_all(&slots, &mut out);
                let new: Vec<Slot> = slots.iter().copied().filter(|&slot| model.insert(slot)).collect();
                prop_assert!(new.iter().all(|slot| out.contains(slot)));
                prop_assert!(out.iter().all(|slot| slots.contains(slot)));
                ours.insert_all(&slots[slots.len().saturating_sub(1)..], &mut out);
                prop_assert!(out.is_empty());
            }
        }
    }

    #[test]
    fn a_wide_beam_takes_bounded_memory_and_gives_it_back() {
        let mut visited = VisitedCache::default();
        visited.reset(usize::MAX, usize::MAX);
        assert_eq!(visited.buckets.len(), MAX_BUCKETS);
        visited.reset(1000, 3000);
        assert_eq!(visited.buckets.len(), 4096);
        assert!(visited.buckets.capacity() <= MAX_KEPT_BUCKETS);
    }

    #[test]
    fn few_are_forgotten() {
        let mut visited = VisitedCache::default();
        visited.reset(64, usize::MAX);
        let slots: Vec<Slot> = (0..2560).map(|i| Slot::new(i * 7919)).collect();
        let mut out = Vec::new();
        visited.insert_all(&slots, &mut out);
        assert_eq!(out, slots);
        visited.insert_all(&slots, &mut out);
        assert!(out.len() < slots.len() / 10, "{} of {}", out.len(), slots.len());
    }
}
