//! Applies changes of the host's graph to its device copy.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use gpu_kernels::rows::{CopyRows, CopyRowsArgs};
use gpu_kernels::{DevicePtr, Stream};
use jasper_core::{Element, Slot, padded_len};
use jasper_graph::{ChangedSlots, Graph};

use super::edges::EdgeRows;
use super::{DeviceCodes, DeviceGraph, all_live, start_points, write_rows};

/// Number of bytes copied in the time that launching another copy takes. Shorter gaps between changed rows are copied
/// too.
const GAP_BYTES: usize = 64 << 10;
/// A full table grows by at least this fraction of its size or this number of slots, whichever is less. That amortizes
/// the cost of mapping memory, or of moving the table where it cannot grow in place.
const GROWTH: usize = 8;
const MAX_GROWTH: usize = 1 << 20;

impl<T: Element, S: Stream> DeviceGraph<T, S> {
    /// Applies the changes that `host` has had since this was a copy of it. New slots have no edges.
    ///
    /// Copies the changed rows and words, with one copy per contiguous run.
    ///
    /// # Errors
    /// Returns the device's error. The copy is then inconsistent until another call with the same changes, and later
    /// ones, succeeds.
    pub(crate) fn apply_changes(&mut self, host: &Graph<T>, changes: &ChangedSlots) -> Result<(), S::Error> {
        self.wait_for_readers()?;
        if !changes.vectors.is_empty() || changes.center {
            self.sq8 = None;
        }
        if self.has_vectors && !host.has_vectors() {
            self.rows = self.stream.allocate(0)?;
        }
        self.has_vectors = host.has_vectors();
        self.reserve(host.slots())?;
        self.slots = host.slots();
        // Most changes list their slots in order: these lists are not copied.
        let rows = sorted_slots(Cow::from(&changes.vectors), host.slots());
        let marks = match (rows.is_empty(), changes.keys.is_empty()) {
            (_, true) => Cow::from(&rows[..]),
            (true, false) => sorted_slots(Cow::from(&changes.keys), host.slots()),
            (false, false) => sorted_slots([&rows, &changes.keys[..]].concat().into(), host.slots()),
        };
        let width = padded_len::<T>(self.dimension);
        for rows in spans(indices(&rows), width * size_of::<T>()) {
            if self.has_vectors {
                write_rows(&self.stream, &mut self.rows, rows.clone(), width, |slot, out| {
                    out.copy_from_slice(host.vectors().padded(slot));
                })?;
            }
        }
        if let (Some(terms), Some(of_host)) = (&mut self.terms, host.vectors().terms()) {
            let changed = if self.center.has_same_terms(host.vectors().center()) {
                spans(indices(&rows), size_of::<f32>())
            } else {
                std::iter::once(0..host.slots()).collect()
            };
            for rows in changed {
                write_rows(&self.stream, terms, rows, 1, |slot, out| out[0] = of_host.at(slot.index()))?;
            }
        }
        let code_bytes = self.codes.as_ref().map_or(0, |codes| codes.words() * size_of::<u32>());
        let code_rows = spans(indices(&rows), code_bytes).into_iter();
        DeviceCodes::apply_changes(&mut self.codes, &self.stream, host, code_rows, self.capacity)?;
        self.clear_edges(&rows)?;
        self.apply_parents(host, &rows, changes)?;
        for slots in spans(indices(&marks), size_of::<u64>()) {
            write_rows(&self.stream, &mut self.keys, slots, 1, |slot, out| {
                out[0] = host.keys().first_key(slot)
            })?;
        }
        for words in spans(indices(&marks).map(|slot| slot / 32), size_of::<u32>()) {
            write_rows(&self.stream, &mut self.live, words, 1, |word, out| {
                out[0] = host.keys().live_word(word.index())
            })?;
        }
        if changes.start_points {
            self.start_points = self.stream.upload(&start_points(host))?;
        }
        self.center = host.vectors().center().clone();
        self.all_live = all_live(host);
        self.stream.synchronize()
    }

    /// Whether the copy has the tables of `host`: vectors and codes if `host` has them, and codes of the same
    /// quantizer.
    pub(super) fn has_tables_of(&self, host: &Graph<T>) -> bool {
        let codes = match (&self.codes, host.vectors().codes()) {
            (Some(copy), Some(codes)) => copy.is_of(codes),
            (copy, codes) => copy.is_none() && codes.is_none(),
        };
        codes && self.has_vectors == host.has_vectors()
    }

    /// Waits for launches that may still read the graph, before it is written.
    pub(super) fn wait_for_readers(&self) -> Result<(), S::Error> {
        if self.has_async_readers.swap(false, Relaxed) { self.stream.synchronize_device() } else { Ok(()) }
    }

    /// Grows every table to at least `slots` slots.
    fn reserve(&mut self, slots: usize) -> Result<(), S::Error> {
        if slots > self.capacity {
            let stream = &self.stream;
            let capacity = slots.max(self.capacity + (self.capacity / GROWTH).min(MAX_GROWTH));
            if self.has_vectors {
                stream.grow(&mut self.rows, capacity * padded_len::<T>(self.dimension))?;
            }
            stream.grow(&mut self.edges, capacity * self.edges_stride)?;
            if let Some(terms) = &mut self.terms {
                stream.grow(terms, capacity)?;
            }
            stream.grow(&mut self.keys, capacity)?;
            self.parents.as_mut().map_or(Ok(()), |parents| stream.grow(parents, capacity))?;
            stream.grow(&mut self.live, capacity.div_ceil(32))?;
            self.capacity = capacity;
        }
        Ok(())
    }

    /// Copies the parents of `rows`, which are new, and those that changed; all of them if there is another tree.
    fn apply_parents(
        &mut self,
        host: &Graph<T>,
        rows: &[Slot],
        changes: &ChangedSlots,
    ) -> Result<(), S::Error> {
        let stream = &self.stream;
        let Some(tree) = host.adjacency().spanning_tree() else {
            self.parents = None;
            return Ok(());
        };
        match &mut self.parents {
            Some(parents) if !changes.spanning_tree => {
                let slots = sorted_slots([rows, &changes.parents].concat().into(), host.slots());
                if slots.is_empty() {
                    return Ok(());
                }
                let words: Vec<u32> = slots.iter().map(|&slot| tree.word(slot)).collect();
                let (from, to_slots) = (stream.upload(&words)?, stream.upload(bytemuck::cast_slice(&slots))?);
                let args = CopyRowsArgs {
                    from: stream.input(&from),
                    to: stream.output(parents),
                    from_slots: DevicePtr::null(),
                    to_slots: stream.input(&to_slots),
                    rows_len: slots.len() as u32,
                    row_words: 1,
                };
                // SAFETY: there is a word for each of these distinct slots, which the table has room for.
                unsafe { stream.launch(&CopyRows, args) }
            }
            parents => {
                let mut table = stream.allocate_table(self.capacity)?;
                write_rows(stream, &mut table, 0..host.slots(), 1, |slot, out| out[0] = tree.word(slot))?;
                *parents = Some(table);
                Ok(())
            }
        }
    }

    /// Clears the rows of slots whose vectors changed. No edge leads to them.
    fn clear_edges(&mut self, slots: &[Slot]) -> Result<(), S::Error> {
        let mut rows = EdgeRows::for_vertices(&self.stream, slots, self.edges_stride as u32)?;
        self.stream.fill(&mut rows.neighbors, u8::MAX)?;
        self.write_rows(&rows)
    }
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
