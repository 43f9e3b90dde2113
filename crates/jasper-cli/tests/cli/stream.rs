//! Runbooks on the dictionary of the demonstration, made, played and refused.

use std::path::{Path, PathBuf};

use crate::common::{Sandbox, all_fail};
use jasper::MatrixView;
use jasper_data::write_vectors;
use serde_json::Value;

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/wordnet-demo").join(name)
}

/// A folder with `small.i8bin`, the first 4,000 entries of the dictionary.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let whole = std::fs::read(demo("base.i8bin")).unwrap();
    let rows = 4_000_u32;
    let bytes = [&rows.to_le_bytes(), &whole[4..8], &whole[8..][..rows as usize * 128]].concat();
    sandbox.write("small.i8bin", bytes);
    sandbox
}

/// Plays a runbook on the entries.
fn play<'a>(runbook: &'a str, queries: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let set = ["--base", "small.i8bin", "--queries", queries, "--metric", "cosine"];
    [&["stream", runbook], &set[..], rest].concat()
}

fn named<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn recall_stays_whatever_comes_and_goes() {
    let (sandbox, queries) = (sandbox(), demo("query.i8bin"));
    let queries = queries.to_str().unwrap();
    // Searches, and points behind the last.
    for (kind, searches, points) in
        [("sliding-window", 6, 2_000), ("expiration-time", 10, 1_200), ("replace", 11, 2_666)]
    {
        let shape = ["runbook", kind, "--rows", "4000", "--rounds", "10", "--output", "r.yaml"];
        let made = sandbox.one(&shape);
        assert_eq!(made["searches"], searches, "{made}");
        let lines = sandbox.ok(&play("r.yaml", queries, &["--beam-width", "32", "--compare-rebuild"]));
        let (found, fresh) = (named(&lines, "search"), named(&lines, "rebuild")[0]);
        assert_eq!(found.len(), searches);
        let recalls: Vec<f64> = found.iter().map(|line| line["recall"].as_f64().unwrap()).collect();
        let lost = fresh["recall"].as_f64().unwrap() - recalls.last().unwrap();
        assert!(recalls.iter().all(|recall| *recall > 0.96) && lost < 0.01, "{kind}: {recalls:?}, {fresh}");
        assert_eq!([&found[searches - 1]["vectors"], &fresh["vectors"]], [points, points], "{kind}");
        assert!(kind != "sliding-window" || named(&lines, "consolidate").len() == 5, "{lines:?}");
        let total = lines.iter().find(|line| line.get("steps").is_some()).unwrap();
        assert_eq!([&total["searches"], &total["queries"]["count"]], [searches, 500 * searches]);
        let mean = recalls.iter().sum::<f64>() / searches as f64;
        assert!((total["mean_recall"].as_f64().unwrap() - mean).abs() < 1e-12);
        assert_eq!(total["least_recall"][0].as_f64(), recalls.iter().copied().reduce(f64::min));
    }
}

#[test]
fn a_stream_is_shown_drawn_and_kept() {
    let (sandbox, queries) = (sandbox(), demo("query.i8bin"));
    let queries = queries.to_str().unwrap();
    sandbox.ok(&["runbook", "sliding-window", "--rows", "600", "--rounds", "6", "--output", "r.yaml"]);
    let files = ["--truth", "truth", "--plot", "x.svg", "--output", "left.jasper", "--compare-rebuild"];
    let output = sandbox.jasper(&play("r.yaml", queries, &files));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()), "{text}");
    let parts = [
        "  step  ",
        "recall@10",
        "consolidate",
        "inserted 600 vectors in ",
        "\nfreed    300 tombstones in ",
        "\nrecall   ",
        " by an index built from the 300 final vectors in ",
        "\nsaved    left.jasper",
        "\nplot     x.svg",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    let svg = String::from_utf8(sandbox.read("x.svg")).unwrap();
    let words = ["rows: up to 400 vectors at once, 128 dimensions of i8, cosine", "recall@10, beam width 64"];
    assert!(words.iter().all(|text| svg.contains(&format!("\n{text}\n"))), "{svg}");
    assert_eq!(sandbox.one(&["info", "left.jasper"])["vectors"], 300);

    // With its truth at hand a runbook is played again to the same recall, and a foreign file is seen.
    let recalls = |lines: &[Value]| -> Vec<Value> {
        named(lines, "search").iter().map(|line| line["recall"].clone()).collect()
    };
    let first = sandbox.ok(&play("r.yaml", queries, &["--truth", "truth", "--beam-width", "10"]));
    let alone = sandbox.ok(&play("r.yaml", queries, &["--beam-width", "10"]));
    assert_eq!(recalls(&first), recalls(&alone));
    let later = sandbox.read("truth/step10.gt100");
    sandbox.write("truth/step4.gt100", later);
    let output = sandbox.jasper(&play("r.yaml", queries, &["--truth", "truth"]));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: step 4: truth/step4.gt100: names tag "), "{error}");
}

#[test]
fn runbooks_that_cannot_be_played_are_refused_before_anything_is_done() {
    let (sandbox, queries) = (sandbox(), demo("query.i8bin"));
    let queries = queries.to_str().unwrap();
    let insert = "a:\n  1: {operation: insert, start: 0, end: 5000}\n  2: {operation: search}\n";
    sandbox.write("long.yaml", insert);
    sandbox.write("gone.yaml", insert.replace("search", "delete, start: 7, end: 5001"));
    sandbox.write("two.yaml", format!("{insert}{}", insert.replace("a:", "b:")));
    write_vectors(sandbox.path("large.fbin"), MatrixView::new(&[300.0_f32; 128], 128).unwrap()).unwrap();
    sandbox.vectors::<i8>("narrow.i8bin", 20, 1);
    for (runbook, queries, rest, code, wanted) in [
        ("none.yaml", queries, &[][..], 1, "none.yaml: No such file"),
        ("gone.yaml", queries, &[], 1, "gone.yaml: step 2 (line 3): tag 5000 is not in the index"),
        ("long.yaml", queries, &[], 1, "long.yaml: step 1 (line 2): needs row 4999, the base has 4000"),
        ("two.yaml", queries, &[], 1, "two.yaml: holds runbooks of a, b; name the data set"),
        ("two.yaml", queries, &["--dataset", "c"], 1, "holds no runbook of the data set c, but of a, b"),
        ("two.yaml", queries, &["-k", "0"], 2, "k (0) must be at least 1"),
        ("two.yaml", queries, &["--beam-width", "0"], 2, "beam_width (0) must be at least 1"),
        ("two.yaml", queries, &["--dataset", "a", "--alpha", "0"], 2, "alpha (0) must be between 1 and 4"),
    ] {
        let error = sandbox.fails(code, &play(runbook, queries, rest));
        assert!(error.contains(wanted), "{runbook} {rest:?}: {error}");
    }
    sandbox.write("short.yaml", insert.replace("5000", "500"));
    let error = sandbox.fails(1, &play("short.yaml", "large.fbin", &[]));
    let wanted = "large.fbin: row 0 has the value 300 at coordinate 0, which i8 cannot hold";
    assert!(error.contains(wanted), "{error}");
    let error = sandbox.fails(1, &play("short.yaml", "narrow.i8bin", &[]));
    assert!(error.contains("contains vectors of dimension 16, expected 128"), "{error}");

    let few = ["runbook", "replace", "--rows", "30", "--rounds", "20", "--output", "r.yaml"];
    let error = sandbox.fails(2, &few);
    assert!(error.contains("of 30 vectors in 20 rounds: share (0.05) of the 15 vectors"), "{error}");
}

#[test]
fn true_neighbors_are_neither_replaced_nor_found_unwritable_at_the_end() {
    let (sandbox, queries) = (sandbox(), demo("query.i8bin"));
    let play = |rest: &[&'static str]| play("r.yaml", queries.to_str().unwrap(), rest).join(" ");
    sandbox.ok(&["runbook", "sliding-window", "--rows", "600", "--rounds", "6", "--output", "r.yaml"]);
    std::fs::create_dir(sandbox.path("truth")).unwrap();
    // Searches are the steps 4, 7, 10 and 13.
    let output = play(&["--truth", "truth", "--output", "truth/step7.gt100"]);
    let plot = play(&["--truth", "truth", "--plot", "./truth/../truth/step13.gt100"]);
    let unwritable = play(&["--truth", "/proc/self"]);
    let read = "is also read by this command, as truth/step";
    all_fail(&sandbox, 1, &[(&output, &[read]), (&plot, &[read])]);
    // A folder without write permission would not do: root may write there. In /proc no user can make files.
    if cfg!(target_os = "linux") {
        let reason = "/proc/self/step4.gt100: cannot be written";
        all_fail(&sandbox, 1, &[(&unwritable, &[reason])]);
    }
}
