//! Finds items by a hash.

use super::Parts;

/// Items of a shard, on average, before there is one more shard.
const SHARD: usize = 256;

/// Maps 64-bit hashes to items: rows or codes. Several items may have the same hash.
///
/// It is a table of linear hashing: of a power of two of shards and then some, where the next shard is split off from the
/// one that has the same low bits but the highest. So it grows a shard at a time, and clones share the others. A shard is
/// sorted by hash, and where a hash is among uniform ones is known but for a few places.
#[derive(Clone, Debug)]
pub(crate) struct HashIndex {
    shards: Parts<Shard>,
    shard_count: usize,
    len: usize,
}

/// Ascending hashes, and their items.
#[derive(Clone, Debug, Default)]
struct Shard {
    hashes: Vec<u64>,
    items: Vec<u32>,
}

impl Default for HashIndex {
    fn default() -> Self {
        Self { shards: Parts::default(), shard_count: 1, len: 0 }
    }
}

impl Shard {
    /// Index of the first hash that is not below this one.
    #[inline]
    fn position(&self, hash: u64) -> usize {
        let hashes = &self.hashes;
        let guess = ((u128::from(hash) * hashes.len() as u128) >> 64) as usize;
        // Doubles the distance from the guess until the position is between both ends.
        let (mut step, mut start, mut end) = (8, guess.saturating_sub(4), hashes.len().min(guess + 4));
        while start > 0 && hashes[start - 1] >= hash {
            end = start;
            start = start.saturating_sub(step);
            step *= 2;
        }
        while end < hashes.len() && hashes[end] < hash {
            start = end;
            end = hashes.len().min(end + step);
            step *= 2;
        }
        start + hashes[start..end].partition_point(|&other| other < hash)
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
        let start = shard.position(hash);
        let same = shard.hashes[start..].iter().take_while(|&&other| other == hash).count();
        shard.items[start..start + same].iter().copied().find(|&item| is_it(item))
    }

    pub(crate) fn insert(&mut self, hash: u64, item: u32) {
        let shard = self.shards.part_mut(self.shard_of(hash));
        let position = shard.position(hash);
        shard.hashes.insert(position, hash);
        shard.items.insert(position, item);
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
        let old = self.shards.part_mut(new & (mask >> 1));
        let (mut kept, mut moved) = (Shard::default(), Shard::default());
        for (&hash, &item) in old.hashes.iter().zip(&old.items) {
            let shard = if hash as usize & mask == new { &mut moved } else { &mut kept };
            shard.hashes.push(hash);
            shard.items.push(item);
        }
        *old = kept;
        *self.shards.part_mut(new) = moved;
    }

    /// Removes an item; returns whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, item: u32) -> bool {
        let index = self.shard_of(hash);
        let Some(shard) = self.shards.get(index) else { return false };
        let start = shard.position(hash);
        let mut same = (start..shard.hashes.len()).take_while(|&at| shard.hashes[at] == hash);
        let Some(position) = same.find(|&at| shard.items[at] == item) else { return false };
        let shard = self.shards.part_mut(index);
        shard.hashes.remove(position);
        shard.items.remove(position);
        self.len -= 1;
        true
    }

    /// Hashes and items, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.shards.iter().flat_map(|shard| shard.hashes.iter().copied().zip(shard.items.iter().copied()))
    }

    /// Whether two items of the same hash are equal by this.
    pub(crate) fn has_equal(&self, are_equal: impl Fn(u32, u32) -> bool) -> bool {
        self.shards.iter().any(|shard| {
            (1..shard.items.len()).any(|at| {
                let same = (0..at).rev().take_while(|&before| shard.hashes[before] == shard.hashes[at]);
                same.into_iter().any(|before| are_equal(shard.items[before], shard.items[at]))
            })
        })
    }

    pub(crate) fn memory(&self) -> usize {
        self.shards.iter().map(|shard| size_of::<Shard>() + shard.hashes.capacity() * 12).sum()
    }
}

impl FromIterator<(u64, u32)> for HashIndex {
    fn from_iter<I: IntoIterator<Item = (u64, u32)>>(entries: I) -> Self {
        let entries: Vec<(u64, u32)> = entries.into_iter().collect();
        let mut index = Self { shard_count: entries.len().div_ceil(SHARD).max(1), ..Self::default() };
        index.len = entries.len();
        let mut shards = vec![Vec::new(); index.shard_count];
        entries.iter().for_each(|&(hash, item)| shards[index.shard_of(hash)].push((hash, item)));
        drop(entries);
        let shards = shards.into_iter().map(|mut shard| {
            shard.sort_unstable();
            let (hashes, items) = shard.into_iter().unzip();
            Shard { hashes, items }
        });
        index.shards = shards.collect();
        index
    }
}

/// A hash of a number from which [`unmix`] gives it back: MurmurHash3's finalizer.
#[inline]
pub(crate) fn mix(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// The number of which this is the hash: the steps of [`mix`] in reverse, with inverse factors.
pub(crate) fn unmix(mut hash: u64) -> u64 {
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
        assert!(!index.has_equal(|_, _| false) && index.has_equal(|a, b| a / 2 == b / 2));
        for item in 0..20_000 {
            assert_eq!(index.find(hash(item), |other| other == item), Some(item));
            assert!(index.remove(hash(item), item) && !index.remove(hash(item), item));
            assert_eq!(index.find(hash(item), |_| true), (item % 2 == 0).then_some(item + 1));
        }
        assert_eq!((index.len(), copy.len()), (0, 20_000));
    }

    proptest! {
        #[test]
        fn any_hashes_are_found(hashes in proptest::collection::vec(prop_oneof![any::<u64>(), 0..9_u64, u64::MAX - 9..], 0..600)) {
            let index: HashIndex = hashes.iter().copied().zip(0..).collect();
            for (&hash, item) in hashes.iter().zip(0..) {
                prop_assert_eq!(index.find(hash, |other| other == item), Some(item));
            }
            prop_assert_eq!(index.find(77, |_| true).is_some(), hashes.contains(&77));
        }
    }
}
