//! Searches that are tuned, kept and used; what they take.

use crate::common::Sandbox;
use serde_json::{Value, json};

const TUNE: [&str; 5] = ["tune", "vectors.jasper", "--device", "cpu", "-k"];
const GIVEN: [&str; 4] = ["--queries", "query.fbin", "--truth", "gt.ibin"];

#[test]
fn what_is_tuned_is_kept_shown_and_used() {
    let sandbox = Sandbox::with_index();
    let before = sandbox.one(&["info", "vectors.jasper"]);
    assert_eq!(before["tuned"], json!([]));
    let report = sandbox.one(&[&TUNE[..], &["5", "--recall", "0.9"], &GIVEN].concat());
    assert_eq!([&report["queries"], &report["sampled"]], [&json!(20), &json!(false)]);
    assert_eq!(report["bytes"], sandbox.read("vectors.jasper").len());
    let tuned = report["tuned"].as_array().unwrap();
    assert_eq!(tuned.iter().map(|search| &search["batch"]).collect::<Vec<_>>(), [1, 100, 10_000]);
    for search in tuned {
        assert_eq!(
            [&search["k"], &search["target"], &search["current"]],
            [&json!(5), &json!(0.9), &json!(true)]
        );
        assert!(search["recall"].as_f64().unwrap() >= 0.9 && search["launch"].is_null(), "{search}");
        assert!(search["queries_per_second"].as_f64().unwrap() > 0.0);
    }
    let info = sandbox.one(&["info", "vectors.jasper"]);
    assert_eq!(info["tuned"], report["tuned"]);
    assert_eq!(info["vectors"], before["vectors"]);

    let search = ["search", "vectors.jasper", "--queries", "query.fbin", "-k", "5", "--recall", "0.9"];
    let found = sandbox.one(&[&search[..], &["--output", "found.ibin", "--device", "cpu"]].concat());
    assert_eq!([&found["beam_width"], &found["device"]], [&tuned[0]["beam_width"], &json!("cpu")]);
    let eval = ["eval", "vectors.jasper", "-k", "5", "--recall", "0.9,0.85", "--device", "cpu"];
    let lines = sandbox.ok(&[&eval[..], &GIVEN].concat());
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["beam_width"] == tuned[0]["beam_width"]), "{lines:?}");
    let error = sandbox.fails(1, &[&search[..7], &["0.95"]].concat());
    assert!(error.contains("`jasper tune vectors.jasper --recall 0.95 -k 5`"), "{error}");

    sandbox.write("gone.txt", "1\n2\n");
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "gone.txt"]);
    let info = sandbox.one(&["info", "vectors.jasper"]);
    assert!(info["tuned"].as_array().unwrap().iter().all(|search| search["current"] == false));
    let text = String::from_utf8(sandbox.jasper(&["info", "vectors.jasper"]).stdout).unwrap();
    assert!(
        text.contains("\ntuned     recall@5 of 0.9 on ") && text.contains(", before the index changed\n"),
        "{text}"
    );
}

#[test]
fn true_neighbors_of_queries_are_found_where_none_are_given() {
    let sandbox = Sandbox::with_index();
    let tune = [&TUNE[..], &["5", "--recall", "0.9", "--output", "tuned.jasper"]].concat();
    let width = |given: &[&str]| sandbox.one(&[&tune[..], given].concat())["tuned"][0]["beam_width"].clone();
    assert_eq!(width(&GIVEN[..2]), width(&GIVEN));
}

#[test]
fn rows_of_the_index_tune_it_where_no_queries_are_given() {
    let sandbox = Sandbox::with_index();
    let tune = [&TUNE[..], &["10", "--recall", "0.8", "--sample", "8", "--output", "tuned.jasper"]].concat();
    let before = sandbox.read("vectors.jasper");
    let report = sandbox.one(&tune);
    assert_eq!([&report["queries"], &report["sampled"]], [&json!(8), &json!(true)]);
    assert!(sandbox.read("vectors.jasper") == before, "--output leaves the index as it is");
    let width = |report: &Value| report["tuned"][0]["beam_width"].clone();
    assert_eq!(width(&sandbox.one(&tune)), width(&report), "the sample is seeded");
    // The answers are those of before; a section is new.
    let search = |index| sandbox.ok(&["search", index, "--queries", "query.fbin"]);
    assert_eq!(search("tuned.jasper"), search("vectors.jasper"));
    let check = sandbox.one(&["check", "tuned.jasper"]);
    assert_eq!(check["sound"], true);
    let text = String::from_utf8(sandbox.jasper(&tune).stdout).unwrap();
    assert!(
        text.contains("with     8 indexed vectors, half for selection and half for validation"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_durable_index_is_tuned_where_it_is() {
    let sandbox = Sandbox::with_index();
    sandbox.ok(&["build", "--base", "base.fbin", "--metric", "l2", "--durable", "--output", "folder"]);
    let tune = |options: &[&'static str]| {
        [&["tune", "folder", "--device", "cpu", "--recall", "0.8", "--sample", "8"], options].concat()
    };
    let error = sandbox.fails(1, &tune(&["--output", "tuned.jasper"]));
    assert!(error.contains("folder: is a durable index, which is changed in place"), "{error}");
    let report = sandbox.one(&tune(&[]));
    assert!(report["output"] == "folder" && report.get("written").is_none(), "{report}");
    let text = String::from_utf8(sandbox.jasper(&tune(&[])).stdout).unwrap();
    assert!(text.contains("logged   in the journal of folder"), "{text}");
    sandbox.ok(&["search", "folder", "--queries", "query.fbin", "--recall", "0.8", "--device", "cpu"]);
}

#[test]
fn a_profile_tells_what_queries_take() {
    let sandbox = Sandbox::with_index();
    let eval = ["eval", "vectors.jasper", "--device", "cpu", "--beam-widths", "10,80", "--profile"];
    let lines = sandbox.ok(&[&eval[..], &GIVEN].concat());
    assert_eq!(lines.len(), 4, "two points, then two profiles");
    for (point, profile) in lines[..2].iter().zip(&lines[2..]) {
        assert_eq!(point["beam_width"], profile["beam_width"]);
        assert!(point.get("resident_queries_per_second").is_none());
        let mean = |of: &Value| of["mean"].as_f64().unwrap();
        let near = |a: f64, b: &Value| (a - b.as_f64().unwrap()).abs() < 1e-6;
        assert!(near(mean(&profile["hops"]), &point["mean_hops"]), "{profile}");
        assert!(near(mean(&profile["distances"]), &point["mean_distances"]), "{profile}");
        // Rows of 16 f32, and 64 edges.
        let bytes = 64.0 * mean(&profile["distances"]) + 256.0 * mean(&profile["hops"]);
        assert!(near(bytes, &profile["bytes"]["mean"]), "{profile}");
        for of in ["hops", "distances", "bytes"] {
            let steps =
                ["least", "median", "p90", "p99", "most"].map(|step| profile[of][step].as_u64().unwrap());
            assert!(steps.is_sorted() && steps[0] > 0, "{profile}");
        }
        assert!(
            profile["bytes_per_second"].as_f64() > Some(0.0) && profile["copy_bytes_per_second"].is_null()
        );
    }
    let text = String::from_utf8(sandbox.jasper(&[&eval[..], &GIVEN].concat()).stdout).unwrap();
    assert!(text.contains("\nbeam width 80 ") && text.contains("/s read by all threads"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let error = sandbox.fails(1, &[&eval[..], &GIVEN, &["--roofline", "x.svg"]].concat());
    assert!(error.contains("--roofline needs a GPU"), "{error}");
}

#[cfg(feature = "cuda")]
#[test]
fn a_device_is_searched_tuned_and_profiled() {
    if !crate::common::has_gpu("searches on a device") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.vectors::<u8>("base.u8bin", 5000, 0);
    sandbox.vectors::<u8>("query.u8bin", 300, 1);
    let set = ["--base", "base.u8bin", "--metric", "l2", "--output"];
    sandbox.ok(&[&["build"], &set[..], &["vectors.jasper"]].concat());
    sandbox.ok(&[&["groundtruth"], &set[..], &["gt.ibin", "--queries", "query.u8bin", "-k", "20"]].concat());
    let search = ["search", "vectors.jasper", "--queries", "query.u8bin", "--output", "x.ibin", "--device"];
    let found =
        |device| (sandbox.one(&[&search[..], &[device]].concat())["device"].clone(), sandbox.read("x.ibin"));
    let (device, answers) = found("cuda");
    assert_eq!(device, "cuda:0");
    assert!(answers == found("cpu").1, "the answers are those of the CPU");
    let wide = sandbox.one(&[&search[..], &["cuda", "-k", "600"]].concat());
    assert_eq!(wide["beam_width"], 1024, "the default width is limited to the largest of the device");

    let given = ["--queries", "query.u8bin", "--truth", "gt.ibin", "--device", "cuda"];
    let tuned = sandbox.one(&[&["tune", "vectors.jasper", "--recall", "0.9"], &given[..]].concat());
    for search in tuned["tuned"].as_array().unwrap() {
        assert!(
            search["launch"]["warps"].as_u64() > Some(0) && search["recall"].as_f64() >= Some(0.9),
            "{search}"
        );
    }
    let eval = ["eval", "vectors.jasper", "--recall", "0.9", "--profile", "--roofline", "x.svg"];
    let lines = sandbox.ok(&[&eval[..], &given].concat());
    assert!(lines[0]["resident_queries_per_second"].as_f64() > lines[0]["queries_per_second"].as_f64());
    assert!(lines[1]["copy_bytes_per_second"].as_f64() > Some(1e10), "{}", lines[1]);
    assert!(sandbox.read("x.svg").starts_with(b"<svg"));
    let wide = ["eval", "vectors.jasper", "--beam-widths", "2000"];
    assert!(
        sandbox.fails(2, &[&wide[..], &given].concat()).contains("beam_width (2000) must be at most 1024")
    );
}

#[test]
fn what_cannot_be_tuned_leaves_the_file() {
    let sandbox = Sandbox::with_index();
    let fails = |code, rest: &[&str]| sandbox.fails(code, &[&TUNE[..], rest].concat());
    for (code, rest, text) in [
        (2, &["0"][..], "k (0) must be at least 1"),
        (2, &["10", "--recall", "1.5"], "recall (1.5) must be above 0 and at most 1"),
        (2, &["10", "--truth", "gt.ibin"], "--queries"),
        (2, &["10", "--sample", "9", "--queries", "query.fbin", "--truth", "gt.ibin"], "cannot be used with"),
        (
            1,
            &["21", "--queries", "query.fbin", "--truth", "gt.ibin"],
            "contains 20 neighbors per query, and k is 21",
        ),
        (2, &["10", "--sample", "1"], "--sample (1) must be at least 2"),
        (1, &["10", "--queries", "none.fbin", "--truth", "gt.ibin"], "none.fbin"),
    ] {
        let error = fails(code, rest);
        assert!(error.contains(text), "{error}");
    }
    let widths = ["eval", "vectors.jasper", "--recall", "0.9", "--beam-widths", "16"];
    assert!(sandbox.fails(2, &[&widths[..], &GIVEN].concat()).contains("cannot be used with"));
}
