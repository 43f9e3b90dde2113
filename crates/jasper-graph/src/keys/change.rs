//! Assigns, deletes and restores keys, and undoes these changes.

use std::ops::Range;
use std::sync::OnceLock;

use jasper_attributes::Attributes;
use jasper_core::{Key, Slot};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{KeyError, KeyMap, restore_attributes};
use crate::parts::SlotSet;

/// So many keys of one slot are deleted in one pass over its keys.
const MANY_KEYS: usize = 16;

/// The state that [`KeyMap::rollback`] restores.
#[derive(Debug)]
pub(crate) struct Undo {
    slots: usize,
    free: SlotSet,
    tombstones: SlotSet,
    next_key: Key,
    attributes: Attributes,
    /// The changes of keys, in order.
    changes: Vec<KeyChange>,
    /// Whether new keys were assigned to new vertices. These are the bulk of an insert and are dropped with their
    /// slots, so they have no entry in `changes`.
    has_new_keys: bool,
}

/// A change of a key of a slot, and what it replaced. Undoing the changes in reverse order restores the keys.
#[derive(Debug)]
struct KeyChange {
    key: Key,
    slot: Slot,
    kind: ChangeKind,
    /// The slot from which the key had been deleted.
    deleted: Option<Slot>,
    /// Entry of the key in the locations, if they were built by then.
    location: Option<Option<Slot>>,
}

/// What a change does to the keys of its slot. It holds the index of one key, not the keys: a slot may have many.
#[derive(Clone, Copy, Debug)]
enum ChangeKind {
    /// Adds the first key; the table of first keys held this before.
    AddFirst(Key),
    /// Adds a further key, behind the others.
    AddFurther,
    /// Removes the only key.
    RemoveOnly,
    /// Removes the first key, so that the next one becomes the first.
    RemoveFirst,
    /// Removes a further key, by its index among these.
    RemoveFurther(usize),
}

impl KeyMap {
    /// Assigns a key to a vertex; a tombstone becomes live.
    ///
    /// # Errors
    /// Returns [`KeyError::Exists`] or [`KeyError::Reserved`].
    pub fn assign(&mut self, key: Key, slot: Slot) -> Result<(), KeyError> {
        self.check_unused(key)?;
        self.assign_unused(key, slot);
        Ok(())
    }

    /// Assigns a key that has passed [`Self::check_unused`]; an insert checks all of its keys at once. It has no
    /// attributes, whatever it had before it was deleted.
    pub fn assign_unused(&mut self, key: Key, slot: Slot) {
        if !self.attributes.is_empty() {
            self.attributes.remove(key);
            self.attributes.add_keys([key]);
        }
        self.assign_with_attributes(key, slot);
    }

    /// Assigns a key whose attributes are live.
    fn assign_with_attributes(&mut self, key: Key, slot: Slot) {
        let kind = self.addition(slot);
        self.note_change(key, slot, kind);
        self.add(key, slot, kind);
        self.next_key = self.next_key.max(key.saturating_add(1));
        self.tombstones.remove(slot);
    }

    /// Assigns keys to all vertices of a graph that has none yet, outside of a transaction. Slots appear for the first
    /// time in ascending order, each of them. The keys are distinct, and none is [`jasper_core::NO_KEY`].
    ///
    /// # Panics
    /// Panics if a slot gets no key.
    pub fn assign_first(&mut self, keys: impl Iterator<Item = (Key, Slot)>) {
        debug_assert!(self.tombstones.len() == self.first.len() && self.locations.get().is_none());
        debug_assert!(self.undo.is_none() && self.changes.is_none() && self.attributes.is_empty());
        let mut live = 0;
        for (key, slot) in keys {
            if slot.index() == live {
                self.first.set(live, key);
                live += 1;
            } else {
                self.further.push(slot, key);
            }
            self.next_key = self.next_key.max(key.saturating_add(1));
        }
        assert_eq!(live, self.first.len(), "each slot gets a key");
        self.tombstones = SlotSet::default();
        self.history.forget();
    }

    /// Deletes a key: searches no longer return it. Its vertex becomes a tombstone if this was the last key.
    ///
    /// # Errors
    /// Returns [`KeyError::Deleted`] or [`KeyError::Unknown`].
    pub fn delete(&mut self, key: Key) -> Result<(), KeyError> {
        let slot = self.live_slot(key)?;
        let kind = self.removal(key, slot);
        self.note_change(key, slot, kind);
        self.remove(key, slot, kind);
        if matches!(kind, ChangeKind::RemoveOnly) {
            self.tombstones.insert(slot);
        }
        Ok(())
    }

    /// Deletes keys, as [`Self::delete`] does each. The keys of one vertex are read 16 times at most, however many of them
    /// are deleted.
    ///
    /// # Errors
    /// Returns the error of a key; some of the others are deleted then.
    pub fn delete_all(&mut self, keys: &[Key]) -> Result<(), KeyError> {
        let mut of_slots: FxHashMap<Slot, Vec<Key>> = FxHashMap::default();
        for &key in keys {
            let slot = self.live_slot(key)?;
            if self.further.has_some(slot) {
                of_slots.entry(slot).or_default().push(key);
            } else {
                self.delete(key)?;
            }
        }
        of_slots.into_iter().try_for_each(|(slot, keys)| match keys.len() {
            0..MANY_KEYS => keys.into_iter().try_for_each(|key| self.delete(key)),
            _ => self.delete_of_slot(slot, &keys),
        })
    }

    /// Deletes keys of one slot in one pass over its keys.
    fn delete_of_slot(&mut self, slot: Slot, keys: &[Key]) -> Result<(), KeyError> {
        let mut gone = FxHashSet::default();
        if let Some(&twice) = keys.iter().find(|&&key| !gone.insert(key)) {
            return Err(KeyError::Deleted(twice));
        }
        let further: Vec<(usize, Key)> =
            self.further.of(slot).enumerate().filter(|(_, key)| gone.contains(key)).collect();
        // The last first: the indices of those before stay.
        for &(index, key) in further.iter().rev() {
            self.note_change(key, slot, ChangeKind::RemoveFurther(index));
            self.note_deleted(key, slot);
        }
        self.further.retain(slot, |key| !gone.contains(&key));
        let first = self.first.at(slot.index());
        if gone.contains(&first) { self.delete(first) } else { Ok(()) }
    }

    /// Restores deleted keys, as [`Self::restore`] does each.
    ///
    /// # Errors
    /// Returns the error of a key; some of the others are restored then.
    pub fn restore_all(&mut self, keys: &[Key]) -> Result<(), KeyError> {
        keys.iter().try_for_each(|&key| self.restore(key))
    }

    /// Restores a deleted key whose vertex was not consolidated.
    ///
    /// # Errors
    /// Returns [`KeyError::Live`], [`KeyError::Unknown`], or [`KeyError::IdTaken`].
    pub fn restore(&mut self, key: Key) -> Result<(), KeyError> {
        let slot = self.restorable_slot(key)?;
        restore_attributes(&mut self.attributes, key)?;
        self.assign_with_attributes(key, slot);
        Ok(())
    }

    /// How a key is added to a slot.
    fn addition(&self, slot: Slot) -> ChangeKind {
        if self.is_live(slot) {
            ChangeKind::AddFurther
        } else {
            ChangeKind::AddFirst(self.first.at(slot.index()))
        }
    }

    /// How a key is removed from its slot.
    fn removal(&self, key: Key, slot: Slot) -> ChangeKind {
        if self.first.at(slot.index()) != key {
            ChangeKind::RemoveFurther(self.further.index_of(slot, key).expect("the slot has the key"))
        } else if self.further.has_some(slot) {
            ChangeKind::RemoveFirst
        } else {
            ChangeKind::RemoveOnly
        }
    }

    /// Adds a key that is not live.
    fn add(&mut self, key: Key, slot: Slot, kind: ChangeKind) {
        // The key has a new vector, so the deleted one can no longer be restored.
        self.deleted.remove(&key);
        let is_first = matches!(kind, ChangeKind::AddFirst(_));
        if is_first && self.is_fresh(slot) {
            // SAFETY: the slot is new, or was free when the transaction began: no share has a key there, and shares read
            // keys of slots that have some only.
            unsafe { self.first.fresh_row_mut(slot.index())[0] = key };
        } else if is_first {
            // A vector that is inserted again, or restored, has its key already: nothing is copied.
            if self.first.at(slot.index()) != key {
                self.replace_first(slot, key);
            }
        } else {
            self.further.push(slot, key);
        }
        if let Some(locations) = self.locations.get_mut() {
            locations.insert(key, slot, is_first);
        }
    }

    /// Removes a live key from its slot.
    fn remove(&mut self, key: Key, slot: Slot, kind: ChangeKind) {
        self.note_deleted(key, slot);
        match kind {
            ChangeKind::RemoveFirst => {
                let next = self.further.remove(slot, 0).expect("the slot has a further key");
                self.replace_first(slot, next);
            }
            ChangeKind::RemoveFurther(index) => drop(self.further.remove(slot, index)),
            _ => {}
        }
    }

    /// Notes that a key, which is removed from its slot, is deleted.
    fn note_deleted(&mut self, key: Key, slot: Slot) {
        if let Some(locations) = self.locations.get_mut() {
            locations.set(key, None);
        }
        self.deleted.insert(key, slot);
        self.attributes.remove(key);
    }

    /// Sets the first key of a slot that had another.
    fn replace_first(&mut self, slot: Slot, key: Key) {
        self.first.set(slot.index(), key);
        if let Some(changes) = &mut self.changes {
            changes.first_keys = true;
        }
    }

    /// Makes free slots and new ones tombstones.
    pub(crate) fn occupy(&mut self, reused: &[Slot], new: Range<usize>) {
        for &slot in reused {
            self.free.remove(slot);
            self.tombstones.insert(slot);
        }
        self.tombstones.insert_range(new.clone());
        if let Some(changes) = &mut self.changes {
            changes.vectors.extend(reused.iter().copied().chain(new.map(Slot::from_index)));
        }
    }

    /// Frees a tombstone; returns whether the slot was one.
    pub(crate) fn release(&mut self, slot: Slot) -> bool {
        let is_tombstone = self.tombstones.remove(slot);
        if is_tombstone {
            self.free.insert(slot);
        }
        is_tombstone
    }

    /// Frees all tombstones. No deleted key can be restored any more, even if other keys keep its vertex.
    pub(crate) fn release_tombstones(&mut self) {
        self.tombstones.iter().for_each(|slot| {
            self.free.insert(slot);
        });
        self.tombstones = SlotSet::default();
        let deleted = std::mem::take(&mut self.deleted);
        deleted.into_keys().for_each(|key| self.attributes.forget(key));
    }

    /// Moves everything from slot to slot for each pair (from, to), and leaves no slot free.
    pub(crate) fn compact(&mut self, moves: &[(Slot, Slot)], renamed: &[Slot]) {
        self.history.forget();
        for &(from, to) in moves {
            self.first.set(to.index(), self.first.at(from.index()));
            self.further.change_slot(from, to);
            if self.tombstones.remove(from) {
                self.tombstones.insert(to);
            }
        }
        self.deleted.values_mut().for_each(|slot| *slot = renamed[slot.index()]);
        self.locations = OnceLock::new();
        self.free = SlotSet::default();
    }

    pub(crate) fn begin(&mut self) {
        self.undo = Some(Undo {
            slots: self.first.len(),
            free: self.free.clone(),
            tombstones: self.tombstones.clone(),
            next_key: self.next_key,
            attributes: self.attributes.clone(),
            changes: Vec::new(),
            has_new_keys: false,
        });
    }

    pub(crate) fn commit(&mut self) {
        self.undo = None;
    }

    pub(crate) fn rollback(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.history.forget();
        for change in undo.changes.into_iter().rev() {
            if let Some(changes) = &mut self.changes {
                changes.keys.push(change.slot);
            }
            self.undo_change(change);
        }
        if undo.has_new_keys {
            self.locations = OnceLock::new();
        }
        if let Some(changes) = &mut self.changes {
            changes.keys.extend(undo.free.iter().filter(|&slot| !self.free.contains(slot)));
        }
        self.first.resize(undo.slots).expect("shrinking a table needs no memory");
        self.free = undo.free;
        self.tombstones = undo.tombstones;
        self.next_key = undo.next_key;
        self.attributes = undo.attributes;
    }

    /// Records a change of a key for rollback, filters, and copies of the graph.
    fn note_change(&mut self, key: Key, slot: Slot, kind: ChangeKind) {
        self.history.note(slot);
        let is_fresh = self.is_fresh(slot);
        if let Some(undo) = &mut self.undo {
            let deleted = self.deleted.get(&key).copied();
            if is_fresh && deleted.is_none() && matches!(kind, ChangeKind::AddFirst(_)) {
                undo.has_new_keys = true;
            } else {
                let location = self.locations.get().map(|known| known.get(key));
                undo.changes.push(KeyChange { key, slot, kind, deleted, location });
            }
        }
        if let Some(changes) = &mut self.changes {
            changes.keys.push(slot);
        }
    }

    /// Whether a slot got its vertex since the transaction began.
    fn is_fresh(&self, slot: Slot) -> bool {
        self.undo.as_ref().is_some_and(|undo| slot.index() >= undo.slots || undo.free.contains(slot))
    }

    /// Undoes a change, once all later ones are undone.
    fn undo_change(&mut self, change: KeyChange) {
        let KeyChange { key, slot, kind, deleted, location } = change;
        match kind {
            // No search returned the slot before, nor does one now: this needs no other array.
            ChangeKind::AddFirst(before) => self.first.set(slot.index(), before),
            ChangeKind::AddFurther => drop(self.further.pop(slot)),
            ChangeKind::RemoveOnly => self.first.set(slot.index(), key),
            ChangeKind::RemoveFirst => {
                self.further.insert(slot, 0, self.first.at(slot.index()));
                self.replace_first(slot, key);
            }
            ChangeKind::RemoveFurther(index) => self.further.insert(slot, index, key),
        }
        match deleted {
            Some(slot) => self.deleted.insert(key, slot),
            None => self.deleted.remove(&key),
        };
        match (self.locations.get_mut(), location) {
            (Some(known), Some(location)) => known.set(key, location),
            // The locations were built during the transaction, from keys that are undone now.
            (_, None) => self.locations = OnceLock::new(),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_keys(keys: &KeyMap, slot: Slot) -> Vec<Key> {
        keys.keys_of(slot).collect()
    }

    /// With a copy of its keys per change, these would take 40 GB.
    #[test]
    fn a_slot_may_have_many_keys() {
        const KEYS: Key = 100_000;
        let slot = Slot::new(0);
        let mut keys = KeyMap::new();
        keys.resize(1).unwrap();
        keys.occupy(&[], 0..1);
        keys.assign(0, slot).unwrap();
        keys.begin();
        (1..KEYS).for_each(|key| keys.assign(key, slot).unwrap());
        assert_eq!((keys.len(), keys.duplicate_keys()), (KEYS as usize, KEYS as usize - 1));
        keys.rollback();
        assert_eq!(all_keys(&keys, slot), [0]);

        (1..KEYS).for_each(|key| keys.assign(key, slot).unwrap());
        keys.begin();
        keys.delete(50_000).unwrap();
        (0..KEYS).filter(|&key| key != 50_000).for_each(|key| keys.delete(key).unwrap());
        assert!(keys.is_tombstone(slot) && keys.is_empty());
        keys.restore(7).unwrap();
        assert_eq!(all_keys(&keys, slot), [7]);
        keys.rollback();
        assert!(all_keys(&keys, slot).into_iter().eq(0..KEYS));
    }

    #[test]
    fn keys_are_deleted_together_as_one_by_one() {
        const KEYS: Key = 100_000;
        let assigned = |keys: Key| {
            let mut map = KeyMap::new();
            map.resize(3).unwrap();
            map.occupy(&[], 0..3);
            // Most keys are of one slot.
            (0..keys).for_each(|key| {
                map.assign(key, Slot::new(u32::from(key % 40 == 0) + u32::from(key == 40))).unwrap()
            });
            map
        };
        // Each key once, far from the one before.
        let shuffled = |keys: Key| (0..keys).map(move |key| key * 7_919 % keys);
        // Key 1 is the first of its slot: it stays in some cases, and goes in others.
        for (keys, share, kept) in [(200, 2, 1), (200, 2, 0), (200, 1, 1), (KEYS, 3, 1)] {
            let mut together = assigned(keys);
            let gone: Vec<Key> = shuffled(keys).filter(|key| key % share != kept).collect();
            together.begin();
            together.delete_all(&gone).unwrap();
            let expected: Vec<Key> = (0..keys).filter(|key| key % share == kept).collect();
            let mut left: Vec<Key> = (0..3).flat_map(|slot| all_keys(&together, Slot::new(slot))).collect();
            left.sort_unstable();
            assert_eq!((left, together.len()), (expected.clone(), expected.len()));
            assert!(gone.iter().all(|&key| together.slot_of(key).is_none()));
            assert!(together.deleted_keys().len() == gone.len());
            if keys < KEYS {
                let mut one_by_one = assigned(keys);
                gone.iter().for_each(|&key| one_by_one.delete(key).unwrap());
                let state = |map: &KeyMap| {
                    (0..3)
                        .map(Slot::new)
                        .map(|slot| (all_keys(map, slot), map.is_tombstone(slot)))
                        .collect::<Vec<_>>()
                };
                assert_eq!(state(&together), state(&one_by_one));
                together.rollback();
                assert_eq!(state(&together), state(&assigned(keys)));
                assert!((0..keys).all(|key| together.slot_of(key).is_some()));
            }
        }
        let mut map = assigned(200);
        let twice: Vec<Key> = (1..30).chain([7]).collect();
        assert_eq!(map.delete_all(&twice), Err(KeyError::Deleted(7)));
    }

    #[test]
    fn keys_of_a_new_slot_are_undone_with_it() {
        let mut keys = KeyMap::new();
        keys.resize(1).unwrap();
        keys.occupy(&[], 0..1);
        keys.assign(3, Slot::new(0)).unwrap();
        keys.begin();
        keys.resize(2).unwrap();
        keys.occupy(&[], 1..2);
        keys.assign(4, Slot::new(1)).unwrap();
        keys.assign(5, Slot::new(1)).unwrap();
        keys.delete(4).unwrap();
        keys.delete(5).unwrap();
        keys.assign(6, Slot::new(1)).unwrap();
        keys.rollback();
        assert_eq!((all_keys(&keys, Slot::new(0)), keys.len(), keys.next_key()), (vec![3], 1, 4));
        assert!((4..7).all(|key| keys.slot_of(key).is_none()) && keys.deleted_keys().len() == 0);
    }
}
