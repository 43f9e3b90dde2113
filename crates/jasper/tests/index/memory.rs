//! The memory of a build, compared with its plan.

use std::path::Path;
use std::process::Command;

use jasper::attributes::Frame;
use jasper::{Device, Element, ElementKind, IndexBuilder, MemorySpace, Metric, Quantization, VectorFile};
use jasper_core::synthetic::Clusters;
use jasper_data::write_vectors;

use crate::common::view;

/// Names the file to build from; set in the process that measures.
const CHILD: &str = "JASPER_TEST_BUILD_FROM";

/// Builds an index of the set in `file`, and prints the peak memory that the operating system reports, and the
/// estimate.
fn measure<T: Element>(builder: IndexBuilder<'_>, file: &VectorFile) {
    let estimate = builder.memory_plan(T::KIND, file.len(), file.dimension()).unwrap();
    let index = builder.build(file).unwrap();
    println!("peak {} estimate {} {:?}", peak_bytes(), estimate.total(MemorySpace::Host), estimate.parts());
    assert_eq!(index.len(), file.len());
}

/// Peak memory of this process, as Linux reports it.
fn peak_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM")).unwrap();
    let kilobytes: usize = line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    kilobytes * 1024
}

/// Runs this test again in a process of its own, which only builds. Returns its peak memory and its estimate.
fn in_a_process_of_its_own(test: &str, file: &Path) -> (f64, f64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(CHILD, file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", text.lines().find(|line| line.contains("peak ")).unwrap());
    let number = |name: &str| {
        let mut words = text.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse().ok()).unwrap()
    };
    (number("peak"), number("estimate"))
}

fn check<T: Element>(test: &str, builder: IndexBuilder<'_>, dimension: usize, rows: usize, name: &str) {
    check_from::<T>(0.9, test, builder, dimension, rows, name);
}

/// Checks that the peak is at least this share of the estimate, and hardly more than that.
fn check_from<T: Element>(
    least: f64,
    test: &str,
    builder: IndexBuilder<'_>,
    dimension: usize,
    rows: usize,
    name: &str,
) {
    if let Some(path) = std::env::var_os(CHILD) {
        return measure::<T>(builder, &VectorFile::open(path).unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    let set: Vec<T> = Clusters { latent: 6, ..Clusters::new(dimension, 95) }.rows(rows, 0);
    write_vectors(&file, view(&set, dimension)).unwrap();
    drop(set);
    let (peak, estimate) = in_a_process_of_its_own(test, &file);
    assert!((least..1.1).contains(&(peak / estimate)), "peak {peak}, estimated {estimate}");
}

#[test]
fn the_table_of_keys_that_do_not_ascend_is_planned() {
    let keys = [5_u64, 3, 9];
    let frame = Frame::new(3);
    let planned = |keys| {
        let builder = IndexBuilder::new(Metric::L2).device(Device::CPU).keys(keys).attributes(&frame);
        let plan = builder.memory_plan(ElementKind::U8, 1_000_000, 16).unwrap();
        plan.parts().iter().find(|part| part.name == "key table").map(|part| part.bytes)
    };
    assert_eq!(planned(&[3, 5, 9]), None);
    assert!((17_000_000..60_000_000).contains(&planned(&keys).unwrap()));
}

#[test]
fn a_build_of_bytes_takes_what_was_estimated() {
    let builder = IndexBuilder::new(Metric::L2).device(Device::CPU).build_beam_width(64).threads(2);
    check::<u8>("memory::a_build_of_bytes_takes_what_was_estimated", builder, 128, 60_000, "base.u8bin");
}

/// Training takes most of it. The plan is for data all of whose components are coded, which are not those of this set.
#[test]
fn a_quantized_build_takes_what_was_estimated() {
    let builder =
        IndexBuilder::new(Metric::L2).device(Device::CPU).build_beam_width(32).max_degree(32).threads(2);
    let builder = builder.quantize(Quantization::Mixed { sectors: 4 });
    check_from::<u8>(
        0.8,
        "memory::a_quantized_build_takes_what_was_estimated",
        builder,
        256,
        20_000,
        "base.u8bin",
    );
}

#[test]
fn a_build_of_floats_takes_what_was_estimated() {
    let builder =
        IndexBuilder::new(Metric::L2).device(Device::CPU).build_beam_width(64).threads(2).exact_linking(true);
    check::<f32>("memory::a_build_of_floats_takes_what_was_estimated", builder, 384, 30_000, "base.fbin");
}

#[test]
fn an_sq8_build_takes_what_was_estimated() {
    let builder = IndexBuilder::new(Metric::L2).device(Device::CPU).build_beam_width(64).threads(2);
    check::<f32>("memory::an_sq8_build_takes_what_was_estimated", builder, 384, 30_000, "base.fbin");
}
