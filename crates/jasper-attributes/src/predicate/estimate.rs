//! How many keys an expression selects.

use super::{Leaf, Predicate, Test, smallest};
use crate::columns::Postings;
use crate::cow::RowSet;

/// How many keys an expression selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// Not fewer.
    pub least: usize,
    /// As many, if conditions are independent of each other.
    pub likely: usize,
    /// Not more.
    pub most: usize,
}

impl Estimate {
    const fn exact(count: usize) -> Self {
        Self { least: count, likely: count, most: count }
    }

    /// Those of the keys that are not in this.
    fn complement(self, keys: usize) -> Self {
        Self { least: keys - self.most, likely: keys - self.likely, most: keys - self.least }
    }
}

/// Values whose keys are counted. With more, the others are taken to have as many.
const COUNTED: usize = 256;

impl Predicate<'_> {
    /// How many keys are selected. It is exact for one condition on one column, unless that is of a list with several
    /// strings, or of very many values. Takes about a microsecond per condition.
    pub fn estimate(&self) -> Estimate {
        self.estimate_test(&self.test)
    }

    fn estimate_test(&self, test: &Test<'_>) -> Estimate {
        let keys = self.keys.len();
        let share = |estimate: &Estimate| estimate.likely as f64 / keys.max(1) as f64;
        let all = |tests: &[Test<'_>]| tests.iter().map(|test| self.estimate_test(test)).collect::<Vec<_>>();
        match test {
            Test::Constant(value) => Estimate::exact(if *value { keys } else { 0 }),
            Test::Leaf(leaf, true) => self.estimate_leaf(leaf),
            Test::Leaf(leaf, false) => self.estimate_leaf(leaf).complement(keys),
            Test::And(tests) => {
                let parts = all(tests);
                let missing = parts.iter().map(|part| keys - part.least).sum();
                let likely = keys as f64 * parts.iter().map(share).product::<f64>();
                let most = parts.iter().map(|part| part.most).min().unwrap_or(keys);
                let most = most.min(common(|sets| test.push_sets(sets)).unwrap_or(keys));
                bounded(keys.saturating_sub(missing), likely, most)
            }
            Test::Or(tests) => {
                let parts = all(tests);
                let none = parts.iter().map(|part| 1.0 - share(part)).product::<f64>();
                let least = parts.iter().map(|part| part.least).max().unwrap_or(0);
                let most = parts.iter().map(|part| part.most).fold(0, usize::saturating_add).min(keys);
                bounded(least, keys as f64 * (1.0 - none), most)
            }
        }
    }

    fn estimate_leaf(&self, leaf: &Leaf<'_>) -> Estimate {
        let keys = self.keys.len();
        match leaf {
            Leaf::Null(values) => Estimate::exact(keys - values.present()),
            Leaf::Word(words, code) => Estimate::exact(words.postings.count(*code)),
            Leaf::Words(words, codes) => {
                self.estimate_sum(codes, words.present(), |&code| words.postings.count(code))
            }
            Leaf::Range(numbers, least, most) => Estimate::exact(numbers.ordered.count(*least, *most)),
            Leaf::Numbers(numbers, wanted) => {
                let count = |&number: &i64| numbers.ordered.count(number, number);
                self.estimate_sum(wanted, numbers.ordered.len(), count)
            }
            Leaf::Any(tags, codes) => {
                let counts = counts(&tags.postings, codes);
                let least = counts.clone().max().unwrap_or(0);
                if codes.len() == 1 {
                    return Estimate::exact(least);
                }
                let none: f64 = counts.clone().map(|count| 1.0 - count as f64 / keys.max(1) as f64).product();
                let most = if codes.len() > COUNTED { keys } else { counts.sum::<usize>().min(keys) };
                bounded(least, keys as f64 * (1.0 - none), most)
            }
            Leaf::All(tags, codes) => {
                let counts = counts(&tags.postings, codes);
                let common = common(|sets| leaf.push_sets(sets));
                if let (2, Some(count)) = (codes.len(), common) {
                    return Estimate::exact(count);
                }
                let most = counts.clone().min().unwrap_or(0).min(common.unwrap_or(keys));
                let likely: f64 = counts.clone().map(|count| count as f64 / keys.max(1) as f64).product();
                let missing: usize = counts.map(|count| keys - count).sum();
                let least = if codes.len() > COUNTED { 0 } else { keys.saturating_sub(missing) };
                bounded(least, keys as f64 * likely, most)
            }
            Leaf::Ids(rows) => Estimate::exact(rows.len()),
            Leaf::Keys(wanted) => {
                let most = keys.min(usize::try_from(wanted.len()).unwrap_or(usize::MAX));
                Estimate { least: 0, likely: most, most }
            }
        }
    }

    /// Of values that no two of which a key has.
    fn estimate_sum<T>(&self, values: &[T], present: usize, count: impl Fn(&T) -> usize) -> Estimate {
        let counted: usize = values.iter().take(COUNTED).map(count).sum();
        if values.len() <= COUNTED {
            return Estimate::exact(counted);
        }
        let likely = counted as f64 * values.len() as f64 / COUNTED as f64;
        bounded(counted, likely, present)
    }
}

/// The number of rows that the two smallest of several sets have in common.
fn common<'a>(push_sets: impl FnOnce(&mut Vec<&'a RowSet>)) -> Option<usize> {
    let mut sets = Vec::new();
    push_sets(&mut sets);
    smallest(sets).map(|[set, other]| set.common_len(other))
}

fn counts(postings: &Postings, codes: &[u32]) -> impl Iterator<Item = usize> + Clone {
    codes.iter().take(COUNTED).map(|&code| postings.count(code))
}

fn bounded(least: usize, likely: f64, most: usize) -> Estimate {
    Estimate { least, likely: (likely.round() as usize).clamp(least, most), most }
}
