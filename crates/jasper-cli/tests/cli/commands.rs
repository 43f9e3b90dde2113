//! Every command, on files small enough to know the answers.

use std::collections::BTreeSet;

use crate::common::{DIMENSION, Sandbox};
use jasper::{MatrixView, f16};
use jasper_core::recall::recall_at;
use jasper_core::synthetic::Clusters;
use jasper_data::{GroundTruth, VectorFile, write_vectors};
use serde_json::{Value, json};

const COMMANDS: [&str; 19] = [
    "demo",
    "build",
    "search",
    "insert",
    "merge",
    "delete",
    "set-attributes",
    "consolidate",
    "compact",
    "quantize",
    "check",
    "info",
    "groundtruth",
    "eval",
    "tune",
    "stream",
    "runbook",
    "convert",
    "devices",
];

fn has_fields(object: &Value, fields: &[&str]) {
    let missing: Vec<_> = fields.iter().filter(|field| object.get(field).is_none()).collect();
    assert!(missing.is_empty(), "{object} lacks {missing:?}");
}

#[test]
fn every_command_has_help_with_an_example() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let output = sandbox.jasper(&[command, "--help"]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && help.contains(&format!("\n  jasper {command} ")), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn a_build_tells_what_it_will_take_and_refuses_what_cannot_fit() {
    let sandbox = Sandbox::new();
    sandbox.vectors::<f32>("base.fbin", 400, 0);
    let plan = ["build", "--base", "base.fbin", "--metric", "l2", "--output", "o.jasper", "--plan"];
    let reported = sandbox.one(&plan);
    let parts = reported["parts"].as_array().unwrap();
    let bytes = |part: &Value| part["bytes"].as_u64().unwrap();
    assert_eq!(reported["host_bytes"].as_u64().unwrap(), parts.iter().map(bytes).sum::<u64>());
    let part = |name, bytes| json!({"memory": "host", "name": name, "bytes": bytes});
    assert_eq!(parts[0], part("vectors", 400 * 16 * 4));
    let exact = sandbox.one(&[&plan[..], &["--exact-linking"]].concat());
    // SQ8 vectors, a byte per padded coordinate.
    let host_bytes = |plan: &Value| plan["host_bytes"].as_u64().unwrap();
    assert_eq!(host_bytes(&reported), host_bytes(&exact) + 400 * 16);
    // As large as the largest code that a trial tries.
    let reported = sandbox.one(&[&plan[..], &["--quantization", "auto"]].concat());
    let part = |name| reported["parts"].as_array().unwrap().iter().find(|part| part["name"] == name).unwrap();
    assert!(bytes(part("codes")) == 400 * 128 && bytes(part("quantizer")) > 0, "{reported}");
    assert!(!sandbox.path("o.jasper").exists());
    // A file that is a hole but for its header, of more than any machine has.
    let (rows, dimension) = (125_000_000_u32, 32_000_u32);
    sandbox.write("huge.u8bin", [rows.to_le_bytes(), dimension.to_le_bytes()].concat());
    let file = std::fs::OpenOptions::new().write(true).open(sandbox.path("huge.u8bin")).unwrap();
    file.set_len(8 + u64::from(rows) * u64::from(dimension)).unwrap();
    let output = sandbox.jasper(&["build", "--base", "huge.u8bin", "--metric", "l2", "--output", "o.jasper"]);
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(reported.starts_with("error: a build needs 40"), "{reported}");
    assert!(reported.contains("bytes of host memory (vectors 4000000000000, graph "), "{reported}");
}

#[test]
fn build_tells_what_it_built() {
    let sandbox = Sandbox::with_index();
    let build =
        ["build", "--base", "base.fbin", "--metric", "l2", "--max-degree", "24", "--build-beam-width", "48"];
    let rest = ["--alpha", "1.1", "--seed", "5", "--device", "cpu", "--output", "other.jasper"];
    let report = sandbox.one(&[&build[..], &rest, &["--threads", "1"]].concat());
    for (field, value) in [
        ("vectors", json!(400)),
        ("dimension", json!(16)),
        ("element", json!("f32")),
        ("metric", json!("l2")),
        ("max_degree", json!(24)),
        ("build_beam_width", json!(48)),
        ("seed", json!(5)),
        ("duplicates", json!(0)),
        ("threads", json!(1)),
        ("bytes", json!(sandbox.read("other.jasper").len())),
    ] {
        assert_eq!(report[field], value, "{field}");
    }
    let positive = ["seconds", "vectors_per_second", "mean_degree", "hops", "distances", "estimated_bytes"];
    assert!(positive.iter().all(|field| report[field].as_f64().unwrap() > 0.0), "{report}");
    assert!(!cfg!(target_os = "linux") || report["peak_bytes"].as_u64().unwrap() > 1_000_000);

    let first = sandbox.read("other.jasper");
    sandbox.ok(&[&build[..], &rest, &["--threads", "3"]].concat());
    assert!(sandbox.read("other.jasper") == first, "the number of threads shows in the index");
}

#[test]
fn info_agrees_with_build() {
    let sandbox = Sandbox::with_index();
    let info = sandbox.one(&["info", "vectors.jasper"]);
    has_fields(
        &info,
        &["vectors", "deleted", "dimension", "element", "metric", "max_degree", "mean_degree", "bytes"],
    );
    assert_eq!(info["vectors"], 400);
    assert_eq!(info["bytes"], sandbox.read("vectors.jasper").len());
    let sections: u64 =
        info["sections"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert!(sections < info["bytes"].as_u64().unwrap());
}

#[test]
fn every_element_and_metric_goes_all_the_way() {
    let sandbox = Sandbox::new();
    sandbox.vectors::<f32>("base.fbin", 300, 0);
    sandbox.vectors::<f16>("base.f16bin", 300, 0);
    sandbox.vectors::<u8>("base.u8bin", 300, 0);
    sandbox.vectors::<i8>("base.i8bin", 300, 0);
    sandbox.vectors::<f32>("base.fvecs", 300, 0);
    sandbox.vectors::<u8>("base.bvecs", 300, 0);
    sandbox.vectors::<i8>("base.npy", 300, 0);
    for file in
        ["base.fbin", "base.f16bin", "base.u8bin", "base.i8bin", "base.fvecs", "base.bvecs", "base.npy"]
    {
        for metric in ["l2", "cosine", "ip"] {
            let set = ["--base", file, "--metric", metric];
            sandbox.ok(&[&["build"], &set[..], &["--output", "x.jasper"]].concat());
            let truth =
                [&["groundtruth"], &set[..], &["--queries", file, "-k", "15", "--output", "x.ibin"]].concat();
            assert_eq!(sandbox.one(&truth)["queries"], 300);
            let search =
                ["search", "x.jasper", "--queries", file, "--beam-width", "40", "--output", "found.ibin"];
            sandbox.ok(&search);
            let read = |name| GroundTruth::read(sandbox.path(name)).unwrap();
            let (truth, found) = (read("x.ibin"), read("found.ibin"));
            let keys = |query| found.truth(query).ids.iter().copied().map(u64::from).collect::<Vec<_>>();
            let recall =
                (0..300).map(|query| recall_at(10, &keys(query), truth.truth(query))).sum::<f64>() / 300.0;
            assert!(recall > 0.98, "{file} {metric}: {recall}");
        }
    }
}

#[test]
fn values_of_another_element_are_rounded() {
    let sandbox = Sandbox::new();
    sandbox.vectors::<u8>("base.u8bin", 300, 0);
    let bytes: Vec<u8> = Clusters::new(DIMENSION, 7).rows(20, 1);
    let floats: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) + 0.25).collect();
    write_vectors(sandbox.path("query.u8bin"), MatrixView::new(&bytes, DIMENSION).unwrap()).unwrap();
    write_vectors(sandbox.path("query.fbin"), MatrixView::new(&floats, DIMENSION).unwrap()).unwrap();
    sandbox.ok(&["build", "--base", "base.u8bin", "--metric", "l2", "--output", "x.jasper"]);
    let truth = |queries| {
        let set = ["--base", "base.u8bin", "--queries", queries, "--metric", "l2", "--output", "x.ibin"];
        sandbox.ok(&[&["groundtruth"], &set[..]].concat());
        sandbox.read("x.ibin")
    };
    assert!(truth("query.fbin") == truth("query.u8bin"));
    let search = |queries| sandbox.ok(&["search", "x.jasper", "--queries", queries]);
    assert_eq!(search("query.fbin"), search("query.u8bin"));
    sandbox.ok(&["insert", "x.jasper", "--base", "query.fbin"]);
    for (key, line) in (300..).zip(search("query.u8bin")) {
        assert_eq!((&line["keys"][0], &line["distances"][0]), (&json!(key), &json!(0.0)), "{line}");
    }
}

#[test]
fn eval_gives_a_line_for_each_width() {
    let sandbox = Sandbox::with_index();
    let eval = ["eval", "vectors.jasper", "--queries", "query.fbin", "--truth", "gt.ibin", "-k", "5"];
    let lines = sandbox
        .ok(&[&eval[..], &["--beam-widths", "5,20,100", "--threads", "1", "--plot", "x.svg"]].concat());
    assert_eq!(
        lines.iter().map(|line| line["beam_width"].as_u64().unwrap()).collect::<Vec<_>>(),
        [5, 20, 100]
    );
    for line in &lines {
        has_fields(line, &["beam_width", "k", "recall", "queries_per_second", "mean_hops", "mean_distances"]);
        assert_eq!(line["k"], 5);
        assert!(line["rounds"].as_u64().unwrap() >= 3);
    }
    let of = |field: &str| lines.iter().map(|line| line[field].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(of("mean_distances").is_sorted() && of("mean_hops").is_sorted());
    assert!(of("recall")[2] > 0.99, "{lines:?}");
    let svg = String::from_utf8(sandbox.read("x.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("recall@5") && svg.contains("vectors: 400 vectors"));
}

#[test]
fn search_answers_to_a_file_or_in_json() {
    let sandbox = Sandbox::with_index();
    let search = ["search", "vectors.jasper", "--queries", "query.fbin", "-k", "10", "--beam-width", "64"];
    let report = sandbox.one(&[&search[..], &["--output", "answers.ibin"]].concat());
    has_fields(&report, &["seconds", "queries_per_second", "mean_hops", "mean_distances"]);
    assert_eq!([&report["queries"], &report["k"], &report["beam_width"]], [20, 10, 64]);
    let answers = GroundTruth::read(sandbox.path("answers.ibin")).unwrap();
    let truth = GroundTruth::read(sandbox.path("gt.ibin")).unwrap();
    let lines = sandbox.ok(&search);
    assert_eq!((answers.len(), lines.len()), (20, 20));
    for (query, line) in lines.iter().enumerate() {
        let keys: Vec<u64> = serde_json::from_value(line["keys"].clone()).unwrap();
        assert_eq!(line["query"], query);
        assert!(keys.iter().zip(answers.truth(query).ids).all(|(&a, &b)| a == u64::from(b)));
        assert!(recall_at(10, &keys, truth.truth(query)) > 0.8);
    }
    // Without --json the answers are lines of JSON all the same.
    assert!(sandbox.jasper(&search).stdout.starts_with(b"{\"query\":0,\"keys\":["));
}

#[test]
fn places_without_an_answer_are_marked() {
    let sandbox = Sandbox::new();
    sandbox.vectors::<u8>("base.u8bin", 5, 0);
    sandbox.write("three.txt", "0\n1\n2\n");
    sandbox.ok(&["build", "--base", "base.u8bin", "--metric", "l2", "--output", "x.jasper"]);
    let search = ["search", "x.jasper", "--queries", "base.u8bin", "-k", "5", "--filter", "three.txt"];
    assert_eq!(sandbox.ok(&search)[1]["keys"].as_array().unwrap().len(), 3);
    sandbox.ok(&[&search[..], &["--output", "x.ibin"]].concat());
    let answers = GroundTruth::read(sandbox.path("x.ibin")).unwrap();
    assert_eq!(answers.truth(2).ids[3..], [u32::MAX; 2]);
    assert_eq!(answers.truth(2).ids[0], 2);
}

#[test]
fn k_and_threads_are_bounded_by_what_there_is() {
    let sandbox = Sandbox::with_index();
    let search = ["search", "vectors.jasper", "--queries", "query.fbin", "-k"];
    let all = sandbox.ok(&[&search[..], &["400"]].concat());
    for k in ["100000000", "4294967296", "18446744073709551615"] {
        assert_eq!(sandbox.ok(&[&search[..], &[k]].concat()), all);
        let stream = ["stream", "r.yaml", "--base", "base.fbin", "--queries", "query.fbin", "--metric", "l2"];
        sandbox.ok(&["runbook", "replace", "--rows", "400", "--output", "r.yaml"]);
        let error = sandbox.fails(2, &[&stream[..], &["-k", k, "--beam-width", k]].concat());
        assert!(error.contains("must be at most 400, the number of vectors in the base"), "{error}");
    }
    let report = sandbox.one(&[&search[..], &["401", "--output", "x.ibin", "--threads", "100000"]].concat());
    assert_eq!([&report["k"], &report["queries"]], [400, 20]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_needs_neither_the_stack_nor_the_threads_of_its_environment() {
    let sandbox = Sandbox::with_index();
    let build = "ulimit -s 64; exec \"$0\" build --base base.fbin --metric l2 --device cpu --output x.jasper";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", build, env!("CARGO_BIN_EXE_jasper")]).env("RAYON_NUM_THREADS", "2000");
    let output = shell.current_dir(sandbox.folder()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn eval_has_default_widths_for_every_k() {
    let sandbox = Sandbox::with_index();
    let eval = ["eval", "vectors.jasper", "--queries", "query.fbin", "--truth", "truth.ibin", "-k"];
    let truth = ["groundtruth", "--base", "base.fbin", "--queries", "query.fbin", "--metric", "l2"];
    sandbox.ok(&[&truth[..], &["-k", "200", "--output", "truth.ibin"]].concat());
    for (k, widths) in [("10", &[16, 32, 64, 128][..]), ("21", &[32, 64, 128]), ("200", &[200, 400, 800])] {
        let lines = sandbox.ok(&[&eval[..], &[k]].concat());
        let found: Vec<u64> = lines.iter().map(|line| line["beam_width"].as_u64().unwrap()).collect();
        assert_eq!(found, widths);
    }
}

#[test]
fn deleted_keys_of_identical_vectors_do_not_pile_up() {
    let sandbox = Sandbox::with_index();
    sandbox.write("same.txt", (1000..1020).map(|key| format!("{key}\n")).collect::<String>());
    let rows = vec![0.25_f32; 20 * DIMENSION];
    write_vectors(sandbox.path("same.fbin"), MatrixView::new(&rows, DIMENSION).unwrap()).unwrap();
    // Some of the identical vectors stay.
    sandbox.ok(&["insert", "vectors.jasper", "--base", "same.fbin"]);
    sandbox.ok(&["insert", "vectors.jasper", "--base", "same.fbin", "--keys", "same.txt"]);
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "same.txt"]);
    assert_eq!(sandbox.one(&["info", "vectors.jasper"])["deleted"], 20);
    assert_eq!(sandbox.one(&["consolidate", "vectors.jasper"])["deleted"], 0);
    let error = sandbox.fails(1, &["delete", "vectors.jasper", "--keys", "same.txt", "--undo"]);
    assert!(error.contains("key 1000 is not in the index"), "{error}");
    assert_eq!(sandbox.one(&["info", "vectors.jasper"])["deleted"], 0);
}

#[test]
fn convert_refuses_values_that_the_new_type_cannot_hold() {
    let sandbox = Sandbox::new();
    for (name, value) in [("nan.fbin", f32::NAN), ("inf.fbin", f32::INFINITY), ("far.fbin", 70_000.0)] {
        let mut rows = vec![1.0_f32; 3 * DIMENSION];
        rows[DIMENSION + 2] = value;
        write_vectors(sandbox.path(name), MatrixView::new(&rows, DIMENSION).unwrap()).unwrap();
    }
    for (from, to, value) in
        [("nan.fbin", "x.u8bin", "NaN"), ("inf.fbin", "x.i8bin", "inf"), ("far.fbin", "x.f16bin", "70000")]
    {
        let error = sandbox.fails(1, &["convert", from, to]);
        assert!(error.contains(&format!("{from}: row 1 holds {value} at coordinate 2, which")), "{error}");
    }
    // Integers are clamped, and what floats hold stays.
    assert_eq!(sandbox.one(&["convert", "far.fbin", "x.u8bin"])["rounded"], 1);
    assert_eq!(sandbox.one(&["convert", "nan.fbin", "x.f16bin"])["rounded"], 0);
}

#[test]
fn allow_answers_with_those_keys_only() {
    let sandbox = Sandbox::with_index();
    let search = ["search", "vectors.jasper", "--queries", "query.fbin", "-k", "3"];
    sandbox.write("few.txt", "7\n300\n11\n999999\n");
    for line in sandbox.ok(&[&search[..], &["--filter", "few.txt"]].concat()) {
        let keys: BTreeSet<u64> = serde_json::from_value(line["keys"].clone()).unwrap();
        assert_eq!(keys, BTreeSet::from([7, 11, 300]));
    }
    sandbox.write("all.txt", (0..400).map(|key| format!("{key}\n")).collect::<String>());
    assert_eq!(sandbox.ok(&search), sandbox.ok(&[&search[..], &["--filter", "all.txt"]].concat()));
}

#[test]
fn an_index_lives_through_all_changes() {
    let sandbox = Sandbox::with_index();
    sandbox.vectors::<f32>("more.fbin", 40, 2);
    sandbox.write("gone.txt", (0..50).map(|key| format!("{key}\n")).collect::<String>());
    let points = |sandbox: &Sandbox| {
        let info = sandbox.one(&["info", "vectors.jasper"]);
        [&info["vectors"], &info["deleted"], &info["free"]].map(|number| number.as_u64().unwrap())
    };

    let insert = sandbox.one(&["insert", "vectors.jasper", "--base", "more.fbin", "--exact-linking"]);
    assert_eq!([&insert["inserted"], &insert["first_key"], &insert["vectors"]], [40, 400, 440]);
    let delete = sandbox.one(&["delete", "vectors.jasper", "--keys", "gone.txt"]);
    assert_eq!([&delete["keys"], &delete["vectors"], &delete["deleted"]], [50, 390, 50]);
    assert_eq!(points(&sandbox), [390, 50, 0]);
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "gone.txt", "--undo"]);
    assert_eq!(points(&sandbox), [440, 0, 0]);
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "gone.txt"]);
    assert_eq!(sandbox.one(&["consolidate", "vectors.jasper", "--exact-linking"])["freed"], 50);
    assert_eq!(points(&sandbox), [390, 0, 50]);
    let compact = sandbox.one(&["compact", "vectors.jasper", "--output", "small.jasper"]);
    assert_eq!([&compact["freed"], &compact["vectors"]], [50, 390]);
    assert_eq!(points(&sandbox), [390, 0, 50], "--output leaves the index as it is");
    assert!(sandbox.read("small.jasper").len() < sandbox.read("vectors.jasper").len());

    for index in ["vectors.jasper", "small.jasper"] {
        let check = sandbox.one(&["check", index]);
        assert_eq!(
            [&check["sound"], &check["graph"]["keys"], &check["graph"]["faults"]],
            [&json!(true), &json!(390), &json!(0)]
        );
        let nearest = sandbox.ok(&["search", index, "--queries", "more.fbin", "-k", "1"]);
        let keys: Vec<u64> = nearest.iter().map(|line| line["keys"][0].as_u64().unwrap()).collect();
        assert_eq!(keys, (400..440).collect::<Vec<_>>());
    }
}

#[test]
fn keys_are_the_users() {
    let sandbox = Sandbox::with_index();
    sandbox.vectors::<f32>("two.fbin", 2, 3);
    sandbox.write("keys.txt", "5\n18446744073709551614\n");
    let insert = ["insert", "vectors.jasper", "--base", "two.fbin", "--keys", "keys.txt"];
    assert!(sandbox.fails(1, &insert).contains("key 5 is in the index already; use upsert"));
    let report = sandbox.one(&[&insert[..], &["--upsert"]].concat());
    assert_eq!([&report["vectors"], &report["first_key"]], [401, 5]);
    let search = ["search", "vectors.jasper", "--queries", "two.fbin", "-k", "1"];
    let keys: Vec<_> = sandbox.ok(&search).iter().map(|line| line["keys"][0].as_u64().unwrap()).collect();
    assert_eq!(keys, [5, 18446744073709551614]);
    let error = sandbox.fails(1, &[&search[..], &["--output", "x.ibin"]].concat());
    assert!(error.contains("key 18446744073709551614 does not fit"), "{error}");
}

#[test]
fn vectors_and_truth_change_format() {
    let sandbox = Sandbox::with_index();
    for (from, to, rounded) in [
        ("base.fbin", "a.fvecs", false),
        ("a.fvecs", "b.npy", false),
        ("b.npy", "c.fbin", false),
        ("c.fbin", "d.i8bin", true),
    ] {
        let report = sandbox.one(&["convert", from, to]);
        assert_eq!(report["rows"], 400);
        assert_eq!(report["rounded"].as_u64().unwrap() > 0, rounded, "{from} to {to}");
    }
    assert!(sandbox.read("c.fbin") == sandbox.read("base.fbin"));
    let bytes = VectorFile::open(sandbox.path("d.i8bin")).unwrap();
    assert_eq!((bytes.len(), bytes.dimension()), (400, DIMENSION));
    assert_eq!(sandbox.one(&["convert", "gt.ibin", "gt.ivecs"])["rows"], 20);
    let truth = GroundTruth::read(sandbox.path("gt.ibin")).unwrap();
    assert_eq!(GroundTruth::read(sandbox.path("gt.ivecs")).unwrap().ids(), truth.ids());
}

#[test]
fn graphs_go_out_and_come_back() {
    let sandbox = Sandbox::with_index();
    let out = ["convert", "vectors.jasper", "graph.bin", "--to", "diskann", "--keys", "rows.txt"];
    assert_eq!(sandbox.one(&out)["rows"], 400);
    assert_eq!(
        sandbox.read("rows.txt"),
        (0..400).map(|key| format!("{key}\n")).collect::<String>().as_bytes()
    );
    assert_eq!(sandbox.read("graph.bin.data").len(), 8 + 400 * DIMENSION * 4);
    let back =
        ["convert", "graph.bin", "back.jasper", "--from", "diskann", "--base", "base.fbin", "--metric", "l2"];
    assert_eq!(sandbox.one(&back)["rows"], 400);
    let search = |index| sandbox.ok(&["search", index, "--queries", "query.fbin"]);
    assert_eq!(search("back.jasper"), search("vectors.jasper"));
    assert_eq!(sandbox.one(&["convert", "vectors.jasper", "hnsw.bin", "--to", "hnswlib"])["rows"], 400);
    assert_eq!(sandbox.one(&["convert", "vectors.jasper", "hnsw.faiss", "--to", "faiss"])["rows"], 400);
    // These hold the vectors, and are recognized by their content.
    let from_hnswlib = ["convert", "hnsw.bin", "from-hnswlib.jasper", "--metric", "l2"];
    for convert in [&from_hnswlib[..], &["convert", "hnsw.faiss", "from-faiss.jasper"]] {
        let report = sandbox.one(convert);
        assert_eq!((&report["rows"], &report["to"]), (&400.into(), &"index".into()));
        assert_eq!(search(convert[2]), search("vectors.jasper"));
    }
    sandbox.ok(&["delete", "from-faiss.jasper", "--keys", "rows.txt"]);
    let twice = [sandbox.read("base.fbin"), sandbox.read("base.fbin")[8..].to_vec()].concat();
    sandbox.write("twice.fbin", [&800_u32.to_le_bytes()[..], &twice[4..]].concat());
    sandbox.ok(&["build", "--base", "twice.fbin", "--metric", "l2", "--output", "twice.jasper"]);
    let converted = sandbox.one(&["convert", "twice.jasper", "twice.faiss", "--to", "faiss"]);
    assert_eq!((&converted["rows"], &converted["keys_left_out"]), (&400.into(), &400.into()));

    // ParlayANN's layout by hand: three vertices in a ring.
    sandbox.vectors::<u8>("three.u8bin", 3, 0);
    let words: Vec<u8> = [3_u32, 1, 1, 1, 1, 1, 2, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    sandbox.write("ring.graph", words);
    let ring = [
        "convert",
        "ring.graph",
        "ring.jasper",
        "--from",
        "parlayann",
        "--base",
        "three.u8bin",
        "--metric",
        "l2",
    ];
    sandbox.ok(&ring);
    assert_eq!(sandbox.one(&["check", "ring.jasper"])["graph"]["edges"], 3);
}

#[test]
fn devices_are_listed_or_their_absence_is_explained() {
    let sandbox = Sandbox::new();
    let report = sandbox.one(&["devices"]);
    assert!(report["cpu"]["threads"].as_u64() > Some(0), "{report}");
    let cuda = &report["cuda"];
    let devices = cuda["devices"].as_array().unwrap();
    assert_eq!(devices.is_empty(), cuda["reason"].is_string(), "{report}");
    for (i, device) in devices.iter().enumerate() {
        assert_eq!(device["device"], format!("cuda:{i}"));
        has_fields(device, &["name", "compute_capability", "multiprocessors", "memory_bytes"]);
    }
    let text = String::from_utf8(sandbox.jasper(&["devices"]).stdout).unwrap();
    assert!(text.starts_with("cpu "), "{text}");
    let reported = [devices.iter().map(|device| &device["name"]).collect(), vec![&cuda["reason"]]].concat();
    assert!(reported.into_iter().filter_map(Value::as_str).all(|part| text.contains(part)), "{text}");
    assert!(
        cuda["driver"].is_string() || text.contains("no CUDA") || text.contains("without CUDA"),
        "{text}"
    );
}

#[cfg(feature = "cuda")]
#[test]
fn a_device_finds_the_neighbors_that_the_processor_finds() {
    if !crate::common::has_gpu("the neighbors of a device") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.vectors::<f32>("base.fbin", 5000, 0);
    sandbox.vectors::<f32>("query.fbin", 100, 1);
    sandbox.vectors::<u8>("base.u8bin", 5000, 0);
    sandbox.vectors::<u8>("query.u8bin", 100, 1);
    for ending in ["fbin", "u8bin"] {
        for metric in ["l2", "cosine", "ip"] {
            let [base, queries] = ["base", "query"].map(|name| format!("{name}.{ending}"));
            let truth = |device: &str| {
                let set = ["groundtruth", "--base", &base, "--queries", &queries, "--metric", metric];
                let report = sandbox.one(&[&set[..], &["--device", device, "--output", "x.ibin"]].concat());
                (report["device"].clone(), sandbox.read("x.ibin"))
            };
            let (device, found) = truth("cuda");
            assert_eq!(device, "cuda:0");
            assert!(found == truth("cpu").1, "{ending} {metric}");
        }
    }
}

#[test]
fn text_is_for_people() {
    let sandbox = Sandbox::with_index();
    for command in [
        &["build", "--base", "base.fbin", "--metric", "l2", "--output", "x.jasper"][..],
        &["info", "vectors.jasper"],
        &["check", "vectors.jasper"],
        &["compact", "vectors.jasper"],
        &["eval", "vectors.jasper", "--queries", "query.fbin", "--truth", "gt.ibin"],
    ] {
        let output = sandbox.jasper(command);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty() && !text.contains('{'), "{text}");
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn a_durable_index_is_a_folder_whose_changes_are_logged() {
    let sandbox = Sandbox::with_index();
    let build = [
        "build",
        "--base",
        "base.fbin",
        "--metric",
        "l2",
        "--device",
        "cpu",
        "--durable",
        "--output",
        "folder",
    ];
    sandbox.ok(&build);
    let error = sandbox.fails(1, &build);
    assert!(error.contains("folder: has a durable index already"), "{error}");
    let snapshot = sandbox.read("folder/index-0.jasper");
    sandbox.write("keys", "3\n4\n");
    for index in ["folder", "vectors.jasper"] {
        let report = sandbox.one(&["delete", index, "--keys", "keys"]);
        assert_eq!(report.get("written").is_none(), index == "folder", "{report}");
        sandbox.one(&["consolidate", index]);
        assert_eq!(sandbox.one(&["check", index])["sound"], true);
        let output = format!("{index}.ibin");
        let queries = ["--queries", "query.fbin", "-k", "5", "--device", "cpu", "--output", &output];
        sandbox.one(&[&["search", index], &queries[..]].concat());
    }
    assert_eq!(sandbox.read("folder.ibin"), sandbox.read("vectors.jasper.ibin"));
    assert_eq!(sandbox.read("folder/index-0.jasper"), snapshot);
    let text = String::from_utf8(sandbox.jasper(&["compact", "folder"]).stdout).unwrap();
    assert!(text.contains("logged   in the journal of folder"), "{text}");
    let info = sandbox.one(&["info", "folder"]);
    assert_eq!([&info["vectors"], &info["changes"]], [400, 3]);
    let error = sandbox.fails(1, &["convert", "folder", "graph", "--to", "diskann"]);
    assert!(
        error.contains("such as folder/index-0.jasper, which lacks the changes in the journal"),
        "{error}"
    );
    let error = sandbox.fails(1, &["compact", "folder", "--output", "copy.jasper"]);
    assert!(error.contains("leave --output out"), "{error}");
}

#[test]
fn an_index_of_shards_is_a_folder_that_is_replaced_as_a_whole() {
    let sandbox = Sandbox::with_index();
    let build = ["build", "--base", "base.fbin", "--metric", "l2", "--device", "cpu", "--shards", "3"];
    let build = [&build[..], &["--output", "folder"]].concat();
    assert_eq!(sandbox.one(&build)["shards"], 3);
    sandbox.ok(&build);
    sandbox.write("keys", "3\n4\n");
    for index in ["folder", "vectors.jasper"] {
        sandbox.one(&["delete", index, "--keys", "keys"]);
        sandbox.one(&["consolidate", index]);
        assert_eq!(sandbox.one(&["check", index])["sound"], true);
        let output = format!("{index}.ibin");
        let queries = ["--queries", "query.fbin", "-k", "5", "--beam-width", "2000", "--device", "cpu"];
        sandbox.one(&[&["search", index], &queries[..], &["--output", &output]].concat());
    }
    assert_eq!(sandbox.read("folder.ibin"), sandbox.read("vectors.jasper.ibin"));
    assert_eq!(sandbox.ok(&["info", "folder"]).len(), 3);
    let error = sandbox.fails(1, &["convert", "folder", "graph", "--to", "diskann"]);
    assert!(error.contains("such as folder/shard-3-0.jasper, which has the vectors of one shard"), "{error}");
    sandbox.write("folder/shard-9-0.jasper", "left by a save that was killed");
    sandbox.one(&["compact", "folder", "--output", "copy"]);
    sandbox.one(&["compact", "folder"]);
    let mut files: Vec<_> =
        std::fs::read_dir(sandbox.path("folder")).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["manifest.txt", "shard-10-0.jasper", "shard-10-1.jasper", "shard-10-2.jasper"]);
    let error = sandbox.fails(2, &[&build[..], &["--shards", "300"]].concat());
    assert!(error.contains("cannot be used multiple times") || error.contains("shards (300)"), "{error}");
    std::fs::remove_file(sandbox.path("folder/shard-10-1.jasper")).unwrap();
    let error = sandbox.fails(1, &["check", "folder"]);
    assert!(error.contains("folder/shard-10-1.jasper: is missing: it has shard 1 of 3"), "{error}");
    let error = sandbox.fails(
        1,
        &["search", "vectors.jasper", "--queries", "query.fbin", "-k", "5", "--device", "cuda:61,62"],
    );
    assert!(error.contains("cuda:61"), "{error}");
}
