//! The fuzz bodies over slightly damaged files.

use std::fs;
use std::path::Path;

use jasper_attributes::{ColumnKind, Frame};
use jasper_core::{Element, Metric, f16, no_progress};
use jasper_graph::{Graph, IndexInfo};

use crate::damaged::damage;
use crate::fuzz;

fn index<T: Element>(metric: Metric) {
    index_of(&crate::common::sample::<T>(metric));
    index_of(&crate::common::coded_sample::<T>(metric));
}

fn with_attributes(metric: Metric) -> Graph {
    let mut graph = crate::common::sample::<u8>(metric);
    let keys = [5, 6, 1007, 1021];
    let frame = Frame::new(keys.len())
        .column("year", [2019, 2020, 2021, 2022])
        .and_then(|frame| frame.column("lang", ["en", "de", "en", "fr"]))
        .and_then(|frame| frame.column("tags", [vec!["new"], vec![], vec!["new", "red"], vec!["red"]]))
        .and_then(|frame| frame.column_of("name", ColumnKind::Id, ["a", "b", "c", "d"]));
    graph.keys_mut().set_attributes(&keys, &frame.unwrap()).unwrap();
    graph
}

#[test]
fn attributes_of_other_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    with_attributes(Metric::L2).save(&path, &mut no_progress).unwrap();
    let saved = fs::read(&path).unwrap();
    let places = |key: u64| {
        let windows = saved.windows(8).enumerate();
        windows.filter(move |(_, bytes)| **bytes == key.to_le_bytes()).map(|(at, _)| at).collect::<Vec<_>>()
    };
    // First keys, and their attributes.
    assert_eq!(places(1007).len(), 2);
    for at in places(1007) {
        // A key that is not in the index, and one that is there already.
        for key in [999_u64, 1021] {
            let mut bytes = saved.clone();
            bytes[at..at + 8].copy_from_slice(&key.to_le_bytes());
            fuzz::forge::seal(&mut bytes);
            fs::write(&path, &bytes).unwrap();
            for error in [Graph::open(&path, &mut no_progress).unwrap_err(), Graph::map(&path).unwrap_err()] {
                assert!(error.to_string().contains("attributes"), "{error}");
            }
        }
    }
}

fn index_of(graph: &Graph) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    graph.save(&path, &mut no_progress).unwrap();
    damage_file(&path);
}

fn damage_file(path: &Path) {
    // All that is not padding: the table, then the sections.
    let info = IndexInfo::read(path).unwrap();
    let mut offsets: Vec<usize> = (0..32 * (1 + info.sections.len())).collect();
    let mut start = 4096;
    for (_, bytes) in info.sections {
        offsets.extend(start..start + bytes as usize);
        start += bytes.next_multiple_of(4096) as usize;
    }
    damage(fuzz::index, &fs::read(path).unwrap(), &offsets, 600);
}

#[test]
fn damaged_indexes_are_refused_or_walked() {
    damage_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1-u8-l2-appended.jasper"));
    index::<f32>(Metric::InnerProduct);
    index::<f16>(Metric::Cosine);
    index::<u8>(Metric::Cosine);
    index::<i8>(Metric::L2);
    index_of(&with_attributes(Metric::L2));
}
