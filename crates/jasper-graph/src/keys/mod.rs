//! The keys of a graph, their slots, and the sets of tombstones and free slots.
//!
//! | module | holds |
//! | --- | --- |
//! | `change` | assigning, deleting and restoring keys; rollback |
//! | `filter` | sets of keys, and the slots that they select |
//! | `further` | the further keys of slots that have several |
//! | `locations` | the slot of each key |

#[cfg(test)]
mod attributes_tests;
mod change;
mod filter;
mod further;
mod locations;

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;

use jasper_attributes::{AttributeError, Attributes, Frame, Predicate};
use jasper_core::{Key, NO_KEY, Slot};

use crate::parts::SlotSet;
use crate::{ChangedSlots, Segments};
use change::Undo;
pub use filter::{AllowedSlots, KeyFilter};
use filter::{ExpressionCache, FilterCache, KeyHistory};
use further::FurtherKeys;
use locations::KeyLocations;

/// The keys of a graph, and the state of its slots.
///
/// A slot is *live* (it has a key and is returned by searches), a *tombstone* (traversed, never returned: a deleted
/// vertex, or a new one whose batch is not finished), or *free* (no edge leads to it, and an insert may use it).
///
/// Identical vectors share one vertex with several keys. A deleted key can be restored until the graph is consolidated,
/// whether or not its vertex has other keys.
///
/// Keys have [attributes](Attributes), if any were ever set. Every change of a key changes them with it, so that no key
/// is found by the attributes of another, or by those that it had before it was deleted.
#[derive(Debug)]
pub struct KeyMap {
    /// First live key of each slot; meaningless where the slot has none.
    pub(crate) first: Segments<Key>,
    /// Further live keys of slots.
    pub(crate) further: FurtherKeys,
    /// Deleted keys that can be restored, and their slots.
    pub(crate) deleted: BTreeMap<Key, Slot>,
    pub(crate) tombstones: SlotSet,
    pub(crate) free: SlotSet,
    pub(crate) next_key: Key,
    /// The slot of each key. It is built on first use, so an index that is only searched never builds it.
    pub(crate) locations: OnceLock<KeyLocations>,
    pub(crate) attributes: Attributes,
    pub(crate) undo: Option<Undo>,
    /// Changes not yet taken by [`crate::Graph::take_changes`]; `None` while there is no copy to update.
    pub(crate) changes: Option<ChangedSlots>,
    pub(crate) filters: FilterCache,
    pub(crate) expressions: ExpressionCache,
    pub(crate) history: KeyHistory,
}

/// A change of a key was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is already live.
    #[error("key {0} is in the index already; use upsert to replace its vector")]
    Exists(Key),
    /// The key marks empty places in arrays of results.
    #[error("key {} is reserved for missing results; use any other", jasper_core::NO_KEY)]
    Reserved,
    /// Keys to assign are used up.
    #[error(
        "there are no {count} keys after {last}, the largest ever used; give the keys of the vectors (`Index::insert`, \
         `--keys`)"
    )]
    NoneLeft {
        /// Keys to assign.
        count: usize,
        /// The largest key ever used.
        last: Key,
    },
    /// The key is neither live nor restorable.
    #[error("key {0} is not in the index")]
    Unknown(Key),
    /// The key was deleted before.
    #[error("key {0} is deleted already")]
    Deleted(Key),
    /// The key is live, so there is nothing to restore.
    #[error("key {0} is not deleted")]
    Live(Key),
    /// The id of the deleted key was given to another.
    #[error("key {0} cannot be restored: another key has its id by now; insert its vector under another id")]
    IdTaken(Key),
}

/// Restores the attributes of a deleted key. Those from before there were any are null.
fn restore_attributes(attributes: &mut Attributes, key: Key) -> Result<(), KeyError> {
    if attributes.is_empty() {
        return Ok(());
    }
    match attributes.restore(key) {
        Err(AttributeError::UnknownKey(_)) => {
            attributes.add_keys([key]);
            Ok(())
        }
        restored => restored.map_err(|_| KeyError::IdTaken(key)),
    }
}

impl KeyMap {
    pub(crate) fn new() -> Self {
        Self {
            first: Segments::new(1),
            further: FurtherKeys::default(),
            deleted: BTreeMap::new(),
            tombstones: SlotSet::default(),
            free: SlotSet::default(),
            next_key: 0,
            locations: OnceLock::new(),
            attributes: Attributes::default(),
            undo: None,
            changes: None,
            filters: FilterCache::default(),
            expressions: ExpressionCache::default(),
            history: KeyHistory::default(),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            first: self.first.try_clone()?,
            further: self.further.clone(),
            deleted: self.deleted.clone(),
            tombstones: self.tombstones.clone(),
            free: self.free.clone(),
            next_key: self.next_key,
            attributes: self.attributes.clone(),
            ..Self::new()
        })
    }

    /// The keys for searches, in the same memory. Those that were deleted are not restorable there. Slots of keys are found
    /// without reading all keys if any was looked up before.
    pub(crate) fn share(&self) -> Self {
        Self {
            first: self.first.share(),
            further: self.further.clone(),
            tombstones: self.tombstones.clone(),
            free: self.free.clone(),
            next_key: self.next_key,
            locations: self.locations.clone(),
            attributes: self.attributes.clone(),
            history: self.history.clone(),
            ..Self::new()
        }
    }

    /// Returns the number of live keys. More than [`Self::live`] if vectors are identical.
    pub fn len(&self) -> usize {
        self.live() + self.duplicate_keys()
    }

    /// Whether there is no live key.
    pub fn is_empty(&self) -> bool {
        self.live() == 0
    }

    /// Returns the number of live keys that share their vertex with an earlier key: vectors identical to an earlier
    /// one.
    pub fn duplicate_keys(&self) -> usize {
        self.further.len()
    }

    /// Returns the number of live slots.
    pub fn live(&self) -> usize {
        self.first.len() - self.tombstones.len() - self.free.len()
    }

    /// Returns the number of tombstones.
    pub fn tombstones(&self) -> usize {
        self.tombstones.len()
    }

    /// Returns the number of free slots.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether the slot has a vertex that searches may return.
    #[inline]
    pub fn is_live(&self, slot: Slot) -> bool {
        slot.index() < self.first.len() && self.has_key(slot)
    }

    /// Whether the slot has a vertex that is traversed and never returned.
    #[inline]
    pub fn is_tombstone(&self, slot: Slot) -> bool {
        self.tombstones.contains(slot)
    }

    /// Whether the slot has no vertex.
    #[inline]
    pub fn is_free(&self, slot: Slot) -> bool {
        self.free.contains(slot)
    }

    /// Returns a mask of the live slots among the 32 from `32 * word` on, lowest slot in the lowest bit.
    pub fn live_word(&self, word: usize) -> u32 {
        let in_range = match self.first.len().saturating_sub(word * 32) {
            slots @ 0..32 => (1 << slots) - 1,
            _ => u32::MAX,
        };
        in_range & !self.tombstones.word(word) & !self.free.word(word)
    }

    /// Returns the live slots in ascending order.
    pub fn live_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.first.len()).map(Slot::from_index).filter(|&slot| self.is_live(slot))
    }

    /// Returns the slots that have a vertex, live or a tombstone, in ascending order.
    pub fn vertices(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.first.len()).map(Slot::from_index).filter(|&slot| !self.is_free(slot))
    }

    /// Returns the keys of a slot in insertion order; none if it is not live.
    pub fn keys_of(&self, slot: Slot) -> impl Iterator<Item = Key> + '_ {
        let first = self.is_live(slot).then(|| self.first_key(slot));
        first.into_iter().chain(self.further_keys(slot))
    }

    /// Whether a slot has several keys. No slot that is out of range has.
    #[inline]
    pub fn has_further_keys(&self, slot: Slot) -> bool {
        self.further.has_some(slot)
    }

    /// Returns the keys of a slot beyond its first, in insertion order.
    #[inline]
    pub fn further_keys(&self, slot: Slot) -> impl Iterator<Item = Key> + '_ {
        self.further.of(slot)
    }

    /// Returns the first key of a slot that is known to be live, which is not checked.
    #[inline]
    pub fn first_key(&self, live: Slot) -> Key {
        self.first.at(live.index())
    }

    /// Returns the slot of a live key.
    ///
    /// Cost: the first call reads all keys; later ones are a look-up.
    pub fn slot_of(&self, key: Key) -> Option<Slot> {
        // A bulk build checks every key before the first is assigned.
        if self.first.is_empty() {
            return None;
        }
        let locations = self.locations.get_or_init(|| KeyLocations::new(self));
        if locations.is_own(key) {
            return Some(Slot::new(key as u32));
        }
        let has_it = |&slot: &usize| self.first.at(slot) == key && self.has_key(Slot::from_index(slot));
        // The number of a vector is its slot if no vectors before it are identical.
        let guess = usize::try_from(key).ok().filter(|&slot| slot < self.first.len());
        let found = guess.filter(has_it).or_else(|| {
            let span = locations.span(key);
            (span.start..span.end.min(self.first.len())).find(has_it)
        });
        found.map(Slot::from_index).or_else(|| locations.get(key))
    }

    /// Makes later look-ups of keys, also those of shares, as fast as they get.
    pub fn find_locations(&self) {
        if !self.first.is_empty() {
            self.locations.get_or_init(|| KeyLocations::new(self));
        }
    }

    /// Whether [`Self::find_locations`] has nothing to do.
    pub fn has_locations(&self) -> bool {
        self.locations.get().is_some() || self.first.is_empty()
    }

    /// Takes over the [locations](Self::find_locations) of another map with the same keys.
    pub fn set_locations_of(&self, other: &Self) {
        if let Some(locations) = other.locations.get() {
            self.locations.get_or_init(|| locations.clone());
        }
    }

    /// Returns the attributes of the live keys, and of deleted ones that can be restored.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Sets attributes of live keys, a row of the frame for each. Other attributes of the keys stay.
    ///
    /// # Errors
    /// Returns [`AttributeError`]; nothing is set.
    pub fn set_attributes(&mut self, keys: &[Key], frame: &Frame) -> Result<(), AttributeError> {
        let adds_column = frame.columns().any(|(_, kind)| kind.is_some());
        if self.attributes.is_empty() && !adds_column {
            // There is nothing to set.
            self.attributes.check(keys, frame, true)?;
            let unknown = keys.iter().find(|&&key| self.slot_of(key).is_none());
            return unknown.map_or(Ok(()), |&key| Err(AttributeError::UnknownKey(key)));
        }
        let before = self.attributes.clone();
        for &key in keys {
            if let Some(slot) = self.slot_of(key) {
                self.history.note(slot);
            }
        }
        if self.attributes.is_empty() {
            let live: Vec<Key> = self.live_slots().flat_map(|slot| self.keys_of(slot)).collect();
            self.attributes.add_keys(live);
        }
        self.attributes.set(keys, frame).inspect_err(|_| self.attributes = before)
    }

    /// Puts attributes back that these keys had before, and nothing but [`Self::set_attributes`] has changed since.
    #[doc(hidden)]
    pub fn put_back_attributes(&mut self, before: Attributes) {
        self.attributes = before;
        self.history.forget();
    }

    /// Returns the live slots with a key that a predicate on [attributes](Self::attributes) selects, ascending.
    pub fn slots_where(&self, predicate: &Predicate<'_>) -> Vec<Slot> {
        if !predicate.has_columns() {
            let is_selected = |slot: &Slot| self.keys_of(*slot).any(|key| predicate.matches_live(key));
            return self.live_slots().filter(is_selected).collect();
        }
        let mut slots: Vec<Slot> =
            predicate.select().into_iter().filter_map(|key| self.slot_of(key)).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Returns the deleted keys that can be restored.
    pub fn deleted_keys(&self) -> impl ExactSizeIterator<Item = Key> + '_ {
        self.deleted.keys().copied()
    }

    /// Returns a number that is larger after every change of live keys or of their attributes. A clone counts anew.
    pub fn version(&self) -> u64 {
        self.history.version()
    }

    /// Returns the slots whose keys, or the attributes of these, have changed since a version, each as often as it changed. None
    /// if that is not remembered: some ten thousand changes are, or if this map is of an earlier version.
    pub fn changed_since(&self, version: u64) -> Option<impl ExactSizeIterator<Item = Slot> + '_> {
        self.history.since(version)
    }

    /// Returns the key after the largest that was ever in the index.
    pub fn next_key(&self) -> Key {
        self.next_key
    }

    /// Checks that a new vector may have this key.
    ///
    /// # Errors
    /// Returns [`KeyError::Exists`] or [`KeyError::Reserved`].
    pub fn check_unused(&self, key: Key) -> Result<(), KeyError> {
        if key == NO_KEY {
            return Err(KeyError::Reserved);
        }
        if self.slot_of(key).is_some() { Err(KeyError::Exists(key)) } else { Ok(()) }
    }

    /// Returns the slot of a live key.
    ///
    /// # Errors
    /// Returns [`KeyError::Deleted`] or [`KeyError::Unknown`].
    pub fn live_slot(&self, key: Key) -> Result<Slot, KeyError> {
        self.slot_of(key).ok_or_else(|| {
            if self.deleted.contains_key(&key) { KeyError::Deleted(key) } else { KeyError::Unknown(key) }
        })
    }

    /// Returns the slot of a deleted key that can be restored.
    ///
    /// # Errors
    /// Returns [`KeyError::Live`], [`KeyError::Unknown`] or [`KeyError::IdTaken`].
    pub fn restorable_slot(&self, key: Key) -> Result<Slot, KeyError> {
        if self.slot_of(key).is_some() {
            return Err(KeyError::Live(key));
        }
        let slot = self.deleted.get(&key).copied().ok_or(KeyError::Unknown(key))?;
        let id = self.attributes.removed_id(key);
        let is_taken = id.is_some_and(|id| self.attributes.key_of_id(&id).is_some());
        if is_taken { Err(KeyError::IdTaken(key)) } else { Ok(slot) }
    }

    /// The deleted keys and their slots.
    pub(crate) fn deleted_slots(&self) -> impl Iterator<Item = (Key, Slot)> + '_ {
        self.deleted.iter().map(|(&key, &slot)| (key, slot))
    }

    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        self.first.resize(slots)
    }

    pub(crate) fn load(&mut self) -> io::Result<()> {
        self.first.load()
    }

    /// As [`Self::is_live`], for a slot that is in range.
    #[inline]
    fn has_key(&self, slot: Slot) -> bool {
        !self.is_tombstone(slot) && !self.is_free(slot)
    }
}
