//! The fuzz bodies over slightly damaged files.

use std::fs;
use std::path::Path;

use jasper_core::{Element, Metric, f16, no_progress};
use jasper_graph::{Graph, IndexInfo};

use crate::damaged::damage;
use crate::fuzz;

fn index<T: Element>(metric: Metric) {
    index_of(&crate::common::sample::<T>(metric));
    index_of(&crate::common::coded_sample::<T>(metric));
}

fn index_of<T: Element>(graph: &Graph<T>) {
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
}
