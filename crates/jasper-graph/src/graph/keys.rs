//! Which keys a graph has, and whose they are.

use jasper_core::{Element, Key, NO_KEY, VectorId};

use super::Graph;
use crate::keys::KeyError;

impl<T: Element> Graph<T> {
    /// Keys of a live slot, first the one given first.
    pub fn keys_of(&self, slot: VectorId) -> impl Iterator<Item = Key> + '_ {
        self.is_live(slot).then(|| self.keys.keys_of(slot)).into_iter().flatten()
    }

    /// The first key of a slot known to be live: no check, for loops over answers.
    #[inline]
    pub fn first_key(&self, live: VectorId) -> Key {
        self.keys.first_of(live)
    }

    /// Slot of a live key. The first call looks at all keys, and later ones at the slot where a bulk build puts the row
    /// of that number, or into a table of the keys that are elsewhere.
    pub fn slot_of(&self, key: Key) -> Option<VectorId> {
        self.keys.slot(key, |slot| self.is_tombstone(slot) || self.is_free(slot))
    }

    /// Keys that were deleted and can still be restored.
    pub fn deleted_keys(&self) -> impl ExactSizeIterator<Item = Key> + '_ {
        self.keys.deleted().keys().copied()
    }

    /// Gives a vertex a key; a tombstone becomes live.
    ///
    /// # Errors
    /// [`KeyError::Exists`] and [`KeyError::Reserved`].
    pub fn assign_key(&mut self, key: Key, slot: VectorId) -> Result<(), KeyError> {
        self.check_unused(key)?;
        self.assign_unused_key(key, slot);
        Ok(())
    }

    /// Whether a new vector may have this key.
    ///
    /// # Errors
    /// [`KeyError::Exists`] and [`KeyError::Reserved`].
    pub fn check_unused(&self, key: Key) -> Result<(), KeyError> {
        if key == NO_KEY {
            return Err(KeyError::Reserved);
        }
        if self.slot_of(key).is_some() { Err(KeyError::Exists(key)) } else { Ok(()) }
    }

    /// [`Self::assign_key`] after [`Self::check_unused`]: a bulk build has checked its keys in one go, and never asks
    /// where keys are.
    pub fn assign_unused_key(&mut self, key: Key, slot: VectorId) {
        let alone = !self.is_live(slot);
        self.note_key(key, slot, alone);
        self.keys.assign(key, slot, alone);
        self.next_key = self.next_key.max(key.saturating_add(1));
        self.tombstones.remove(slot.index());
    }

    /// The key after the largest that was ever in the index, and so one that names no other vector in anybody's books.
    pub fn next_key(&self) -> Key {
        self.next_key
    }

    /// Whether the key is live.
    ///
    /// # Errors
    /// [`KeyError::Deleted`] and [`KeyError::Unknown`].
    pub fn check_live(&self, key: Key) -> Result<(), KeyError> {
        self.slot_of(key).map(|_| ()).ok_or_else(|| self.keys.why_missing(key))
    }

    /// Whether the key is deleted and can be restored.
    ///
    /// # Errors
    /// [`KeyError::Live`] and [`KeyError::Unknown`].
    pub fn check_restorable(&self, key: Key) -> Result<(), KeyError> {
        if self.slot_of(key).is_some() {
            return Err(KeyError::Live(key));
        }
        self.keys.restorable(key).map(|_| ()).ok_or(KeyError::Unknown(key))
    }

    /// Deletes a key: it is not returned from now on. Its vertex becomes a tombstone when this was its last key.
    ///
    /// # Errors
    /// [`KeyError::Deleted`] and [`KeyError::Unknown`].
    pub fn delete_key(&mut self, key: Key) -> Result<(), KeyError> {
        let slot = self.slot_of(key).ok_or_else(|| self.keys.why_missing(key))?;
        self.note_key(key, slot, false);
        if self.keys.delete(key, slot) {
            self.tombstones.insert(slot.index());
        }
        Ok(())
    }

    /// Restores a deleted key whose vertex was not consolidated.
    ///
    /// # Errors
    /// [`KeyError::Live`] and [`KeyError::Unknown`].
    pub fn restore_key(&mut self, key: Key) -> Result<(), KeyError> {
        if self.slot_of(key).is_some() {
            return Err(KeyError::Live(key));
        }
        let slot = self.keys.restorable(key).ok_or(KeyError::Unknown(key))?;
        self.assign_key(key, slot)
    }
}
