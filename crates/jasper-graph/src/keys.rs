//! Which user's key means which slot.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::OnceLock;

use jasper_core::{Key, VectorId};
use rustc_hash::FxBuildHasher;

use crate::Segments;

/// Keys of the vertices.
///
/// A vertex stands for every live key that was given the same row: the first in a column, the others beside it.
/// A deleted key is remembered until its vertex is consolidated, so that it can be restored.
#[derive(Debug)]
pub struct KeyTable {
    /// First live key of each slot; any number where the slot has none.
    first: Segments<Key>,
    /// Further live keys of a slot, in the order given.
    more: BTreeMap<VectorId, Vec<Key>>,
    /// Deleted keys that can be restored, and where.
    deleted: BTreeMap<Key, VectorId>,
    /// Where live keys are: made on first use, so that a search-only index never pays for it.
    whereabouts: OnceLock<Whereabouts>,
}

/// Where each live key is.
///
/// A bulk build numbers its rows, and gives them slots in their order: such a key is at the slot of its own number,
/// less the keys before it whose row was there already. The column tells whether it is, so only other keys are written
/// down.
#[derive(Debug)]
struct Whereabouts {
    /// Keys that shared their vertex with an earlier one when this was made, rising.
    shared: Vec<Key>,
    /// Slots of all live keys that are not the first of the slot they are expected at.
    elsewhere: HashMap<Key, VectorId, FxBuildHasher>,
}

impl Whereabouts {
    fn expected(&self, key: Key) -> Key {
        key - self.shared.partition_point(|&shared| shared < key) as Key
    }

    /// Notes that a key is at a slot now, `first`: before all others there.
    fn insert(&mut self, key: Key, slot: VectorId, first: bool) {
        if !first || self.expected(key) != slot.index() as Key {
            self.elsewhere.insert(key, slot);
        }
    }
}

/// What [`KeyTable::put_back`] puts back.
#[derive(Debug)]
pub(crate) struct KeyBefore {
    key: Key,
    slot: VectorId,
    first: Key,
    more: Option<Vec<Key>>,
    deleted: Option<VectorId>,
    /// What was written down of the key, if that was done by then.
    elsewhere: Option<Option<VectorId>>,
}

impl KeyBefore {
    /// The slot that it is about.
    pub(crate) fn slot(&self) -> VectorId {
        self.slot
    }
}

/// A change of a key was refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is live already.
    #[error("key {0} is in the index already; use upsert to replace its vector")]
    Exists(Key),
    /// The key stands for "no answer" in buffers of answers.
    #[error("key {} is reserved for places without an answer; use any other", jasper_core::NO_KEY)]
    Reserved,
    /// The key is neither live nor restorable.
    #[error("key {0} is not in the index")]
    Unknown(Key),
    /// The key was deleted before.
    #[error("key {0} is deleted already")]
    Deleted(Key),
    /// The key is live, so there is nothing to restore.
    #[error("key {0} is not deleted")]
    Live(Key),
}

impl KeyTable {
    pub(crate) fn new() -> Self {
        Self::from_parts(Segments::new(1), BTreeMap::new(), BTreeMap::new())
    }

    /// The table of its parts, as a file holds them.
    pub(crate) fn from_parts(
        first: Segments<Key>,
        more: BTreeMap<VectorId, Vec<Key>>,
        deleted: BTreeMap<Key, VectorId>,
    ) -> Self {
        Self { first, more, deleted, whereabouts: OnceLock::new() }
    }

    pub(crate) fn more(&self) -> &BTreeMap<VectorId, Vec<Key>> {
        &self.more
    }

    pub(crate) fn deleted(&self) -> &BTreeMap<Key, VectorId> {
        &self.deleted
    }

    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        self.first.resize(slots)
    }

    pub(crate) fn load(&mut self) -> io::Result<()> {
        self.first.load()
    }

    /// The keys of a slot that has some. The caller knows from the tombstones whether it has.
    pub(crate) fn keys_of(&self, slot: VectorId) -> impl Iterator<Item = Key> + '_ {
        let more = if self.more.is_empty() { None } else { self.more.get(&slot) };
        std::iter::once(self.first.at(slot.index())).chain(more.into_iter().flatten().copied())
    }

    /// The first key of a slot that has some.
    #[inline]
    pub(crate) fn first_of(&self, slot: VectorId) -> Key {
        self.first.at(slot.index())
    }

    /// How many live keys share their vertex with an earlier one.
    pub(crate) fn shared(&self) -> usize {
        self.more.values().map(Vec::len).sum()
    }

    /// Slot of a live key. `has_no_key` tells which slots have no key.
    pub(crate) fn slot(&self, key: Key, has_no_key: impl Fn(VectorId) -> bool) -> Option<VectorId> {
        // Of no keys none is looked for: a bulk build asks for every key before it has the first.
        if self.first.is_empty() {
            return None;
        }
        let whereabouts = self.whereabouts(&has_no_key);
        let expected = whereabouts.expected(key);
        if expected < self.first.len() as Key {
            let slot = VectorId::from_index(expected as usize);
            if self.first_of(slot) == key && !has_no_key(slot) {
                return Some(slot);
            }
        }
        whereabouts.elsewhere.get(&key).copied()
    }

    /// Why `key` cannot be deleted or looked up.
    pub(crate) fn why_missing(&self, key: Key) -> KeyError {
        if self.deleted.contains_key(&key) { KeyError::Deleted(key) } else { KeyError::Unknown(key) }
    }

    /// Gives `slot` a key that the caller has checked not to be live. `alone`: the slot has no other.
    pub(crate) fn assign(&mut self, key: Key, slot: VectorId, alone: bool) {
        // A new vector under a deleted key: the old one can no longer come back.
        self.deleted.remove(&key);
        if alone {
            self.first.set(slot.index(), key);
        } else {
            self.more.entry(slot).or_default().push(key);
        }
        if let Some(whereabouts) = self.whereabouts.get_mut() {
            whereabouts.insert(key, slot, alone);
        }
    }

    /// Takes a live key away from its slot; true if the slot has none left.
    pub(crate) fn delete(&mut self, key: Key, slot: VectorId) -> bool {
        if let Some(whereabouts) = self.whereabouts.get_mut() {
            whereabouts.elsewhere.remove(&key);
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

    /// The slot that a deleted key could be restored to.
    pub(crate) fn restorable(&self, key: Key) -> Option<VectorId> {
        self.deleted.get(&key).copied()
    }

    /// Forgets the deleted keys of slots that are gone.
    pub(crate) fn clear_deleted(&mut self, gone: impl Fn(VectorId) -> bool) {
        self.deleted.retain(|_, slot| !gone(*slot));
    }

    /// What a key and a slot are to each other and to others, before that changes.
    pub(crate) fn remember(&self, key: Key, slot: VectorId) -> KeyBefore {
        KeyBefore {
            key,
            slot,
            first: self.first.at(slot.index()),
            more: self.more.get(&slot).cloned(),
            deleted: self.deleted.get(&key).copied(),
            elsewhere: self.whereabouts.get().map(|known| known.elsewhere.get(&key).copied()),
        }
    }

    /// Makes a key and a slot what they were; the latest change first.
    pub(crate) fn put_back(&mut self, before: KeyBefore) {
        let KeyBefore { key, slot, first, more, deleted, elsewhere } = before;
        self.first.set(slot.index(), first);
        match more {
            Some(more) => self.more.insert(slot, more),
            None => self.more.remove(&slot),
        };
        match deleted {
            Some(slot) => self.deleted.insert(key, slot),
            None => self.deleted.remove(&key),
        };
        match (self.whereabouts.get_mut(), elsewhere) {
            (Some(known), Some(Some(slot))) => drop(known.elsewhere.insert(key, slot)),
            (Some(known), Some(None)) => drop(known.elsewhere.remove(&key)),
            // It was written down since, of what is undone now.
            (_, None) => self.invalidate(),
            (None, _) => {}
        }
    }

    /// Moves everything of `from` to `to`, a slot without keys.
    pub(crate) fn relocate(&mut self, from: VectorId, to: VectorId) {
        self.first.set(to.index(), self.first.at(from.index()));
        if let Some(more) = self.more.remove(&from) {
            self.more.insert(to, more);
        }
    }

    /// Forgets where keys are; the next look-up reads the column again.
    pub(crate) fn invalidate(&mut self) {
        self.whereabouts = OnceLock::new();
    }

    /// Renames the slots of deleted keys.
    pub(crate) fn rename_deleted(&mut self, rename: impl Fn(VectorId) -> VectorId) {
        self.deleted.values_mut().for_each(|slot| *slot = rename(*slot));
    }

    fn whereabouts(&self, has_no_key: impl Fn(VectorId) -> bool) -> &Whereabouts {
        self.whereabouts.get_or_init(|| {
            let mut shared: Vec<Key> = self.more.values().flatten().copied().collect();
            shared.sort_unstable();
            // A damaged file may name a key twice.
            shared.dedup();
            let mut whereabouts = Whereabouts { shared, elsewhere: HashMap::default() };
            for slot in (0..self.first.len()).map(VectorId::from_index).filter(|&slot| !has_no_key(slot)) {
                whereabouts.insert(self.first_of(slot), slot, true);
            }
            for (&slot, keys) in &self.more {
                keys.iter().for_each(|&key| whereabouts.insert(key, slot, false));
            }
            whereabouts
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_the_numbers_of_rows_are_not_written_down() {
        let mut table = KeyTable::new();
        // Of ten rows, 3 and 7 are those of slot 1.
        let places = [0, 1, 2, 1, 3, 4, 5, 1, 6, 7];
        table.resize(8).unwrap();
        for (key, &slot) in places.iter().enumerate() {
            table.assign(key as Key, VectorId::new(slot), ![3, 7].contains(&key));
        }
        let everywhere = |table: &KeyTable| -> Vec<Option<usize>> {
            (0..11).map(|key| table.slot(key, |_| false).map(VectorId::index)).collect()
        };
        let written = |table: &KeyTable| table.whereabouts.get().map(|known| known.elsewhere.len());
        let mut expected: Vec<_> = places.iter().map(|&slot| Some(slot as usize)).collect();
        expected.push(None);
        assert_eq!(everywhere(&table), expected);
        assert_eq!(written(&table), Some(2));
        // Another key in the place of one, and that one in another place.
        assert!(table.delete(4, VectorId::new(3)));
        assert!(table.delete(5, VectorId::new(4)));
        table.assign(10, VectorId::new(3), true);
        table.assign(4, VectorId::new(4), true);
        (expected[4], expected[5], expected[10]) = (Some(4), None, Some(3));
        assert_eq!(everywhere(&table), expected);
        assert_eq!(written(&table), Some(4));
    }
}
