//! Finds items by a hash.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use super::Parts;

/// Items of a shard, on average, before there is one more shard.
const SHARD: usize = 256;

/// Maps 64-bit hashes to items, which are rows or codes. Several items may have the same hash.
///
/// The shards are those of linear hashing: a power of two and then some, where the next one is split off from the one that
/// has the same low bits but the highest. So the index grows a shard at a time, and clones share the others. A shard is a
/// table of open addressing with linear probing.
#[derive(Clone, Debug)]
pub(crate) struct HashIndex {
    shards: Parts<Shard>,
    shard_count: usize,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    /// None, or a power of two of them, a quarter of which is empty at least.
    slots: Arc<[Slot]>,
    len: usize,
}

/// An item and the halves of its hash, which make it 12 bytes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: [u32; 2],
    item: u32,
}

/// The item of a slot without one.
const NONE: u32 = u32::MAX;
const EMPTY: Slot = Slot { hash: [0; 2], item: NONE };

impl Slot {
    fn new(hash: u64, item: u32) -> Self {
        Self { hash: [hash as u32, (hash >> 32) as u32], item }
    }

    fn hash(self) -> u64 {
        u64::from(self.hash[1]) << 32 | u64::from(self.hash[0])
    }

    /// Where its search starts. Low bits choose the shard.
    #[inline]
    fn start(self, mask: usize) -> usize {
        self.hash[1] as usize & mask
    }
}

impl Default for HashIndex {
    fn default() -> Self {
        Self { shards: Parts::default(), shard_count: 1, len: 0 }
    }
}

impl Shard {
    fn with_capacity(len: usize) -> Self {
        let slots = (len * 4).div_ceil(3).next_power_of_two().max(4);
        Self { slots: std::iter::repeat_n(EMPTY, slots).collect(), len: 0 }
    }

    /// The slots from where a hash starts up to an empty one, and their indices.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = (usize, Slot)> {
        let mask = self.slots.len().wrapping_sub(1);
        let start = Slot::new(hash, 0).start(mask);
        let slots = (0..self.slots.len()).map(move |step| (start + step) & mask);
        slots.map(|index| (index, self.slots[index])).take_while(|(_, slot)| slot.item != NONE)
    }

    fn items(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied().filter(|slot| slot.item != NONE)
    }

    fn insert(&mut self, new: Slot) {
        self.insert_distinct(new, |_, _| false);
    }

    /// Inserts an item unless one of the same hash equals it by this; returns whether none does.
    fn insert_distinct(&mut self, new: Slot, are_equal: impl Fn(u32, u32) -> bool) -> bool {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let mut larger = Self::with_capacity(self.len + 1);
            self.items().for_each(|slot| larger.insert(slot));
            *self = larger;
        }
        let slots = Arc::make_mut(&mut self.slots);
        let mask = slots.len() - 1;
        let mut index = new.start(mask);
        while slots[index].item != NONE {
            if slots[index].hash == new.hash && are_equal(slots[index].item, new.item) {
                return false;
            }
            index = (index + 1) & mask;
        }
        slots[index] = new;
        self.len += 1;
        true
    }

    /// Empties a slot. Those after it that could not be in it before move up.
    fn remove(&mut self, mut hole: usize) {
        let slots = Arc::make_mut(&mut self.slots);
        let mask = slots.len() - 1;
        let mut index = hole;
        loop {
            index = (index + 1) & mask;
            let slot = slots[index];
            if slot.item == NONE {
                break;
            }
            // How far the slot is from its start, and how far the hole is before it.
            if index.wrapping_sub(slot.start(mask)) & mask >= index.wrapping_sub(hole) & mask {
                slots[hole] = slot;
                hole = index;
            }
        }
        slots[hole] = EMPTY;
        self.len -= 1;
    }
}

impl HashIndex {
    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        let mask = self.shard_count.next_power_of_two() - 1;
        let shard = hash as usize & mask;
        if shard < self.shard_count { shard } else { shard & (mask >> 1) }
    }

    /// The item with this hash that is the one looked for.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let shard = self.shards.get(self.shard_of(hash))?;
        let mut same = shard.probe(hash).filter(|(_, slot)| slot.hash() == hash);
        same.find(|(_, slot)| is_it(slot.item)).map(|(_, slot)| slot.item)
    }

    pub(crate) fn insert(&mut self, hash: u64, item: u32) {
        self.shards.get_mut(self.shard_of(hash)).insert(Slot::new(hash, item));
        self.len += 1;
        if self.len > self.shard_count * SHARD {
            self.split();
        }
    }

    /// Adds a shard, of items of another.
    fn split(&mut self) {
        let new = self.shard_count;
        self.shard_count += 1;
        let mask = self.shard_count.next_power_of_two() - 1;
        let old = self.shards.get_mut(new & (mask >> 1));
        let (moved, kept): (Vec<Slot>, Vec<Slot>) =
            old.items().partition(|slot| slot.hash() as usize & mask == new);
        *old = kept.into_iter().collect();
        *self.shards.get_mut(new) = moved.into_iter().collect();
    }

    /// Removes an item; returns whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, item: u32) -> bool {
        let index = self.shard_of(hash);
        let same = |(_, slot): &(usize, Slot)| slot.item == item && slot.hash() == hash;
        let Some((slot, _)) = self.shards.get(index).and_then(|shard| shard.probe(hash).find(same)) else {
            return false;
        };
        self.shards.get_mut(index).remove(slot);
        self.len -= 1;
        true
    }

    /// Hashes and items, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.shards.iter().flat_map(Shard::items).map(|slot| (slot.hash(), slot.item))
    }

    /// The index of these entries, or none if two items of the same hash are equal by this. Ends at the first such pair:
    /// entries of a damaged file may all be equal, and to compare all with all would take hours.
    pub(crate) fn distinct(
        entries: impl IntoIterator<Item = (u64, u32)>,
        are_equal: impl Fn(u32, u32) -> bool,
    ) -> Option<Self> {
        let slots: Vec<Slot> = entries.into_iter().map(|(hash, item)| Slot::new(hash, item)).collect();
        let mut index = Self { shard_count: slots.len().div_ceil(SHARD).max(1), ..Self::default() };
        let mut shards = vec![Vec::new(); index.shard_count];
        slots.iter().for_each(|slot| shards[index.shard_of(slot.hash())].push(*slot));
        index.len = slots.len();
        drop(slots);
        let shards = shards.into_iter().map(|slots| {
            let mut shard = Shard::with_capacity(slots.len());
            slots.into_iter().all(|slot| shard.insert_distinct(slot, &are_equal)).then_some(shard)
        });
        index.shards = shards.collect::<Option<_>>()?;
        Some(index)
    }

    pub(crate) fn memory(&self) -> usize {
        self.shards.iter().map(|shard| size_of::<Shard>() + size_of_val(&*shard.slots) + 16).sum()
    }
}

impl FromIterator<Slot> for Shard {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let slots: Vec<Slot> = slots.into_iter().collect();
        let mut shard = Self::with_capacity(slots.len());
        slots.into_iter().for_each(|slot| shard.insert(slot));
        shard
    }
}

impl FromIterator<(u64, u32)> for HashIndex {
    fn from_iter<I: IntoIterator<Item = (u64, u32)>>(entries: I) -> Self {
        Self::distinct(entries, |_, _| false).expect("none are equal")
    }
}

/// Of this process alone: files and callers cannot choose keys or strings whose hashes are equal or next to each other, which
/// would be compared one by one.
static SECRET: LazyLock<(RandomState, u64)> = LazyLock::new(|| {
    let state = RandomState::new();
    let number = state.hash_one(0);
    (state, number)
});

/// A hash of a string.
pub(crate) fn hash_text(text: &str) -> u64 {
    SECRET.0.hash_one(text)
}

/// A hash of a number from which [`unmix`] gives it back.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    finalize(number ^ SECRET.1)
}

/// The number of which this is the hash.
pub(crate) fn unmix(hash: u64) -> u64 {
    unfinalize(hash) ^ SECRET.1
}

/// MurmurHash3's finalizer.
#[inline]
fn finalize(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// The steps of [`finalize`] in reverse, with inverse factors.
fn unfinalize(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0x9cb4_b2f8_1293_37db);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0x4f74_430c_22a5_4005);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mixed_numbers_are_unmixed() {
        for number in (0..64).map(|bit| 1 << bit).chain([0, 12_345, u64::MAX]) {
            assert_eq!(unmix(mix(number)), number);
        }
    }

    /// Numbers whose hashes start a search at the same slot would take minutes, were they hashed without a secret.
    #[test]
    fn what_collides_cannot_be_chosen() {
        let numbers = (0..200_000).map(|number| unfinalize(1 << 63 | number << 12));
        let start = std::time::Instant::now();
        let index: HashIndex = numbers.clone().map(mix).zip(0..).collect();
        assert!(numbers.zip(0..).all(|(number, item)| index.find(mix(number), |_| true) == Some(item)));
        assert!(start.elapsed().as_secs() < 10);
    }

    #[test]
    fn an_index_grows_and_shrinks() {
        let mut index = HashIndex::default();
        let hash = |item: u32| mix(u64::from(item / 2));
        for item in 0..20_000 {
            index.insert(hash(item), item);
        }
        assert_eq!((index.len(), index.shard_count), (20_000, 79));
        assert_eq!(index.iter().count(), 20_000);
        let copy: HashIndex = index.iter().collect();
        assert!((0..20_000).all(|item| copy.find(hash(item), |other| other == item) == Some(item)));
        assert!(HashIndex::distinct(index.iter(), |a, b| a / 2 == b / 2).is_none());
        for item in 0..20_000 {
            assert_eq!(index.find(hash(item), |other| other == item), Some(item));
            assert!(index.remove(hash(item), item) && !index.remove(hash(item), item));
            assert_eq!(index.find(hash(item), |_| true), (item % 2 == 0).then_some(item + 1));
        }
        assert_eq!((index.len(), copy.len()), (0, 20_000));
    }

    proptest! {
        /// Few starts, so that items are moved.
        #[test]
        fn an_index_is_like_a_list(
            start in proptest::collection::vec((0..5_u64, 0..9_u64), 0..40),
            steps in proptest::collection::vec((0..5_u64, 0..9_u64, 0..40_u32), 0..200),
        ) {
            let hash = |(high, low): (u64, u64)| (high << 32).wrapping_sub(1 << 32) | low;
            let mut model: Vec<(u64, u32)> = start.into_iter().map(hash).zip(0..).collect();
            let mut index: HashIndex = model.iter().copied().collect();
            for (high, low, item) in steps {
                let entry = (hash((high, low)), item);
                let position = model.iter().position(|&other| other == entry);
                prop_assert_eq!(index.remove(entry.0, entry.1), position.is_some());
                match position {
                    Some(position) => drop(model.remove(position)),
                    None => {
                        index.insert(entry.0, entry.1);
                        model.push(entry);
                    }
                }
            }
            for &(hash, item) in &model {
                prop_assert_eq!(index.find(hash, |other| other == item), Some(item));
            }
            let mut entries: Vec<_> = index.iter().collect();
            entries.sort_unstable();
            model.sort_unstable();
            prop_assert_eq!(&entries, &model);
            let has_equal = model.windows(2).any(|pair| pair[0].0 == pair[1].0);
            prop_assert_eq!(HashIndex::distinct(entries, |_, _| true).is_none(), has_equal);
        }
    }
}
