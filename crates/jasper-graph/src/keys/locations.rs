//! The slot of each key.

use std::ops::Range;
use std::sync::Arc;

use jasper_core::{Key, Slot};
use rustc_hash::FxHashMap;

use super::KeyMap;
use crate::parts::{Parts, SlotSet};

/// Slots of a span, which are looked through for a key.
const SPAN: usize = 32;

/// Maps live keys to slots.
///
/// A bulk build stores vectors in their order, so first keys ascend with their slots if the caller's keys do: the
/// indices of vectors, or those that a shard has of them. Such a key is found by binary search for its *span*, 32
/// consecutive slots; the column of first keys says which of them has it, if it still does. Only other keys need an
/// entry in the hash table.
///
/// Clones share memory: each snapshot for searches has one.
#[derive(Clone, Debug)]
pub(crate) struct KeyLocations {
    /// For each span from the first on, as far as first keys ascended when this was built: a key that is above those of
    /// earlier spans, and not above those of this one.
    least_keys: Arc<Vec<Key>>,
    /// Slots of the live keys that are not the first key of a slot in their span.
    elsewhere: KeyTable,
    /// Slots with the live key that is their number, though not all: most keys are the numbers of vectors, and the bits of
    /// millions stay in caches, where the column of first keys does not.
    own: SlotSet,
}

/// Parts of a [`KeyTable`].
const PARTS: usize = 64 * 64;
/// Bytes of a part without its buckets, and of a bucket: a key, a slot and a byte of its hash.
const PART_BYTES: usize = size_of::<FxHashMap<Key, Slot>>() + 16;
const BUCKET_BYTES: usize = size_of::<(Key, Slot)>() + 1;

impl KeyMap {
    /// Bytes of the hash table that finds the slots of this many keys, once one is looked up. Keys that ascend with the
    /// vectors of a bulk build need none.
    pub fn table_bytes(keys: usize) -> usize {
        let mean = keys as f64 / PARTS as f64;
        // More than nearly all parts have. Of eight buckets, seven are filled before their number doubles.
        let buckets = ((mean + 4.0 * mean.sqrt()) * 8.0 / 7.0) as usize;
        PARTS * (PART_BYTES + buckets.next_power_of_two() * BUCKET_BYTES)
    }
}

/// A hash table in 64 x 64 parts. A change copies the part, and the lists that lead to it, unless no clone shares them.
#[derive(Clone, Debug, Default)]
struct KeyTable(Parts<Parts<FxHashMap<Key, Slot>>>);

impl KeyTable {
    /// The indices of the part with a key.
    fn part_of(key: Key) -> (usize, usize) {
        // Multiples of the golden ratio: all bits of a key count.
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((hash >> 58) as usize, (hash >> 52) as usize % 64)
    }

    fn get(&self, key: Key) -> Option<Slot> {
        let (outer, inner) = Self::part_of(key);
        self.0.get(outer)?.get(inner)?.get(&key).copied()
    }

    fn part_mut(&mut self, key: Key) -> &mut FxHashMap<Key, Slot> {
        let (outer, inner) = Self::part_of(key);
        self.0.part_mut(outer).part_mut(inner)
    }
}

impl KeyLocations {
    pub(super) fn new(keys: &KeyMap) -> Self {
        let least_keys = least_keys(keys);
        let others = (least_keys.len() * SPAN..keys.first.len()).map(Slot::from_index);
        let others = others.filter(|&slot| keys.is_live(slot)).map(|slot| (keys.first_key(slot), slot));
        let mut elsewhere = KeyTable::default();
        for (key, slot) in others.chain(keys.further.iter()) {
            elsewhere.part_mut(key).insert(key, slot);
        }
        let mut own = SlotSet::default();
        for slot in keys.live_slots().filter(|&slot| keys.first_key(slot) == slot.index() as Key) {
            own.insert(slot);
        }
        Self { least_keys: Arc::new(least_keys), elsewhere, own }
    }

    /// Whether the slot of this number is known to have this live key.
    #[inline]
    pub(super) fn is_own(&self, key: Key) -> bool {
        u32::try_from(key).is_ok_and(|number| self.own.contains(Slot::new(number)))
    }

    /// The span whose slots may have this key as their first, unless the key has an entry.
    pub(super) fn span(&self, key: Key) -> Range<usize> {
        match self.least_keys.partition_point(|&least| least <= key) {
            0 => 0..0,
            end => (end - 1) * SPAN..end * SPAN,
        }
    }

    /// The slot of a key that is not the first key of a slot in its span.
    pub(super) fn get(&self, key: Key) -> Option<Slot> {
        self.elsewhere.get(key)
    }

    /// Adds a key. `first` says that it comes before all other keys of the slot.
    pub(super) fn insert(&mut self, key: Key, slot: Slot, first: bool) {
        if slot.index() as Key == key {
            self.own.insert(slot);
        }
        if !first || !self.span(key).contains(&slot.index()) {
            self.elsewhere.part_mut(key).insert(key, slot);
        }
    }

    /// Sets or removes the entry of a key, which may no longer be live.
    pub(super) fn set(&mut self, key: Key, slot: Option<Slot>) {
        if self.is_own(key) {
            self.own.remove(Slot::new(key as u32));
        }
        match slot {
            Some(slot) => drop(self.elsewhere.part_mut(key).insert(key, slot)),
            None => drop(self.elsewhere.part_mut(key).remove(&key)),
        }
    }
}

/// [`KeyLocations::least_keys`] of these keys.
fn least_keys(keys: &KeyMap) -> Vec<Key> {
    let (mut least_keys, mut above) = (Vec::with_capacity(keys.first.len().div_ceil(SPAN)), 0);
    for start in (0..keys.first.len()).step_by(SPAN) {
        let slots = (start..keys.first.len().min(start + SPAN)).map(Slot::from_index);
        let mut least = None;
        for key in slots.filter(|&slot| keys.is_live(slot)).map(|slot| keys.first_key(slot)) {
            if key < above {
                return least_keys;
            }
            least = least.or(Some(key));
            above = key.saturating_add(1);
        }
        least_keys.push(least.unwrap_or(above));
    }
    least_keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key below the end that is found, with its slot.
    fn all(keys: &KeyMap, end: Key) -> Vec<(Key, usize)> {
        (0..end).filter_map(|key| Some((key, keys.slot_of(key)?.index()))).collect()
    }

    fn entries(keys: &KeyMap) -> usize {
        let known = keys.locations.get().expect("a key was looked up");
        known.elsewhere.0.iter().flat_map(Parts::iter).map(FxHashMap::len).sum()
    }

    #[test]
    fn the_bytes_of_the_table_are_planned() {
        for count in [1_usize, 40_000, 300_000] {
            let mut table = KeyTable::default();
            let keys = (0..count as u64).map(|i| i.wrapping_mul(0x2545_F491_4F6C_DD1D));
            for key in keys {
                table.part_mut(key).insert(key, Slot::new(0));
            }
            let of_part = |part: &FxHashMap<_, _>| (part.capacity() * 8).div_ceil(7).next_power_of_two();
            let buckets: usize = table.0.iter().flat_map(Parts::iter).map(of_part).sum();
            let planned = KeyMap::table_bytes(count);
            assert!(
                (buckets * BUCKET_BYTES..=4 * buckets * BUCKET_BYTES + PARTS * (PART_BYTES + BUCKET_BYTES))
                    .contains(&planned),
                "{count}: {buckets} buckets, {planned} bytes"
            );
        }
    }

    #[test]
    fn keys_assigned_at_once_are_as_those_assigned_one_by_one() {
        let pairs =
            [(7, 0), (3, 1), (9, 0), (1, 2), (8, 1), (2, 0)].map(|(key, slot)| (key, Slot::new(slot)));
        let make = |assign: fn(&mut KeyMap, &[(Key, Slot)])| {
            let mut keys = KeyMap::new();
            keys.first.resize(3).unwrap();
            keys.occupy(&[], 0..3);
            assign(&mut keys, &pairs);
            let of_slots: Vec<Vec<Key>> =
                (0..3).map(|slot| keys.keys_of(Slot::new(slot)).collect()).collect();
            (of_slots, all(&keys, 12), keys.next_key(), keys.live(), keys.len())
        };
        let at_once = make(|keys, pairs| keys.assign_first(pairs.iter().copied()));
        let one_by_one =
            make(|keys, pairs| pairs.iter().for_each(|&(key, slot)| keys.assign_unused(key, slot)));
        assert_eq!(at_once, one_by_one);
        assert_eq!(at_once.0, [vec![7, 9, 2], vec![3, 8], vec![1]]);
    }

    #[test]
    fn keys_that_are_numbers_of_slots_move_like_others() {
        const SLOTS: usize = 3 * SPAN;
        let mut keys = KeyMap::new();
        keys.resize(SLOTS).unwrap();
        keys.tombstones.insert_range(0..SLOTS);
        (0..SLOTS).for_each(|slot| keys.assign_unused(slot as Key, Slot::from_index(slot)));
        let mut expected: Vec<(Key, usize)> = (0..SLOTS).map(|slot| (slot as Key, slot)).collect();
        assert_eq!(all(&keys, 200), expected);
        assert!((0..SLOTS as Key).all(|key| keys.locations.get().unwrap().is_own(key)));
        // Two change places, and a third loses its slot to another key.
        for key in [5, 70, 11] {
            keys.delete(key).unwrap();
        }
        for (key, slot) in [(5, 70), (70, 5), (150, 11)] {
            keys.assign(key, Slot::new(slot)).unwrap();
        }
        (expected[5].1, expected[70].1) = (70, 5);
        expected.remove(11);
        expected.push((150, 11));
        assert_eq!(all(&keys, 200), expected);
        // What is undone is as it was.
        keys.begin();
        keys.delete(7).unwrap();
        keys.delete(150).unwrap();
        keys.assign(11, Slot::new(11)).unwrap();
        assert_eq!((keys.slot_of(7), keys.slot_of(11)), (None, Some(Slot::new(11))));
        keys.rollback();
        assert_eq!(all(&keys, 200), expected);
        assert_eq!(all(&keys.share(), 200), expected);
    }

    #[test]
    fn ascending_keys_need_no_entry() {
        const SLOTS: usize = 4 * SPAN;
        let mut keys = KeyMap::new();
        keys.resize(SLOTS).unwrap();
        keys.tombstones.insert_range(0..SLOTS);
        let key = |slot: usize| 3 * slot as Key + 1;
        let mut expected: Vec<_> = (0..SLOTS).map(|slot| (key(slot), slot)).collect();
        for &(key, slot) in &expected {
            keys.assign_unused(key, Slot::from_index(slot));
        }
        // A second key of a slot.
        keys.assign_unused(5, Slot::from_index(70));
        let end = key(SLOTS) + 10;
        expected.insert(2, (5, 70));
        assert_eq!(all(&keys, end), expected);
        assert_eq!(entries(&keys), 1);
        // The first key of that slot goes, and the second is left. Another key takes the slot of one, which moves, and
        // a whole span becomes empty.
        keys.delete(key(70)).unwrap();
        keys.delete(key(3)).unwrap();
        keys.delete(key(90)).unwrap();
        keys.assign(key(SLOTS), Slot::from_index(3)).unwrap();
        keys.assign(key(3), Slot::from_index(90)).unwrap();
        for slot in SPAN..2 * SPAN {
            keys.delete(key(slot)).unwrap();
        }
        let moved = |(other, slot): (Key, usize)| (other, if other == key(3) { 90 } else { slot });
        let gone = |slot: usize| slot == 70 || slot == 90 || (SPAN..2 * SPAN).contains(&slot);
        let is_left = |&(other, slot): &(Key, usize)| other == 5 || other == key(3) || !gone(slot);
        let mut expected: Vec<_> = expected.into_iter().filter(is_left).map(moved).collect();
        expected.push((key(SLOTS), 3));
        assert_eq!(all(&keys, end), expected);
        assert_eq!(entries(&keys), 3);
        // Looked up anew, the key of slot 3 is above those that follow it, so all from its span on have entries.
        let again = keys.try_clone().unwrap();
        assert_eq!(all(&again, end), expected);
        assert_eq!(entries(&again), expected.len());
    }

    #[test]
    fn keys_in_any_order_have_entries() {
        let mut keys = KeyMap::new();
        keys.resize(100).unwrap();
        keys.tombstones.insert_range(0..100);
        for slot in 0..100 {
            keys.assign_unused((slot as Key * 37) % 100, Slot::from_index(slot));
        }
        assert!(all(&keys, 101).iter().all(|&(key, slot)| slot as Key * 37 % 100 == key));
        assert_eq!((all(&keys, 101).len(), entries(&keys)), (100, 100));
    }
}
