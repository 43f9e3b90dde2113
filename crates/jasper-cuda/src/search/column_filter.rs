//! A filter that kernels test by columns on the device.

use std::ops::Range;

use gpu_kernels::Stream;
use gpu_kernels::search::{ListPart, SlotTest};
use jasper_attributes::{ColumnTest, Predicate};
use jasper_core::Key;

use crate::graph::{ColumnPart, MadeColumns};

/// A filter by conditions on columns, all of which are on the device.
pub(super) struct ColumnFilter<'a> {
    predicate: Predicate<'a>,
    /// The tests of all clauses, those that hold for the fewest keys first.
    tests: Vec<PartTest>,
    /// The tests of the clause whose parts a scan lists; none if no clause can be listed.
    listed: Range<usize>,
    /// The slots in these parts.
    listed_len: usize,
    /// Keys that it allows, if clauses are independent of each other.
    likely: usize,
}

/// A test of a column.
struct PartTest {
    /// The index of the column among those on the device.
    column: usize,
    part: ColumnPart,
    holds: bool,
    /// Whether the next test is of the same clause.
    is_joined: bool,
}

impl<'a> ColumnFilter<'a> {
    /// The filter of a predicate, of `keys` keys, that is the same as these clauses; none if a column is not there.
    pub(super) fn new<S: Stream>(
        predicate: Predicate<'a>,
        clauses: &[Vec<ColumnTest>],
        columns: &MadeColumns<S>,
        keys: usize,
    ) -> Option<Self> {
        let find = |test: &ColumnTest| {
            let column = columns.iter().position(|(number, _)| *number == test.column)?;
            let part = columns[column].1.find(test.least, test.most);
            Some(PartTest { column, part, holds: test.holds, is_joined: true })
        };
        let share = |test: &PartTest| {
            let share = (test.part.len as f64 / keys.max(1) as f64).min(1.0);
            if test.holds { share } else { 1.0 - share }
        };
        let mut found = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let tests: Vec<PartTest> = clause.iter().map(find).collect::<Option<_>>()?;
            found.push((tests.iter().map(share).sum::<f64>().min(1.0), tests));
        }
        found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let likely = (keys as f64 * found.iter().map(|(share, _)| share).product::<f64>()).round() as usize;
        let (mut tests, mut listed, mut listed_len) = (Vec::new(), 0..0, keys);
        for (_, mut clause) in found {
            if let Some(last) = clause.last_mut() {
                last.is_joined = false;
            }
            if listed.is_empty() && clause.iter().all(|test| test.holds) {
                listed = tests.len()..tests.len() + clause.len();
                listed_len = clause.iter().map(|test| test.part.len as usize).sum();
            }
            tests.append(&mut clause);
        }
        Some(Self { predicate, tests, listed, listed_len, likely })
    }

    /// About how many keys it allows.
    pub(super) fn likely_keys(&self) -> usize {
        self.likely
    }

    /// It does not allow more keys.
    pub(super) fn most_keys(&self) -> usize {
        self.listed_len
    }

    /// Whether a key may be returned.
    pub(super) fn allows(&self, key: Key) -> bool {
        self.predicate.matches_live(key)
    }

    /// The slots that a scan lists and tests; none if it cannot list them.
    pub(super) fn listed_slots(&self) -> Option<usize> {
        (!self.listed.is_empty()).then_some(self.listed_len)
    }

    /// Where a scan begins to read a column.
    pub(super) fn first_listed(&self) -> u32 {
        self.tests.get(self.listed.start).map_or(0, |test| test.part.first)
    }

    /// The slots that a scan tests for each that it computes a distance to are those of other clauses: it has tests.
    pub(super) fn has_scan_tests(&self) -> bool {
        self.tests.len() > self.listed.len()
    }

    /// The numbers of [`Self::write_lists`] and [`Self::write_tests`].
    pub(super) fn lens(&self, is_scan: bool) -> (usize, usize) {
        if is_scan {
            (self.listed.len(), self.tests.len() - self.listed.len())
        } else {
            (0, self.tests.len())
        }
    }

    /// Writes the lists of a scan, and then empty ones.
    pub(super) fn write_lists<S: Stream>(&self, columns: &MadeColumns<S>, out: &mut [ListPart]) {
        out.fill(ListPart::default());
        for (test, out) in self.tests[self.listed.clone()].iter().zip(out) {
            *out = columns[test.column].1.list(test.part);
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
        for ((_, test), out) in tests.zip(out) {
            let mut on_device = columns[test.column].1.test(test.part);
            if !test.holds {
                on_device = on_device.opposite();
            }
            *out = if test.is_joined { on_device.joined() } else { on_device };
        }
    }
}
