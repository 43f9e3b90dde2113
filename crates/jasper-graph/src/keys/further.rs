//! The further keys of slots that have several.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use jasper_core::{Key, Slot};
use rustc_hash::FxHashMap;

use crate::parts::{Parts, SlotSet};

/// The keys of slots beyond their first, in insertion order: those of vectors identical to an earlier one.
///
/// A data set may have a hundred thousand copies of one vector, such as that of the empty text. So the number of keys
/// is stored, and removing the oldest or newest key of a slot moves no others. Searches ask for the further keys of every
/// result, and mostly there are none, which a bit tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct FurtherKeys {
    /// By [part](part_of) and slot.
    of_slots: Parts<FxHashMap<Slot, Arc<VecDeque<Key>>>>,
    /// The slots that have some.
    slots: SlotSet,
    /// The number of keys of all slots.
    len: usize,
}

/// The part with the keys of a slot. A change copies the list of parts, and the part, unless no clone shares them: both
/// are of thousands for a hundred million slots, of which many have further keys.
fn part_of(slot: Slot) -> usize {
    slot.index() >> 14
}

impl FurtherKeys {
    /// The number of keys of all slots.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether a slot has any.
    #[inline]
    pub(crate) fn has_some(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    /// The keys of a slot.
    pub(crate) fn of(&self, slot: Slot) -> impl Iterator<Item = Key> + '_ {
        let keys = if self.has_some(slot) { self.deque(slot) } else { None };
        keys.into_iter().flatten().copied()
    }

    /// All keys and their slots, in ascending order of the slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, Slot)> + '_ {
        self.slots.iter().flat_map(|slot| self.of(slot).map(move |key| (key, slot)))
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
        let Entry::Occupied(mut keys) = self.of_slots.part_mut(part_of(slot)).entry(slot) else {
            return None;
        };
        let key = Arc::make_mut(keys.get_mut()).remove(index)?;
        self.len -= 1;
        if keys.get().is_empty() {
            keys.remove();
            self.slots.remove(slot);
        }
        Some(key)
    }

    /// Keeps those of the keys of a slot that `is_kept` says.
    pub(super) fn retain(&mut self, slot: Slot, is_kept: impl Fn(Key) -> bool) {
        let Entry::Occupied(mut keys) = self.of_slots.part_mut(part_of(slot)).entry(slot) else { return };
        let kept = Arc::make_mut(keys.get_mut());
        self.len -= kept.len();
        kept.retain(|&key| is_kept(key));
        self.len += kept.len();
        if kept.is_empty() {
            keys.remove();
            self.slots.remove(slot);
        }
    }

    /// The index of a key among those of a slot. The newest is found first.
    pub(super) fn index_of(&self, slot: Slot, key: Key) -> Option<usize> {
        let keys = self.deque(slot)?;
        if keys.back() == Some(&key) {
            return Some(keys.len() - 1);
        }
        keys.iter().position(|&other| other == key)
    }

    /// Removes the newest key of a slot, if there is one.
    pub(super) fn pop(&mut self, slot: Slot) -> Option<Key> {
        let newest = self.deque(slot)?.len() - 1;
        self.remove(slot, newest)
    }

    /// Moves the keys of a slot to another, which has none.
    pub(super) fn change_slot(&mut self, from: Slot, to: Slot) {
        if self.slots.remove(from)
            && let Some(keys) = self.of_slots.part_mut(part_of(from)).remove(&from)
        {
            self.slots.insert(to);
            self.of_slots.part_mut(part_of(to)).insert(to, keys);
        }
    }

    fn deque(&self, slot: Slot) -> Option<&VecDeque<Key>> {
        self.of_slots.get(part_of(slot))?.get(&slot).map(|keys| &**keys)
    }

    fn keys_mut(&mut self, slot: Slot) -> &mut VecDeque<Key> {
        self.slots.insert(slot);
        Arc::make_mut(self.of_slots.part_mut(part_of(slot)).entry(slot).or_default())
    }
}
