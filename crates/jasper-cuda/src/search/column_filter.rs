//! A filter that kernels test by columns on the device.

use std::ops::Range;

use gpu_kernels::Stream;
use gpu_kernels::search::{ListPart, SlotTest};
use jasper_attributes::{ColumnTest, Predicate};
use jasper_core::Slot;
use jasper_graph::KeyMap;
use smallvec::SmallVec;

use crate::graph::{ColumnPart, MadeColumns};

/// A filter by conditions on columns, all of which are on the device. Small, because a batch may have one for each query.
pub(super) struct ColumnFilter {
    /// The tests of all clauses, those that hold for the fewest keys first.
    tests: SmallVec<[PartTest; 1]>,
    /// The tests of the clause whose parts a scan lists; none if no clause can be listed.
    listed: Range<u8>,
    /// The slots in these parts.
    listed_len: u32,
    /// Keys that it allows, if clauses are independent of each other.
    likely: u32,
    /// The changed slots that it allows, once a scan is to list them besides.
    changed: Option<Box<ChangedSlots>>,
}

/// Changed slots that a filter allows.
struct ChangedSlots {
    slots: Vec<Slot>,
    /// The keys of these slots that it allows.
    keys: usize,
    /// Where they are on the device, in the launches that are made now.
    list: ListPart,
}

/// A test of a column.
#[derive(Clone, Copy)]
struct PartTest {
    part: ColumnPart,
    /// The index of the column among those on the device.
    column: u16,
    /// The number of the test, as it was given.
    number: u16,
    holds: bool,
    /// Whether the next test is of the same clause.
    is_joined: bool,
}

impl ColumnFilter {
    /// The filter of these clauses; none if a column is not there.
    pub(super) fn new<S: Stream>(
        tests: &[ColumnTest],
        columns: &MadeColumns<S>,
        keys: usize,
    ) -> Option<Self> {
        let mut parts = SmallVec::with_capacity(tests.len());
        for (test, number) in tests.iter().zip(0..) {
            let (column, part) = columns.find(test)?;
            let &ColumnTest { holds, is_joined, .. } = test;
            parts.push(PartTest { part, column: u16::try_from(column).ok()?, number, holds, is_joined });
        }
        let most = u32::try_from(keys).ok()?;
        let mut this = Self { tests: parts, listed: 0..0, listed_len: most, likely: most, changed: None };
        this.order_clauses(keys);
        Some(this)
    }

    /// Lists the changed slots that a scan is to list, of those that a predicate allows: that of these clauses.
    pub(super) fn list_changed<S: Stream>(
        &mut self,
        predicate: &Predicate<'_>,
        tests: &[ColumnTest],
        columns: &MadeColumns<S>,
        keys: &KeyMap,
    ) {
        if columns.changed_slots().is_none() {
            return;
        }
        let found =
            self.listed_tests().iter().flat_map(|part| columns.changed_in(&tests[usize::from(part.number)]));
        let mut slots: Vec<Slot> = found.collect();
        slots.sort_unstable();
        slots.dedup();
        let mut allowed = 0;
        slots.retain(|&slot| {
            let of_slot = keys.keys_of(slot).filter(|&key| predicate.matches_live(key)).count();
            allowed += of_slot;
            of_slot > 0
        });
        self.changed = Some(Box::new(ChangedSlots { slots, keys: allowed, list: ListPart::default() }));
    }

    /// Puts the clauses that hold for the fewest of `keys` keys first, and chooses the one whose parts a scan lists.
    fn order_clauses(&mut self, keys: usize) {
        let share = |PartTest { part, holds, .. }: &PartTest| {
            let share = (part.len as f64 / keys.max(1) as f64).min(1.0);
            if *holds { share } else { 1.0 - share }
        };
        let clauses = self.tests.chunk_by(|part, _| part.is_joined);
        let share_of = |clause: &[PartTest]| clause.iter().map(share).sum::<f64>().min(1.0);
        let product: f64 = clauses.clone().map(share_of).product();
        self.likely = (keys as f64 * product).round() as u32;
        if clauses.clone().count() > 1 {
            let mut ordered: Vec<_> = clauses.map(|clause| (share_of(clause), clause)).collect();
            ordered.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            self.tests = ordered.into_iter().flat_map(|(_, clause)| clause).copied().collect();
        }
        let mut first = 0;
        for clause in self.tests.chunk_by(|part, _| part.is_joined) {
            let len = clause.iter().try_fold(0_u32, |len, part| len.checked_add(part.part.len));
            // There are at most 16 tests.
            let end = first + clause.len() as u8;
            if let (true, Some(len)) = (clause.iter().all(|part| part.holds), len) {
                (self.listed, self.listed_len) = (first..end, len);
                return;
            }
            first = end;
        }
    }

    /// The tests of the clause whose parts a scan lists.
    fn listed_tests(&self) -> &[PartTest] {
        &self.tests[usize::from(self.listed.start)..usize::from(self.listed.end)]
    }

    /// About how many keys it allows.
    pub(super) fn likely_keys(&self) -> usize {
        self.likely as usize
    }

    /// It does not allow more of `keys` keys. `has_changed` is whether slots have changed.
    pub(super) fn most_keys(&self, keys: usize, has_changed: bool) -> usize {
        match &self.changed {
            Some(changed) => self.listed_len as usize + changed.keys,
            None if has_changed => keys,
            None => self.listed_len as usize,
        }
    }

    /// The slots that a scan reads.
    pub(super) fn scanned_slots(&self) -> usize {
        self.listed_len as usize + self.changed().len()
    }

    /// The changed slots that a scan lists.
    pub(super) fn changed(&self) -> &[Slot] {
        self.changed.as_ref().map_or(&[], |changed| &changed.slots)
    }

    /// Sets where the changed slots are on the device.
    pub(super) fn set_changed(&mut self, list: ListPart) {
        if let Some(changed) = &mut self.changed {
            changed.list = list;
        }
    }

    /// The slots that a scan lists and tests; none if it cannot list them.
    pub(super) fn listed_slots(&self) -> Option<usize> {
        (!self.listed.is_empty()).then_some(self.listed_len as usize)
    }

    /// Where a scan begins to read a column.
    pub(super) fn first_listed(&self) -> u32 {
        self.listed_tests().first().map_or(0, |test| test.part.first)
    }

    /// Whether a scan tests the slots that it lists.
    pub(super) fn has_scan_tests(&self) -> bool {
        self.tests.len() > self.listed.len()
    }

    /// The numbers of [`Self::write_lists`], without that of changed slots, and of [`Self::write_tests`].
    pub(super) fn lens(&self, is_scan: bool) -> (usize, usize) {
        if is_scan {
            (self.listed.len(), self.tests.len() - self.listed.len())
        } else {
            (0, self.tests.len())
        }
    }

    /// Writes the lists of a scan. That of changed slots, if there may be some, is the last.
    pub(super) fn write_lists<S: Stream>(&self, columns: &MadeColumns<S>, out: &mut [ListPart]) {
        out.fill(ListPart::default());
        if let (Some(_), Some(last)) = (columns.changed_slots(), out.last_mut()) {
            *last = self.changed.as_ref().map_or(ListPart::default(), |changed| changed.list);
        }
        for (part, out) in self.listed_tests().iter().zip(out) {
            *out = columns.column(usize::from(part.column)).list(part.part);
        }
    }

    /// Writes the tests of the slots in the lists of a scan, or of what a beam search finds, and then some that always hold.
    pub(super) fn write_tests<S: Stream>(
        &self,
        columns: &MadeColumns<S>,
        is_scan: bool,
        out: &mut [SlotTest],
    ) {
        out.fill(SlotTest::ALL);
        let tests = self.tests.iter().zip(0..);
        let tests = tests.filter(|(_, number)| !is_scan || !self.listed.contains(number));
        for ((part, _), out) in tests.zip(out) {
            let test = columns.column(usize::from(part.column)).test(part.part, part.holds);
            *out = if part.is_joined { test.joined() } else { test };
        }
    }
}
