//! Selects keys.
//!
//! 1. The *sources* of a test are sets of rows that together have all rows for which it is true: of a condition, the rows
//!    of its values; of `and`, those of the part that has the fewest, or the rows of two parts; of `or`, those of all parts; of what is negated, all
//!    live rows.
//! 2. Each row of the sources is tested, unless they have no others.

use jasper_core::{Key, NO_KEY};
use roaring::{RoaringBitmap, RoaringTreemap};

use super::{Leaf, Predicate, Test, smallest};
use crate::columns::{Numbers, Postings};
use crate::cow::RowSet;

/// Some rows.
enum Source<'a> {
    All,
    Set(&'a RowSet),
    Both(&'a RowSet, &'a RowSet),
    Range(&'a Numbers, i64, i64),
    Rows(&'a [u32]),
    Keys(&'a RoaringTreemap),
}

struct Sources<'a> {
    sources: Vec<Source<'a>>,
    /// Number of rows, where those that are in several sources count several times.
    len: usize,
    /// Whether the test is true for all of their rows.
    exact: bool,
}

impl<'a> Sources<'a> {
    fn sets(postings: &'a Postings, codes: &[u32], exact: bool) -> Self {
        let sets: Vec<&RowSet> = codes.iter().filter_map(|&code| postings.get(code)).collect();
        let len = sets.iter().map(|set| set.len()).sum();
        Self { sources: sets.into_iter().map(Source::Set).collect(), len, exact }
    }
}

impl<'a> Sources<'a> {
    /// The rows of the two smallest of several sets.
    fn both(sets: Vec<&'a RowSet>) -> Option<Self> {
        let exact = sets.len() == 2;
        let [set, other] = smallest(sets)?;
        Some(Self { sources: vec![Source::Both(set, other)], len: set.common_len(other), exact })
    }
}

impl Predicate<'_> {
    /// The keys for which the expression is true, in no particular order, which is the same each time. Takes time in
    /// proportion to the keys of the condition of an `and` that has the fewest, and to all keys where that is a negated one.
    pub fn select(&self) -> Vec<Key> {
        let Sources { sources, exact, .. } = self.sources(&self.test);
        let mut selected = Vec::new();
        let mut visit = |row: u32| {
            let key = self.keys.key(row);
            if exact || self.test.holds(row, key) {
                selected.push(key);
            }
        };
        match &sources[..] {
            [source] => self.visit(source, &mut visit),
            sources => {
                let mut rows = RoaringBitmap::new();
                for source in sources {
                    self.visit(source, &mut |row| {
                        rows.insert(row);
                    });
                }
                rows.iter().for_each(visit);
            }
        }
        selected
    }

    fn visit(&self, source: &Source<'_>, visit: &mut impl FnMut(u32)) {
        match source {
            Source::All => self.keys.live().for_each(|(row, _)| visit(row)),
            Source::Set(set) => set.iter().for_each(visit),
            Source::Both(set, other) => set.common(other).for_each(visit),
            Source::Range(numbers, least, most) => numbers.ordered.rows(*least, *most).for_each(visit),
            Source::Rows(rows) => rows.iter().copied().for_each(visit),
            Source::Keys(keys) => {
                let keys = keys.iter().take_while(|&key| key != NO_KEY);
                keys.filter_map(|key| self.keys.find(key)).for_each(visit);
            }
        }
    }

    fn all(&self, exact: bool) -> Sources<'_> {
        Sources { sources: vec![Source::All], len: self.keys.len(), exact }
    }

    fn sources<'a>(&'a self, test: &'a Test<'_>) -> Sources<'a> {
        match test {
            Test::Constant(true) => self.all(true),
            Test::Constant(false) => Sources { sources: Vec::new(), len: 0, exact: true },
            Test::Leaf(leaf, true) => self.sources_of_leaf(leaf),
            Test::Leaf(_, false) => self.all(false),
            Test::And(tests) => {
                let parts = tests.iter().map(|test| self.sources(test));
                let mut sets = Vec::new();
                test.push_sets(&mut sets);
                let parts = parts.chain(Sources::both(sets));
                let fewest = parts.min_by_key(|sources| sources.len);
                fewest.map_or(self.all(true), |fewest| Sources { exact: false, ..fewest })
            }
            Test::Or(tests) => {
                let mut union = Sources { sources: Vec::new(), len: 0, exact: true };
                for mut part in tests.iter().map(|test| self.sources(test)) {
                    union.sources.append(&mut part.sources);
                    union.len += part.len;
                    union.exact &= part.exact;
                }
                // Then all are tested in order, which takes less than to gather them.
                if union.len >= self.keys.len() { self.all(false) } else { union }
            }
        }
    }

    fn sources_of_leaf<'a>(&'a self, leaf: &'a Leaf<'_>) -> Sources<'a> {
        match leaf {
            Leaf::Null(_) => self.all(false),
            Leaf::Word(words, code) => Sources::sets(&words.postings, &[*code], true),
            Leaf::Words(words, codes) => Sources::sets(&words.postings, codes, true),
            Leaf::Range(numbers, least, most) => Sources {
                sources: vec![Source::Range(numbers, *least, *most)],
                len: numbers.ordered.count(*least, *most),
                exact: true,
            },
            Leaf::Numbers(numbers, wanted) => Sources {
                sources: wanted.iter().map(|&number| Source::Range(numbers, number, number)).collect(),
                len: wanted.iter().map(|&number| numbers.ordered.count(number, number)).sum(),
                exact: true,
            },
            Leaf::Any(tags, codes) => Sources::sets(&tags.postings, codes, true),
            Leaf::All(tags, codes) => match codes[..] {
                [code] => Sources::sets(&tags.postings, &[code], true),
                _ => {
                    let sets = codes.iter().map(|&code| tags.postings.get(code));
                    let none = Sources { sources: Vec::new(), len: 0, exact: true };
                    sets.collect::<Option<Vec<_>>>().and_then(Sources::both).unwrap_or(none)
                }
            },
            Leaf::Ids(rows) => Sources { sources: vec![Source::Rows(rows)], len: rows.len(), exact: true },
            Leaf::Keys(keys) => {
                let len = usize::try_from(keys.len()).unwrap_or(usize::MAX);
                Sources { sources: vec![Source::Keys(keys)], len, exact: true }
            }
        }
    }
}
