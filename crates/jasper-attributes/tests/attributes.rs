//! Attributes of many keys, and what is refused.

use jasper_attributes::{Attributes, ColumnKind, Expression, Frame, Value, column};

/// More rows than a bitmap of a word has, and keys that are not their rows.
const KEYS: u64 = 150_000;

fn key(row: u64) -> u64 {
    if row.is_multiple_of(5) { row * 1_000_003 } else { row }
}

fn frame(rows: impl Iterator<Item = u64> + Clone) -> Frame {
    Frame::new(rows.clone().count())
        .column("third", rows.clone().map(|row| row.is_multiple_of(3)))
        .and_then(|frame| frame.column("word", rows.clone().map(|row| format!("w{}", row % 1000))))
        .and_then(|frame| frame.column("number", rows.clone().map(|row| (row * 7919 % KEYS) as i64)))
        .and_then(|frame| frame.column_of("id", ColumnKind::Id, rows.map(|row| format!("id {row}"))))
        .unwrap()
}

fn count(attributes: &Attributes, text: &str) -> usize {
    let expression: Expression = text.parse().unwrap();
    let predicate = attributes.bind(&expression).unwrap();
    let selected = predicate.select();
    assert!(selected.iter().all(|&key| predicate.matches(key)));
    let estimate = predicate.estimate();
    assert!((estimate.least..=estimate.most).contains(&selected.len()));
    selected.len()
}

#[test]
fn many_keys_in_bulk_and_one_by_one() {
    let mut attributes = Attributes::default();
    attributes.add_keys((0..KEYS).map(key));
    attributes.set(&(0..KEYS).map(key).collect::<Vec<_>>(), &frame(0..KEYS)).unwrap();
    // Of the first rows.
    let check = |attributes: &Attributes, keys: u64| {
        let rows = |holds: fn(&u64) -> bool| (0..keys).filter(holds).count();
        assert_eq!((attributes.len() as u64, count(attributes, "true") as u64), (keys, keys));
        assert_eq!(count(attributes, "third = true"), rows(|row| row.is_multiple_of(3)));
        assert_eq!(
            count(attributes, "third != true and word = 'w7'"),
            rows(|row| !row.is_multiple_of(3) && row % 1000 == 7)
        );
        assert_eq!(
            count(attributes, "word in ('w1', 'w2') or third = true"),
            rows(|row| row.is_multiple_of(3) || matches!(row % 1000, 1..=2))
        );
        assert_eq!(count(attributes, "number is null"), 0);
    };
    check(&attributes, KEYS);
    assert_eq!(count(&attributes, "number between 100 and 50099"), 50_000);
    assert_eq!(attributes.key_of_id("id 77775"), Some(key(77_775)));

    // The last third goes and comes again, at once and one by one.
    let snapshot = attributes.clone();
    let last = 2 * KEYS / 3..KEYS;
    attributes.remove_keys(last.clone().map(key));
    check(&attributes, 100_000);
    assert_eq!((attributes.key_of_id("id 149999"), attributes.get(key(149_999))), (None, None));
    last.clone().take(30_000).for_each(|row| attributes.restore(key(row)).unwrap());
    last.clone().skip(30_000).for_each(|row| attributes.forget(key(row)));
    for row in last.clone().skip(30_000) {
        attributes.add_keys([key(row)]);
        attributes.set(&[key(row)], &frame(row..row + 1)).unwrap();
    }
    check(&attributes, KEYS);
    let decoded = Attributes::decode(&attributes.encode()).unwrap();
    check(&decoded, KEYS);
    last.for_each(|row| attributes.remove(key(row)));
    check(&attributes, 100_000);
    check(&snapshot, KEYS);
    let keys = [key(5), key(149_998)];
    assert_eq!(snapshot.rows(&keys), decoded.rows(&keys));
}

#[test]
fn errors_of_values_and_ids() {
    let mut attributes = Attributes::default();
    attributes.add_keys(0..3);
    let frame = Frame::new(2).column("n", [1, 2]).unwrap().column_of("id", ColumnKind::Id, ["a", "b"]);
    attributes.set(&[0, 1], &frame.unwrap()).unwrap();
    let given = |name: &str, values: [Value; 1]| Frame::new(1).column(name, values).unwrap();
    let error = |key, frame: &Frame| attributes.clone().set(&[key], frame).unwrap_err().to_string();
    assert_eq!(error(2, &given("id", ["b".into()])), r#"id "b" in column "id" is that of key 1 already"#);
    assert_eq!(
        error(2, &given("n", [0.5.into()])),
        r#"column "n" is of kind integer, and 0.5 in row 0 is not; make it a column of floats"#
    );
    assert_eq!(
        Frame::new(1).column("n", [i64::MIN]).unwrap_err().to_string(),
        "column \"n\" is of kind integer, and -9223372036854775808 in row 0 is not, because the least number is reserved"
    );
    assert_eq!(error(9, &given("n", [1.into()])), "key 9 has no attributes");
    let second = given("name", ["c".into()]).convert("name", ColumnKind::Id).unwrap();
    assert_eq!(error(2, &second), r#"column "name" cannot be of ids: column "id" is already"#);
    let twice = Frame::new(2).column("id", ["c", "c"]).unwrap();
    assert_eq!(
        attributes.check(&[5, 6], &twice, false).unwrap_err().to_string(),
        r#"id "c" in column "id" is given twice, in rows [0, 1]"#
    );
    assert_eq!(attributes.check(&[5, 5], &twice, false).unwrap_err().to_string(), "key 5 is given twice");

    // Keys may exchange their ids, and a free one may be taken; then its first key cannot be restored.
    let exchanged = Frame::new(2).column("id", ["b", "a"]).unwrap();
    assert!(attributes.check(&[0, 1], &exchanged, false).is_err());
    attributes.set(&[0, 1], &exchanged).unwrap();
    attributes.remove(0);
    attributes.set(&[2], &given("id", ["b".into()])).unwrap();
    assert_eq!(
        attributes.restore(0).unwrap_err().to_string(),
        r#"id "b" in column "id" is that of key 2 already"#
    );
    assert_eq!((attributes.len(), attributes.key_of_id("b")), (2, Some(2)));
    attributes.set(&[2], &given("id", [Value::Null])).unwrap();
    attributes.restore(0).unwrap();
    assert_eq!(attributes.id_of(0).as_deref(), Some("b"));
}

#[test]
fn errors_of_expressions() {
    let mut attributes = Attributes::default();
    attributes.add_keys([0]);
    let frame = Frame::new(1).column("lang", ["en"]).unwrap().column("tags", [["a"]]).unwrap();
    let frame = frame.column_of("at", ColumnKind::Timestamp, ["2024-01-01"]).unwrap();
    attributes.set(&[0], &frame).unwrap();
    for (text, expected) in [
        ("land = 'en'", r#"there is no column "land"; there are "lang", "tags", "at""#),
        ("lang = 3", r#"column "lang" is of kind keyword, with which 3 cannot be compared"#),
        ("at > 'noon'", r#"column "at" is of kind timestamp, with which 'noon' cannot be compared"#),
        ("at in ('2024-01-01', 3)", r#"column "at" is of kind timestamp, with which 3 cannot be compared"#),
        (
            "lang < 'en'",
            r#"< is not for column "lang", which is of kind keyword; it is for integers, floats and timestamps"#,
        ),
        (
            "lang contains 'en'",
            r#"contains any is not for column "lang", which is of kind keyword; it is for keywords"#,
        ),
    ] {
        let expression: Expression = text.parse().unwrap();
        assert_eq!(attributes.bind(&expression).unwrap_err().to_string(), expected);
    }
    for text in ["tags = 'a'", "tags in ('b', 'a')", "at = '2024-01-01'", "not (tags contains 'b')"] {
        assert_eq!(count(&attributes, text), 1, "{text}");
    }
    let expression = column("at").ge(f64::NAN);
    assert!(attributes.bind(&expression).is_err());
}

/// A snapshot from before is not affected, and a string that comes back is found again.
#[test]
fn strings_that_no_row_has_any_more_take_no_memory() {
    const ROWS: u64 = 20_000;
    let mut attributes = Attributes::default();
    attributes.add_keys(0..ROWS);
    let keys: Vec<u64> = (0..ROWS).collect();
    let set = |attributes: &mut Attributes, round: u64| {
        let text = |row: u64| format!("a note of row {row}, changed {round} times");
        for keys in keys.chunks(ROWS as usize / 4) {
            let rows = keys.iter().copied();
            let frame = Frame::new(keys.len()).column("note", rows.clone().map(text)).unwrap();
            attributes.set(keys, &frame.column("notes", rows.map(|row| vec![text(row)])).unwrap()).unwrap();
        }
        (attributes.memory(), attributes.encode().len())
    };
    let first = set(&mut attributes, 10);
    let snapshot = attributes.clone();
    for round in 11..30 {
        let (memory, file) = set(&mut attributes, round);
        assert!(memory < 3 * first.0 && file == first.1, "{memory} and {file} bytes after {first:?}");
        assert_eq!(count(&attributes, "note = 'a note of row 7, changed 10 times'"), 0);
        assert_eq!(
            count(&attributes, &format!("notes contains 'a note of row 7, changed {round} times'")),
            1
        );
    }
    set(&mut attributes, 10);
    for attributes in [&attributes, &snapshot] {
        assert_eq!(count(attributes, "note = 'a note of row 7, changed 10 times'"), 1);
        assert_eq!(attributes.value(7, "notes"), Some(vec!["a note of row 7, changed 10 times"].into()));
    }
}
