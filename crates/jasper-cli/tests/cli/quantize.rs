//! Codes from the shell: made, shown, searched by, taken away.

use crate::common::{DIMENSION, Sandbox};
use jasper::MatrixView;
use jasper_core::synthetic::Clusters;
use jasper_data::write_vectors;
use serde_json::{Value, json};

const ASK: [&str; 10] =
    ["--queries", "query.fbin", "-k", "5", "--device", "cpu", "--beam-width", "40", "--output", "o.ibin"];

#[test]
fn codes_are_made_shown_searched_by_and_taken_away() {
    let sandbox = Sandbox::with_index();
    let search = |more: &[&str]| {
        let report = sandbox.one(&[&["search", "vectors.jasper"], &ASK[..], more].concat());
        (report, sandbox.read("o.ibin"))
    };
    let (_, exact) = search(&[]);
    let error = sandbox.fails(1, &[&["search", "vectors.jasper"], &ASK[..], &["--rerank", "5"]].concat());
    assert!(error.contains("no codes to estimate"), "{error}");

    let report = sandbox.one(&["quantize", "vectors.jasper", "--quantization", "rabitq:4"]);
    // 16 coordinates are rotated in 64: 32 bytes of levels, 8 of factors, to the next 16.
    assert_eq!([&report["quantization"], &report["code_bytes"]], [&json!("rabitq:4"), &json!(400 * 48)]);
    assert_eq!(report["bytes"], sandbox.read("vectors.jasper").len());
    // The file had the rest. 400 codes and the quantizer, with padding, and the header page twice.
    assert!(report["written"].as_u64().unwrap() < 400 * 48 + 5 * 4096, "{report}");
    assert_eq!(sandbox.one(&["info", "vectors.jasper"])["unused_bytes"], 0);
    assert_eq!(sandbox.one(&["info", "vectors.jasper"])["quantization"], "rabitq:4");
    let text = String::from_utf8(sandbox.jasper(&["info", "vectors.jasper"]).stdout).unwrap();
    assert!(text.contains("\ncodes     rabitq:4\n"), "{text}");
    assert_eq!(search(&["--exact"]).1, exact);
    let (report, found) = search(&[]);
    assert!(found == exact, "the whole frontier is reranked, and holds the five");
    let (few, estimated) = search(&["--rerank", "0"]);
    assert!(estimated != exact);
    let reranked = |report: &Value| report["mean_distances"].as_f64().unwrap();
    assert!(reranked(&report) > reranked(&few) + 35.0, "{report} {few}");

    let eval = ["eval", "vectors.jasper", "--queries", "query.fbin", "--truth", "gt.ibin", "-k", "5"];
    #[cfg(feature = "cuda")]
    let has_gpu = crate::common::has_gpu("searches by codes for queries in the memory of a GPU");
    #[cfg(not(feature = "cuda"))]
    let has_gpu = false;
    for device in if has_gpu { &["cpu", "cuda"][..] } else { &["cpu"] } {
        for more in [&[][..], &["--rerank", "5"], &["--rerank", "0"], &["--exact"]] {
            let by = ["--beam-widths", "40", "--device", device];
            let lines = sandbox.ok(&[&eval[..], &by, more].concat());
            let resident = lines[0]["resident_queries_per_second"].as_f64();
            assert_eq!(resident.is_some_and(|rate| rate > 0.0), *device == "cuda", "{lines:?}");
        }
    }
    let error = sandbox.fails(1, &[&eval[..], &["--profile"]].concat());
    assert!(error.contains("add --exact"), "{error}");
    sandbox.ok(&[&eval[..], &["--profile", "--exact"]].concat());

    sandbox.ok(&["quantize", "vectors.jasper", "--quantization", "none"]);
    assert_eq!(sandbox.one(&["info", "vectors.jasper"])["quantization"], json!(null));
    assert_eq!(search(&[]).1, exact);
}

#[test]
fn vectors_are_stored_where_requested() {
    let sandbox = Sandbox::with_index();
    let quantize =
        |quantization| sandbox.one(&["quantize", "vectors.jasper", "--quantization", quantization]);
    let [plain, quantized] = ["none", "mixed:1"].map(quantize);
    assert_eq!([&plain["vector_bytes"], &quantized["vector_bytes"]], [&json!(400 * 64); 2]);
    if cfg!(feature = "cuda") {
        let bytes = |report: &Value, name: &str| report[name].as_u64().unwrap();
        let (vectors, codes) = (400 * 64, 400 * 32);
        let (before, after) = (bytes(&plain, "device_bytes"), bytes(&quantized, "device_bytes"));
        // Next to the codes there is the quantizer.
        assert!((before + codes + 1..before + codes + 4096).contains(&after), "{before} {after}");
        assert_eq!(bytes(&quantized, "device_bytes_with_host_vectors"), after - vectors);
        let again = ["quantize", "vectors.jasper", "--quantization", "mixed:1", "--force"];
        let text = String::from_utf8(sandbox.jasper(&again).stdout).unwrap();
        assert!(text.contains(" with vectors in host memory"), "{text}");
    }

    let search = |more: &[&str]| {
        let report = sandbox.one(&[&["search", "vectors.jasper"], &ASK[..], more].concat());
        (report, sandbox.read("o.ibin"))
    };
    let (report, found) = search(&[]);
    assert_eq!([&report["vector_storage"], &report["device_bytes"]], [&json!(null), &json!(0)]);
    assert!(search(&["--vector-storage", "host"]).1 == found, "it has no effect on the CPU");
    let wrong = ["search", "vectors.jasper", "--queries", "query.fbin", "--vector-storage", "none"];
    let error = sandbox.fails(2, &wrong);
    assert!(error.contains("`none`"), "{error}");
    sandbox.vectors::<f32>("more.fbin", 20, 2);
    sandbox.ok(&["insert", "vectors.jasper", "--base", "more.fbin", "--vector-storage", "host"]);

    #[cfg(feature = "cuda")]
    if crate::common::has_gpu("vectors_are_stored_where_requested on a GPU") {
        let ask = |keep: &'static str| {
            let on = ["--device", "cuda", "--vector-storage", keep];
            [&["search", "vectors.jasper"], &ASK[..4], &on, &ASK[6..]].concat()
        };
        let on_gpu = |keep| (sandbox.one(&ask(keep)), sandbox.read("o.ibin"));
        let [(there, found), (apart, same)] = ["device", "host"].map(on_gpu);
        assert!(found == same);
        assert_eq!([&there["vector_storage"], &apart["vector_storage"]], ["device", "host"]);
        let bytes = |report: &Value| report["device_bytes"].as_u64().unwrap();
        assert_eq!(bytes(&there) - bytes(&apart), 420 * 64);
        let stderr =
            |more: &[&str]| String::from_utf8(sandbox.jasper(&[&ask("host"), more].concat()).stderr).unwrap();
        assert!(stderr(&["--exact"]).starts_with("note: this search is limited by PCIe bandwidth"));
        assert_eq!(stderr(&["--exact", "--quiet"]), "");
    }
}

#[test]
fn a_build_quantizes_by_trial() {
    let sandbox = Sandbox::with_index();
    let build =
        ["build", "--base", "base.fbin", "--metric", "l2", "--output", "coded.jasper", "--device", "cpu"];
    let report = sandbox.one(&[&build[..], &["--quantization", "auto"]].concat());
    let trial = &report["trial"];
    let cost = |cost: &Value| cost.as_f64().unwrap_or(f64::INFINITY);
    let tried = trial["tried"].as_array().unwrap().iter().map(|tried| cost(&tried["cost"]));
    assert!(tried.fold(f64::INFINITY, f64::min) >= cost(&trial["exact_cost"]), "{report}");
    assert_eq!([&report["quantization"], &trial["chosen"]], [&json!(null); 2], "vectors are of 64 bytes");
    assert_eq!(sandbox.one(&["info", "coded.jasper"])["quantization"], json!(null));
    let on = |device| {
        let quantize = ["quantize", "coded.jasper", "--quantization", "auto", "--device", device];
        String::from_utf8(sandbox.jasper(&quantize).stdout).unwrap()
    };
    for (device, cost) in [("cpu", "estimated CPU time"), ("cuda", "cost in bytes")] {
        let text = on(device);
        assert!(text.contains(&format!("\ntrial    {cost} per query at recall@10 of ")), "{text}");
    }
    let error = sandbox.fails(1, &["quantize", "coded.jasper", "--device", "cpu", "--drop-vectors"]);
    assert!(error.contains("name a quantization"), "{error}");
    let error = sandbox.fails(1, &[&build[..], &["--quantization", "none", "--drop-vectors"]].concat());
    assert!(error.contains("--drop-vectors needs quantized codes"), "{error}");
    sandbox.vectors::<f32>("few.fbin", 20, 0);
    let few =
        ["build", "--base", "few.fbin", "--metric", "l2", "--output", "few.jasper", "--quantization", "auto"];
    let report = sandbox.one(&few);
    assert!(report["not_quantized"].as_str().unwrap().contains("too few vectors"), "{report}");
    assert_eq!(sandbox.one(&["info", "few.jasper"])["vectors"], 20);
    let dropped = ["--quantization", "mixed:1", "--drop-vectors"];
    let report = sandbox.one(&[&build[..], &dropped].concat());
    assert_eq!([&report["code_bytes"], &report["vector_bytes"]], [400 * 32, 0]);
    assert_eq!(sandbox.one(&["info", "coded.jasper"])["has_vectors"], false);
    assert_eq!(sandbox.one(&["check", "coded.jasper"])["graph"]["codes"], json!(null));
    sandbox.ok(&[&["search", "coded.jasper"], &ASK[..]].concat());
    let error = sandbox.fails(1, &["insert", "coded.jasper", "--base", "base.fbin"]);
    assert!(error.contains("stores codes only"), "{error}");
    let error = sandbox.fails(2, &[&build[..], &["--quantization", "rabitq:9"]].concat());
    assert!(error.contains("unknown quantization `rabitq:9`"), "{error}");
}

#[test]
fn a_check_says_when_to_retrain() {
    let sandbox = Sandbox::with_index();
    let reported = || String::from_utf8(sandbox.jasper(&["check", "vectors.jasper"]).stdout).unwrap();
    let codes = || sandbox.one(&["check", "vectors.jasper"])["graph"].clone();
    assert!(codes()["codes"].is_null() && !reported().contains("\ncodes  "));
    sandbox.ok(&["quantize", "vectors.jasper", "--quantization", "rabitq:2"]);
    assert_eq!(codes()["drifted"], false);
    assert!(reported().contains("up to date"), "{}", reported());

    // Other vectors, far from where these are.
    let moved: Vec<f32> = Clusters::new(DIMENSION, 8).rows::<f32>(400, 0).iter().map(|x| x + 900.0).collect();
    write_vectors(sandbox.path("moved.fbin"), MatrixView::new(&moved, DIMENSION).unwrap()).unwrap();
    let keys = |keys: std::ops::Range<u32>| keys.map(|key| format!("{key}\n")).collect::<String>();
    sandbox.write("gone.txt", keys(0..400));
    sandbox.ok(&["insert", "vectors.jasper", "--base", "moved.fbin"]);
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "gone.txt"]);
    sandbox.ok(&["consolidate", "vectors.jasper"]);
    assert_eq!([&codes()["drifted"], &codes()["quantization"]], [&json!(true), &json!("rabitq:2")]);
    assert!(
        reported().contains(": retrain with `jasper quantize --quantization rabitq:2`"),
        "{}",
        reported()
    );

    // Nothing is left to compare with, and nothing is wrong.
    sandbox.write("gone.txt", keys(400..800));
    sandbox.ok(&["delete", "vectors.jasper", "--keys", "gone.txt"]);
    let report = sandbox.one(&["check", "vectors.jasper"]);
    assert_eq!([&report["sound"], &report["graph"]["codes"]], [&json!(true), &json!(null)]);
    let why = report["graph"]["codes_not_measured"].as_str().unwrap();
    assert!(why.contains("training vectors are too few") && reported().contains(why), "{why}");
}
