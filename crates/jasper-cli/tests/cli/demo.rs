//! The demonstration, from the first line to the last.

use crate::common::Sandbox;
use serde_json::Value;

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn the_story_holds() {
    let sandbox = Sandbox::new();
    let events = sandbox.ok(&["demo", "--plot", "x.svg", "a storm with strong wind and rain"]);
    let build = named(&events, "build")[0];
    assert_eq!([&build["vectors"], &build["dimension"]], [30_000, 128]);

    let answer = named(&events, "answer")[0];
    let keys = |side: &str| -> Vec<u64> {
        answer[side].as_array().unwrap().iter().map(|entry| entry["key"].as_u64().unwrap()).collect()
    };
    assert_eq!(keys("found"), keys("exact"));
    assert!(answer["found"][0]["words"].as_str().unwrap().starts_with("storm"));

    let recalls: Vec<f64> =
        named(&events, "recall").iter().map(|point| point["recall"].as_f64().unwrap()).collect();
    assert!(recalls.is_sorted() && recalls.last().unwrap() >= &0.99, "{recalls:?}");

    let changes = named(&events, "update");
    let points: Vec<_> = changes.iter().map(|change| change["vectors"].as_u64().unwrap()).collect();
    assert_eq!(points, [30_000, 30_500, 27_450, 27_450, 27_450, 27_450]);
    let recall = |at: usize| changes[at]["recall"].as_f64().unwrap();
    assert!((1..6).all(|at| recall(at) > recall(0) - 0.005), "{changes:?}");
    assert_eq!([recall(4), recall(5)], [recall(3); 2], "compaction and the file change no answer");

    assert!(sandbox.read("x.svg").starts_with(b"<svg"));
}

#[test]
fn it_fits_the_terminal_and_draws_where_it_stands() {
    let sandbox = Sandbox::new();
    let output = sandbox.jasper(&["demo", "bird", "sea", "--kind", "animal"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()), "{text}");
    for part in [
        "Build ",
        "Ask        bird sea, where kind = 'animal'\n",
        "diving petrel",
        "Recall ",
        "Update ",
        "and reopen",
        "Plot       jasper-demo.svg",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(sandbox.path("jasper-demo.svg").is_file());
}

#[test]
fn words_and_kinds_that_nobody_knows_are_refused() {
    let error = Sandbox::new().fails(1, &["demo", "xyzzy"]);
    assert!(error.contains("no word of `xyzzy` is in the dictionary"), "{error}");
    let error = Sandbox::new().fails(2, &["demo", "sea", "--kind", "verb"]);
    assert!(error.contains("possible values: top, act, animal"), "{error}");
    let error = Sandbox::new().fails(2, &["demo", "--kind", "animal"]);
    assert!(error.contains("<PHRASES>..."), "{error}");
}
