//! The slot of each key.

use std::collections::HashMap;

use jasper_core::{Key, Slot};
use rustc_hash::FxBuildHasher;

use super::KeyMap;

/// Maps live keys to slots.
///
/// A bulk build without keys numbers its vectors and stores them in that order, so a key equals its slot plus the
/// number of smaller keys that share an earlier vertex. The column of first keys confirms the guess, and only other
/// keys need an entry in the table.
#[derive(Debug)]
pub(crate) struct KeyLocations {
    /// Keys that shared their vertex with an earlier one when this was built, ascending.
    shared: Vec<Key>,
    /// Slots of the live keys that are not the first key of their expected slot.
    elsewhere: HashMap<Key, Slot, FxBuildHasher>,
}

impl KeyLocations {
    pub(super) fn new(keys: &KeyMap) -> Self {
        let mut shared: Vec<Key> = keys.more.values().flatten().copied().collect();
        shared.sort_unstable();
        // A damaged file may name a key twice.
        shared.dedup();
        let mut locations = Self { shared, elsewhere: HashMap::default() };
        for slot in keys.live_slots() {
            locations.insert(keys.first_key(slot), slot, true);
        }
        for (key, slot) in keys.further() {
            locations.insert(key, slot, false);
        }
        locations
    }

    /// The slot at which a bulk build stores the vector of this number.
    pub(super) fn expected(&self, key: Key) -> Key {
        key - self.shared.partition_point(|&shared| shared < key) as Key
    }

    /// The slot of a key that is not at its expected slot.
    pub(super) fn get(&self, key: Key) -> Option<Slot> {
        self.elsewhere.get(&key).copied()
    }

    /// Adds a key. `first` says that it comes before all other keys of the slot.
    pub(super) fn insert(&mut self, key: Key, slot: Slot, first: bool) {
        if !first || self.expected(key) != slot.index() as Key {
            self.elsewhere.insert(key, slot);
        }
    }

    /// Sets or removes the entry of a key.
    pub(super) fn set(&mut self, key: Key, slot: Option<Slot>) {
        match slot {
            Some(slot) => drop(self.elsewhere.insert(key, slot)),
            None => drop(self.elsewhere.remove(&key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_the_numbers_of_vectors_need_no_entry() {
        let mut keys = KeyMap::new();
        // Vectors 1, 3 and 7 of ten share slot 1.
        let slots = [0, 1, 2, 1, 3, 4, 5, 1, 6, 7];
        keys.resize(8).unwrap();
        keys.tombstones.insert_range(0..8);
        for (key, &slot) in slots.iter().enumerate() {
            keys.assign_unused(key as Key, Slot::new(slot));
        }
        let all = |keys: &KeyMap| -> Vec<Option<usize>> {
            (0..11).map(|key| keys.slot_of(key).map(Slot::index)).collect()
        };
        let entries = |keys: &KeyMap| keys.locations.get().map(|known| known.elsewhere.len());
        let mut expected: Vec<_> = slots.iter().map(|&slot| Some(slot as usize)).collect();
        expected.push(None);
        assert_eq!(all(&keys), expected);
        assert_eq!(entries(&keys), Some(2));
        // Another key takes the slot of one, which moves to another slot.
        keys.delete(4).unwrap();
        keys.delete(5).unwrap();
        assert!(keys.is_tombstone(Slot::new(3)) && keys.is_tombstone(Slot::new(4)));
        keys.assign(10, Slot::new(3)).unwrap();
        keys.assign(4, Slot::new(4)).unwrap();
        (expected[4], expected[5], expected[10]) = (Some(4), None, Some(3));
        assert_eq!(all(&keys), expected);
        assert_eq!(entries(&keys), Some(4));
    }
}
