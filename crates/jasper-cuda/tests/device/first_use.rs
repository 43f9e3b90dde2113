//! How long loading the kernels of an exact search takes, with and without the driver's cache of compiled code.

use std::process::Command;
use std::time::{Duration, Instant};

use gpu_kernels::knn::{Rank, Scan};
use jasper_core::{ElementKind, Metric};
use jasper_cuda::Context;

const CHILD: &str = "JASPER_FIRST_USE";
const WARM_LIMIT: Duration = Duration::from_millis(500);

/// How long a new process takes to open the device, and to load the kernels.
fn in_a_new_process(without_cache: bool) -> (Duration, Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["first_use::the_kernels_are_there_soon", "--exact", "--nocapture"]).env(CHILD, "1");
    if without_cache {
        child.env("CUDA_CACHE_DISABLE", "1");
    }
    let output = child.output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{message}{}", String::from_utf8_lossy(&output.stderr));
    let figure = |name: &str| {
        let (_, after) = message.split_once(name).unwrap_or_else(|| panic!("no {name} in {message}"));
        Duration::from_secs_f64(after.split_whitespace().next().unwrap().parse().unwrap())
    };
    (figure("open="), figure("load="))
}

#[test]
fn the_kernels_are_there_soon() {
    if std::env::var_os(CHILD).is_some() {
        let begun = Instant::now();
        let context = Context::open(0).unwrap();
        let opened = begun.elapsed();
        let begun = Instant::now();
        let (element, metric) = (ElementKind::F32, Metric::L2);
        context.warm_up(&Scan::new(element, metric, true)).unwrap();
        context.warm_up(&Rank { element, metric }).unwrap();
        println!("\nopen={} load={}", opened.as_secs_f64(), begun.elapsed().as_secs_f64());
        return;
    }
    if crate::common::exclusive_context().is_none() {
        return;
    }
    let (_, cold) = in_a_new_process(true);
    // Fills the cache, if it does not hold them yet.
    in_a_new_process(false);
    let (open, warm) = in_a_new_process(false);
    println!(
        "device opened in {open:?}; kernels loaded in {cold:?} without the driver's cache, {warm:?} with it"
    );
    assert!(warm < WARM_LIMIT, "{warm:?} with a warm cache");
}
