//! The list of the nearest neighbors found so far.
//!
//! A search inserts a hundred times, at unpredictable places of a short list. With AVX-512 an insertion has no branch
//! that depends on the place: entry *i* becomes `max(list[i - 1], min(list[i], entry))`.

use crate::distance::SimdLevel;
use crate::{Neighbor, Slot};

/// Entries are padded with [`Neighbor::NONE`] to a multiple of this, a register of AVX-512.
const LANES: usize = 8;

/// The nearest neighbors found so far, up to a number: ascending and distinct.
///
/// ```
/// use jasper_core::{NearestList, Neighbor, Slot};
/// let [a, b, c] = [7, 8, 9].map(Slot::new);
/// let mut list = NearestList::default();
/// list.reset(2);
/// assert_eq!(list.insert(&[a], &[2.0]), 0);
/// assert_eq!(list.insert(&[b, c, a], &[3.0, 1.0, 2.0]), 0);
/// assert_eq!(list.as_slice(), [Neighbor::new(1.0, c), Neighbor::new(2.0, a)]);
/// ```
#[derive(Debug, Default)]
pub struct NearestList {
    /// Those found, then [`Neighbor::NONE`].
    entries: Vec<Neighbor>,
    capacity: usize,
    /// Number of entries found.
    len: usize,
}

impl NearestList {
    /// Empties the list, which then has room for `capacity` entries.
    pub fn reset(&mut self, capacity: usize) {
        self.entries.clear();
        self.entries.resize(capacity.next_multiple_of(LANES), Neighbor::NONE);
        self.capacity = capacity;
        self.len = 0;
    }

    /// Returns the entries, nearest first.
    pub fn as_slice(&self) -> &[Neighbor] {
        &self.entries[..self.len]
    }

    /// Returns an entry; [`Neighbor::NONE`] if there is none at this index, which is less than the capacity.
    #[inline]
    pub fn at(&self, index: usize) -> Neighbor {
        self.entries[index]
    }

    /// Returns the distance beyond which no entry is inserted; infinity while the list is not full.
    #[inline]
    pub fn farthest(&self) -> f32 {
        let last = self.capacity.checked_sub(1).map_or(Neighbor::NONE, |last| self.entries[last]);
        if last == Neighbor::NONE { f32::INFINITY } else { last.distance() }
    }

    /// Marks an entry as expanded.
    #[inline]
    pub fn set_expanded(&mut self, index: usize) {
        self.entries[index] = self.entries[index].expanded();
    }

    /// Inserts unexpanded entries of the vertices `slots` with their `distances`, which must not be NaN, if they are
    /// among the nearest, and not in the list already, expanded or not. Returns the least index of an inserted one, or
    /// `usize::MAX`.
    ///
    /// # Panics
    /// Panics if `slots` and `distances` differ in length.
    #[inline]
    pub fn insert(&mut self, slots: &[Slot], distances: &[f32]) -> usize {
        self.insert_at(SimdLevel::detect(), slots, distances)
    }

    #[inline]
    fn insert_at(&mut self, level: SimdLevel, slots: &[Slot], distances: &[f32]) -> usize {
        assert_eq!(slots.len(), distances.len());
        match level {
            // SAFETY: this CPU supports the instructions.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => unsafe { self.insert_avx512(slots, distances) },
            _ => self.insert_one_by_one(slots, distances),
        }
    }

    fn insert_one_by_one(&mut self, slots: &[Slot], distances: &[f32]) -> usize {
        let mut least = usize::MAX;
        let list = &mut self.entries[..self.capacity];
        for (&slot, &distance) in slots.iter().zip(distances) {
            let Some(last) = list.last() else { break };
            // The common case. The distance of an absent entry is NaN.
            if distance > last.distance() {
                continue;
            }
            let entry = Neighbor::new(distance, slot);
            let at = list[..self.len].partition_point(|other| *other < entry);
            // An expanded copy sorts right before, an unexpanded one is equal.
            let is_known = list.get(at) == Some(&entry) || at > 0 && list[at - 1].is_same(entry);
            if at < list.len() && !is_known {
                list.copy_within(at..self.len.min(list.len() - 1), at + 1);
                list[at] = entry;
                self.len = (self.len + 1).min(list.len());
                least = least.min(at);
            }
        }
        least
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{LANES, NearestList};
    use crate::{Neighbor, Slot};

    /// Entries that are passed without a branch. Longer lists are searched in chunks, from the end.
    const CHUNK: usize = 64;
    /// Distances per register.
    const DISTANCES: usize = 16;

    impl NearestList {
        /// [`Self::insert`], for 16 distances at a time.
        #[target_feature(enable = "avx512f,popcnt")]
        pub(super) fn insert_avx512(&mut self, slots: &[Slot], distances: &[f32]) -> usize {
            let mut least = usize::MAX;
            let Some(last) = self.capacity.checked_sub(1) else { return least };
            for (slots, distances) in slots.chunks(DISTANCES).zip(distances.chunks(DISTANCES)) {
                let valid = ((1_u32 << distances.len()) - 1) as __mmask16;
                // SAFETY: masked to the distances.
                let values = unsafe { _mm512_maskz_loadu_ps(valid, distances.as_ptr()) };
                // The distance of an absent entry is NaN, and no distance is greater.
                let farthest = _mm512_set1_ps(self.entries[last].distance());
                let mut near = u32::from(_mm512_mask_cmp_ps_mask::<_CMP_NGT_UQ>(valid, values, farthest));
                while near != 0 {
                    let i = near.trailing_zeros() as usize;
                    near &= near - 1;
                    least = least.min(self.insert_one(Neighbor::new(distances[i], slots[i])));
                }
            }
            least
        }

        /// Inserts an entry, and returns its index; `usize::MAX` if it does not belong there.
        #[inline]
        #[target_feature(enable = "avx512f,popcnt")]
        fn insert_one(&mut self, entry: Neighbor) -> usize {
            // What is found, and a place for this one.
            let len = (self.len + 1).min(self.capacity).next_multiple_of(LANES);
            let mut first = (len - 1) / CHUNK * CHUNK;
            while first > 0 && self.entries[first] >= entry {
                first -= CHUNK;
            }
            let entry = _mm512_set1_epi64(entry.to_bits() as i64);
            let entries = self.entries.as_mut_ptr().cast::<__m512i>();
            let (mut index, mut known) = (first, 0);
            for at in first / LANES..len / LANES {
                // SAFETY: the length is a multiple of the lanes, and a `Neighbor` is a u64.
                let old = unsafe { _mm512_loadu_si512(entries.add(at)) };
                index += _mm512_cmplt_epu64_mask(old, entry).count_ones() as usize;
                // The lowest bit of a new entry is set, that of an expanded one is not.
                let unexpanded = _mm512_or_si512(old, _mm512_set1_epi64(1));
                known |= _mm512_cmpeq_epi64_mask(unexpanded, entry);
            }
            if known != 0 || index >= self.capacity {
                return usize::MAX;
            }
            // From the end, so that entries are read before they are replaced.
            let last = len / LANES - 1;
            // SAFETY: as above.
            let mut old = unsafe { _mm512_loadu_si512(entries.add(last)) };
            let mut kept = u8::MAX >> len.saturating_sub(self.capacity);
            for at in (first / LANES..=last).rev() {
                // What is below the first chunk is less than the entry, and so are zeros.
                let below = if at > first / LANES {
                    // SAFETY: as above.
                    unsafe { _mm512_loadu_si512(entries.add(at - 1)) }
                } else {
                    _mm512_setzero_si512()
                };
                let shifted = _mm512_alignr_epi64::<{ LANES as i32 - 1 }>(old, below);
                let new = _mm512_max_epu64(shifted, _mm512_min_epu64(old, entry));
                // No masked stores: what they store is not forwarded to loads.
                let new = _mm512_mask_mov_epi64(_mm512_set1_epi64(-1), kept, new);
                // SAFETY: as above.
                unsafe { _mm512_storeu_si512(entries.add(at), new) };
                (old, kept) = (below, u8::MAX);
            }
            self.len = (self.len + 1).min(self.capacity);
            index
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with the definition at every SIMD level: the nearest of all, each once.
        #[test]
        fn the_nearest_of_all_are_kept(
            steps in proptest::collection::vec(proptest::collection::vec((0_u32..400, any::<bool>()), 0..40), 0..12),
            len in 0_usize..200,
        ) {
            for level in SimdLevel::available() {
                let (mut list, mut model) = (NearestList::default(), Vec::<Neighbor>::new());
                list.reset(len);
                for step in &steps {
                    // The distance follows from the slot, as it does in a search; many tie.
                    let slots: Vec<Slot> = step.iter().map(|(slot, _)| Slot::new(*slot)).collect();
                    let distances: Vec<f32> = step.iter().map(|(slot, _)| (slot / 4) as f32 - 20.0).collect();
                    let before = model.clone();
                    for (&slot, &distance) in slots.iter().zip(&distances) {
                        let entry = Neighbor::new(distance, slot);
                        if !model.iter().any(|old| old.is_same(entry)) {
                            model.push(entry);
                            model.sort_unstable();
                            model.truncate(len);
                        }
                    }
                    let least = list.insert_at(level, &slots, &distances);
                    prop_assert_eq!(list.as_slice(), &model[..]);
                    let same = before.iter().zip(&model).take_while(|(old, new)| old == new).count();
                    prop_assert_eq!(least, if model == before { usize::MAX } else { same });
                    // Some are expanded between the steps.
                    for (i, (_, expand)) in step.iter().enumerate() {
                        if *expand && i < model.len() {
                            list.set_expanded(i);
                            model[i] = model[i].expanded();
                        }
                    }
                }
            }
        }
    }
}
