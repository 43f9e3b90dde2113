//! The further keys of slots that have several.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use jasper_core::{BitSet, Key, Slot};
use rustc_hash::FxHashMap;

/// The keys of slots beyond their first, in insertion order: those of vectors identical to an earlier one.
///
/// A data set may have a hundred thousand copies of one vector, such as that of the empty text. So the number of keys
/// is stored, and removing the oldest or newest key of a slot moves no others. Searches ask for the further keys of every
/// result, and mostly there are none, which a bit tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct FurtherKeys {
    of_slots: FxHashMap<Slot, VecDeque<Key>>,
    /// The slots that have some.
    slots: BitSet,
    /// The number of keys of all slots.
    len: usize,
}

impl FurtherKeys {
    /// The number of keys of all slots.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether a slot has any.
    #[inline]
    pub(crate) fn has_some(&self, slot: Slot) -> bool {
        self.slots.contains(slot.index())
    }

    /// The keys of a slot.
    pub(crate) fn of(&self, slot: Slot) -> impl Iterator<Item = Key> + '_ {
        let keys = self.has_some(slot).then(|| &self.of_slots[&slot]);
        keys.into_iter().flatten().copied()
    }

    /// All keys and their slots, in ascending order of the slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, Slot)> + '_ {
        let slots = self.slots.iter().map(Slot::from_index);
        slots.flat_map(|slot| self.of_slots[&slot].iter().map(move |&key| (key, slot)))
    }

    /// Adds a key behind the others of its slot.
    pub(crate) fn push(&mut self, slot: Slot, key: Key) {
        self.keys_mut(slot).push_back(key);
        self.len += 1;
    }

    /// Adds a key at an index among those of its slot.
    pub(super) fn insert(&mut self, slot: Slot, index: usize, key: Key) {
        self.keys_mut(slot).insert(index, key);
        self.len += 1;
    }

    /// Removes the key at an index among those of a slot, if there is one.
    pub(super) fn remove(&mut self, slot: Slot, index: usize) -> Option<Key> {
        let Entry::Occupied(mut keys) = self.of_slots.entry(slot) else { return None };
        let key = keys.get_mut().remove(index)?;
        self.len -= 1;
        if keys.get().is_empty() {
            keys.remove();
            self.slots.remove(slot.index());
        }
        Some(key)
    }

    /// The index of a key among those of a slot. The newest is found first.
    pub(super) fn index_of(&self, slot: Slot, key: Key) -> Option<usize> {
        let keys = self.of_slots.get(&slot)?;
        if keys.back() == Some(&key) {
            return Some(keys.len() - 1);
        }
        keys.iter().position(|&other| other == key)
    }

    /// Removes the newest key of a slot, if there is one.
    pub(super) fn pop(&mut self, slot: Slot) -> Option<Key> {
        let newest = self.of_slots.get(&slot)?.len() - 1;
        self.remove(slot, newest)
    }

    /// Moves the keys of a slot to another, which has none.
    pub(super) fn change_slot(&mut self, from: Slot, to: Slot) {
        if let Some(keys) = self.of_slots.remove(&from) {
            self.slots.remove(from.index());
            *self.keys_mut(to) = keys;
        }
    }

    fn keys_mut(&mut self, slot: Slot) -> &mut VecDeque<Key> {
        self.slots.insert(slot.index());
        self.of_slots.entry(slot).or_default()
    }
}
