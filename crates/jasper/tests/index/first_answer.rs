//! The first searches of a new process on a GPU, with and without the driver's cache of compiled kernels.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use jasper::{Device, IndexBuilder, Metric, OpenOptions, Quantization, SearchParams};
use jasper_core::synthetic::Clusters;

use crate::common::{SearchHits, view};
use crate::submit::block_on;

/// Names the index; set in the process that opens it.
const CHILD: &str = "JASPER_TEST_FIRST_ANSWER";
/// What that process does after the first answers.
const THEN: &str = "JASPER_TEST_THEN";
const DIMENSION: usize = 96;
/// What a process without the cache may take more.
const LIMIT: Duration = Duration::from_millis(150);

/// How long a new process takes to open the index on a GPU and to answer, and in the end.
fn in_a_new_process(path: &Path, has_cache: bool, then: &str) -> [Duration; 2] {
    let mut child = Command::new(std::env::current_exe().unwrap());
    // On the main thread, which also ends the process.
    child.args([
        "--exact",
        "first_answer::it_does_not_wait_for_kernels",
        "--nocapture",
        "--test-threads",
        "1",
    ]);
    child.env(CHILD, path).env(THEN, then);
    if !has_cache {
        child.env("CUDA_CACHE_DISABLE", "1");
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("seconds ")).unwrap();
    let mut seconds = line.split(' ').map(|number| Duration::from_secs_f64(number.parse().unwrap()));
    [seconds.next().unwrap(), seconds.next().unwrap()]
}

/// Answers are those of the host before the kernels are there, and those of the GPU afterwards.
fn open_and_search(path: &Path, then: &str) {
    let queries: Vec<u8> = Clusters::new(DIMENSION, 40).rows(40, 1);
    let (queries, params) = (view(&queries, DIMENSION), SearchParams::new(10));
    let begun = Instant::now();
    let options = OpenOptions::new().device(Device::cuda(0));
    let index = options.open(path).unwrap();
    let first = index.search(queries.row(0), params).unwrap();
    let batch = index.search_hits(queries.slice(0..16), params).unwrap();
    let submitted = block_on(index.submit(queries.row(0), params).unwrap()).unwrap();
    let answered = begun.elapsed();
    assert_eq!(submitted, first);
    match then {
        "read the graph" => {
            // The host's edges are freed after this, and no search waits for it.
            let again = index.read_graph(|_| {
                thread::sleep(Duration::from_millis(600));
                index.search(queries.row(0), params).unwrap()
            });
            assert_eq!(again.unwrap(), first);
        }
        // The process ends while the driver compiles.
        "end" => std::mem::forget(index),
        _ => {
            index.warm_up().unwrap();
            println!("\nseconds {} {}", answered.as_secs_f64(), begun.elapsed().as_secs_f64());
            assert_eq!(index.search(queries.row(0), params).unwrap(), first);
            assert_eq!(index.search_hits(queries.slice(0..16), params).unwrap(), batch);
            // A larger batch is the GPU's in any case.
            assert_eq!(index.search_hits(queries, params).unwrap()[..10], first);
            return;
        }
    }
    println!("\nseconds {} {}", answered.as_secs_f64(), begun.elapsed().as_secs_f64());
}

#[test]
fn it_does_not_wait_for_kernels() {
    if let (Some(path), Ok(then)) = (std::env::var_os(CHILD), std::env::var(THEN)) {
        return open_and_search(Path::new(&path), &then);
    }
    if Device::cuda(0).resolve().is_err() {
        return;
    }
    let rows: Vec<u8> = Clusters::new(DIMENSION, 40).rows(20_000, 0);
    let builder = IndexBuilder::new(Metric::L2).device(Device::CPU).build_beam_width(64);
    let index = builder.build(view(&rows, DIMENSION)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for is_quantized in [false, true] {
        if is_quantized {
            index.quantize(Quantization::Mixed { sectors: 1 }).unwrap();
        }
        let path = folder.path().join(format!("{is_quantized}.jasper"));
        index.save(&path).unwrap();
        for then in ["read the graph", "end"] {
            in_a_new_process(&path, false, then);
        }
        // The first one fills the cache.
        in_a_new_process(&path, true, "wait");
        let mut runs =
            [true, false].map(|has_cache| [(); 5].map(|()| in_a_new_process(&path, has_cache, "wait")));
        runs.iter_mut().for_each(|times| times.sort());
        let [[warm, warm_kernels], [cold, cold_kernels]] = runs.map(|times| times[2]);
        println!(
            "first answers after {warm:?} with the driver's cache and {cold:?} without it, kernels after \
             {warm_kernels:?} and {cold_kernels:?}, quantized: {is_quantized}"
        );
        assert!(cold < warm + LIMIT, "{cold:?} instead of {warm:?}");
        assert!(cold_kernels > cold + LIMIT / 4, "kernels were compiled by {cold_kernels:?}");
    }
}
