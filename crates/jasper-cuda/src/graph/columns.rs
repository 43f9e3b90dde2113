//! Columns of attributes in device memory, by which kernels test filters.
//!
//! ```text
//! order     slots of all keys with a value, by value         a scan reads the part of it that a range selects
//! of slots  the index of each slot in the order, or          a beam search tests what it has found, and a scan the
//!           the codes of the strings in its list             slots in the order of another column
//! ```
//!
//! So filters by conditions on columns take neither a list nor a bitmap, however many there are. A column is made when filters
//! on it would have had as many slots listed as there are keys: then that has taken as long.

use std::fmt;
use std::sync::{Arc, Mutex};

use gpu_kernels::search::{ListPart, SlotTest};
use gpu_kernels::{Buffer as _, Stream};
use jasper_attributes::{Attributes, ColumnKind};
use jasper_core::{Slot, sync::lock};
use jasper_graph::KeyMap;
use rustc_hash::FxHashMap;

/// Most columns that are kept: of more, those made first are dropped.
const MAX_COLUMNS: usize = 8;

/// The columns that searches have made, until keys or attributes change.
pub(crate) struct DeviceColumns<S: Stream>(Mutex<State<S>>);

/// Columns, by their numbers.
pub(crate) type MadeColumns<S> = Vec<(usize, Arc<DeviceColumn<S>>)>;

struct State<S: Stream> {
    /// What the columns are of.
    of: Option<Version>,
    /// Those made first are first.
    columns: MadeColumns<S>,
    /// Columns that are being made.
    making: Vec<usize>,
    /// The slots that filters on columns which are not there would have had listed.
    listed: FxHashMap<usize, usize>,
    /// Allocates and frees the memory.
    stream: Option<Arc<S>>,
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
    /// Where values are in the order of the slots.
    places: Places,
    order: S::Buffer<u32>,
    of_slots: S::Buffer<u32>,
}

/// Where values are in an order.
enum Places {
    /// Of numbers.
    Sorted(SortedValues),
    /// Of codes, which are small: where each begins, and the end. Keys of lists are in several places.
    Starts { starts: Vec<u32>, has_lists: bool },
}

/// The places in the order of a column that a range of values selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnPart {
    /// The first place.
    pub(crate) first: u32,
    /// How many there are.
    pub(crate) len: u32,
    /// The least value of the range.
    least: i64,
}

impl<S: Stream> DeviceColumn<S> {
    /// Uploads a column. Returns nothing if it cannot be there: it is of ids, or there is no memory.
    fn new(stream: &S, keys: &KeyMap, words: usize, column: usize) -> Option<Self> {
        let kind = keys.attributes().columns().nth(column)?.kind;
        let ordered = keys.attributes().ordered(column)?;
        let is_sorted = matches!(kind, ColumnKind::Integer | ColumnKind::Float | ColumnKind::Timestamp);
        let has_lists = kind == ColumnKind::Keywords;
        let (mut order, mut values, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for (value, key) in ordered {
            let Some(slot) = keys.slot_of(key) else { continue };
            if is_sorted {
                values.push(value);
            } else {
                starts.resize(usize::try_from(value).ok()? + 1, order.len() as u32);
            }
            order.push(slot.get());
        }
        u32::try_from(order.len() + words * 32 + 1).ok()?;
        starts.push(order.len() as u32);
        let places = if is_sorted {
            Places::Sorted(SortedValues::new(values))
        } else {
            Places::Starts { starts, has_lists }
        };
        let of_slots = match &places {
            Places::Starts { starts, has_lists: true } => codes_of_slots(keys, words, &order, starts),
            _ => ranks_of_slots(keys, words, &order),
        };
        // What fails here is no more than memory for a column, or fails again in the search.
        let (order, of_slots) = (stream.upload(&order).ok()?, stream.upload(&of_slots).ok()?);
        stream.synchronize().ok()?;
        Some(Self { places, order, of_slots })
    }

    /// The part with values from the least to the most.
    pub(crate) fn find(&self, least: i64, most: i64) -> ColumnPart {
        let (first, end) = match &self.places {
            Places::Sorted(values) => {
                (values.count(|value| value < least) as u32, values.count(|value| value <= most) as u32)
            }
            Places::Starts { starts, .. } => {
                let at = |code: i64| starts[code.clamp(0, starts.len() as i64 - 1) as usize];
                (at(least), at(most.saturating_add(1)))
            }
        };
        ColumnPart { first, len: end.saturating_sub(first), least }
    }

    /// Whether the values are of lists.
    fn has_lists(&self) -> bool {
        matches!(self.places, Places::Starts { has_lists: true, .. })
    }

    /// The slots of a part.
    pub(crate) fn list(&self, part: ColumnPart) -> ListPart {
        ListPart::new(self.order.input(), part.first, part.len)
    }

    /// Whether a slot is in a part, which is of one value if there are lists.
    pub(crate) fn test(&self, part: ColumnPart) -> SlotTest {
        if self.has_lists() {
            SlotTest::code(self.of_slots.input(), part.least as u32)
        } else {
            SlotTest::ranks(self.of_slots.input(), part.first, part.len)
        }
    }
}

/// What stands for the values of a slot, if it is known without them.
fn known(keys: &KeyMap, slot: Slot) -> Option<u32> {
    if keys.has_further_keys(slot) {
        // The host decides which of them a filter allows.
        Some(SlotTest::ANY)
    } else if !keys.is_live(slot) {
        Some(SlotTest::NO_KEY)
    } else {
        None
    }
}

/// For each of the slots of a bitmap of `words`, its index in the order.
fn ranks_of_slots(keys: &KeyMap, words: usize, order: &[u32]) -> Vec<u32> {
    let slots = (0..words * 32).map(Slot::from_index);
    let mut ranks: Vec<u32> = slots.map(|slot| known(keys, slot).unwrap_or(SlotTest::NO_RANK)).collect();
    for (&slot, rank) in order.iter().zip(0..) {
        if ranks[slot as usize] != SlotTest::ANY {
            ranks[slot as usize] = rank;
        }
    }
    ranks
}

/// For each of the slots of a bitmap of `words`, where the codes of its list begin, then the end of the last, and the codes.
fn codes_of_slots(keys: &KeyMap, words: usize, order: &[u32], starts: &[u32]) -> Vec<u32> {
    let slots = words * 32;
    let known = |slot: usize| known(keys, Slot::from_index(slot));
    let mut lens = vec![0_u32; slots];
    order.iter().for_each(|&slot| lens[slot as usize] += 1);
    let mut table = Vec::with_capacity(slots + 1 + order.len());
    let mut end = slots as u32 + 1;
    for (slot, len) in lens.iter().enumerate() {
        table.push(end);
        end += if known(slot).is_some() { 1 } else { *len };
    }
    table.push(end);
    table.resize(end as usize, 0);
    let mut next: Vec<u32> = table[..slots].to_vec();
    for slot in 0..slots {
        if let Some(code) = known(slot) {
            table[next[slot] as usize] = code;
            next[slot] = u32::MAX;
        }
    }
    for (code, range) in starts.windows(2).enumerate() {
        for &slot in &order[range[0] as usize..range[1] as usize] {
            let next = &mut next[slot as usize];
            if *next != u32::MAX {
                table[*next as usize] = code as u32;
                *next += 1;
            }
        }
    }
    table
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
        let (columns, making, listed) = (Vec::new(), Vec::new(), FxHashMap::default());
        Self(Mutex::new(State { of: None, columns, making, listed, stream: None }))
    }
}

impl<S: Stream> fmt::Debug for DeviceColumns<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceColumns")
    }
}

impl<S: Stream> DeviceColumns<S> {
    /// The columns that are there. `words` is the length of a bitmap of all slots.
    ///
    /// Launches that read one must be complete before it is dropped.
    pub(crate) fn made(&self, keys: &KeyMap, words: usize) -> MadeColumns<S> {
        let State { of, columns, .. } = &*lock(&self.0);
        if of.as_ref().is_some_and(|of| of.is_of(keys, words)) { columns.clone() } else { Vec::new() }
    }

    /// Makes a column, if filters that would have had `listed` slots listed make it worth its while, and if there is memory.
    /// Returns whether it is there.
    pub(crate) fn make(
        &self,
        of_search: &S,
        keys: &KeyMap,
        words: usize,
        column: usize,
        listed: usize,
    ) -> bool {
        let Some(stream) = self.begin(of_search, keys, words, column, listed) else {
            return self.made(keys, words).iter().any(|(number, _)| *number == column);
        };
        // Searches go on meanwhile.
        let made = DeviceColumn::new(&*stream, keys, words, column);
        let State { of, columns, making, .. } = &mut *lock(&self.0);
        making.retain(|number| *number != column);
        let Some(made) = made.filter(|_| of.as_ref().is_some_and(|of| of.is_of(keys, words))) else {
            return false;
        };
        if columns.len() >= MAX_COLUMNS {
            columns.remove(0);
        }
        columns.push((column, Arc::new(made)));
        true
    }

    /// Counts slots that were listed for a column. Returns the stream to make it with if that is worth its while and has not
    /// begun.
    fn begin(
        &self,
        of_search: &S,
        keys: &KeyMap,
        words: usize,
        column: usize,
        selected: usize,
    ) -> Option<Arc<S>> {
        let State { of, columns, making, listed, stream } = &mut *lock(&self.0);
        if of.as_ref().is_some_and(|of| of.keys > keys.version()) {
            // A search of an older snapshot.
            return None;
        }
        if !of.as_ref().is_some_and(|of| of.is_of(keys, words)) {
            columns.clear();
            listed.clear();
            *of = Some(Version { attributes: keys.attributes().clone(), keys: keys.version(), words });
        }
        if making.contains(&column) || columns.iter().any(|(number, _)| *number == column) {
            return None;
        }
        let so_far = listed.entry(column).or_default();
        *so_far = so_far.saturating_add(selected);
        if *so_far < keys.live() {
            return None;
        }
        *so_far = 0;
        let stream = match stream {
            Some(stream) => stream,
            None => stream.insert(Arc::new(of_search.another().ok()?)),
        };
        making.push(column);
        Some(Arc::clone(stream))
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
