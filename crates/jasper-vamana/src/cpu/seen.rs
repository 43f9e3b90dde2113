//! Which vertices a search has met.

use jasper_core::VectorId;

/// A lossy set of ids that is emptied for every query: each bucket keeps the last two ids that fell into it.
///
/// It never takes a vertex for one that was met and was not; it may forget one that was, which is then scored again and
/// changes nothing: see `frontier.rs`. An exact set, by open addressing, took 37% of a search of short rows, most of it
/// for branches that nobody can predict (experiments.md); this has none.
#[derive(Debug)]
pub(crate) struct SeenSet {
    /// Two ids each, the later one in the low half.
    buckets: Vec<u64>,
}

/// No id: ids have 31 bits.
const EMPTY: u64 = u64::MAX;

impl SeenSet {
    pub(crate) const fn new() -> Self {
        Self { buckets: Vec::new() }
    }

    /// Empties the set, with room for a search of `beam_width`: it expands about as many vertices, each of which brings
    /// some twenty to forty new ones. With as many buckets as ids come, one in twenty is forgotten when it comes again.
    pub(crate) fn reset(&mut self, beam_width: usize) {
        self.buckets.clear();
        self.buckets.resize((beam_width * 40).next_power_of_two().max(512), EMPTY);
    }

    /// Adds those of `ids` that are new to `out`, in order, in the place of what is there.
    #[inline]
    pub(crate) fn keep_new(&mut self, ids: &[VectorId], out: &mut Vec<VectorId>) {
        out.resize(ids.len(), VectorId::new(0));
        let (out_ids, mask) = (&mut out[..ids.len()], self.buckets.len() - 1);
        let mut kept = 0;
        for &id in ids {
            // Multiplicative hashing (Knuth): the high bits of the product depend on all bits of the id.
            let bucket = &mut self.buckets[(id.get().wrapping_mul(0x9E37_79B9) >> 7) as usize & mask];
            let old = *bucket;
            let is_new = (old as u32 != id.get()) & ((old >> 32) as u32 != id.get());
            *bucket = if is_new { old << 32 | u64::from(id.get()) } else { old };
            out_ids[kept] = id;
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
            let (mut ours, mut model, mut out) = (SeenSet::new(), HashSet::new(), Vec::new());
            ours.reset(8);
            for hop in hops {
                let ids: Vec<VectorId> = hop.iter().copied().map(VectorId::new).collect();
                ours.keep_new(&ids, &mut out);
                let new: Vec<VectorId> = ids.iter().copied().filter(|&id| model.insert(id)).collect();
                prop_assert!(new.iter().all(|id| out.contains(id)));
                prop_assert!(out.iter().all(|id| ids.contains(id)));
                ours.keep_new(&ids[ids.len().saturating_sub(1)..], &mut out);
                prop_assert!(out.is_empty());
            }
        }
    }

    #[test]
    fn few_are_forgotten() {
        let mut seen = SeenSet::new();
        seen.reset(64);
        let ids: Vec<VectorId> = (0..2560).map(|i| VectorId::new(i * 7919)).collect();
        let mut out = Vec::new();
        seen.keep_new(&ids, &mut out);
        assert_eq!(out, ids);
        seen.keep_new(&ids, &mut out);
        assert!(out.len() < ids.len() / 10, "{} of {}", out.len(), ids.len());
    }
}
