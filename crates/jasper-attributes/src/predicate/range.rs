//! Predicates that select a range of one column.

use super::{Leaf, Predicate, Test};
use crate::columns::{Numbers, Stored, Values, Words};

/// The values that a predicate selects of one column, whose order is that of
/// [`Attributes::ordered`](crate::Attributes::ordered).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRange {
    /// The number of the column, in the order in which columns were added.
    pub column: usize,
    /// The first number.
    pub least: i64,
    /// The last number, at least the first.
    pub most: i64,
}

impl Predicate<'_> {
    /// The range that this selects, if the expression is true for a range of the values of one column and no others: a
    /// comparison of a number, one word, or comparisons of one column that are combined by `and`.
    pub fn range(&self) -> Option<ColumnRange> {
        self.range_of(&self.test)
    }

    fn range_of(&self, test: &Test<'_>) -> Option<ColumnRange> {
        match test {
            Test::Leaf(Leaf::Range(numbers, least, most), true) => {
                let column = self.columns.iter().position(|stored| is_numbers(stored, numbers))?;
                Some(ColumnRange { column, least: *least, most: *most })
            }
            Test::Leaf(Leaf::Word(words, code), true) => {
                let column = self.columns.iter().position(|stored| is_words(stored, words))?;
                Some(ColumnRange { column, least: i64::from(*code), most: i64::from(*code) })
            }
            Test::And(tests) => {
                let mut ranges = tests.iter().map(|test| self.range_of(test));
                let first = ranges.next()??;
                ranges.try_fold(first, |all, range| {
                    let range = range.filter(|range| range.column == all.column)?;
                    let (least, most) = (all.least.max(range.least), all.most.min(range.most));
                    (least <= most).then_some(ColumnRange { least, most, ..all })
                })
            }
            _ => None,
        }
    }
}

fn is_numbers(stored: &Stored, numbers: &Numbers) -> bool {
    matches!(&stored.values, Values::Numbers(own) if std::ptr::eq(own, numbers))
}

fn is_words(stored: &Stored, words: &Words) -> bool {
    matches!(&stored.values, Values::Words(own) if std::ptr::eq(own, words))
}

#[cfg(test)]
mod tests {
    use crate::{Attributes, Expression, Frame};

    #[test]
    fn a_range_selects_what_the_predicate_does() {
        let mut attributes = Attributes::default();
        attributes.add_keys(0..100);
        let frame = Frame::new(100)
            .column("year", (0..100).map(|key| (key % 7 != 0).then_some(2000 + key * 31 % 20)))
            .unwrap()
            .column("lang", (0..100).map(|key| ["en", "de", "fr"][key % 3]))
            .unwrap()
            .column("score", (0..100).map(|key| f64::from(key) / 7.0 - 5.0))
            .unwrap();
        attributes.set(&(0..100).collect::<Vec<_>>(), &frame).unwrap();
        attributes.remove_keys([3, 50]);
        for text in [
            "year = 2005",
            "year >= 2003 and year < 2011",
            "year between 2004 and 2018 and year > 2001",
            "lang = 'de'",
            "score > -1.5",
            "score <= 3 and score >= 3",
            "not (year < 2004)",
        ] {
            let expression: Expression = text.parse().unwrap();
            let predicate = attributes.bind(&expression).unwrap();
            let Some(range) = predicate.range() else {
                assert!(text.starts_with("not"), "{text}");
                continue;
            };
            let ordered = attributes.ordered(range.column).unwrap();
            assert!(ordered.is_sorted_by_key(|pair| pair.0));
            let within = ordered.iter().filter(|pair| (range.least..=range.most).contains(&pair.0));
            let mut found: Vec<_> = within.map(|pair| pair.1).collect();
            let mut expected = predicate.select();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{text}");
        }
        for text in
            ["year = 2005 or year = 2006", "lang in ('de', 'en')", "year > 2003 and lang = 'de'", "true"]
        {
            let expression: Expression = text.parse().unwrap();
            assert_eq!(attributes.bind(&expression).unwrap().range(), None, "{text}");
        }
    }
}
