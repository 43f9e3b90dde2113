//! Predicates as clauses of tests of columns.

use super::{Leaf, Predicate, Test};
use crate::columns::Values;

/// A test of the number that a key has in a column, whose order is that of
/// [`Attributes::ordered`](crate::Attributes::ordered), or of the numbers of its list: whether one of them is from the first to
/// the last, or that none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnTest {
    /// The number of the column, in the order in which columns were added.
    pub column: usize,
    /// The first number.
    pub least: i64,
    /// The last number.
    pub most: i64,
    /// Whether the key is to have such a number, or none.
    pub holds: bool,
}

/// Most tests of a predicate that is given as clauses.
const MAX_TESTS: usize = 16;

impl Predicate<'_> {
    /// The tests of columns that this is: it holds for a key if all clauses hold, which are tests of which one holds. None if
    /// it tests something else (keys, ids, whether a list is null), if these are more than 16, or if it holds for all keys or
    /// for none.
    pub fn clauses(&self) -> Option<Vec<Vec<ColumnTest>>> {
        let clauses = self.clauses_of(&self.test)?;
        (!clauses.is_empty() && clauses.iter().all(|tests| !tests.is_empty())).then_some(clauses)
    }

    fn clauses_of(&self, test: &Test<'_>) -> Option<Vec<Vec<ColumnTest>>> {
        let clauses = match test {
            Test::Constant(true) => Vec::new(),
            Test::Constant(false) => vec![Vec::new()],
            Test::And(tests) => {
                let clauses: Option<Vec<_>> = tests.iter().map(|test| self.clauses_of(test)).collect();
                clauses?.concat()
            }
            // One of some clauses and others: each of those, or each of these.
            Test::Or(tests) => {
                let mut all = vec![Vec::new()];
                for test in tests {
                    let others = self.clauses_of(test)?;
                    let pairs = all.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
                    all = pairs.map(|(one, other)| [&one[..], other].concat()).collect();
                    check_len(&all)?;
                }
                all
            }
            Test::Leaf(leaf, holds) => self.clauses_of_leaf(leaf, *holds)?,
        };
        check_len(&clauses)?;
        Some(clauses)
    }

    fn clauses_of_leaf(&self, leaf: &Leaf<'_>, holds: bool) -> Option<Vec<Vec<ColumnTest>>> {
        let codes = |codes: &[u32]| codes.iter().map(|&code| i64::from(code)).collect::<Vec<_>>();
        let (column, ranges) = match leaf {
            // That there is no number is no test of a list, which may be empty.
            Leaf::Null(Values::Tags(_) | Values::Ids(_)) | Leaf::Ids(_) | Leaf::Keys(_) => return None,
            Leaf::Null(values) => {
                let present = ColumnTest {
                    column: self.column_at(values.address())?,
                    least: i64::MIN,
                    most: i64::MAX,
                    holds: !holds,
                };
                return Some(vec![vec![present]]);
            }
            Leaf::Range(numbers, least, most) => (self.column_of(*numbers), vec![(*least, *most)]),
            Leaf::Numbers(numbers, wanted) => (self.column_of(*numbers), ranges(wanted)),
            Leaf::Word(words, code) => (self.column_of(*words), ranges(&codes(&[*code]))),
            Leaf::Words(words, wanted) => (self.column_of(*words), ranges(&codes(wanted))),
            Leaf::Any(tags, wanted) | Leaf::All(tags, wanted) => {
                (self.column_of(*tags), codes(wanted).into_iter().map(|code| (code, code)).collect())
            }
        };
        let (column, one_of) = (column?, !matches!(leaf, Leaf::All(..)));
        let tests = ranges.into_iter().map(|(least, most)| ColumnTest { column, least, most, holds });
        // The opposite of one of several is none of them, and of all of them that one is missing.
        Some(if one_of == holds { vec![tests.collect()] } else { tests.map(|test| vec![test]).collect() })
    }

    /// The number of the column with these values.
    fn column_of<T>(&self, values: &T) -> Option<usize> {
        self.column_at(std::ptr::from_ref(values).cast())
    }

    fn column_at(&self, address: *const ()) -> Option<usize> {
        self.columns.iter().position(|stored| stored.values.address() == address)
    }
}

fn check_len(clauses: &[Vec<ColumnTest>]) -> Option<()> {
    (clauses.iter().map(Vec::len).sum::<usize>() <= MAX_TESTS).then_some(())
}

/// The ranges that ascending numbers are.
fn ranges(numbers: &[i64]) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use jasper_core::Key;

    use super::*;
    use crate::{Attributes, Expression, Frame, Value};

    fn attributes() -> Attributes {
        let mut attributes = Attributes::default();
        attributes.add_keys(0..100);
        let tags = |key: usize| match key % 5 {
            0 => Value::Null,
            1 => Value::Keywords(Vec::new()),
            _ => Value::Keywords((0..key % 4).map(|tag| format!("t{}", tag * key % 6)).collect()),
        };
        let frame = Frame::new(100)
            .column("year", (0..100).map(|key| (key % 7 != 0).then_some(2000 + key * 31 % 20)))
            .unwrap()
            .column("lang", (0..100).map(|key| ["en", "de", "fr"][key % 3]))
            .unwrap()
            .column("score", (0..100).map(|key| f64::from(key) / 7.0 - 5.0))
            .unwrap()
            .column("tags", (0..100).map(tags))
            .unwrap();
        attributes.set(&(0..100).collect::<Vec<_>>(), &frame).unwrap();
        attributes.remove_keys([3, 50]);
        attributes
    }

    /// The keys for which clauses hold, by the numbers of [`Attributes::ordered`].
    fn selected(attributes: &Attributes, clauses: &[Vec<ColumnTest>]) -> Vec<Key> {
        let mut numbers: HashMap<(usize, Key), Vec<i64>> = HashMap::new();
        for column in 0..attributes.columns().count() {
            let ordered: Vec<_> = attributes.ordered(column).unwrap().collect();
            assert!(ordered.is_sorted_by_key(|pair| pair.0));
            ordered
                .into_iter()
                .for_each(|(number, key)| numbers.entry((column, key)).or_default().push(number));
        }
        let holds = |key: Key, test: &ColumnTest| {
            let of_key = numbers.get(&(test.column, key)).map_or(&[][..], |of_key| of_key);
            of_key.iter().any(|number| (test.least..=test.most).contains(number)) == test.holds
        };
        let all = (0..100).filter(|key| ![3, 50].contains(key));
        all.filter(|&key| clauses.iter().all(|tests| tests.iter().any(|test| holds(key, test)))).collect()
    }

    #[test]
    fn clauses_select_what_the_predicate_does() {
        let attributes = attributes();
        for (text, tests) in [
            ("year = 2005", 1),
            ("year >= 2003 and year < 2011", 1),
            ("year between 2004 and 2018 and year > 2001", 1),
            ("lang = 'de'", 1),
            ("lang != 'de'", 1),
            ("score > -1.5", 1),
            ("not (year < 2004)", 1),
            ("year is null", 1),
            ("year is not null and lang != 'en'", 2),
            ("year in (2001, 2002, 2003, 2007)", 2),
            ("year not in (2001, 2002, 2003, 2007)", 2),
            ("lang in ('de', 'fr') and score < 3", 2),
            ("tags contains 't1'", 1),
            ("tags contains all ('t1', 't0')", 2),
            ("tags contains any ('t1', 't0')", 2),
            ("not (tags contains any ('t1', 't0'))", 2),
            ("not (tags contains all ('t1', 't0')) or year = 2002", 3),
            ("lang = 'de' and score > 0 or lang = 'fr' and year < 2010", 8),
            ("not (lang = 'de' and score > 0 or lang = 'fr' and year < 2010)", 4),
            ("year = 2005 or tags contains 't2' or score > 8", 3),
        ] {
            let expression: Expression = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let predicate = attributes.bind(&expression).unwrap();
            let clauses = predicate.clauses().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(clauses.concat().len(), tests, "{text}: {clauses:?}");
            let mut expected = predicate.select();
            expected.sort_unstable();
            assert_eq!(selected(&attributes, &clauses), expected, "{text}: {clauses:?}");
        }
    }

    #[test]
    fn other_predicates_have_no_clauses() {
        let attributes = attributes();
        let many: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let even: Vec<String> = (0..20).map(|i| (i * 2).to_string()).collect();
        for text in
            ["true", "tags is null", "lang = 'xx' and year > 5000", &format!("year in ({})", even.join(", "))]
        {
            let expression: Expression = text.parse().unwrap();
            let predicate = attributes.bind(&expression).unwrap();
            assert!(predicate.clauses().is_none() || predicate.select().is_empty(), "{text}");
        }
        let expression: Expression = format!("year in ({})", many.join(", ")).parse().unwrap();
        assert_eq!(attributes.bind(&expression).unwrap().clauses().unwrap().concat().len(), 1);
    }
}
