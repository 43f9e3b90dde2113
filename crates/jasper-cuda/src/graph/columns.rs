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
//!
//! What changes later is not written to columns, which other searches read. A bitmap says which slots have changed. Kernels take
//! these for results that the host decides about, and scans take them from a list that the host makes. A column of which much
//! has changed is made anew.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use gpu_kernels::search::{ListPart, SlotTest};
use gpu_kernels::{Buffer as _, DevicePtr, Stream};
use jasper_attributes::{ColumnKind, ColumnTest};
use jasper_core::{Key, Slot, sync::lock};
use jasper_data::ThreadPool;
use jasper_graph::KeyMap;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Most columns that are kept: of more, those made first are dropped.
const MAX_COLUMNS: usize = 8;

/// A column in use is made anew when one slot of this many has changed.
const CHANGED_SHARE: usize = 128;
/// But not for fewer changes than this.
const MIN_CHANGED: usize = if cfg!(test) { 80 } else { 1024 };
/// And never later than after this many: keys remember twice as many.
const MAX_CHANGED: usize = 1 << 15;

/// The columns that searches have made.
pub(crate) struct DeviceColumns<S: Stream>(Mutex<State<S>>);

struct State<S: Stream> {
    /// Those made first are first.
    columns: Vec<KeptColumn<S>>,
    /// What has changed since, for the latest search.
    changed: Option<Arc<Changed<S>>>,
    /// Columns that are being made.
    making: Vec<usize>,
    /// The slots that filters on columns which are not there would have had listed.
    listed: FxHashMap<usize, usize>,
    /// Allocates and frees the memory.
    stream: Option<Arc<S>>,
}

/// A column that is kept for later searches.
struct KeptColumn<S: Stream> {
    number: usize,
    /// The version of the keys.
    version: u64,
    /// The length of a bitmap of the slots that it knows. Others have no key at that version, but kernels may find them: vertices
    /// of an insert that is under way.
    words: usize,
    column: Arc<DeviceColumn<S>>,
}

/// The columns for a search, and what has changed since they were made.
///
/// Launches that read them must be complete before they are dropped.
pub(crate) struct MadeColumns<S: Stream> {
    columns: Vec<(usize, Arc<DeviceColumn<S>>)>,
    changed: Option<Arc<Changed<S>>>,
    /// Those of which so much has changed that they are to be made anew if they are used.
    stale: Vec<usize>,
    /// The slots that all columns know, as a number of words of a bitmap.
    words: usize,
}

/// Slots that have changed since columns were made.
struct Changed<S: Stream> {
    /// Since which version of the keys, until which.
    since: u64,
    version: u64,
    is_changed: Vec<u32>,
    on_device: S::Buffer<u32>,
    /// The columns.
    columns: Vec<usize>,
    /// The numbers that keys of these slots had after some of the changes: some had others before.
    runs: Vec<Arc<ChangedNumbers>>,
}

/// For each column, the numbers that keys of some slots have, ascending.
struct ChangedNumbers(Vec<Vec<(i64, Slot)>>);

impl ChangedNumbers {
    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Adds those of others.
    fn merged(&self, other: &Self) -> Self {
        let both = self.0.iter().zip(&other.0);
        Self(
            both.map(|(one, other)| {
                let mut all = [&one[..], other].concat();
                // Two ascending runs.
                all.sort();
                all.dedup();
                all
            })
            .collect(),
        )
    }
}

/// A column.
pub(crate) struct DeviceColumn<S: Stream> {
    /// Where values are in the order of the slots.
    places: Places,
    order: S::Buffer<u32>,
    of_slots: S::Buffer<u32>,
    /// Of lists, bitmaps of the slots of frequent codes, and where that of each code begins.
    bitmaps: S::Buffer<u32>,
    bitmap_of: FxHashMap<i64, usize>,
    /// Whether a filter has tested it.
    is_used: AtomicBool,
}

/// A code of a list has a bitmap if one slot of this many has it: then bitmaps take as much memory as the order.
const FREQUENT_SHARE: usize = 32;

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
    fn new(stream: &S, keys: &KeyMap, words: usize, column: usize, pool: &ThreadPool) -> Option<Self> {
        let kind = keys.attributes().columns().nth(column)?.kind;
        let ordered = keys.attributes().ordered(column)?;
        let is_sorted = matches!(kind, ColumnKind::Integer | ColumnKind::Float | ColumnKind::Timestamp);
        let has_lists = kind == ColumnKind::Keywords;
        let (mut rows, mut values, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for (value, row) in ordered {
            if is_sorted {
                values.push(value);
            } else {
                starts.resize(usize::try_from(value).ok()? + 1, rows.len() as u32);
            }
            rows.push(row);
        }
        let slots = slots_of_rows(keys, pool)?;
        let order: Vec<u32> =
            pool.install(|| rows.par_iter().with_min_len(4096).map(|&row| slots[row as usize]).collect());
        u32::try_from(order.len() + words * 32 + 1).ok()?;
        starts.push(order.len() as u32);
        let (mut bitmaps, mut bitmap_of) = (Vec::new(), FxHashMap::default());
        let of_slots = if has_lists {
            for (code, range) in starts.windows(2).enumerate() {
                let slots = &order[range[0] as usize..range[1] as usize];
                if slots.len() >= keys.live().div_ceil(FREQUENT_SHARE) {
                    bitmap_of.insert(code as i64, bitmaps.len());
                    bitmaps.extend_from_slice(&bitmap(slots, words));
                }
            }
            codes_of_slots(keys, words, column, pool)?
        } else {
            ranks_of_slots(keys, words, &order, pool)
        };
        let places = if is_sorted {
            Places::Sorted(SortedValues::new(values))
        } else {
            Places::Starts { starts, has_lists }
        };
        // What fails here is no more than memory for a column, or fails again in the search.
        let (order, of_slots) = (stream.upload(&order).ok()?, stream.upload(&of_slots).ok()?);
        let bitmaps = stream.upload(&bitmaps).ok()?;
        stream.synchronize().ok()?;
        Some(Self { places, order, of_slots, bitmaps, bitmap_of, is_used: AtomicBool::new(false) })
    }

    /// The part with values from the least to the most.
    pub(crate) fn find(&self, least: i64, most: i64) -> ColumnPart {
        let (first, end) = match &self.places {
            Places::Sorted(values) => {
                (values.count(|value| value < least), values.count(|value| value <= most))
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

    /// Whether a slot is in a part, which is of one value if there are lists, or that it is not.
    pub(crate) fn test(&self, part: ColumnPart, holds: bool) -> SlotTest {
        let test = match self.bitmap_of.get(&part.least) {
            // Of a vertex with several keys it says whether any has the code, which is no answer to the opposite.
            Some(&first) if holds => return SlotTest::bitmap(self.bitmaps.input().add(first)),
            _ if self.has_lists() => SlotTest::code(self.of_slots.input(), part.least as u32),
            _ => SlotTest::ranks(self.of_slots.input(), part.first, part.len),
        };
        if holds { test } else { test.opposite() }
    }
}

/// The slot of each row of the attributes that is of a live key; none if a key is not in the graph.
fn slots_of_rows(keys: &KeyMap, pool: &ThreadPool) -> Option<Vec<u32>> {
    let rows: Vec<(u32, Key)> = keys.attributes().keys_of_rows().collect();
    let slot_of = |&(row, key): &(u32, Key)| Some((row, keys.slot_of(key)?.get()));
    let found: Option<Vec<(u32, u32)>> =
        pool.install(|| rows.par_iter().with_min_len(4096).map(slot_of).collect());
    let len = rows.iter().map(|&(row, _)| row as usize + 1).max().unwrap_or(0);
    let mut slots = vec![u32::MAX; len];
    found?.into_iter().for_each(|(row, slot)| slots[row as usize] = slot);
    Some(slots)
}

fn bitmap(slots: &[u32], words: usize) -> Vec<u32> {
    let mut bitmap = vec![0; words];
    slots.iter().for_each(|&slot| bitmap[slot as usize / 32] |= 1 << (slot % 32));
    bitmap
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
fn ranks_of_slots(keys: &KeyMap, words: usize, order: &[u32], pool: &ThreadPool) -> Vec<u32> {
    let rank_of = |slot| AtomicU32::new(known(keys, Slot::from_index(slot)).unwrap_or(SlotTest::NO_RANK));
    pool.install(|| {
        let ranks: Vec<AtomicU32> = (0..words * 32).into_par_iter().with_min_len(4096).map(rank_of).collect();
        order.par_iter().enumerate().with_min_len(4096).for_each(|(rank, &slot)| {
            let of_slot = &ranks[slot as usize];
            if of_slot.load(Relaxed) != SlotTest::ANY {
                of_slot.store(rank as u32, Relaxed);
            }
        });
        ranks.into_par_iter().map(AtomicU32::into_inner).collect()
    })
}

/// For each of the slots of a bitmap of `words`, where the codes of its list begin, then the end of the last, and the
/// codes. None if there are too many.
fn codes_of_slots(keys: &KeyMap, words: usize, column: usize, pool: &ThreadPool) -> Option<Vec<u32>> {
    const CHUNK: usize = 1 << 12;
    let chunk = |first: usize| {
        let (mut lens, mut codes) = (Vec::new(), Vec::new());
        for slot in (first..words * 32).take(CHUNK).map(Slot::from_index) {
            let before = codes.len();
            match known(keys, slot) {
                Some(code) => codes.push(code),
                None => {
                    let of_key = keys.attributes().numbers_of(column, keys.first_key(slot));
                    codes.extend(of_key.map(|code| code as u32));
                }
            }
            lens.push((codes.len() - before) as u32);
        }
        (lens, codes)
    };
    let firsts: Vec<usize> = (0..words * 32).step_by(CHUNK).collect();
    let chunks: Vec<(Vec<u32>, Vec<u32>)> = pool.install(|| firsts.into_par_iter().map(chunk).collect());
    let mut end = words as u32 * 32 + 1;
    let mut table = vec![end];
    for len in chunks.iter().flat_map(|(lens, _)| lens) {
        end = end.checked_add(*len)?;
        table.push(end);
    }
    chunks.iter().for_each(|(_, codes)| table.extend_from_slice(codes));
    Some(table)
}

/// Values of a node of [`SortedValues`].
const NODE: usize = 64;

/// Ascending values, which are searched as a tree: a binary search of a million misses the caches ten times.
struct SortedValues {
    /// The distinct values; then every 64th of them, and so on.
    levels: Vec<Vec<i64>>,
    /// Where each begins, and the end; none if all are distinct.
    starts: Vec<u32>,
}

impl SortedValues {
    fn new(mut values: Vec<i64>) -> Self {
        let len = values.len();
        let mut starts: Vec<u32> =
            (0..len).filter(|&at| at == 0 || values[at] != values[at - 1]).map(|at| at as u32).collect();
        if starts.len() == len {
            starts = Vec::new();
        } else {
            starts.push(len as u32);
            values.dedup();
            values.shrink_to_fit();
        }
        let mut levels = vec![values];
        while let Some(last) = levels.last().filter(|last| last.len() > NODE) {
            let sampled = last.iter().copied().step_by(NODE).collect();
            levels.push(sampled);
        }
        Self { levels, starts }
    }

    /// How many of the first values are `before`, after which none is.
    fn count(&self, before: impl Fn(i64) -> bool) -> u32 {
        let mut found = 0;
        for (depth, level) in self.levels.iter().rev().enumerate() {
            // The last value of the level above that is `before` is followed by those of its node.
            let first = if depth == 0 { 0 } else { found.max(1) * NODE - NODE };
            let node = &level[first..level.len().min(first + NODE)];
            found = first + node.partition_point(|&value| before(value));
        }
        self.starts.get(found).copied().unwrap_or(found as u32)
    }
}

impl<S: Stream> MadeColumns<S> {
    /// The index and the part of a column where a test finds numbers; none if the column is not there.
    pub(crate) fn find(&self, test: &ColumnTest) -> Option<(usize, ColumnPart)> {
        let index = self.columns.iter().position(|(number, _)| *number == test.column)?;
        let column = &self.columns[index].1;
        if !column.is_used.load(Relaxed) {
            column.is_used.store(true, Relaxed);
        }
        Some((index, column.find(test.least, test.most)))
    }

    /// A column.
    pub(crate) fn column(&self, index: usize) -> &DeviceColumn<S> {
        &self.columns[index].1
    }

    /// Those that filters test, and of which so much has changed that they are to be made anew.
    pub(crate) fn stale(&self) -> impl Iterator<Item = usize> {
        let is_used = |number: &usize| {
            let mut columns = self.columns.iter();
            columns.any(|(of, column)| of == number && column.is_used.load(Relaxed))
        };
        self.stale.iter().copied().filter(is_used)
    }

    /// The slots that all columns know, as a number of words of a bitmap.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Whether a column is there.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.columns.iter().any(|(number, _)| *number == column)
    }

    /// The bitmap of the slots that have changed, if any has.
    pub(crate) fn changed_slots(&self) -> Option<DevicePtr<u32>> {
        self.changed.as_ref().map(|changed| changed.on_device.input())
    }

    /// Whether a slot has changed.
    pub(crate) fn has_changed(&self, slot: Slot) -> bool {
        let words = self.changed.as_ref().map_or(&[][..], |changed| &changed.is_changed);
        words.get(slot.index() / 32).is_some_and(|word| word >> (slot.index() % 32) & 1 == 1)
    }

    /// The changed slots with a key that has, or had, a number in the range of a test.
    pub(crate) fn changed_in(&self, test: &ColumnTest) -> impl Iterator<Item = Slot> {
        let changed = self.changed.as_ref();
        let index =
            changed.and_then(|changed| changed.columns.iter().position(|&column| column == test.column));
        let runs = changed
            .zip(index)
            .into_iter()
            .flat_map(|(changed, index)| changed.runs.iter().map(move |run| &run.0[index][..]));
        let (least, most) = (test.least, test.most);
        runs.flat_map(move |numbers| {
            let first = numbers.partition_point(|&(number, _)| number < least);
            let end = numbers.partition_point(|&(number, _)| number <= most);
            numbers[first..end.max(first)].iter().map(|&(_, slot)| slot)
        })
    }
}

impl<S: Stream> Changed<S> {
    /// What has changed since a version, `before` taken over if it is of the same columns and slots. `words` is the length of a
    /// bitmap of all slots. None if that is not known, or there is no memory.
    fn new(
        stream: &S,
        keys: &KeyMap,
        words: usize,
        since: u64,
        columns: Vec<usize>,
        before: Option<&Self>,
    ) -> Option<Self> {
        let before = before.filter(|before| {
            (before.since, &before.columns) == (since, &columns)
                && before.version <= keys.version()
                && before.is_changed.len() == words
        });
        let (mut is_changed, mut runs, from) = match before {
            Some(before) => (before.is_changed.clone(), before.runs.clone(), before.version),
            None => (vec![0; words], Vec::new(), since),
        };
        let mut slots: Vec<Slot> = keys.changed_since(from)?.collect();
        slots.sort_unstable();
        slots.dedup();
        let numbers = columns.iter().map(|&column| {
            let of_slot = |&slot: &Slot| {
                let numbers =
                    keys.keys_of(slot).flat_map(move |key| keys.attributes().numbers_of(column, key));
                numbers.map(move |number| (number, slot))
            };
            let mut numbers: Vec<(i64, Slot)> = slots.iter().flat_map(of_slot).collect();
            numbers.sort_unstable();
            numbers
        });
        let mut run = Arc::new(ChangedNumbers(numbers.collect()));
        // Each run is more than twice as long as the next, so that there are few.
        while let Some(last) = runs.pop_if(|last: &mut Arc<ChangedNumbers>| last.len() <= 2 * run.len()) {
            run = Arc::new(last.merged(&run));
        }
        runs.push(run);
        slots.iter().for_each(|slot| is_changed[slot.index() / 32] |= 1 << (slot.index() % 32));
        let on_device = stream.upload(&is_changed).ok()?;
        stream.synchronize().ok()?;
        Some(Self { since, version: keys.version(), is_changed, on_device, columns, runs })
    }
}

impl<S: Stream> Default for DeviceColumns<S> {
    fn default() -> Self {
        let (columns, making, listed) = (Vec::new(), Vec::new(), FxHashMap::default());
        Self(Mutex::new(State { columns, changed: None, making, listed, stream: None }))
    }
}

impl<S: Stream> fmt::Debug for DeviceColumns<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceColumns")
    }
}

impl<S: Stream> DeviceColumns<S> {
    /// The columns that are there for a search of these keys. `words` is the length of a bitmap of all slots.
    pub(crate) fn made(&self, keys: &KeyMap, words: usize) -> MadeColumns<S> {
        let State { columns, changed, stream, .. } = &mut *lock(&self.0);
        let most = (keys.live() / CHANGED_SHARE).clamp(MIN_CHANGED, MAX_CHANGED);
        let (mut made, mut stale) = (Vec::new(), Vec::new());
        let (mut since, mut known_words) = (keys.version(), words);
        columns.retain(|kept| {
            // Those of later keys, and those since which more has changed than is remembered, are not for this search.
            let Some(changes) = keys.changed_since(kept.version) else { return true };
            if changes.len() > most {
                if !kept.column.is_used.swap(false, Relaxed) {
                    return false;
                }
                stale.push(kept.number);
            }
            made.push((kept.number, Arc::clone(&kept.column)));
            since = since.min(kept.version);
            known_words = known_words.min(kept.words);
            true
        });
        if since == keys.version() {
            return MadeColumns { columns: made, changed: None, stale, words: known_words };
        }
        let is_current = |known: &&Arc<Changed<S>>| {
            (known.since, known.version, known.is_changed.len()) == (since, keys.version(), words)
                && known.columns.iter().eq(made.iter().map(|(number, _)| number))
        };
        let found = changed.as_ref().filter(is_current).cloned().or_else(|| {
            let numbers = made.iter().map(|&(number, _)| number).collect();
            let found = Changed::new(stream.as_deref()?, keys, words, since, numbers, changed.as_deref())?;
            let found = Arc::new(found);
            if changed.as_ref().is_none_or(|known| known.version <= found.version) {
                *changed = Some(Arc::clone(&found));
            }
            Some(found)
        });
        // Without knowing what has changed, no column can be used.
        if found.is_none() {
            made.clear();
            known_words = words;
        }
        MadeColumns { columns: made, changed: found, stale, words: known_words }
    }

    /// Makes a column, if filters that would have had that many slots listed make it worth its while, and if there is memory.
    /// Returns whether it was made.
    pub(crate) fn make(
        &self,
        of_search: &S,
        keys: &KeyMap,
        words: usize,
        (column, listed): (usize, usize),
        pool: &ThreadPool,
    ) -> bool {
        let Some(stream) = self.begin(of_search, keys, column, listed) else { return false };
        // Searches go on meanwhile.
        let made = DeviceColumn::new(&*stream, keys, words, column, pool);
        let State { columns, making, .. } = &mut *lock(&self.0);
        making.retain(|number| *number != column);
        columns.retain(|kept| kept.number != column);
        let Some(made) = made else { return false };
        if columns.len() >= MAX_COLUMNS {
            columns.remove(0);
        }
        columns.push(KeptColumn { number: column, version: keys.version(), words, column: Arc::new(made) });
        true
    }

    /// Counts slots that were listed for a column. Returns the stream to make it with if that is worth its while and has not
    /// begun.
    fn begin(&self, of_search: &S, keys: &KeyMap, column: usize, selected: usize) -> Option<Arc<S>> {
        let State { columns, making, listed, stream, .. } = &mut *lock(&self.0);
        let is_later = |kept: &KeptColumn<S>| kept.number == column && kept.version >= keys.version();
        if making.contains(&column) || columns.iter().any(is_later) {
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
            for equal in [1, 7] {
                let values: Vec<i64> = (0..len).map(|i| i / equal * 3 - 500).collect();
                let sorted = SortedValues::new(values.clone());
                for bound in (-510..4000).step_by(if len > 1000 { 17 } else { 1 }) {
                    let expected = values.iter().filter(|&&value| value < bound).count();
                    let counted = sorted.count(|value| value < bound);
                    assert_eq!(counted as usize, expected, "{bound} of {len}, each {equal} times");
                }
            }
        }
    }
}
