//! Filters: which keys a search may return.

use std::fmt;
use std::sync::Arc;

use jasper_core::{BitSet, Key};
use rustc_hash::FxHashSet;

/// Which keys a search may return.
#[derive(Clone, Copy)]
pub enum Filter<'a> {
    /// The keys of a prepared set.
    Keys(&'a KeyFilter),
    /// The keys for which this returns true. Called from many threads, in any order, more than once per key.
    Predicate(&'a (dyn Fn(Key) -> bool + Sync)),
}

impl Filter<'_> {
    /// Whether `key` passes the filter.
    pub fn accepts(&self, key: Key) -> bool {
        match self {
            Self::Keys(keys) => keys.contains(key),
            Self::Predicate(accepts) => accepts(key),
        }
    }
}

impl<'a> From<&'a KeyFilter> for Filter<'a> {
    fn from(keys: &'a KeyFilter) -> Self {
        Self::Keys(keys)
    }
}

impl<'a, F: Fn(Key) -> bool + Sync> From<&'a F> for Filter<'a> {
    fn from(accepts: &'a F) -> Self {
        Self::Predicate(accepts)
    }
}

impl fmt::Debug for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(keys) => keys.fmt(f),
            Self::Predicate(_) => f.write_str("a predicate"),
        }
    }
}

/// A set of keys, built once and reused as the filter of any number of searches.
///
/// Collect it from keys in any order, or convert a [`BitSet`] or (with the feature `roaring`) a
/// `RoaringTreemap`. A clone shares the set. Keys may be as large as they like: a set of dense keys is kept as a bitmap, any other as a hash
/// table, so a lookup takes constant time.
///
/// ```
/// use jasper_vamana::{KeyFilter, SearchParams};
/// let hashed = KeyFilter::from_iter([0x1f83_d9ab_fb41_bd6b, 42, 7]);
/// assert!(hashed.contains(42) && !hashed.contains(43));
/// let params = SearchParams::new(10).filter(&hashed);
/// # let _ = params;
/// ```
#[derive(Clone)]
pub struct KeyFilter(Arc<Set>);

enum Set {
    Bitmap(BitSet),
    Table(FxHashSet<Key>),
}

/// A bitmap is used up to this many bits per key: a hash table takes as much memory.
const BITS_PER_KEY: u64 = 128;

impl KeyFilter {
    /// Whether both are clones of one filter.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether `key` is in the set.
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        match &*self.0 {
            Set::Bitmap(bits) => usize::try_from(key).is_ok_and(|key| bits.contains(key)),
            Set::Table(keys) => keys.contains(&key),
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        match &*self.0 {
            Set::Bitmap(bits) => bits.len(),
            Set::Table(keys) => keys.len(),
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<Key> for KeyFilter {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        let keys: Vec<Key> = keys.into_iter().collect();
        let bits = keys.iter().max().map_or(0, |&key| key.saturating_add(1));
        if bits > (keys.len() as u64).saturating_mul(BITS_PER_KEY) {
            return Self(Arc::new(Set::Table(keys.into_iter().collect())));
        }
        let mut bitmap = BitSet::new();
        for key in keys {
            bitmap.insert(key as usize);
        }
        Self::from(bitmap)
    }
}

impl From<BitSet> for KeyFilter {
    fn from(keys: BitSet) -> Self {
        Self(Arc::new(Set::Bitmap(keys)))
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
}
