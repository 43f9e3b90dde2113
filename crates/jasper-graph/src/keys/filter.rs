//! Sets of keys, and the slots that they select.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use jasper_attributes::{Attributes, Expression, Predicate};
use jasper_core::{BitSet, Key, Slot, sync::lock};
use rustc_hash::{FxHashMap, FxHashSet};

use super::KeyMap;

/// A set of keys, built once and reused as the filter of any number of searches.
///
/// The first search with it that needs the slots of its keys looks them up. The index then keeps them, a bit per slot,
/// until the last clone of the filter is dropped. Later searches look up only what has changed.
///
/// Collect it from keys in any order, or convert a [`BitSet`] or (with the feature `roaring`) a `RoaringTreemap`. A
/// clone shares the set. Keys may be as large as they like: a set of dense keys is kept as a bitmap, any other as a
/// hash table, so a lookup takes constant time. Keys that an index does not have are ignored, until they are inserted.
///
/// ```
/// use jasper_graph::KeyFilter;
/// let hashed = KeyFilter::from_iter([0x1f83_d9ab_fb41_bd6b, 42, 7]);
/// assert!(hashed.contains(42) && !hashed.contains(43));
/// ```
#[derive(Clone)]
pub struct KeyFilter(Arc<KeySet>);

struct KeySet {
    keys: Keys,
    /// Whether a search had it as its filter.
    is_used: AtomicBool,
}

enum Keys {
    Bitmap(BitSet),
    Table(FxHashSet<Key>),
}

/// A bitmap is used up to this many bits per key: a hash table takes as much memory.
const BITS_PER_KEY: u64 = 128;

impl KeyFilter {
    fn new(keys: Keys) -> Self {
        Self(Arc::new(KeySet { keys, is_used: AtomicBool::new(false) }))
    }

    /// Whether both are clones of one filter.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The address of the set, which clones share.
    #[doc(hidden)]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Whether `key` is in the set.
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        match &self.0.keys {
            Keys::Bitmap(bits) => usize::try_from(key).is_ok_and(|key| bits.contains(key)),
            Keys::Table(keys) => keys.contains(&key),
        }
    }

    /// Whether a search had this filter before.
    #[doc(hidden)]
    pub fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Notes that a search has this filter.
    #[doc(hidden)]
    pub fn set_used(&self) {
        if !self.is_used() {
            self.0.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        match &self.0.keys {
            Keys::Bitmap(bits) => bits.len(),
            Keys::Table(keys) => keys.len(),
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let (bitmap, table) = match &self.0.keys {
            Keys::Bitmap(bits) => (Some(bits.iter().map(|key| key as Key)), None),
            Keys::Table(keys) => (None, Some(keys.iter().copied())),
        };
        bitmap.into_iter().flatten().chain(table.into_iter().flatten())
    }
}

impl FromIterator<Key> for KeyFilter {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        let keys: Vec<Key> = keys.into_iter().collect();
        let bits = keys.iter().max().map_or(0, |&key| key.saturating_add(1));
        if bits > (keys.len() as u64).saturating_mul(BITS_PER_KEY) {
            return Self::new(Keys::Table(keys.into_iter().collect()));
        }
        Self::from(keys.into_iter().map(|key| key as usize).collect::<BitSet>())
    }
}

impl From<BitSet> for KeyFilter {
    fn from(keys: BitSet) -> Self {
        Self::new(Keys::Bitmap(keys))
    }
}

#[cfg(feature = "roaring")]
impl From<&roaring::RoaringTreemap> for KeyFilter {
    fn from(keys: &roaring::RoaringTreemap) -> Self {
        keys.iter().collect()
    }
}

impl fmt::Debug for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFilter({} keys)", self.len())
    }
}

/// The live slots with a key in a [`KeyFilter`], as of some state of the index.
#[derive(Debug)]
pub struct AllowedSlots {
    slots: BitSet,
    /// [`KeyHistory::version`] when this was complete.
    version: u64,
}

impl AllowedSlots {
    /// The slots that a predicate on the attributes of `keys` selects.
    pub fn of_predicate(keys: &KeyMap, predicate: &Predicate<'_>) -> Self {
        let mut words = vec![0; keys.first.len().div_ceil(32)];
        for slot in keys.slots_where(predicate) {
            words[slot.index() / 32] |= 1 << (slot.index() % 32);
        }
        Self { slots: BitSet::from_words(words), version: keys.history.version }
    }

    /// The slots.
    pub fn slots(&self) -> &BitSet {
        &self.slots
    }
}

/// The slots of the filters that searches have used.
#[derive(Debug, Default)]
pub(crate) struct FilterCache(Mutex<CachedFilters>);

/// Most bytes of the slots of expressions that are kept.
const MAX_EXPRESSION_BYTES: usize = 64 << 20;

/// The slots that expressions select, of one state of keys and attributes.
#[derive(Debug, Default)]
pub(crate) struct ExpressionCache(Mutex<CachedExpressions>);

#[derive(Debug, Default)]
struct CachedExpressions {
    of: Option<(Attributes, u64)>,
    slots: FxHashMap<Expression, Arc<AllowedSlots>>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct CachedFilters {
    /// By the address of the set, which is not used again while the entry refers to it.
    entries: FxHashMap<usize, CachedFilter>,
    /// Number of entries at which those of dropped filters are removed.
    full_at: usize,
}

#[derive(Debug)]
struct CachedFilter {
    filter: Weak<KeySet>,
    /// Locked while one search looks them up and others wait for it.
    slots: Arc<Mutex<Option<Arc<AllowedSlots>>>>,
}

impl FilterCache {
    /// The entry of a filter. Entries of filters that were dropped go from time to time, when others are added.
    fn entry(&self, filter: &KeyFilter) -> Arc<Mutex<Option<Arc<AllowedSlots>>>> {
        let CachedFilters { entries, full_at } = &mut *lock(&self.0);
        let address = Arc::as_ptr(&filter.0) as usize;
        if let Some(known) = entries.get(&address) {
            return Arc::clone(&known.slots);
        }
        if entries.len() >= *full_at {
            entries.retain(|_, entry| entry.filter.strong_count() > 0);
            *full_at = 2 * entries.len() + 8;
        }
        let slots = Arc::default();
        let entry = CachedFilter { filter: Arc::downgrade(&filter.0), slots: Arc::clone(&slots) };
        entries.insert(address, entry);
        slots
    }

    /// Whether there is an entry of a filter.
    fn has(&self, filter: &KeyFilter) -> bool {
        lock(&self.0).entries.contains_key(&(Arc::as_ptr(&filter.0) as usize))
    }
}

/// Most changes that are remembered: applying more would take about as long as looking up all keys.
const MAX_REMEMBERED: usize = 1 << 16;
/// Changes of a part that clones share.
const PART: usize = 1 << 10;

/// The slots whose keys, or attributes of keys, changed last.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHistory {
    /// Number of changes so far.
    version: u64,
    /// The slots of the last ones: whole parts, and what is after them.
    parts: VecDeque<Arc<[Slot]>>,
    last: Vec<Slot>,
}

impl KeyHistory {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Records that the keys of a slot change, or their attributes.
    pub(super) fn note(&mut self, slot: Slot) {
        self.last.push(slot);
        if self.last.len() == PART {
            if self.parts.len() == MAX_REMEMBERED / PART {
                self.parts.pop_front();
            }
            self.parts.push_back(self.last.drain(..).collect());
        }
        self.version += 1;
    }

    /// Records that any slot may have changed.
    pub(super) fn forget(&mut self) {
        *self = Self { version: self.version + 1, ..Self::default() };
    }

    /// The slots that changed since a version; `None` if they are not remembered, or the version is a later one.
    pub(super) fn since(&self, version: u64) -> Option<impl ExactSizeIterator<Item = Slot> + '_> {
        let changes = usize::try_from(self.version.checked_sub(version)?).ok()?;
        let first = (self.parts.len() * PART + self.last.len()).checked_sub(changes)?;
        let at = move |index: usize| match self.parts.get(index / PART) {
            Some(part) => part[index % PART],
            None => self.last[index % PART],
        };
        Some((first..first + changes).map(at))
    }
}

/// About the bytes of an expression and its entry.
const EXPRESSION_BYTES: usize = 512;

impl KeyMap {
    /// The live slots with a key in `filter`.
    ///
    /// Cost: for a filter that was not used before, a look-up per key of the filter or of the index, whichever are
    /// fewer; later, one per key of a slot that changed in between.
    pub fn allowed_slots(&self, filter: &KeyFilter) -> Arc<AllowedSlots> {
        let entry = self.filters.entry(filter);
        let mut known = lock(&entry);
        let version = self.history.version;
        if let Some(current) = known.as_ref().filter(|slots| slots.version == version) {
            return Arc::clone(current);
        }
        let old = known.take();
        let changed = old.as_ref().and_then(|old| self.history.since(old.version));
        let slots = match (old, changed) {
            (Some(old), Some(changed)) => {
                let mut slots = Arc::try_unwrap(old).map_or_else(|old| old.slots.clone(), |old| old.slots);
                // Copies of one vector change one slot again and again, and looking it up reads all of its keys.
                let mut changed: Vec<Slot> = changed.collect();
                changed.sort_unstable();
                changed.dedup();
                for slot in changed {
                    if self.has_key_in(slot, filter) {
                        slots.insert(slot.index());
                    } else {
                        slots.remove(slot.index());
                    }
                }
                slots
            }
            _ => self.look_up(filter),
        };
        Arc::clone(known.insert(Arc::new(AllowedSlots { slots, version })))
    }

    /// The live slots that an expression on attributes selects, of which `predicate` is bound to those of these keys. They are
    /// kept for later searches, until keys or attributes change: the first are dropped when all take more than 64 MB.
    pub fn allowed_slots_where(
        &self,
        expression: &Expression,
        predicate: &Predicate<'_>,
    ) -> Arc<AllowedSlots> {
        let is_current = |of: &Option<(Attributes, u64)>| {
            of.as_ref().is_some_and(|(attributes, version)| {
                *version == self.history.version && attributes.is_same(&self.attributes)
            })
        };
        {
            let cache = lock(&self.expressions.0);
            if let Some(known) = cache.slots.get(expression).filter(|_| is_current(&cache.of)) {
                return Arc::clone(known);
            }
        }
        let slots = Arc::new(AllowedSlots::of_predicate(self, predicate));
        let bytes = size_of_val(slots.slots.words()) + EXPRESSION_BYTES;
        let cache = &mut *lock(&self.expressions.0);
        if !is_current(&cache.of) || cache.bytes + bytes > MAX_EXPRESSION_BYTES {
            *cache = CachedExpressions::default();
            cache.of = Some((self.attributes.clone(), self.history.version));
        }
        cache.bytes += bytes;
        cache.slots.insert(expression.clone(), Arc::clone(&slots));
        slots
    }

    /// Whether [`Self::allowed_slots`] of this filter were looked up or [set](Self::set_allowed_slots).
    pub fn has_allowed_slots(&self, filter: &KeyFilter) -> bool {
        self.filters.has(filter)
    }

    /// Sets the [allowed slots](Self::allowed_slots) of a filter, which those of another map with the same keys are: the
    /// graph of which this one is a [snapshot](crate::Graph::snapshot). Does nothing if they are of another version.
    pub fn set_allowed_slots(&self, filter: &KeyFilter, slots: Arc<AllowedSlots>) {
        if slots.version == self.history.version {
            *lock(&self.filters.entry(filter)) = Some(slots);
        }
    }

    /// The live slots with a key in `filter`, ascending.
    ///
    /// Cost: a look-up per key of the filter or of the index, whichever are fewer.
    pub fn slots_of(&self, filter: &KeyFilter) -> Vec<Slot> {
        let mut slots = Vec::new();
        self.for_slots_of(filter, |slot| slots.push(slot));
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Calls `add` with the live slots with a key in `filter`, some more than once.
    fn for_slots_of(&self, filter: &KeyFilter, add: impl FnMut(Slot)) {
        if filter.len() < self.first.len() {
            filter.keys().filter_map(|key| self.slot_of(key)).for_each(add);
        } else {
            self.live_slots().filter(|&slot| self.has_key_in(slot, filter)).for_each(add);
        }
    }

    fn has_key_in(&self, slot: Slot, filter: &KeyFilter) -> bool {
        self.keys_of(slot).any(|key| filter.contains(key))
    }

    fn look_up(&self, filter: &KeyFilter) -> BitSet {
        let slots = self.first.len();
        let mut words = vec![0; slots.div_ceil(32)];
        let add = |slot: Slot| words[slot.index() / 32] |= 1 << (slot.index() % 32);
        self.for_slots_of(filter, add);
        BitSet::from_words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_exactly_the_keys_it_was_made_from() {
        let sets: [&[Key]; 4] = [&[], &[0, 1, 5, 64, 64], &[3, 1 << 40, Key::MAX - 1], &[1 << 62]];
        for keys in sets {
            let filter: KeyFilter = keys.iter().copied().collect();
            let mut distinct = keys.to_vec();
            distinct.dedup();
            assert_eq!((filter.len(), filter.is_empty()), (distinct.len(), keys.is_empty()));
            for key in [0, 1, 2, 3, 5, 63, 64, 65, 1 << 40, 1 << 62, Key::MAX - 1] {
                assert_eq!(filter.contains(key), keys.contains(&key), "{key} in {keys:?}");
            }
        }
        let bits: BitSet = BitSet::from_words(vec![0b101]);
        assert!(KeyFilter::from(bits).contains(2));
    }

    /// The slots by definition.
    fn naive(keys: &KeyMap, filter: &KeyFilter) -> Vec<usize> {
        let is_allowed = |slot: &Slot| keys.keys_of(*slot).any(|key| filter.contains(key));
        keys.live_slots().filter(is_allowed).map(Slot::index).collect()
    }

    #[test]
    fn the_last_changes_are_remembered() {
        let mut history = KeyHistory::default();
        for change in 0..MAX_REMEMBERED + 3 * PART / 2 {
            history.note(Slot::from_index(change));
            for back in [0, 1, change % 7, change % PART, change % (4 * PART)] {
                let Some(since) = (history.version() as usize).checked_sub(back) else { continue };
                let found = history.since(since as u64).unwrap();
                assert!(found.eq((since..=change).map(Slot::from_index)), "{change}, {back}");
            }
        }
        assert!(history.since(history.version() - MAX_REMEMBERED as u64).is_some());
        assert!(history.since(0).is_none() && history.since(history.version() + 1).is_none());
        let earlier = history.clone();
        history.forget();
        assert!(history.since(earlier.version()).is_none() && earlier.since(earlier.version() - 5).is_some());
    }

    #[test]
    fn slots_follow_every_change() {
        let filters: [KeyFilter; 3] = [
            [3, 5, 8, 1 << 40].into_iter().collect(),
            (0..10_000).step_by(3).collect(),
            KeyFilter::from_iter([]),
        ];
        let mut keys = KeyMap::new();
        let check = |keys: &KeyMap| {
            for filter in &filters {
                let slots: Vec<usize> = keys.allowed_slots(filter).slots().iter().collect();
                assert_eq!(slots, naive(keys, filter), "{filter:?}");
                assert!(Arc::ptr_eq(&keys.allowed_slots(filter), &keys.allowed_slots(filter)));
            }
        };
        keys.resize(100).unwrap();
        keys.occupy(&[], 0..100);
        (0..90).for_each(|key| keys.assign(key, Slot::from_index(key as usize)).unwrap());
        check(&keys);
        keys.assign(1 << 40, Slot::new(95)).unwrap();
        keys.assign(300, Slot::new(7)).unwrap(); // a second key of a slot
        check(&keys);
        (0..12).for_each(|key| keys.delete(key).unwrap());
        check(&keys);
        keys.restore(5).unwrap();
        check(&keys);
        keys.begin();
        (20..60).for_each(|key| keys.delete(key).unwrap());
        keys.assign(9_000, Slot::new(96)).unwrap();
        check(&keys);
        keys.rollback();
        check(&keys);
        keys.release_tombstones();
        keys.occupy(&[Slot::new(0)], 0..0);
        check(&keys);
        keys.assign(9_999, Slot::new(0)).unwrap();
        check(&keys);
        // More changes than are remembered.
        for _ in 0..=MAX_REMEMBERED / 2 {
            keys.delete(9_999).unwrap();
            keys.restore(9_999).unwrap();
        }
        keys.delete(63).unwrap();
        check(&keys);
    }

    #[test]
    fn the_slots_of_a_dropped_filter_go() {
        let keys = KeyMap::new();
        for key in 0..20 {
            let filter = KeyFilter::from_iter([key]);
            keys.allowed_slots(&filter);
            keys.allowed_slots(&filter.clone());
        }
        assert!(lock(&keys.filters.0).entries.len() <= 9);
    }
}
