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
    /// Whether the next test is of the same clause.
    pub is_joined: bool,
}

/// Most tests of a predicate that is given as clauses.
const MAX_TESTS: usize = 16;

impl Predicate<'_> {
    /// Writes the tests of columns that this is: it holds for a key if all clauses hold, which are tests of which one holds.
    /// Returns false, and writes none, if it tests something else (keys, ids, whether a list is null), if these are more than 16, or if it holds
    /// for all keys or for none.
    pub fn clauses(&self, tests: &mut Vec<ColumnTest>) -> bool {
        tests.clear();
        if self.push_clauses(&self.test, tests).is_none() {
            tests.clear();
        }
        !tests.is_empty()
    }

    fn push_clauses(&self, test: &Test<'_>, out: &mut Vec<ColumnTest>) -> Option<()> {
        match test {
            Test::Constant(true) => {}
            Test::Constant(false) => return None,
            Test::And(tests) => tests.iter().try_for_each(|test| self.push_clauses(test, out))?,
            // One of some clauses or of others: for each of those and of these, a clause of both.
            Test::Or(tests) => {
                let mut all = vec![Vec::new()];
                for test in tests.iter().filter(|test| !matches!(test, Test::Constant(false))) {
                    let mut others = Vec::new();
                    self.push_clauses(test, &mut others)?;
                    let others: Vec<_> = others.chunk_by(|test, _| test.is_joined).collect();
                    let pairs = all.iter().flat_map(|one| others.iter().map(move |other| (one, other)));
                    all = pairs.map(|(one, other)| [&one[..], other].concat()).collect();
                    if all.iter().map(Vec::len).sum::<usize>() > MAX_TESTS {
                        return None;
                    }
                }
                for mut clause in all {
                    clause.iter_mut().for_each(|test| test.is_joined = true);
                    push_clause(clause, out);
                }
            }
            Test::Leaf(leaf, holds) => self.push_leaf(leaf, *holds, out)?,
        }
        (out.len() <= MAX_TESTS).then_some(())
    }

    fn push_leaf(&self, leaf: &Leaf<'_>, holds: bool, out: &mut Vec<ColumnTest>) -> Option<()> {
        let test = |column, least, most| ColumnTest { column, least, most, holds, is_joined: false };
        let of_code = |column, &code: &u32| test(column, code.into(), code.into());
        // The opposite of one of several is none of them, and of all of them that one is missing.
        let mut push_all = |mut tests: Vec<ColumnTest>, one_of: bool| {
            tests.iter_mut().for_each(|test| test.is_joined = one_of == holds);
            push_clause(tests, out);
        };
        match leaf {
            // That there is no number is no test of a list, which may be empty.
            Leaf::Null(Values::Tags(_) | Values::Ids(_)) | Leaf::Ids(_) | Leaf::Keys(_) => return None,
            Leaf::Null(values) => {
                let present = test(self.column_at(values.address())?, i64::MIN, i64::MAX);
                out.push(ColumnTest { holds: !holds, ..present });
            }
            Leaf::Range(numbers, least, most) => out.push(test(self.column_of(*numbers)?, *least, *most)),
            Leaf::Word(words, code) => out.push(of_code(self.column_of(*words)?, code)),
            Leaf::Numbers(numbers, wanted) => {
                let column = self.column_of(*numbers)?;
                let tests = ranges(wanted.iter().copied()).map(|(least, most)| test(column, least, most));
                push_all(tests.collect(), true);
            }
            Leaf::Words(words, codes) => {
                let column = self.column_of(*words)?;
                let codes = codes.iter().map(|&code| i64::from(code));
                push_all(ranges(codes).map(|(least, most)| test(column, least, most)).collect(), true);
            }
            Leaf::Any(tags, codes) | Leaf::All(tags, codes) => {
                let column = self.column_of(*tags)?;
                let tests = codes.iter().map(|code| of_code(column, code)).collect();
                push_all(tests, matches!(leaf, Leaf::Any(..)));
            }
        }
        Some(())
    }

    /// The number of the column with these values.
    fn column_of<T>(&self, values: &T) -> Option<usize> {
        self.column_at(std::ptr::from_ref(values).cast())
    }

    fn column_at(&self, address: *const ()) -> Option<usize> {
        self.columns.iter().position(|stored| stored.values.address() == address)
    }
}

/// Adds tests of which the last ends a clause.
fn push_clause(mut tests: Vec<ColumnTest>, out: &mut Vec<ColumnTest>) {
    if let Some(last) = tests.last_mut() {
        last.is_joined = false;
    }
    out.append(&mut tests);
}

/// The ranges that ascending numbers are.
fn ranges(numbers: impl Iterator<Item = i64>) -> impl Iterator<Item = (i64, i64)> {
    let mut numbers = numbers.peekable();
    std::iter::from_fn(move || {
        let first = numbers.next()?;
        let mut last = first;
        while let Some(next) = numbers.next_if(|&next| last.checked_add(1) == Some(next)) {
            last = next;
        }
        Some((first, last))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

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
    fn selected(attributes: &Attributes, tests: &[ColumnTest]) -> Vec<Key> {
        let mut numbers: HashMap<(usize, Key), Vec<i64>> = HashMap::new();
        for column in 0..attributes.columns().count() {
            let rows: HashMap<u32, Key> = attributes.keys_of_rows().collect();
            let ordered = attributes.ordered(column).unwrap();
            let ordered: Vec<_> = ordered.map(|(number, row)| (number, rows[&row])).collect();
            assert!(ordered.is_sorted_by_key(|pair| pair.0));
            assert!(
                ordered
                    .iter()
                    .all(|&(number, key)| attributes.numbers_of(column, key).any(|of_key| of_key == number))
            );
            let numbers_of = |key| attributes.numbers_of(column, key).collect::<BTreeSet<_>>().len();
            assert_eq!(ordered.len(), (0..100).map(numbers_of).sum::<usize>());
            ordered
                .into_iter()
                .for_each(|(number, key)| numbers.entry((column, key)).or_default().push(number));
        }
        let holds = |key: Key, test: &ColumnTest| {
            let of_key = numbers.get(&(test.column, key)).map_or(&[][..], |of_key| of_key);
            of_key.iter().any(|number| (test.least..=test.most).contains(number)) == test.holds
        };
        let all = (0..100).filter(|key| ![3, 50].contains(key));
        let clauses = tests.chunk_by(|test, _| test.is_joined);
        all.filter(|&key| clauses.clone().all(|tests| tests.iter().any(|test| holds(key, test)))).collect()
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
            let mut clauses = Vec::new();
            assert!(predicate.clauses(&mut clauses), "{text}");
            assert_eq!(clauses.len(), tests, "{text}: {clauses:?}");
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
            assert!(!predicate.clauses(&mut Vec::new()), "{text}");
        }
        let expression: Expression = format!("year in ({})", many.join(", ")).parse().unwrap();
        let mut clauses = Vec::new();
        assert!(attributes.bind(&expression).unwrap().clauses(&mut clauses));
        assert_eq!(clauses.len(), 1);
    }
}
