//! Columns of attributes in device memory, in which a filter by a range of values is a range of numbers.
//!
//! ```text
//! order    slots of all keys with a value, by value      a scan reads the part of it that a range selects
//! ranks    for each slot, its index in the order         a beam search compares the rank of what it has found
//! ```
//!
//! So filters by a label or by a range take neither a list nor a bitmap, however many there are. A column is made when
//! filters on it would have had as many slots listed as there are keys: then that has taken as long.

use std::fmt;
use std::sync::{Arc, Mutex};

use gpu_kernels::search::QuerySlots;
use gpu_kernels::{Buffer as _, Stream};
use jasper_attributes::{Attributes, ColumnRange};
use jasper_core::{Key, sync::lock};
use jasper_graph::KeyMap;
use rustc_hash::FxHashMap;

/// Most columns that are kept for searches that have them no more.
const MAX_COLUMNS: usize = 8;

/// The columns that searches have made, until keys or attributes change.
pub(crate) struct DeviceColumns<S: Stream>(Mutex<State<S>>);

struct State<S: Stream> {
    /// What the columns are of.
    of: Option<Version>,
    columns: FxHashMap<usize, Arc<DeviceColumn<S>>>,
    /// The slots that filters on columns which are not there would have had listed.
    listed: FxHashMap<usize, usize>,
    /// Allocates and frees the memory.
    stream: Option<S>,
}

/// A state of keys and attributes.
#[derive(Clone)]
struct Version {
    attributes: Attributes,
    keys: u64,
    words: usize,
}

impl Version {
    fn is_of(&self, keys: &KeyMap, words: usize) -> bool {
        self.keys == keys.version() && self.words == words && self.attributes.is_same(keys.attributes())
    }
}

/// A column.
pub(crate) struct DeviceColumn<S: Stream> {
    /// The values in the order of the slots.
    values: SortedValues,
    order: S::Buffer<u32>,
    ranks: S::Buffer<u32>,
}

impl<S: Stream> DeviceColumn<S> {
    /// Uploads a column: keys in the order of their values.
    fn new(stream: &S, keys: &KeyMap, words: usize, ordered: Vec<(i64, Key)>) -> Result<Self, S::Error> {
        let (mut values, mut order) = (Vec::with_capacity(ordered.len()), Vec::with_capacity(ordered.len()));
        let mut ranks = vec![QuerySlots::NO_RANK; words * 32];
        for (value, key) in ordered {
            let Some(slot) = keys.slot_of(key) else { continue };
            // A vertex with several keys has several ranks: the host decides which of them a filter allows.
            ranks[slot.index()] =
                if keys.has_further_keys(slot) { QuerySlots::ANY_RANK } else { order.len() as u32 };
            values.push(value);
            order.push(slot.get());
        }
        let (order, ranks) = (stream.upload(&order)?, stream.upload(&ranks)?);
        stream.synchronize()?;
        Ok(Self { values: SortedValues::new(values), order, ranks })
    }

    /// The index of the first slot that a range selects, and their number.
    pub(crate) fn find(&self, range: ColumnRange) -> (u32, u32) {
        let first = self.values.count(|value| value < range.least);
        let end = self.values.count(|value| value <= range.most);
        (first as u32, (end - first) as u32)
    }

    /// The slots that are selected, as a list.
    pub(crate) fn list(&self, first: u32, len: u32) -> QuerySlots {
        QuerySlots::list(self.order.input(), first, len)
    }

    /// The slots that are selected, by their ranks.
    pub(crate) fn ranks(&self, first: u32, len: u32) -> QuerySlots {
        QuerySlots::ranks(self.ranks.input(), first, len)
    }
}

/// Values of a node of [`SortedValues`].
const NODE: usize = 64;

/// Ascending values, which are searched as a tree: a binary search of a million misses the caches ten times.
struct SortedValues {
    /// The values; then every 64th of them, and so on.
    levels: Vec<Vec<i64>>,
}

impl SortedValues {
    fn new(values: Vec<i64>) -> Self {
        let mut levels = vec![values];
        while let Some(last) = levels.last().filter(|last| last.len() > NODE) {
            let sampled = last.iter().copied().step_by(NODE).collect();
            levels.push(sampled);
        }
        Self { levels }
    }

    /// How many of the first values are `before`, after which none is.
    fn count(&self, before: impl Fn(i64) -> bool) -> usize {
        let mut found = 0;
        for (depth, level) in self.levels.iter().rev().enumerate() {
            // The last value of the level above that is `before` is followed by those of its node.
            let first = if depth == 0 { 0 } else { found.max(1) * NODE - NODE };
            let node = &level[first..level.len().min(first + NODE)];
            found = first + node.partition_point(|&value| before(value));
        }
        found
    }
}

impl<S: Stream> Default for DeviceColumns<S> {
    fn default() -> Self {
        let (columns, listed) = (FxHashMap::default(), FxHashMap::default());
        Self(Mutex::new(State { of: None, columns, listed, stream: None }))
    }
}

impl<S: Stream> fmt::Debug for DeviceColumns<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceColumns")
    }
}

impl<S: Stream> DeviceColumns<S> {
    /// The columns that are there, by their numbers. `words` is the length of a bitmap of all slots.
    ///
    /// Launches that read one must be complete before it is dropped.
    pub(crate) fn made(&self, keys: &KeyMap, words: usize) -> FxHashMap<usize, Arc<DeviceColumn<S>>> {
        let State { of, columns, .. } = &*lock(&self.0);
        if of.as_ref().is_some_and(|of| of.is_of(keys, words)) {
            columns.clone()
        } else {
            FxHashMap::default()
        }
    }

    /// Makes a column, if filters that select `selected` keys make it worth its while, and if there is memory. Returns
    /// whether it is there.
    pub(crate) fn make(
        &self,
        of_search: &S,
        keys: &KeyMap,
        words: usize,
        column: usize,
        selected: usize,
    ) -> bool {
        let State { of, columns, listed, stream } = &mut *lock(&self.0);
        if of.as_ref().is_some_and(|of| of.keys > keys.version()) {
            // A search of an older snapshot.
            return false;
        }
        if !of.as_ref().is_some_and(|of| of.is_of(keys, words)) {
            columns.clear();
            listed.clear();
            *of = Some(Version { attributes: keys.attributes().clone(), keys: keys.version(), words });
        }
        if columns.contains_key(&column) {
            return true;
        }
        let so_far = listed.entry(column).or_default();
        *so_far = so_far.saturating_add(selected);
        if *so_far < keys.live() || columns.len() >= MAX_COLUMNS {
            return false;
        }
        *so_far = 0;
        let stream = match stream {
            Some(stream) => stream,
            None => match of_search.another() {
                Ok(another) => stream.insert(another),
                Err(_) => return false,
            },
        };
        let Some(ordered) = keys.attributes().ordered(column) else { return false };
        // What fails here is no more than memory for a column, or fails again in the search.
        let Ok(made) = DeviceColumn::new(stream, keys, words, ordered) else { return false };
        columns.insert(column, Arc::new(made));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_values_are_counted_as_one_by_one() {
        for len in [0, 1, 63, 64, 65, 128, 4095, 4096, 4097, 10_000] {
            let values: Vec<i64> = (0..len).map(|i| i / 7 * 3 - 500).collect();
            let sorted = SortedValues::new(values.clone());
            for bound in (-510..4000).step_by(if len > 1000 { 17 } else { 1 }) {
                let expected = values.iter().filter(|&&value| value < bound).count();
                assert_eq!(sorted.count(|value| value < bound), expected, "{bound} of {len}");
            }
        }
    }
}
