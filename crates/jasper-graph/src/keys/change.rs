//! Assigns, deletes and restores keys, and undoes these changes.

use std::ops::Range;
use std::sync::OnceLock;

use jasper_core::{BitSet, Key, Slot};

use super::{KeyError, KeyMap};

/// The state that [`KeyMap::rollback`] restores.
#[derive(Debug)]
pub(crate) struct Undo {
    slots: usize,
    free: BitSet,
    tombstones: BitSet,
    next_key: Key,
    /// State before each change of a key, in order.
    changes: Vec<Before>,
    /// Whether new keys were assigned to new vertices. These are the bulk of an insert and are dropped with their
    /// slots, so they have no entry in `changes`.
    has_new_keys: bool,
}

/// A key and a slot before a change.
#[derive(Debug)]
struct Before {
    key: Key,
    slot: Slot,
    first: Key,
    more: Option<Vec<Key>>,
    deleted: Option<Slot>,
    /// Entry of the key in the locations, if they were built by then.
    location: Option<Option<Slot>>,
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

    /// Assigns a key that has passed [`Self::check_unused`]; an insert checks all of its keys at once.
    pub fn assign_unused(&mut self, key: Key, slot: Slot) {
        let is_first = !self.is_live(slot);
        self.note_change(key, slot, is_first);
        self.insert(key, slot, is_first);
        self.next_key = self.next_key.max(key.saturating_add(1));
        self.tombstones.remove(slot.index());
    }

    /// Assigns keys to all vertices of a graph that has none yet, outside of a transaction. Slots appear for the first
    /// time in ascending order, each of them. The keys are distinct, and none is [`jasper_core::NO_KEY`].
    ///
    /// # Panics
    /// Panics if a slot gets no key.
    pub fn assign_first(&mut self, keys: impl Iterator<Item = (Key, Slot)>) {
        debug_assert!(self.tombstones.len() == self.first.len() && self.locations.get().is_none());
        debug_assert!(self.undo.is_none() && self.changes.is_none());
        let mut live = 0;
        for (key, slot) in keys {
            if slot.index() == live {
                self.first.set(live, key);
                live += 1;
            } else {
                self.more.entry(slot).or_default().push(key);
            }
            self.next_key = self.next_key.max(key.saturating_add(1));
        }
        assert_eq!(live, self.first.len(), "each slot gets a key");
        self.tombstones.clear();
        self.history.forget();
    }

    /// Deletes a key: searches no longer return it. Its vertex becomes a tombstone if this was the last key.
    ///
    /// # Errors
    /// Returns [`KeyError::Deleted`] or [`KeyError::Unknown`].
    pub fn delete(&mut self, key: Key) -> Result<(), KeyError> {
        let slot = self.live_slot(key)?;
        self.note_change(key, slot, false);
        if self.remove(key, slot) {
            self.tombstones.insert(slot.index());
        }
        Ok(())
    }

    /// Restores a deleted key whose vertex was not consolidated.
    ///
    /// # Errors
    /// Returns [`KeyError::Live`] or [`KeyError::Unknown`].
    pub fn restore(&mut self, key: Key) -> Result<(), KeyError> {
        let slot = self.restorable_slot(key)?;
        self.assign(key, slot)
    }

    /// Adds a key that is not live. `is_first` says that the slot has no other key.
    pub(crate) fn insert(&mut self, key: Key, slot: Slot, is_first: bool) {
        // The key has a new vector, so the deleted one can no longer be restored.
        self.deleted.remove(&key);
        if is_first {
            self.first.set(slot.index(), key);
        } else {
            self.more.entry(slot).or_default().push(key);
        }
        if let Some(locations) = self.locations.get_mut() {
            locations.insert(key, slot, is_first);
        }
    }

    /// Removes a live key from its slot; returns whether the slot has none left.
    pub(crate) fn remove(&mut self, key: Key, slot: Slot) -> bool {
        if let Some(locations) = self.locations.get_mut() {
            locations.set(key, None);
        }
        self.deleted.insert(key, slot);
        let Some(more) = self.more.get_mut(&slot) else { return true };
        if self.first.at(slot.index()) == key {
            self.first.set(slot.index(), more.remove(0));
        } else {
            more.retain(|&other| other != key);
        }
        if more.is_empty() {
            self.more.remove(&slot);
        }
        false
    }

    /// Makes free slots and new ones tombstones.
    pub(crate) fn occupy(&mut self, reused: &[Slot], new: Range<usize>) {
        for slot in reused {
            self.free.remove(slot.index());
            self.tombstones.insert(slot.index());
        }
        self.tombstones.insert_range(new.clone());
        if let Some(changes) = &mut self.changes {
            changes.vectors.extend(reused.iter().copied().chain(new.map(Slot::from_index)));
        }
    }

    /// Frees a tombstone; returns whether the slot was one.
    pub(crate) fn release(&mut self, slot: Slot) -> bool {
        let is_tombstone = self.tombstones.remove(slot.index());
        if is_tombstone {
            self.free.insert(slot.index());
        }
        is_tombstone
    }

    /// Frees all tombstones. No deleted key can be restored any more, even if other keys keep its vertex.
    pub(crate) fn release_tombstones(&mut self) {
        self.tombstones.iter().for_each(|slot| {
            self.free.insert(slot);
        });
        self.tombstones.clear();
        self.deleted.clear();
    }

    /// Moves everything from slot to slot for each pair (from, to), and leaves no slot free.
    pub(crate) fn compact(&mut self, moves: &[(Slot, Slot)], renamed: &[Slot]) {
        self.history.forget();
        for &(from, to) in moves {
            self.first.set(to.index(), self.first.at(from.index()));
            if let Some(more) = self.more.remove(&from) {
                self.more.insert(to, more);
            }
            if self.tombstones.remove(from.index()) {
                self.tombstones.insert(to.index());
            }
        }
        self.deleted.values_mut().for_each(|slot| *slot = renamed[slot.index()]);
        self.locations = OnceLock::new();
        self.free.clear();
    }

    pub(crate) fn begin(&mut self) {
        self.undo = Some(Undo {
            slots: self.first.len(),
            free: self.free.clone(),
            tombstones: self.tombstones.clone(),
            next_key: self.next_key,
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
        for before in undo.changes.into_iter().rev() {
            if let Some(changes) = &mut self.changes {
                changes.keys.push(before.slot);
            }
            self.restore_before(before);
        }
        if undo.has_new_keys {
            self.locations = OnceLock::new();
        }
        if let Some(changes) = &mut self.changes {
            let reused = undo.free.iter().filter(|&slot| !self.free.contains(slot));
            changes.keys.extend(reused.map(Slot::from_index));
        }
        self.first.resize(undo.slots).expect("shrinking a table needs no memory");
        self.free = undo.free;
        self.tombstones = undo.tombstones;
        self.next_key = undo.next_key;
    }

    /// Records a change of a key for rollback, filters, and copies of the graph. `is_first` says that the key is
    /// assigned to a slot without keys.
    fn note_change(&mut self, key: Key, slot: Slot, is_first: bool) {
        self.history.note(slot);
        if let Some(undo) = &self.undo {
            let is_new = slot.index() >= undo.slots || undo.free.contains(slot.index());
            let is_new_key = is_first && is_new && !self.deleted.contains_key(&key);
            let before = (!is_new_key).then(|| self.before(key, slot));
            let undo = self.undo.as_mut().expect("it is there");
            undo.has_new_keys |= is_new_key;
            undo.changes.extend(before);
        }
        if let Some(changes) = &mut self.changes {
            changes.keys.push(slot);
        }
    }

    fn before(&self, key: Key, slot: Slot) -> Before {
        Before {
            key,
            slot,
            first: self.first.at(slot.index()),
            more: self.more.get(&slot).cloned(),
            deleted: self.deleted.get(&key).copied(),
            location: self.locations.get().map(|known| known.get(key)),
        }
    }

    fn restore_before(&mut self, before: Before) {
        let Before { key, slot, first, more, deleted, location } = before;
        self.first.set(slot.index(), first);
        match more {
            Some(more) => self.more.insert(slot, more),
            None => self.more.remove(&slot),
        };
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
