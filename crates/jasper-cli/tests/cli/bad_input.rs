//! Input that cannot be used: reported on standard error, with the exit code of the contract, and no file changed.

use std::fs;

use crate::common::{Sandbox, all_fail};
use jasper::MatrixView;
use jasper_data::write_vectors;

#[test]
fn bad_usage() {
    all_fail(
        &Sandbox::with_index(),
        2,
        &[
            ("dance", &["unrecognized subcommand"]),
            ("build --base base.fbin --metric l2", &["--output"]),
            ("build --base base.fbin --metric hamming --output x", &["use l2, ip or cosine"]),
            (
                "build --base base.fbin --metric l2 --device gpu --output x",
                &["use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all"],
            ),
            (
                "build --base base.fbin --metric l2 --alpha 0.5 --output x",
                &["alpha (0.5) must be between 1 and 4"],
            ),
            (
                "build --base base.fbin --metric l2 --max-degree 0 --output x",
                &["max_degree (0) must be between"],
            ),
            ("search vectors.jasper --queries query.fbin -k 0", &["k (0) must be at least 1"]),
            (
                "search vectors.jasper --queries query.fbin -k 10 --beam-width 0",
                &["beam_width (0) must be at least 1"],
            ),
            ("eval vectors.jasper --queries query.fbin --truth gt.ibin -k 0", &["k (0) must be at least 1"]),
            (
                "eval vectors.jasper --queries query.fbin --truth gt.ibin --beam-widths 64,0",
                &["beam_width (0)"],
            ),
            ("eval vectors.jasper --queries query.fbin --truth gt.ibin --beam-widths wide", &["invalid"]),
            ("insert vectors.jasper --base query.fbin --upsert", &["--keys"]),
            ("search vectors.jasper --queries query.fbin --recall 1.5", &["recall (1.5) must be above 0"]),
            ("search vectors.jasper --queries query.fbin --recall nan", &["recall (NaN) must be above 0"]),
            (
                "eval vectors.jasper --queries query.fbin --truth gt.ibin --recall 0.9,7",
                &["recall (7) must be above 0 and at most 1"],
            ),
            ("tune vectors.jasper --sample 0", &["--sample (0) must be at least 2"]),
            (
                "groundtruth --base base.fbin --queries query.fbin --metric l2 -k 0 --output x.ibin",
                &["k (0) must be at least 1"],
            ),
            (
                "runbook sliding-window --rows 10 --output x.yaml",
                &["rounds (20) must be at least 2, and at most 10"],
            ),
            (
                "runbook expiration-time --rows 4294967295 --rounds 4294967295 --output x.yaml",
                &["rounds (4294967295) must be", "and 10000"],
            ),
            ("runbook replace --rows 1000 --share nan --output x.yaml", &["share (NaN) must be above 0"]),
            ("convert base.fbin x.ibin", &["cannot convert fbin to truth"]),
            ("convert base.fbin x.jasper --from diskann", &["graphs of diskann need --base"]),
            ("convert base.fbin x.jasper --from hnswlib", &["graphs of hnswlib need --metric"]),
            (
                "convert base.fbin x.jasper --from faiss --base base.fbin",
                &["graphs of faiss hold their vectors; leave out --base"],
            ),
            ("convert base.fbin x.jasper --from faiss --max-degree 0", &["max_degree (0) must be between"]),
            ("convert base.fbin x.fbin --from csv", &["unknown format `csv`"]),
        ],
    );
}

#[test]
fn files_that_are_not_there() {
    all_fail(
        &Sandbox::with_index(),
        1,
        &[
            ("build --base none.fbin --metric l2 --output x", &["none.fbin", "No such file"]),
            (
                "build --base base.fbin --metric l2 --output none/x",
                &["none/x", "the directory does not exist"],
            ),
            ("build --base base.fbin --metric l2 --keys none.txt --output x", &["none.txt", "No such file"]),
            ("info none.jasper", &["none.jasper", "No such file"]),
            ("check none.jasper", &["none.jasper", "No such file"]),
            ("search none.jasper --queries query.fbin", &["none.jasper", "No such file"]),
            ("search vectors.jasper --queries none.fbin", &["none.fbin", "No such file"]),
            ("insert none.jasper --base base.fbin", &["none.jasper", "No such file"]),
            ("delete vectors.jasper --keys none.txt", &["none.txt", "No such file"]),
            ("consolidate none.jasper", &["none.jasper", "No such file"]),
            ("compact none.jasper", &["none.jasper", "No such file"]),
            ("eval vectors.jasper --queries query.fbin --truth none.ibin", &["none.ibin", "No such file"]),
            ("groundtruth --base none.fbin --queries query.fbin --metric l2 --output x.ibin", &["none.fbin"]),
            ("convert none.fbin x.npy", &["none.fbin", "No such file"]),
            ("convert none.jasper x --to hnswlib", &["none.jasper", "No such file"]),
        ],
    );
}

#[test]
fn files_that_hold_something_else() {
    let sandbox = Sandbox::with_index();
    let wide: Vec<f32> = vec![0.5; 17 * 20];
    write_vectors(sandbox.path("wide.fbin"), MatrixView::new(&wide, 17).unwrap()).unwrap();
    sandbox.write("short.fbin", &sandbox.read("base.fbin")[..500]);
    sandbox.write("short.jasper", &sandbox.read("vectors.jasper")[..9000]);
    sandbox.write("base.data", sandbox.read("base.fbin"));
    sandbox.write("none.fbin", [0, 0, 0, 0, 16, 0, 0, 0]);
    all_fail(
        &sandbox,
        1,
        &[
            ("build --base short.fbin --metric l2 --output x", &["short.fbin", "header says 400 rows"]),
            (
                "build --base base.data --metric l2 --output x",
                &["base.data", "does not end in a known format"],
            ),
            ("info base.fbin", &["base.fbin", "is not a Jasper index"]),
            ("search base.fbin --queries query.fbin", &["is not a Jasper index"]),
            ("info short.jasper", &["short.jasper", "9000 bytes"]),
            ("check short.jasper", &["9000 bytes"]),
            ("search short.jasper --queries query.fbin", &["9000 bytes"]),
            ("insert short.jasper --base query.fbin", &["9000 bytes"]),
            ("consolidate short.jasper", &["9000 bytes"]),
            ("search vectors.jasper --queries wide.fbin", &["dimension 17, expected 16"]),
            ("search vectors.jasper --queries none.fbin", &["none.fbin: contains no queries"]),
            ("insert vectors.jasper --base wide.fbin", &["dimension 17, expected 16"]),
            (
                "groundtruth --base base.fbin --queries wide.fbin --metric l2 --output x.ibin",
                &["dimension 17"],
            ),
            (
                "groundtruth --base none.fbin --queries query.fbin --metric l2 --output x.ibin",
                &["there are no base rows"],
            ),
            (
                "groundtruth --base query.fbin --queries base.fbin --metric l2 -k 21 --output x.ibin",
                &["k (21)", "(20)"],
            ),
            (
                "groundtruth --base base.fbin --queries query.fbin --metric l2 --output x.txt",
                &["x.txt", "ibin, gt100, ivecs"],
            ),
            (
                "eval vectors.jasper --queries base.fbin --truth gt.ibin",
                &["neighbors of 20 queries, expected 400"],
            ),
            (
                "eval vectors.jasper --queries query.fbin --truth gt.ibin -k 21 --beam-widths 64",
                &["20 neighbors", "k is 21"],
            ),
            ("convert gt.ibin x.jasper --from diskann --base base.fbin --metric l2", &["gt.ibin", "bytes"]),
            ("convert gt.ibin x.jasper --from hnswlib --metric l2", &["gt.ibin", "offsetLevel0_"]),
            ("convert gt.ibin x.jasper --from faiss", &["gt.ibin", "IndexHNSWFlat (IHNf)"]),
        ],
    );
}

#[test]
fn vectors_that_cannot_be_stored() {
    let sandbox = Sandbox::with_index();
    let write = |name: &str, at: usize, value: f32| {
        let mut rows = vec![1.0_f32; 16 * 20];
        rows[at] = value;
        if value == 0.0 {
            rows[48..64].fill(0.0);
        }
        write_vectors(sandbox.path(name), MatrixView::new(&rows, 16).unwrap()).unwrap();
    };
    write("nan.fbin", 50, f32::NAN);
    write("inf.fbin", 50, f32::INFINITY);
    write("zero.fbin", 50, 0.0);
    write("large.fbin", 50, 300.0);
    sandbox.vectors::<u8>("base.u8bin", 20, 0);
    sandbox.ok(&["build", "--base", "base.u8bin", "--metric", "l2", "--output", "bytes.jasper"]);
    let of_bytes: &[&str] =
        &["large.fbin: ", "row 3 has the value 300 at coordinate 2, which u8 cannot hold"];
    let skipping = "build --base zero.fbin --metric cosine --skip-zero-vectors --output skipping.jasper";
    let report = sandbox.one(&skipping.split(' ').collect::<Vec<_>>());
    assert_eq!([&report["vectors"], &report["skipped"]], [19, 1]);
    all_fail(
        &sandbox,
        1,
        &[
            (
                "build --base nan.fbin --metric l2 --output x",
                &["nan.fbin: row 3 holds a value that is not finite (NaN) at coordinate 2"],
            ),
            ("build --base inf.fbin --metric ip --output x", &["row 3", "(inf)"]),
            ("build --base zero.fbin --metric cosine --output x", &["zero.fbin: row 3 is a zero vector"]),
            ("insert vectors.jasper --base nan.fbin", &["nan.fbin: row 3", "(NaN)"]),
            ("search vectors.jasper --queries nan.fbin", &["nan.fbin: query: row 3", "(NaN)"]),
            ("insert bytes.jasper --base large.fbin", of_bytes),
            ("search bytes.jasper --queries large.fbin", of_bytes),
            ("groundtruth --base base.u8bin --queries large.fbin --metric l2 -k 5 --output x.ibin", of_bytes),
            (
                "groundtruth --base nan.fbin --queries query.fbin --metric l2 -k 5 --output x.ibin",
                &["row 3", "NaN"],
            ),
        ],
    );
}

#[test]
fn keys_that_are_not_there() {
    let sandbox = Sandbox::with_index();
    for (name, text) in [
        ("words.txt", "1\ntwo\n"),
        ("large.txt", "1\n18446744073709551616\n"),
        ("negative.txt", "-1\n"),
        ("unknown.txt", "1\n400\n"),
        ("twice.txt", "1\n2\n1\n"),
        ("some.txt", "1\n2\n"),
    ] {
        sandbox.write(name, text);
    }
    all_fail(
        &sandbox,
        1,
        &[
            ("delete vectors.jasper --keys words.txt", &["words.txt: line 2: a byte is no digit"]),
            ("delete vectors.jasper --keys large.txt", &["line 2: the number is too large"]),
            ("delete vectors.jasper --keys negative.txt", &["line 1"]),
            ("delete vectors.jasper --keys unknown.txt", &["unknown.txt: key 400 is not in the index"]),
            ("delete vectors.jasper --keys twice.txt", &["twice.txt: key 1 is given twice"]),
            ("delete vectors.jasper --keys some.txt --undo", &["key 1 is not deleted"]),
            ("search vectors.jasper --queries query.fbin --filter words.txt", &["words.txt: line 2"]),
            (
                "build --base query.fbin --metric l2 --keys some.txt --output x",
                &["some.txt: 2 keys for 20 vectors"],
            ),
            ("insert vectors.jasper --base query.fbin --keys some.txt", &["some.txt: 2 keys for 20 vectors"]),
        ],
    );
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "some.txt"]);
    all_fail(
        &sandbox,
        1,
        &[
            ("delete vectors.jasper --keys some.txt", &["key 1 is deleted already"]),
            ("convert vectors.jasper x --to hnswlib", &["2 deleted vectors", "consolidate first"]),
        ],
    );
    sandbox.ok(&["consolidate", "vectors.jasper"]);
    all_fail(
        &sandbox,
        1,
        &[("delete vectors.jasper --keys some.txt --undo", &["key 1 is not in the index"])],
    );
}

#[test]
fn errors_about_an_index_name_its_file() {
    let sandbox = Sandbox::with_index();
    sandbox.vectors::<f32>("one.fbin", 1, 2);
    sandbox.write("last.txt", format!("{}\n", u64::MAX - 1));
    sandbox.ok(&["insert", "vectors.jasper", "--base", "one.fbin", "--keys", "last.txt", "--output", "last"]);
    let codes = ["--quantization", "mixed:1", "--drop-vectors", "--output", "codes.jasper"];
    sandbox.ok(&[&["quantize", "vectors.jasper"], &codes[..]].concat());
    sandbox.write("none.fbin", [0, 0, 0, 0, 16, 0, 0, 0]);
    sandbox.ok(&["build", "--base", "none.fbin", "--metric", "l2", "--output", "empty.jasper"]);
    all_fail(
        &sandbox,
        1,
        &[
            (
                "insert last --base one.fbin",
                &["last: there are no 1 keys after 18446744073709551614", "--keys"],
            ),
            ("search codes.jasper --queries query.fbin --exact", &["codes.jasper: ", "stores codes only"]),
            ("tune codes.jasper", &["codes.jasper: ", "stores codes only"]),
            ("quantize empty.jasper --quantization mixed:1", &["empty.jasper: "]),
        ],
    );
}

#[test]
fn a_damaged_index_is_found_out() {
    let sandbox = Sandbox::with_index();
    let mut bytes = sandbox.read("vectors.jasper");
    bytes[8192 + 100] ^= 1;
    sandbox.write("vectors.jasper", bytes);
    all_fail(
        &sandbox,
        1,
        &[
            ("search vectors.jasper --queries query.fbin", &["section `vectors` is damaged"]),
            ("insert vectors.jasper --base query.fbin", &["section `vectors` is damaged"]),
        ],
    );
    let check = sandbox.jasper(&["check", "vectors.jasper", "--json"]);
    assert_eq!(check.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!(report["sound"], false);
    let damaged: Vec<_> =
        report["sections"].as_array().unwrap().iter().filter(|part| part["intact"] == false).collect();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0]["name"], "vectors");
    assert!(String::from_utf8(check.stderr).unwrap().contains("is damaged"));

    let mut bytes = sandbox.read("vectors.jasper");
    bytes[40] ^= 1;
    sandbox.write("vectors.jasper", bytes);
    let check = sandbox.jasper(&["check", "vectors.jasper", "--json"]);
    assert_eq!(check.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!([&report["sound"], &report["sections"]], [&serde_json::json!(false), &serde_json::json!([])]);
    assert!(report["fault"].as_str().unwrap().contains("damaged header"), "{report}");
}

/// What is said of `cuda:0` where it cannot be found: nothing, if it can.
fn missing_for_cuda() -> Vec<String> {
    #[cfg(not(feature = "cuda"))]
    return vec!["jasper was compiled without CUDA; use cpu or auto".into()];
    #[cfg(feature = "cuda")]
    match jasper_cuda::DeviceProperties::get(0) {
        Ok(_) => Vec::new(),
        Err(error) => match error.kind {
            jasper_cuda::ErrorKind::NoDriver(error) => {
                let names = error.attempts.into_iter().map(|attempt| attempt.name);
                names.chain(["no CUDA driver: tried".into(), "use the cpu".into()]).collect()
            }
            kind => vec![kind.to_string()],
        },
    }
}

#[test]
fn cuda_is_refused_with_a_way_out() {
    let sandbox = Sandbox::with_index();
    let refused = |line: &str, missing: &[String]| {
        let texts: Vec<&str> = missing.iter().map(String::as_str).collect();
        all_fail(&sandbox, 1, &[(line, &[&["device cuda:0 cannot be used"], &texts[..]].concat())]);
    };
    sandbox.ok(&["runbook", "replace", "--rows", "400", "--output", "r.yaml"]);
    let missing = missing_for_cuda();
    if !missing.is_empty() {
        let set = "--base base.fbin --queries query.fbin --metric l2";
        refused(&format!("groundtruth {set} --device cuda --output x"), &missing);
        refused("build --base base.fbin --metric l2 --device cuda --output x", &missing);
        refused("search vectors.jasper --queries query.fbin --device cuda:0", &missing);
        refused("eval vectors.jasper --queries query.fbin --truth gt.ibin --device cuda", &missing);
        refused("tune vectors.jasper --device cuda", &missing);
        let stream = "stream r.yaml --base base.fbin --queries query.fbin --metric l2 --device cuda";
        refused(stream, &missing);
    }
    let far = "search vectors.jasper --queries query.fbin --device cuda:999";
    all_fail(&sandbox, 1, &[(far, &["device cuda:999 cannot be used"])]);
}

/// A folder that takes no files. Permissions do not stop every user, but nobody makes files in `/proc`.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_files() {
    let sandbox = Sandbox::with_index();
    fs::write(sandbox.path("gone.txt"), "1\n").unwrap();
    all_fail(
        &sandbox,
        1,
        &[
            ("build --base base.fbin --metric l2 --output /proc/x", &["/proc/x: cannot be written"]),
            ("insert vectors.jasper --base query.fbin --output /proc/x", &["/proc/x: cannot be written"]),
            ("delete vectors.jasper --keys gone.txt --output /proc/x", &["/proc/x: cannot be written"]),
            ("consolidate vectors.jasper --output /proc/x", &["/proc/x: cannot be written"]),
            ("convert base.fbin /proc/x.npy", &["/proc/x.npy"]),
            ("search vectors.jasper --queries query.fbin --output /proc/x.ibin", &["/proc/x.ibin"]),
            (
                "groundtruth --base base.fbin --queries query.fbin --metric l2 --output /proc/x.ibin",
                &["/proc/x.ibin"],
            ),
        ],
    );
}

#[cfg(unix)]
#[test]
fn a_read_only_folder() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::with_index();
    let allow = |mode| fs::set_permissions(sandbox.folder(), PermissionsExt::from_mode(mode)).unwrap();
    allow(0o555);
    // Some users, such as root, may write all the same; they are asked for nothing here.
    if fs::write(sandbox.path("probe"), "").is_err() {
        all_fail(
            &sandbox,
            1,
            &[("insert vectors.jasper --base query.fbin", &["vectors.jasper", "untouched"])],
        );
    }
    allow(0o755);
}

#[test]
fn an_empty_set_is_an_index_without_vectors() {
    let sandbox = Sandbox::with_index();
    sandbox.write("none.fbin", [0, 0, 0, 0, 16, 0, 0, 0]);
    let built = sandbox.one(&["build", "--base", "none.fbin", "--metric", "l2", "--output", "empty.jasper"]);
    assert_eq!(built["vectors"], 0);
    let answers = sandbox.ok(&["search", "empty.jasper", "--queries", "query.fbin"]);
    assert!(answers.iter().all(|line| line["keys"].as_array().unwrap().is_empty()));
    assert_eq!(sandbox.one(&["check", "empty.jasper"])["sound"], true);
    assert_eq!(sandbox.one(&["insert", "empty.jasper", "--base", "base.fbin"])["first_key"], 0);
    assert_eq!(sandbox.one(&["info", "empty.jasper"])["vectors"], 400);
}

#[test]
fn a_graph_that_is_not_recognized_says_which_are() {
    let sandbox = Sandbox::with_index();
    sandbox.ok(&["convert", "vectors.jasper", "hnsw.bin", "--to", "hnswlib"]);
    sandbox.write("cut.bin", &sandbox.read("hnsw.bin")[..5000]);
    sandbox.write("flat.faiss", b"IxF2 is an index of faiss without a graph");
    for (input, expected) in [
        ("cut.bin", "cut.bin: is not a graph of diskann, hnswlib or faiss (IndexHNSWFlat or IndexHNSWSQ)"),
        ("flat.faiss", "for one of ParlayANN, pass --from parlayann"),
        ("vectors.jasper", "vectors.jasper: is an index already"),
        ("none.bin", "none.bin: No such file"),
    ] {
        let error = sandbox.fails(1, &["convert", input, "x.jasper"]);
        assert!(error.contains(expected), "{error}");
    }
}
