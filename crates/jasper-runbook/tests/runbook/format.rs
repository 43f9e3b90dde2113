//! Published, generated and invalid runbooks.

use jasper_runbook::{Operation, Runbook};

use Operation::{Delete, Insert, Replace, Search};

fn operations(runbook: &Runbook) -> Vec<Operation> {
    runbook.steps().iter().map(|step| step.operation.clone()).collect()
}

/// Two data sets, with fields in the order of a generator, quotes and comments.
const PUBLISHED: &str = "
small-1K:
  max_pts: 900
  # recall@10 of something else
  1:
    operation: \"insert\"
    start: 0
    end: 600 \n  2:
    operation: \"search\"
  3:
    ids_end: 700
    ids_start: 600
    operation: replace
    tags_end: 150
    tags_start: 50
  4:
    end: 300
    operation: delete
    start: 100
  10:
    operation: search
  5: {operation: insert, start: 100, end: 300}
  6: {operation: insert, start: 700, end: 1000}
  7: {operation: search}
  8: {operation: delete, start: 0, end: 600}
  9: {operation: replace, tags_start: 700, tags_end: 1000, ids_start: 700, ids_end: 1000}
  gt_url: \"https://example.org/small\"
other(40,4,20):
  1:
    operation: insert
    start: 0
    end: 10
  gt_url: none
";

#[test]
fn published_runbooks_are_read() {
    let runbook = Runbook::from_text("r.yaml", PUBLISHED, Some("small-1K")).unwrap();
    assert_eq!(
        operations(&runbook),
        [
            Insert(0..600),
            Search,
            Replace { tags: 50..150, ids: 600..700 },
            Delete(100..300),
            Insert(100..300),
            Insert(700..1000),
            Search,
            Delete(0..600),
            Replace { tags: 700..1000, ids: 700..1000 },
            Search,
        ]
    );
    assert_eq!((runbook.max_points(), runbook.rows()), (900, 1000));
    let lines: Vec<_> = runbook.steps().iter().map(|step| (step.number, step.line)).collect();
    assert_eq!([lines[0], lines[2], lines[9]], [(1, Some(5)), (3, Some(11)), (10, Some(21))]);
    assert!(runbook.check_rows(1000).is_ok());
    let error = runbook.check_rows(999).unwrap_err().to_string();
    assert_eq!(error, "step 6 (line 24): needs row 999, the base has 999; is this the base of the runbook?");

    let other = Runbook::from_text("r.yaml", PUBLISHED, Some("other(40,4,20)")).unwrap();
    assert_eq!(operations(&other), [Insert(0..10)]);
}

#[test]
fn what_cannot_be_played_is_refused_with_its_step_and_line() {
    let refused = |text: &str, dataset: Option<&str>, wanted: &str| {
        let error = Runbook::from_text("r.yaml", text, dataset).unwrap_err().to_string();
        assert_eq!(error, format!("r.yaml: {wanted}"), "{text}");
    };
    refused(PUBLISHED, None, "holds runbooks of small-1K, other(40,4,20); name the data set");
    let none = "holds no runbook of the data set sift, but of small-1K, other(40,4,20)";
    refused(PUBLISHED, Some("sift"), none);

    let whole = "a:\n  1: {operation: insert, start: 0, end: 9}\n  2: {operation: search}\n";
    assert!(Runbook::from_text("r.yaml", whole, None).is_ok());
    // A changed second step, and its error.
    let number = "must be a whole number from 0 to 2147483647";
    for (to, wanted) in [
        ("operation: upsert", "operation `upsert` is not known; use insert, delete, replace or search"),
        ("start: 1", "`operation` is missing"),
        ("operation: search, start: 5", "`start` is no field of search"),
        ("operation: delete, start: 5", "`end` is missing"),
        ("operation: delete, start: 5, end: 5", "the end (5) must be above the start (5)"),
        ("operation: delete, start: 6, end: 5", "the end (5) must be above the start (6)"),
        ("operation: delete, start: 5, end: 10", "tag 9 is not in the index; insert it first"),
        ("operation: insert, start: -1, end: 1", &format!("start (-1) {number}")),
        ("operation: insert, start: 9, end: 2147483648", &format!("end (2147483648) {number}")),
        ("operation: insert, start: 9, end: ten", &format!("end (ten) {number}")),
        (
            "operation: insert, start: 8, end: 10",
            "tag 8 is in the index already; delete it first, or replace it",
        ),
        (
            "operation: replace, tags_start: 0, tags_end: 2, ids_start: 10, ids_end: 13",
            "replaces the vectors of 2 tags by 3 others; there must be one for each",
        ),
        (
            "operation: replace, tags_start: 8, tags_end: 10, ids_start: 10, ids_end: 12",
            "tag 9 is not in the index; insert it first",
        ),
    ] {
        refused(&whole.replace("operation: search", to), None, &format!("step 2 (line 3): {wanted}"));
    }
    let key = "is no step; a runbook has steps with numbers from 1, max_pts and gt_url";
    for (from, to, wanted) in [
        (
            "operation: insert, start: 0, end: 9",
            "operation: search",
            "step 1 (line 2): the index is empty; insert before searching",
        ),
        ("2:", "3:", "step 2 is missing: line 3 is step 3; steps are numbered from 1 without gaps"),
        ("2:", "1:", "line 3: step 1 is there already"),
        ("2:", "0:", &format!("line 3: `0` {key}")),
        ("2:", "max_points:", &format!("line 3: `max_points` {key}")),
        ("end: 9", "end: 9, end: 9", "line 2: step 1 has `end` already"),
        ("end: 9", "end: [9]", "line 2: end must be a number or a word"),
        ("{operation: search}", "search", "line 3: step 2 must be a mapping, such as `start: 0`"),
    ] {
        refused(&whole.replace(from, to), None, wanted);
    }
    let empty = "holds no steps; a runbook is `dataset:` and below it steps with numbers from 1";
    for text in ["", "# nothing\n", "{}", "a: {}", "a:\n  max_pts: 5\n"] {
        refused(text, None, empty);
    }
    refused("- 1\n- 2\n", None, "line 1: the file must be a mapping, such as `start: 0`");
    refused(&format!("{whole}a: {{}}\n"), None, "line 4: a is there already");
    let error = Runbook::from_text("r.yaml", "a:\n  1: {operation: insert", None).unwrap_err();
    assert!(error.to_string().contains("while parsing a flow mapping"), "{error}");
    // Deep enough to overflow the stack of a recursive parser.
    let deep = Runbook::from_text("r.yaml", &"[".repeat(200_000), None).unwrap_err();
    assert!(deep.to_string().starts_with("r.yaml: line 1: "), "{deep}");
    let deep = format!("b: {}{}\n{whole}", "[".repeat(100), "]".repeat(100));
    assert!(Runbook::from_text("r.yaml", &deep, Some("a")).is_ok());
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.yaml");
    let steps = [Insert(0..50), Replace { tags: 3..4, ids: 60..61 }, Delete(0..2), Search];
    // YAML has another form for long keys.
    let long = "é".repeat(200);
    for name in ["plain-1M", "it's \"quoted\" \\ \n: #", "ä€", &long] {
        let runbook = Runbook::new(name, steps.clone()).unwrap();
        runbook.write(&path).unwrap();
        let read = Runbook::read(&path, None).unwrap();
        assert_eq!((read.dataset(), operations(&read)), (name, steps.to_vec()));
        assert_eq!((read.max_points(), read.rows()), (50, 61));
    }
}

#[test]
fn a_window_slides() {
    let runbook = Runbook::sliding_window("set", 1003, 20).unwrap();
    assert_eq!((runbook.max_points(), runbook.rows()), (552, 1003));
    let steps = operations(&runbook);
    assert_eq!(
        steps[..10],
        [
            (0..50),
            (50..100),
            (100..150),
            (150..200),
            (200..250),
            (250..300),
            (300..351),
            (351..401),
            (401..451),
            (451..501)
        ]
        .map(Insert)
    );
    assert_eq!(steps[10..14], [Search, Insert(501..551), Delete(0..50), Search]);
    assert_eq!(steps.iter().filter(|step| **step == Search).count(), 11);
    let inserted: usize = steps.iter().filter_map(|step| step.ids()).map(ExactSizeIterator::len).sum();
    assert_eq!(inserted, 1003);
    let error = |rows, rounds| Runbook::sliding_window("set", rows, rounds).unwrap_err().to_string();
    let [few, one, endless] = [error(5, 20), error(5, 1), error(u32::MAX, u32::MAX)];
    assert!(few.starts_with("rounds (20) must be at least 2, and at most 5, the number of rows"), "{few}");
    assert!(one.starts_with("rounds (1) must be at least 2"), "{one}");
    assert!(endless.contains("4294967295, the number of rows, and 10000"), "{endless}");
}

#[test]
fn parts_expire() {
    let runbook = Runbook::expiration_time("set", 19_000, 190, 3).unwrap();
    let deleted = operations(&runbook).iter().filter(|step| matches!(step, Delete(_))).count();
    // Of 150 parts that live for 38 rounds and 30 that live for 95, the last ones outlive the runbook.
    assert!((110..150).contains(&deleted), "{deleted}");
    assert!((3_800..8_000).contains(&runbook.max_points()), "{}", runbook.max_points());
    assert_ne!(operations(&runbook), operations(&Runbook::expiration_time("set", 19_000, 190, 4).unwrap()));
    let error = Runbook::expiration_time("set", u32::MAX, u32::MAX, 3).unwrap_err().to_string();
    assert!(error.starts_with("rounds (4294967295) must be"), "{error}");
}

#[test]
fn points_are_replaced_in_turn() {
    let runbook = Runbook::replacing("set", 2_000, 20, 0.05).unwrap();
    assert_eq!((runbook.max_points(), runbook.rows()), (1_000, 2_000));
    let steps = operations(&runbook);
    assert_eq!(steps[..3], [Insert(0..1000), Search, Replace { tags: 0..50, ids: 1000..1050 }]);
    assert_eq!(steps[40..], [Replace { tags: 950..1000, ids: 1950..2000 }, Search]);
    let twice = Runbook::replacing("set", 2_000, 40, 0.05).unwrap();
    assert_eq!((twice.max_points(), twice.rows()), (666, 666 + 40 * 33));
    let error = |rows, share| Runbook::replacing("set", rows, 20, share).unwrap_err().to_string();
    assert!(error(100, 0.01).starts_with("share (0.01) of the 83 vectors"), "{}", error(100, 0.01));
    for share in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(error(2_000, share).ends_with("must be above 0 and at most 1"), "{}", error(2_000, share));
    }
    assert!(error(10, 0.05).starts_with("rounds (20)"), "{}", error(10, 0.05));
}

/// Every prefix of a file, and files with other bytes at one place.
#[test]
fn damaged_files_are_refused_or_sound() {
    let text = Runbook::expiration_time("set", 60, 6, 1).unwrap().to_string().into_bytes();
    (0..text.len()).for_each(|len| super::fuzz::runbook(&text[..len]));
    for at in 0..text.len() {
        for byte in [0, b'\n', b' ', b':', b'9', text[at] ^ 1, text[at] ^ 0x80] {
            let mut damaged = text.clone();
            damaged[at] = byte;
            super::fuzz::runbook(&damaged);
        }
    }
}
