//! Applies changes of the host's graph to its device copy.

use std::borrow::Cow;
use std::ops::Range;

use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::rows::{CopyRows, CopyRowsArgs};
use gpu_kernels::{Buffer as _, DevicePtr, Stream};
use jasper_core::Slot;
use jasper_graph::{ChangedSlots, Graph};

use super::edges::EdgeRows;
use super::{DeviceCodes, DeviceGraph, OldArray, allocate_rows, start_points, write_rows};

/// Number of bytes copied in the time that launching another copy takes. Shorter gaps between changed rows are copied
/// too.
const GAP_BYTES: usize = 64 << 10;
/// A full table grows by at least this fraction of its size or this number of slots, whichever is less. That amortizes
/// the cost of mapping memory, or of moving the table where it cannot grow in place.
const GROWTH: usize = 8;
const MAX_GROWTH: usize = 1 << 20;
/// Consecutive rows that the host writes, in less time than two launches take.
const MAX_WRITTEN: usize = 64;

impl<S: Stream> DeviceGraph<S> {
    /// Applies the changes that `host` has had since this was a copy of it. New slots have no edges.
    ///
    /// Copies the changed rows and words, with one copy per contiguous run.
    ///
    /// # Errors
    /// Returns the device's error. The copy is then inconsistent until another call with the same changes, and later
    /// ones, succeeds.
    pub(crate) fn apply_changes(&mut self, host: &Graph, changes: &ChangedSlots) -> Result<(), S::Error> {
        assert_eq!(host.element(), self.element, "the element of a graph never changes");
        self.wait_for_readers()?;
        self.free_unread()?;
        // What searches of the next tables read has to be there when they are published. New vectors are none of it.
        let is_read = !changes.keys.is_empty() || changes.start_points || !self.has_tables_of(host);
        if !changes.vectors.is_empty() || changes.center {
            self.sq8 = None;
        }
        if self.has_vectors && !host.has_vectors() {
            let none = allocate_rows(&self.stream, self.vector_storage(), 0)?;
            self.has_vectors = false;
            self.old.keep(OldArray::Rows(std::mem::replace(&mut self.rows, none)));
        }
        self.reserve(host.slots())?;
        let has_shrunk = host.slots() < self.slots;
        self.slots = host.slots();
        // Most changes list their slots in order: these lists are not copied.
        let rows = sorted_slots(Cow::from(&changes.vectors), host.slots());
        let keys = sorted_slots(Cow::from(&changes.keys), host.slots());
        let width = self.row_bytes() as usize;
        let new_rows = match (self.has_vectors, host.has_vectors()) {
            // Dropping them is undone.
            (false, true) => {
                let moved = self.stream.grow(&mut self.rows, self.capacity * width)?;
                moved.into_iter().for_each(|array| self.old.keep(OldArray::Rows(array)));
                spans(0..host.slots(), width)
            }
            (true, true) => spans(indices(&rows), width),
            (_, false) => Vec::new(),
        };
        for rows in new_rows {
            write_rows(&self.stream, &mut self.rows, rows, width, &|slot, out| {
                out.copy_from_slice(host.vectors().padded_bytes(slot));
            })?;
        }
        self.has_vectors = host.has_vectors();
        if let (Some(terms), Some(of_host)) = (&mut self.terms, host.vectors().terms()) {
            let fill = |slot: Slot, out: &mut [f32]| out[0] = of_host.at(slot.index());
            if self.center.has_same_terms(host.vectors().center()) {
                for rows in spans(indices(&rows), size_of::<f32>()) {
                    write_rows(&self.stream, terms, rows, 1, &fill)?;
                }
            } else {
                let mut other = self.stream.allocate_table(self.capacity)?;
                write_rows(&self.stream, &mut other, 0..host.slots(), 1, &fill)?;
                self.old.keep(OldArray::Floats(std::mem::replace(terms, other)));
            }
        }
        let code_bytes = self.codes.as_ref().map_or(0, |codes| codes.words() * size_of::<u32>());
        let code_rows = spans(indices(&rows), code_bytes).into_iter();
        let keep = |array| self.old.keep(array);
        DeviceCodes::apply_changes(&mut self.codes, &self.stream, host, code_rows, self.capacity, keep)?;
        self.clear_edges(&rows)?;
        self.apply_parents(host, &rows, changes)?;
        if changes.first_keys {
            let mut table = self.stream.allocate_table(self.capacity)?;
            self.stream.copy(&self.keys, &mut table, self.keys.len().min(self.capacity))?;
            self.old.keep(OldArray::Keys(std::mem::replace(&mut self.keys, table)));
        }
        for slots in spans(indices(&keys), size_of::<u64>()) {
            write_rows(&self.stream, &mut self.keys, slots, 1, &|slot, out| {
                out[0] = host.keys().first_key(slot)
            })?;
        }
        let emptied = if has_shrunk { host.slots() / 32..self.capacity.div_ceil(32) } else { 0..0 };
        let changed = indices(&rows).chain(indices(&keys)).map(|slot| slot / 32).chain(emptied);
        self.apply_live(host, changed)?;
        if changes.start_points {
            let start_points = self.stream.upload(&start_points(host))?;
            self.old.keep(OldArray::Words(std::mem::replace(&mut self.start_points, start_points)));
        }
        self.center = host.vectors().center().clone();
        if is_read || self.old.has_new() {
            self.stream.synchronize()?;
        }
        self.publish_tables();
        Ok(())
    }

    /// Makes a new set of live slots if it has changed in these `words`, or is too short. Others are as they were.
    fn apply_live(&mut self, host: &Graph, words: impl Iterator<Item = usize>) -> Result<(), S::Error> {
        let (stream, len) = (&self.stream, self.capacity.div_ceil(32));
        self.live_words.resize(len, 0);
        let end = host.slots().div_ceil(32);
        let now = |word: usize| if word < end { host.keys().live_word(word) } else { 0 };
        let mut changed: Vec<usize> = words.collect();
        changed.retain(|&word| self.live_words[word] != now(word));
        changed.sort_unstable();
        changed.dedup();
        if changed.is_empty() && len <= self.live.len() {
            return Ok(());
        }
        let mut live = stream.allocate(len)?;
        if len > self.live.len() {
            stream.fill(&mut live, 0)?;
        }
        stream.copy(&self.live, &mut live, self.live.len().min(len))?;
        for range in spans(changed.iter().copied(), size_of::<u32>()) {
            write_rows(stream, &mut live, range, 1, &|word, out| out[0] = now(word.index()))?;
        }
        self.old.keep(OldArray::Words(std::mem::replace(&mut self.live, live)));
        changed.into_iter().for_each(|word| self.live_words[word] = now(word));
        Ok(())
    }

    /// Whether the copy has the tables of `host`: vectors and codes if `host` has them, and codes of the same
    /// quantizer.
    pub(super) fn has_tables_of(&self, host: &Graph) -> bool {
        let codes = match (&self.codes, host.vectors().codes()) {
            (Some(copy), Some(codes)) => copy.is_of(codes),
            (copy, codes) => copy.is_none() && codes.is_none(),
        };
        codes && self.has_vectors == host.has_vectors()
    }

    /// Waits for launches that may still read the graph, and that nothing else is known of, before it is written.
    pub(super) fn wait_for_readers(&self) -> Result<(), S::Error> {
        self.async_readers.wait_for_tables(&self.stream)
    }

    /// Frees arrays that were replaced, and that no search reads any more. Returns whether there are others.
    pub(super) fn free_unread(&mut self) -> Result<bool, S::Error> {
        let Self { old, async_readers, stream, .. } = self;
        old.free_unread(|| async_readers.wait_for_tables(stream))?;
        Ok(!old.is_empty())
    }

    /// Grows every table to at least `slots` slots.
    fn reserve(&mut self, slots: usize) -> Result<(), S::Error> {
        if slots > self.capacity {
            let row_bytes = self.row_bytes() as usize;
            let (stream, old) = (&self.stream, &mut self.old);
            let capacity = slots.max(self.capacity + (self.capacity / GROWTH).min(MAX_GROWTH));
            if self.has_vectors {
                let moved = stream.grow(&mut self.rows, capacity * row_bytes)?;
                moved.into_iter().for_each(|array| old.keep(OldArray::Rows(array)));
            }
            let moved = stream.grow(&mut self.edges, capacity * self.edges_stride)?;
            moved.into_iter().for_each(|array| old.keep(OldArray::Words(array)));
            if let Some(terms) = &mut self.terms {
                let moved = stream.grow(terms, capacity)?;
                moved.into_iter().for_each(|array| old.keep(OldArray::Floats(array)));
            }
            let moved = stream.grow(&mut self.keys, capacity)?;
            moved.into_iter().for_each(|array| old.keep(OldArray::Keys(array)));
            if let Some(parents) = &mut self.parents {
                // No search reads it.
                stream.grow(parents, capacity)?;
            }
            self.capacity = capacity;
        }
        Ok(())
    }

    /// Copies the parents of `rows`, which are new, and those that changed; all of them if there is another tree.
    fn apply_parents(&mut self, host: &Graph, rows: &[Slot], changes: &ChangedSlots) -> Result<(), S::Error> {
        let stream = &self.stream;
        let Some(tree) = host.adjacency().spanning_tree() else {
            self.parents = None;
            return Ok(());
        };
        match &mut self.parents {
            Some(parents) if !changes.spanning_tree => {
                let slots = sorted_slots([rows, &changes.parents].concat().into(), host.slots());
                let Some(run) = run_of(&slots) else { return Ok(()) };
                if run.len() == slots.len() && run.len() <= MAX_WRITTEN {
                    return write_rows(stream, parents, run, 1, &|slot, out| out[0] = tree.word(slot));
                }
                let words = slots.iter().map(|&slot| tree.word(slot));
                let words: Vec<u32> = words.chain(slots.iter().map(|slot| slot.get())).collect();
                let words = stream.upload(&words)?;
                let from = stream.input(&words);
                let args = CopyRowsArgs {
                    from,
                    to: stream.output(parents),
                    from_slots: DevicePtr::null(),
                    to_slots: from.add(slots.len()),
                    rows_len: slots.len() as u32,
                    row_words: 1,
                };
                // SAFETY: there is a word for each of these distinct slots, which the table has room for.
                unsafe { stream.launch(&CopyRows, args) }
            }
            parents => {
                let mut table = stream.allocate_table(self.capacity)?;
                write_rows(stream, &mut table, 0..host.slots(), 1, &|slot, out| out[0] = tree.word(slot))?;
                *parents = Some(table);
                Ok(())
            }
        }
    }

    /// Clears the rows of slots whose vectors changed. No edge leads to them, and no search is on its way there.
    fn clear_edges(&mut self, slots: &[Slot]) -> Result<(), S::Error> {
        let Some(run) = run_of(slots) else { return Ok(()) };
        self.recent.clear();
        if run.len() == slots.len() && slots.len() <= MAX_WRITTEN {
            let stride = self.edges_stride;
            return write_rows(&self.stream, &mut self.edges, run, stride, &|_, out| out.fill(NO_SLOT));
        }
        let rows = EdgeRows::without_edges(&self.stream, slots, self.edges_stride as u32)?;
        self.write_rows(&rows)
    }
}

/// The range from the first of ascending slots to the last; `None` if there are none.
fn run_of(slots: &[Slot]) -> Option<Range<usize>> {
    Some(slots.first()?.index()..slots.last()?.index() + 1)
}

/// The slots below `end`, sorted and without duplicates.
fn sorted_slots(slots: Cow<'_, [Slot]>, end: usize) -> Cow<'_, [Slot]> {
    if slots.is_sorted_by(|a, b| a < b) && slots.last().is_none_or(|last| last.index() < end) {
        return slots;
    }
    let mut slots = slots.into_owned();
    slots.retain(|slot| slot.index() < end);
    slots.sort_unstable();
    slots.dedup();
    slots.into()
}

fn indices(slots: &[Slot]) -> impl Iterator<Item = usize> {
    slots.iter().map(|slot| slot.index())
}

/// Contiguous runs of sorted `rows` of `row_bytes` bytes, joined over gaps that cost less than another copy.
fn spans(rows: impl Iterator<Item = usize>, row_bytes: usize) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for row in rows {
        match spans.last_mut() {
            Some(last) if row.saturating_sub(last.end) * row_bytes <= GAP_BYTES => last.end = row + 1,
            _ => spans.push(row..row + 1),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gaps_are_copied_along() {
        let spans = |rows: &[usize], row_bytes| spans(rows.iter().copied(), row_bytes);
        assert_eq!(spans(&[], 16), []);
        assert_eq!(spans(&[3, 4, 6, 6, 5000], 16), [3..7, 5000..5001]);
        assert_eq!(spans(&[3, 4, 6, 4000], 16), vec![3..4001]);
        assert_eq!(spans(&[0, 2], GAP_BYTES), vec![0..3]);
        assert_eq!(spans(&[0, 2], GAP_BYTES + 1), [0..1, 2..3]);
    }

    #[test]
    fn slots_rise_each_once() {
        for (given, expected) in
            [(vec![], vec![]), (vec![1, 4], vec![1, 4]), (vec![4, 9, 1, 4, 2], vec![1, 2, 4])]
        {
            let [given, expected] = [given, expected].map(|slots| slots.into_iter().map(Slot::new));
            assert!(sorted_slots(given.collect(), 9).iter().copied().eq(expected));
        }
    }
}
