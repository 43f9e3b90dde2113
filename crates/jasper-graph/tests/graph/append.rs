//! Saving to a file that has most sections already: the others are appended.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{DIMENSION, assert_same, coded_sample, quantize, sample, tuned};
use jasper_core::{MatrixView, Metric, no_progress};
use jasper_graph::{Graph, IndexInfo, SaveStats, Section, check_file};
use jasper_quant::{Rabitq, RabitqParams};

fn save(graph: &Graph, path: &Path) -> SaveStats {
    graph.save(path, &mut no_progress).unwrap()
}

/// A graph whose codes are a small part of its file.
fn graph() -> Graph {
    let mut graph = sample::<f32>(Metric::L2);
    for i in 0..2000 {
        crate::common::add(&mut graph, &[i as f32; DIMENSION]);
    }
    graph
}

fn with_codes(bits: u32) -> Graph {
    let mut graph = graph();
    let rows: Vec<f32> = (0..DIMENSION * 100).map(|i| (i * i % 37) as f32).collect();
    let rows = MatrixView::new(&rows, DIMENSION).unwrap();
    let quantizer = Rabitq::train(rows, &RabitqParams::new(Metric::L2, bits)).unwrap();
    quantize(&mut graph, Arc::new(quantizer));
    graph
}

#[test]
fn codes_are_appended_to_the_same_file_as_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, whole) = (folder.path().join("index.jasper"), folder.path().join("whole.jasper"));
    let first = save(&graph(), &path);
    assert_eq!((first.bytes, first.written), (fs::metadata(&path).unwrap().len(), first.bytes));
    let mapped = Graph::map(&path).unwrap();
    let (coded, again) = (with_codes(1), with_codes(2));

    let stats = save(&coded, &path);
    save(&coded, &whole);
    assert!(fs::read(&path).unwrap() == fs::read(&whole).unwrap());
    assert_eq!(
        (stats.bytes, stats.written),
        (fs::metadata(&path).unwrap().len(), stats.bytes - first.bytes + 8192)
    );
    assert_eq!(save(&coded, &path).written, 0, "an equal file is not written");

    let stats = save(&again, &path);
    assert!(stats.written < stats.bytes / 2);
    let info = IndexInfo::read(&path).unwrap();
    let codes = |bits| with_codes(bits).vectors().code_bytes() as u64;
    assert!(info.unused_bytes >= codes(1) && info.unused_bytes < codes(1) + 3 * 4096, "{info:?}");
    assert_eq!((info.file_bytes, info.sections[10].0), (stats.bytes, Section::Unused));
    assert!(check_file(&path, &mut no_progress).unwrap().is_intact());
    assert_same(&Graph::open(&path, &mut no_progress).unwrap(), &again);
    assert_same(&Graph::map(&path).unwrap(), &again);
    assert_same(&mapped, &graph());

    let stats = save(&again, &path);
    assert_eq!(stats.written, stats.bytes, "with nothing to append, unused bytes are dropped");
    assert_eq!(IndexInfo::read(&path).unwrap().unused_bytes, 0);
    save(&graph(), &path);
    assert_eq!(fs::metadata(&path).unwrap().len(), first.bytes, "codes that are removed free their space");
}

#[test]
fn what_an_interrupted_append_leaves_is_unused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    let mut graph = coded_sample::<u8>(Metric::Cosine);
    let bytes = save(&graph, &path).bytes;
    let left = [fs::read(&path).unwrap(), vec![7; 10_000]].concat();
    fs::write(&path, left).unwrap();
    let info = IndexInfo::read(&path).unwrap();
    assert_eq!((info.file_bytes, info.unused_bytes), (bytes + 10_000, 10_000));
    assert!(check_file(&path, &mut no_progress).unwrap().is_intact());
    assert_same(&Graph::open(&path, &mut no_progress).unwrap(), &graph);
    graph.set_encoded_tuned_searches(tuned());
    assert_eq!(save(&graph, &path).bytes, bytes + 4096);
    assert_eq!(IndexInfo::read(&path).unwrap().unused_bytes, 0);
    assert_same(&Graph::open(&path, &mut no_progress).unwrap(), &graph);
}

/// Readers open the file at any time while another thread appends to it.
#[test]
fn a_file_can_be_opened_while_it_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    let mut graph = graph();
    save(&graph, &path);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut found = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let tuned = IndexInfo::read(&path).unwrap().encoded_tuned_searches;
                found.push(tuned.len() / 128);
                let opened = Graph::open(&path, &mut no_progress).unwrap();
                assert!(opened.encoded_tuned_searches().len() >= tuned.len());
            }
            found.dedup();
            found
        });
        for count in 1..40 {
            graph.set_encoded_tuned_searches(vec![count as u8; count * 128]);
            save(&graph, &path);
        }
        done.store(true, Ordering::Relaxed);
        let found = reader.join().unwrap();
        assert!(found.is_sorted() && found.len() > 3, "{found:?}");
    });
}

#[cfg(unix)]
#[test]
fn other_names_of_a_file_keep_its_contents() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("index.jasper"), folder.path().join("snapshot.jasper"));
    let mut graph = graph();
    save(&graph, &path);
    fs::hard_link(&path, &link).unwrap();
    let before = fs::read(&link).unwrap();
    graph.set_encoded_tuned_searches(tuned());
    let stats = save(&graph, &path);
    assert_eq!(stats.written, stats.bytes);
    assert_eq!(fs::read(&link).unwrap(), before);
    assert_ne!(fs::metadata(&path).unwrap().ino(), fs::metadata(&link).unwrap().ino());

    // Another process that appends holds a lock.
    let other = fs::File::open(&path).unwrap();
    other.lock().unwrap();
    graph.set_encoded_tuned_searches(Vec::new());
    let stats = save(&graph, &path);
    assert_eq!(stats.written, stats.bytes);
    graph.set_encoded_tuned_searches(tuned());
    assert!(save(&graph, &path).written < stats.bytes);
}
