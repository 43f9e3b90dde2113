//! Attributes of keys: given, shown, changed, and searched by.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::common::{Sandbox, all_fail};

const LANGS: [&str; 3] = ["en", "de", "fr"];

/// A line of attributes for each number: ids, years from 2000 to 2019, a language for two of three, and a time.
fn lines(numbers: std::ops::Range<usize>) -> String {
    let line = |number: usize| {
        let mut line = json!({
            "name": format!("doc-{number}"),
            "year": 2000 + number % 20,
            "added": format!("2024-03-{:02}", 1 + number % 30),
        });
        if number % 3 < 2 {
            line["lang"] = json!(LANGS[number % 3]);
        }
        format!("{line}\n")
    };
    numbers.map(line).collect()
}

fn columns() -> Value {
    json!([
        { "name": "added", "type": "timestamp" },
        { "name": "lang", "type": "keyword" },
        { "name": "name", "type": "id" },
        { "name": "year", "type": "integer" },
    ])
}

/// The columns that `info` shows, by name.
fn shown(sandbox: &Sandbox, index: &str) -> Value {
    let mut columns = sandbox.one(&["info", index])["columns"].as_array().unwrap().clone();
    columns.sort_by_key(|column| column["name"].to_string());
    columns.into()
}

/// `base.fbin`, `query.fbin`, and `vectors.jasper` with attributes.
fn with_attributes() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.vectors::<f32>("base.fbin", 400, 0);
    sandbox.vectors::<f32>("query.fbin", 20, 1);
    sandbox.write("base.jsonl", lines(0..400));
    let build = ["build", "--base", "base.fbin", "--metric", "l2", "--output", "vectors.jasper"];
    let columns = ["--attributes", "base.jsonl", "--id", "name", "--timestamp", "added"];
    sandbox.ok(&[&build[..], &columns].concat());
    sandbox
}

/// The results of 20 queries for an expression: keys and attributes.
fn search(sandbox: &Sandbox, index: &str, expression: &str, rest: &[&str]) -> Vec<(u64, Value)> {
    let search =
        ["search", index, "--queries", "query.fbin", "-k", "5", "--attributes", "--where", expression];
    let mut found = Vec::new();
    for line in sandbox.ok(&[&search[..], rest].concat()) {
        let [keys, attributes] = ["keys", "attributes"].map(|name| line[name].as_array().unwrap().clone());
        assert!(keys.len() == attributes.len() && keys.len() == line["distances"].as_array().unwrap().len());
        found.extend(keys.iter().map(|key| key.as_u64().unwrap()).zip(attributes));
    }
    found
}

#[test]
fn searches_are_filtered_by_expressions_and_show_attributes() {
    let sandbox = with_attributes();
    assert_eq!(shown(&sandbox, "vectors.jasper"), columns());
    let text = String::from_utf8(sandbox.jasper(&["info", "vectors.jasper"]).stdout).unwrap();
    assert!(text.contains("columns ") && text.contains("  timestamp  added\n"), "{text}");

    let found = search(&sandbox, "vectors.jasper", "year >= 2015 and lang in ('en', 'de')", &[]);
    assert_eq!(found.len(), 100);
    for (key, attributes) in found {
        assert!(key % 20 >= 15 && key % 3 < 2);
        let (day, lang) = (1 + key % 30, LANGS[key as usize % 3]);
        let expected = json!({
            "name": format!("doc-{key}"),
            "year": 2000 + key % 20,
            "lang": lang,
            "added": format!("2024-03-{day:02}T00:00:00Z"),
        });
        assert_eq!(attributes, expected);
    }
    let found = search(&sandbox, "vectors.jasper", "lang is null and added < '2024-03-04'", &[]);
    assert!(found.iter().all(|(key, attributes)| key % 30 == 2 && attributes.get("lang").is_none()));
    assert_eq!(found.len(), 100);

    // Both a file of keys and an expression: the keys that both allow.
    sandbox.write("keys.txt", "5\n6\n7\n8\n");
    let found = search(&sandbox, "vectors.jasper", "lang = 'en'", &["--filter", "keys.txt"]);
    assert!(found.len() == 20 && found.iter().all(|(key, _)| *key == 6), "{found:?}");
    // Without `--attributes`, there are none.
    let all = ["search", "vectors.jasper", "--queries", "query.fbin", "--where", "name = 'doc-9'"];
    let first = &sandbox.ok(&all)[0];
    assert!(first["keys"] == json!([9]) && first.get("attributes").is_none(), "{first}");
}

#[test]
fn inserts_and_upserts_take_attributes() {
    let sandbox = with_attributes();
    sandbox.vectors::<f32>("more.fbin", 40, 2);
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(lines(400..440).as_bytes()).unwrap();
    sandbox.write("more.jsonl.gz", file.finish().unwrap());
    let insert = ["insert", "vectors.jasper", "--base", "more.fbin", "--attributes"];
    sandbox.ok(&[&insert[..], &["more.jsonl.gz"]].concat());
    let found = search(&sandbox, "vectors.jasper", "name in ('doc-3', 'doc-411')", &[]);
    assert!(found.len() == 40 && found.iter().all(|(key, _)| [3, 411].contains(key)), "{found:?}");

    // Ids of other keys are refused, and an upsert replaces all attributes.
    let error = sandbox.fails(1, &[&insert[..], &["more.jsonl.gz"]].concat());
    assert!(error.contains("more.jsonl.gz: id \"doc-400\" in column \"name\" is that of key 400"), "{error}");
    sandbox.write("keys.txt", (400..440).map(|key| format!("{key}\n")).collect::<String>());
    sandbox.write("years.jsonl", "{\"year\": 1990}\n".repeat(40));
    sandbox.ok(&[&insert[..], &["years.jsonl", "--upsert", "--keys", "keys.txt"]].concat());
    let found = search(&sandbox, "vectors.jasper", "year < 2000", &[]);
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|(key, attributes)| *key >= 400 && *attributes == json!({ "year": 1990 })));
    assert!(search(&sandbox, "vectors.jasper", "name = 'doc-400'", &[]).is_empty());
}

#[test]
fn attributes_are_set_in_files_and_folders() {
    let sandbox = Sandbox::with_index();
    assert_eq!(shown(&sandbox, "vectors.jasper"), json!([]));
    let build = ["build", "--base", "base.fbin", "--metric", "l2", "--device", "cpu", "--output"];
    sandbox.ok(&[&build[..], &["durable", "--durable"]].concat());
    sandbox.ok(&[&build[..], &["shards", "--shards", "3"]].concat());
    sandbox.write("all.jsonl", lines(0..400));
    sandbox.write("few.jsonl", "{\"lang\": \"it\", \"read\": true}\n{\"lang\": null}\n");
    sandbox.write("keys.txt", "30\n31\n");
    for index in ["vectors.jasper", "durable", "shards"] {
        let before = (index == "vectors.jasper").then(|| sandbox.read(index).len() as u64);
        let set = ["set-attributes", index, "--attributes"];
        // Ids and times need to be named once.
        let all = ["all.jsonl", "--id", "name", "--timestamp", "added"];
        let report = sandbox.one(&[&set[..], &all].concat());
        assert_eq!([&report["keys"], &report["vectors"]], [400, 400]);
        if let Some(before) = before {
            let written = report["written"].as_u64().unwrap();
            assert!(written < before / 2, "vectors and edges were written again: {written} of {before}");
        }
        let report = sandbox.one(&[&set[..], &["few.jsonl", "--keys", "keys.txt"]].concat());
        assert_eq!(report["columns"].as_array().unwrap().len(), 2);

        let found = search(&sandbox, index, "read = true", &[]);
        assert_eq!(found.len(), 20, "{index}");
        assert!(found.iter().all(|(key, attributes)| *key == 30
            && attributes["lang"] == "it"
            && attributes["name"] == "doc-30"));
        let found = search(&sandbox, index, "name = 'doc-31'", &[]);
        assert!(found.len() == 20 && found.iter().all(|(_, attributes)| attributes.get("lang").is_none()));
        assert_eq!(sandbox.one(&["check", index])["sound"], true);
    }
    let copy = ["set-attributes", "vectors.jasper", "--attributes", "few.jsonl", "--output", "copy.jasper"];
    sandbox.ok(&copy);
    assert_eq!(search(&sandbox, "copy.jasper", "read = true", &[]).len(), 40);
    assert_eq!(search(&sandbox, "vectors.jasper", "read = true", &[]).len(), 20);
}

#[test]
fn a_build_without_zero_vectors_keeps_the_attributes_of_the_others() {
    let sandbox = Sandbox::new();
    let mut rows = vec![0.0_f32; 5 * 16];
    (16..80).for_each(|i| rows[i] = (i % 7) as f32 + 1.0);
    let matrix = jasper::MatrixView::new(&rows, 16).unwrap();
    jasper_data::write_vectors(sandbox.path("base.fbin"), matrix).unwrap();
    jasper_data::write_vectors(sandbox.path("query.fbin"), matrix.slice(4..5)).unwrap();
    let build = ["build", "--base", "base.fbin", "--metric", "cosine", "--skip-zero-vectors"];
    let output = ["--output", "x.jasper", "--attributes", "lines.jsonl"];
    let build = [&build[..], &output].concat();
    sandbox.write("lines.jsonl", "{\"n\": 0}\n{\"n\": 1}\n");
    let error = sandbox.fails(1, &build);
    assert!(error.contains("lines.jsonl: there are attributes of 2 rows for 5 keys"), "{error}");
    sandbox.write("lines.jsonl", (0..5).map(|n| format!("{{\"n\": {n}}}\n")).collect::<String>());
    sandbox.ok(&build);
    let found = search(&sandbox, "x.jasper", "n >= 3", &[]);
    assert_eq!(found[0], (4, json!({ "n": 4 })));
}

#[test]
fn attributes_and_expressions_that_do_not_fit_are_refused() {
    let sandbox = with_attributes();
    sandbox.write("two.jsonl", "{\"year\": 1}\n{\"year\": 2}\n");
    sandbox.write("words.jsonl", "{\"year\": \"soon\"}\n");
    sandbox.write("broken.jsonl", "{\"year\": 1}\n{\"year\": \n");
    sandbox.write("mixed.jsonl", "{\"size\": 1}\n{\"size\": \"large\"}\n");
    sandbox.write("times.jsonl", "{\"at\": \"noon\"}\n");
    sandbox.write("twice.jsonl", "{\"name\": \"x\"}\n{\"name\": \"x\"}\n");
    sandbox.write("two.txt", "1\n2\n");
    sandbox.write("unknown.txt", "1\n400\n");
    sandbox.write("same.txt", "1\n1\n");
    all_fail(
        &sandbox,
        1,
        &[
            (
                "build --base base.fbin --metric l2 --output x --attributes two.jsonl",
                &["two.jsonl: there are attributes of 2 rows for 400 keys"],
            ),
            (
                "insert vectors.jasper --base query.fbin --attributes two.jsonl",
                &["two.jsonl: there are attributes of 2 rows for 20 keys"],
            ),
            ("set-attributes vectors.jasper --attributes none.jsonl", &["none.jsonl", "No such file"]),
            ("set-attributes vectors.jasper --attributes broken.jsonl", &["broken.jsonl: line 2: "]),
            (
                "set-attributes vectors.jasper --attributes mixed.jsonl",
                &["mixed.jsonl: line 2, column \"size\": 'large' is not of kind integer"],
            ),
            (
                "set-attributes vectors.jasper --attributes words.jsonl",
                &["words.jsonl: column \"year\" is of kind integer, and 'soon' in row 0 is not"],
            ),
            (
                "set-attributes vectors.jasper --attributes times.jsonl --timestamp at",
                &[
                    "times.jsonl: column \"at\" is of kind timestamp, and 'noon' in row 0 is not; a time is like",
                ],
            ),
            (
                "set-attributes vectors.jasper --attributes two.jsonl --id nane",
                &["two.jsonl: has no column \"nane\" to convert; its columns are \"year\""],
            ),
            (
                "set-attributes vectors.jasper --attributes times.jsonl --id at",
                &["times.jsonl: column \"at\" cannot be of ids: column \"name\" is already"],
            ),
            (
                "set-attributes vectors.jasper --attributes twice.jsonl",
                &["twice.jsonl: id \"x\" in column \"name\" is given twice, in rows [0, 1]"],
            ),
            (
                "set-attributes vectors.jasper --attributes two.jsonl --keys unknown.txt",
                &["unknown.txt: key 400 is not in the index"],
            ),
            (
                "set-attributes vectors.jasper --attributes two.jsonl --keys same.txt",
                &["same.txt: key 1 is given twice"],
            ),
        ],
    );
    sandbox.write("vectors.jsonl.gz", "{\"year\": 1}\n");
    let error = sandbox.fails(1, &["set-attributes", "vectors.jasper", "--attributes", "vectors.jsonl.gz"]);
    assert!(error.contains("vectors.jsonl.gz: cannot read line 1: "), "{error}");

    let search = ["search", "vectors.jasper", "--queries", "query.fbin", "--where"];
    let says = |code, expression, message| {
        let error = sandbox.fails(code, &[&search[..], &[expression]].concat());
        assert!(error.contains(message), "{error}");
    };
    says(2, "year >= ", "expected a value; strings are in single quotes at character 9, found the end");
    says(2, "(lang = 'en'", "expected `)`, `and` or `or` at character 13, found the end");
    says(1, "yeer = 1", "vectors.jasper: filter: there is no column \"yeer\"; there are ");
    says(1, "lang > 1", "vectors.jasper: filter: > is not for column \"lang\", which is of kind keyword");
    says(1, "year = 'x'", "column \"year\" is of kind integer, with which 'x' cannot be compared");
    let both = [&search[..], &["true", "--attributes", "--output", "x.ibin"]].concat();
    assert!(sandbox.fails(2, &both).contains("cannot be used with"));
    assert!(
        sandbox
            .fails(2, &["insert", "vectors.jasper", "--base", "query.fbin", "--id", "name"])
            .contains("--attributes")
    );
}
