//! A filter that kernels test by columns on the device.

use std::ops::Range;

use gpu_kernels::Stream;
use gpu_kernels::search::{ListPart, SlotTest};
use jasper_attributes::{ColumnTest, Predicate};
use jasper_core::Slot;
use jasper_graph::KeyMap;
use smallvec::SmallVec;

use crate::graph::{ColumnPart, MadeColumns};

/// A filter by conditions on columns, all of which are on the device.
pub(super) struct ColumnFilter {
    /// The tests of all clauses, those that hold for the fewest keys first.
    tests: SmallVec<[PartTest; 2]>,
    /// The tests of the clause whose parts a scan lists; none if no clause can be listed.
    listed: Range<usize>,
    /// The slots in these parts.
    listed_len: usize,
    /// Keys that it allows, if clauses are independent of each other.
    likely: usize,
    /// The changed slots that it allows, which a scan lists besides.
    changed: Vec<Slot>,
    /// Where these are on the device, in the launches that are made now.
    changed_list: ListPart,
}

/// A test of a column.
#[derive(Clone, Copy)]
struct PartTest {
    /// The index of the column among those on the device.
    column: usize,
    part: ColumnPart,
    test: ColumnTest,
}

impl ColumnFilter {
    /// The filter of a predicate that is the same as the clauses of these tests; none if a column is not there.
    pub(super) fn new<S: Stream>(
        predicate: &Predicate<'_>,
        tests: &[ColumnTest],
        columns: &MadeColumns<S>,
        keys: &KeyMap,
    ) -> Option<Self> {
        let mut parts = SmallVec::with_capacity(tests.len());
        for &test in tests {
            let (column, part) = columns.find(&test)?;
            parts.push(PartTest { column, part, test });
        }
        let mut this = Self {
            tests: parts,
            listed: 0..0,
            listed_len: keys.len(),
            likely: keys.len(),
            changed: Vec::new(),
            changed_list: ListPart::default(),
        };
        this.order_clauses(keys.len());
        let listed = &this.tests[this.listed.clone()];
        let mut changed: Vec<Slot> = listed.iter().flat_map(|part| columns.changed_in(&part.test)).collect();
        changed.sort_unstable();
        changed.dedup();
        changed.retain(|&slot| keys.keys_of(slot).any(|key| predicate.matches_live(key)));
        this.changed = changed;
        Some(this)
    }

    /// Puts the clauses that hold for the fewest of `keys` keys first, and chooses the one whose parts a scan lists.
    fn order_clauses(&mut self, keys: usize) {
        let share = |PartTest { part, test, .. }: &PartTest| {
            let share = (part.len as f64 / keys.max(1) as f64).min(1.0);
            if test.holds { share } else { 1.0 - share }
        };
        let clauses = self.tests.chunk_by(|part, _| part.test.is_joined);
        let share_of = |clause: &[PartTest]| clause.iter().map(share).sum::<f64>().min(1.0);
        let product: f64 = clauses.clone().map(share_of).product();
        self.likely = (keys as f64 * product).round() as usize;
        if clauses.clone().count() > 1 {
            let mut ordered: Vec<_> = clauses.map(|clause| (share_of(clause), clause)).collect();
            ordered.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            self.tests = ordered.into_iter().flat_map(|(_, clause)| clause).copied().collect();
        }
        let mut first = 0;
        for clause in self.tests.chunk_by(|part, _| part.test.is_joined) {
            if clause.iter().all(|part| part.test.holds) {
                self.listed = first..first + clause.len();
                self.listed_len = clause.iter().map(|part| part.part.len as usize).sum();
                return;
            }
            first += clause.len();
        }
    }

    /// About how many keys it allows.
    pub(super) fn likely_keys(&self) -> usize {
        self.likely
    }

    /// It does not allow more keys.
    pub(super) fn most_keys(&self) -> usize {
        self.listed_len + self.changed.len()
    }

    /// The changed slots that it allows.
    pub(super) fn changed(&self) -> &[Slot] {
        &self.changed
    }

    /// Sets where the changed slots are on the device.
    pub(super) fn set_changed(&mut self, list: ListPart) {
        self.changed_list = list;
    }

    /// The slots that a scan lists and tests; none if it cannot list them.
    pub(super) fn listed_slots(&self) -> Option<usize> {
        (!self.listed.is_empty()).then_some(self.listed_len)
    }

    /// Where a scan begins to read a column.
    pub(super) fn first_listed(&self) -> u32 {
        self.tests.get(self.listed.start).map_or(0, |test| test.part.first)
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
            *last = self.changed_list;
        }
        for (part, out) in self.tests[self.listed.clone()].iter().zip(out) {
            *out = columns.column(part.column).list(part.part);
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
        let tests = self.tests.iter().enumerate();
        let tests = tests.filter(|(index, _)| !is_scan || !self.listed.contains(index));
        for ((_, part), out) in tests.zip(out) {
            let test = columns.column(part.column).test(part.part, part.test.holds);
            *out = if part.test.is_joined { test.joined() } else { test };
        }
    }
}
